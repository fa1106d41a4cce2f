# SPDX-License-Identifier: MIT
"""Jobs that end because their allocation or container ends: interrupted, and pending for the next run."""
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import sealing

from lab import LIMIT
from processes import name_of

ALLOCATION = {"SLURM_JOB_ID": "5"}
NEXT = {"SLURM_JOB_ID": "6"}
# Runs long only in the first attempt.
COMMAND = "echo $GPUQ_JOB_ID:$GPUQ_ATTEMPT >> ran; [ $GPUQ_ATTEMPT != 1 ] || sleep 1000; true"


def begin(lab, count=2, **options):
    for _ in range(count):
        lab.add("--on-finish", "cat >> hooks", COMMAND)
    runner = lab.start("run", env=ALLOCATION, **options)
    lab.until(lambda: len(lab.ran()) == count and len(sleepers(lab)) == count, "the jobs")
    return runner


def sleepers(lab):
    return [pid for pid in lab.processes() if name_of(pid) == "sleep"]


def check_interrupted(lab, count=2):
    for number in range(1, count + 1):
        job = lab.job(number)
        assert (job["status"], job["reason"], job["exit_code"], job["attempts"]) == ("pending", None, None, 1), job
        assert job["history"][0]["status"] == "interrupted"
    assert not (lab.directory / "hooks").exists()


def check_completed_by_the_next(lab, count=2):
    """Completed without a retry: none is allowed."""
    lab.gpuq("run", env=NEXT)
    assert {job["status"] for job in lab.jobs().values()} == {"completed"}
    assert sorted(lab.ran()) == sorted(f"{number}:{attempt}" for number in range(1, count + 1) for attempt in (1, 2))


def test_end_of_the_allocation_leaves_its_jobs_pending(lab):
    runner = begin(lab)
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(LIMIT) == 130
    check_interrupted(lab)
    check_completed_by_the_next(lab)


def test_job_signaled_just_before_the_runner_has_not_completed(lab):
    """The batch system signals all processes, one after the other. The shell continues and exits 0."""
    runner = begin(lab)
    for pid in sleepers(lab):
        os.kill(pid, signal.SIGTERM)
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(LIMIT) == 130
    check_interrupted(lab)
    check_completed_by_the_next(lab)


def test_signal_to_all_processes_of_the_allocation_interrupts_without_a_runner(lab):
    runner = begin(lab)
    runner.kill()
    runner.wait()
    for pid in [*sleepers(lab), *lab.keepers()]:
        os.kill(pid, signal.SIGTERM)
    lab.until(lambda: not lab.keepers(), "the keepers to leave")
    check_interrupted(lab)
    check_completed_by_the_next(lab)


def test_allocation_that_is_killed_leaves_its_jobs_to_the_next_three_times(lab):
    lab.add("echo $GPUQ_ATTEMPT >> ran; sleep 1000")
    for attempt in range(1, 5):
        runner = lab.start("run", env={"SLURM_JOB_ID": str(attempt)})
        lab.until(lambda n=attempt: len(lab.ran()) == n, "the job")
        runner.kill()
        runner.wait()
        for pid in lab.keepers():
            os.kill(pid, signal.SIGKILL)
        lab.until(lambda: not lab.keepers(), "the end of the keepers")
    lab.gpuq("run", env={"SLURM_JOB_ID": "9"}, code=1)
    job = lab.job(1)
    assert (job["status"], job["reason"]) == ("failed", "keeper lost")
    assert [attempt["status"] for attempt in job["history"]] == ["interrupted"] * 3 + ["failed"]
    assert lab.ran() == ["1", "2", "3", "4"]


def test_job_that_fails_by_itself_in_an_allocation_has_failed(lab):
    lab.commands("exit 3", "kill -9 $$", "true")
    lab.gpuq("run", env=ALLOCATION, code=1)
    assert [(job["status"], job["exit_code"], job["signal"]) for job in lab.jobs().values()] == [
        ("failed", 3, None), ("failed", None, 9), ("completed", 0, None)]


def test_container_that_is_stopped_leaves_its_jobs_pending(lab):
    """gpuq is PID 1 there, and the only process that gets a signal."""
    space = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*space, "true"], check=False, capture_output=True).returncode:
        pytest.skip("PID namespaces are not permitted here")
    lab.add(COMMAND)
    runner = lab.start("run", prefix=space)
    lab.until(lab.ran, "the job")
    (gpuq,) = [pid for pid in lab.processes() if name_of(pid) == "gpuq"]
    os.kill(gpuq, signal.SIGTERM)
    runner.wait(LIMIT)
    check_interrupted(lab, count=1)
    lab.gpuq("run")
    assert lab.ran() == ["1:1", "1:2"]


def test_run_does_not_exit_0_while_a_job_runs_on_another_machine(lab):
    other = ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c", 'hostname other && exec "$@"', "sh"]
    if subprocess.run([*other, "true"], check=False, capture_output=True).returncode:
        pytest.skip("UTS namespaces are not permitted here")
    lab.add("echo 1 >> ran; until [ -e go ]; do sleep 0.02; done")
    runner = lab.start("run", prefix=other)
    lab.until(lab.ran, "the job")
    runner.kill()
    runner.wait()
    result = lab.result("run")
    assert result.returncode == 1 and "1 job is running on another machine" in result.stdout, result
    (lab.directory / "go").touch()
    lab.until(lambda: lab.job(1)["status"] == "completed", "its end")
    lab.gpuq("run")


