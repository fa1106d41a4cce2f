# SPDX-License-Identifier: MIT
"""Pausing the queue and running jobs."""
import os
import pathlib
import signal

from lab import LIMIT

COUNT = "echo $$ > pid; n=0; while [ ! -e go ]; do n=$((n+1)); echo $n > n; sleep 0.01; done"


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def is_stopped(pid):
    """A shell that waits in vfork() for a child that is stopped cannot stop itself."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    try:
        return state(pid) == "T" or any(state(child) == "T" for child in children)
    except FileNotFoundError:  # the child has just ended
        return False


def counting(lab, *options):
    """The PID of a job that counts in the file n, and its runner."""
    lab.add(*options, COUNT)
    runner = lab.start("run", text=True)
    lab.until(lambda: (lab.directory / "n").exists() and (lab.directory / "pid").read_text().strip())
    return int((lab.directory / "pid").read_text()), runner


def test_paused_queue_starts_nothing_until_it_is_resumed(lab):
    lab.add("echo 1 >> ran")
    result = lab.result("pause")
    assert result.returncode == 0 and result.stdout == "paused the queue; running jobs continue ('gpuq pause --all' suspends them)\n"
    assert lab.result("pause").stderr == "gpuq: the queue is already paused\n"
    assert lab.job(1)["waits"] == "the queue is paused"
    assert lab.gpuq("status").splitlines()[-1] == "1 job: 1 pending; the queue is paused ('gpuq resume')"
    assert "the queue is paused; 'gpuq resume' continues it" in lab.gpuq("why", 1)
    runner = lab.start("run", text=True)
    assert runner.stdout.readline() == "The queue is paused; 'gpuq resume' continues it\n"
    lab.until(lambda: "the queue is paused; 'gpuq resume' continues it" in lab.gpuq("why", 1))
    assert lab.gpuq("resume") == "resumed the queue\n"
    assert runner.wait(LIMIT) == 0
    assert lab.ran() == ["1"]
    assert lab.result("resume").stderr == "gpuq: the queue is not paused\n"


def test_pause_of_the_queue_lets_running_jobs_end_and_survives_prune_and_the_runner(lab):
    _, runner = counting(lab)
    lab.add("--after", "1", "echo 2 >> ran")
    lab.gpuq("pause")
    (lab.directory / "go").touch()
    lab.gpuq("wait", 1)
    runner.kill()
    runner.wait()
    lab.gpuq("prune", "--older", "0s")
    second = lab.start("run", text=True)
    assert "paused" in second.stdout.readline()
    assert lab.job(2)["status"] == "pending"
    lab.gpuq("resume")
    assert second.wait(LIMIT) == 0 and lab.ran() == ["2"]


def test_resume_starts_a_runner(lab):
    lab.add("echo 1 >> ran")
    lab.gpuq("pause")
    lab.gpuq("resume")
    lab.gpuq("wait", 1)
    assert lab.ran() == ["1"]


def test_paused_job_is_stopped_and_goes_on(lab):
    pid, runner = counting(lab)
    assert lab.gpuq("pause", "@") == "paused job 1\n"
    lab.until(lambda: is_stopped(pid), "the job to stop")
    assert lab.job(1)["status"] == "running" and lab.job(1)["paused"] is True
    assert "Running (PID" in lab.gpuq("status") and ", paused" in lab.gpuq("status")
    assert lab.result("pause", 1).stderr == "gpuq: cannot pause job 1: it is already paused\n"
    # The pause outlives the runner: a stopped job remains stopped.
    runner.kill()
    runner.wait()
    second = lab.start("run")
    lab.until(lambda: lab.runner() == second.pid)
    assert is_stopped(pid) and lab.job(1)["paused"] is True
    assert lab.gpuq("resume", 1) == "resumed job 1\n"
    lab.until(lambda: not is_stopped(pid), "the job to go on")
    assert lab.job(1)["paused"] is False
    (lab.directory / "go").touch()
    assert second.wait(LIMIT) == 0
    assert lab.job(1)["status"] == "completed"


def test_time_limit_does_not_run_while_a_job_is_paused(lab):
    lab.add("--timeout", "1500ms", COUNT)
    runner = lab.start("run")
    lab.until(lambda: (lab.directory / "n").exists() and (lab.directory / "pid").read_text().strip())
    lab.gpuq("pause", 1)
    pid = int((lab.directory / "pid").read_text())
    lab.until(lambda: is_stopped(pid), "the job to stop")
    # Longer than the limit: only a stopped clock keeps the job.
    lab.gpuq("wait", "--timeout", "3s", 1, code=124)
    assert lab.job(1)["status"] == "running"
    lab.gpuq("resume", 1)
    assert runner.wait(LIMIT) == 1
    assert lab.job(1)["reason"] == "timeout"


def test_paused_job_can_be_cancelled(lab):
    pid, runner = counting(lab)
    lab.gpuq("pause", 1)
    lab.until(lambda: is_stopped(pid), "the job to stop")
    lab.gpuq("cancel", 1)
    assert runner.wait(LIMIT) == 1
    job = lab.job(1)
    assert (job["status"], job["paused"], job["signal"]) == ("cancelled", False, signal.SIGTERM)


def test_pause_and_resume_all(lab):
    pid, runner = counting(lab)
    lab.add("--hold", "true")
    assert lab.gpuq("pause", "--all") == "paused the queue\npaused job 1\n"
    lab.until(lambda: is_stopped(pid), "the job to stop")
    assert "the queue is paused" in lab.gpuq("status")
    lab.gpuq("resume", "--all")
    assert "the queue is paused" not in lab.gpuq("status")
    os.kill(pid, 0)
    (lab.directory / "go").touch()
    runner.wait(LIMIT)
    assert lab.job(1)["status"] == "completed"


def test_what_does_not_run_cannot_be_paused(lab):
    lab.add("true")
    lab.add("--hold", "true")
    result = lab.result("pause", 1)
    assert (result.returncode, result.stderr) == (1, "gpuq: cannot pause job 1: it is pending; use 'gpuq hold 1' to keep it from starting\n")
    result = lab.result("resume", 2)
    assert (result.returncode, result.stderr) == (1, "gpuq: cannot resume job 2: it is held; use 'gpuq release 2' to release it\n")
    assert lab.result("pause", 7).returncode == 1