def has_pending(pid, number):
    status = Path(f"/proc/{pid}/status").read_text()
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


@pytest.mark.parametrize("busy", ["idle", "in a hook"])
def test_keeper_without_a_job_that_was_told_of_the_end_starts_no_job(lab, busy):
    lab.add(*(["--on-finish", "touch hooks; until [ -e go ]; do sleep 0.01; done"] if busy == "in a hook" else []),
            "true")
    lab.start("run", "--keep", env=ALLOCATION)
    if busy == "in a hook":
        lab.until((lab.directory / "hooks").exists, "the hook")
    lab.until(lambda: lab.job(1)["status"] == "completed", "the first job")
    (keeper,) = lab.keepers()
    os.kill(keeper, signal.SIGTERM)
    lab.until(lambda: not has_pending(keeper, signal.SIGTERM), "the keeper to take the signal")
    (lab.directory / "go").touch()
    if busy == "in a hook":
        lab.until(lambda: [event.get("status") for event in lab.events() if event["event"] == "hook"][1:], "its end")
    lab.add("true")
    lab.until(lambda: lab.job(2)["status"] == "completed", "the second job")
    assert keeper not in lab.keepers()
    keepers = [event["keeper"] for event in lab.events() if event["event"] == "start"]
    assert len(keepers) == len(set(keepers)) == 2


def test_first_process_signaled_before_the_runner_while_another_of_its_job_lives_is_interrupted(lab):
    """The shell dies by the signal of the batch system, a process that ignores the signal stays for
    the grace period."""
    lab.add("[ $GPUQ_ATTEMPT != 1 ] || { (trap '' TERM; exec sleep 1000) & wait; }; echo $GPUQ_ATTEMPT >> ran")
    runner = lab.start("run", "--grace", "1s", env=ALLOCATION)
    lab.until(lambda: sleepers(lab), "the job")
    shell = [event["pid"] for event in lab.events() if event["event"] == "start"][0]
    os.kill(shell, signal.SIGTERM)
    lab.until(lambda: name_of(shell) is None or not Path(f"/proc/{shell}").exists(), "the death of the shell")
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(LIMIT) == 130
    assert (lab.job(1)["status"], lab.job(1)["history"][0]["status"]) == ("pending", "interrupted"), lab.job(1)
    lab.gpuq("run", env=NEXT)
    assert lab.ran() == ["2"]


def test_job_is_left_pending_if_similar_ones_took_longer_than_the_allocation_lasts(lab):
    """One run of 0.6 s: the next is expected to take up to twice as long."""
    lab.add("sleep 0.6")
    lab.gpuq("run")
    lab.add("sleep 0.7")
    lab.add("echo 3 >> ran")
    out = lab.gpuq("run", env={**ALLOCATION, "SLURM_JOB_END_TIME": str(int(time.time()) + 1)}, code=1)
    assert "gpuq: job 2 does not fit into the remaining time of Slurm job 5 (" in out
    assert [job["status"] for job in lab.jobs().values()] == ["completed", "pending", "completed"]
    lab.gpuq("run", env={**ALLOCATION, "SLURM_JOB_END_TIME": str(int(time.time()) + 3600)})
    assert lab.job(2)["status"] == "completed"


@pytest.mark.parametrize("node", [socket.gethostname(), "node7"])
def test_runner_does_not_judge_what_runs_on_pilots(lab, node):
    """Only a coordinator knows whether a pilot is alive, even on this machine."""
    lab.add("--on-finish", "cat >> hooks", "echo 1 >> ran")
    lab.add("echo 2 >> ran")
    sealing.append(lab.journal, {"event": "coordinator", "time": "2026-11-17T10:00:00.000Z", "epoch": 1, "host": "login", "pid": 5, "must": True},
           {"event": "pilot", "pilot": "p1", "slurm_job": 12, "node": node, "lease": 900.0, "epoch": 1},
           {"event": "start", "id": 1, "attempt": 1, "time": "2026-11-17T10:00:01.000Z", "gpus": [0], "pilot": "p1", "epoch": 1})
    result = lab.result("run")
    assert result.returncode == 1 and "1 job is running on another machine" in result.stdout, result
    assert [lab.job(number)["status"] for number in (1, 2)] == ["running", "completed"]
    assert node in lab.gpuq("info", "1")
    # No keeper is contacted, because the job has none here; the coordinator reads the line.
    lab.gpuq("cancel", "1")
    assert lab.job(1)["status"] == "running"
    assert "runs on node " + node in lab.result("pause", "1").stderr
    sealing.append(lab.journal, {"event": "end", "id": 1, "attempt": 1, "time": "2026-11-17T10:00:02.000Z", "status": "completed", "exit_code": 0,
                 "duration": 1.0, "hook": True})
    lab.gpuq("run")
    # The runner runs the finish hook.
    assert "completed" in (lab.directory / "hooks").read_text() and lab.ran() == ["2"]
