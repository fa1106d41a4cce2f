# SPDX-License-Identifier: MIT
"""gpuq run: which jobs it starts, where, and what signals do to it; on simulated GPUs."""
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from lab import LIMIT
from processes import naps

# ---- Jobs --------------------------------------------------------------------------


def test_run_drains_the_file_and_exits_0(lab):
    lab.commands("echo a >> ran", "# a comment", "", "echo b \\", "  >> ran", "# gpuq: name=third", "echo c >> ran")
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["a", "b", "c"]
    assert lab.job(3)["name"] == "third"


def test_run_exits_1_when_a_job_failed(lab):
    lab.commands("true", "exit 3")
    out = lab.gpuq("run", code=1)
    assert re.search(r"\[!\] 2 exit 3 → GPU \d → Failed \(exit 3\)", out)


def test_run_again_adds_only_new_lines(lab):
    lab.commands("echo x >> ran", "echo x >> ran")
    lab.gpuq("run")
    assert lab.ran() == ["x", "x"]
    lab.gpuq("run")
    assert lab.ran() == ["x", "x"]
    lab.commands("echo x >> ran", "echo y >> ran", "echo x >> ran", "echo x >> ran")
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["x", "x", "x", "y"]


def test_commands_are_read_from_standard_input(lab):
    lab.gpuq("run", "--commands-file", "-", input="echo a >> ran\necho b >> ran\n")
    assert sorted(lab.ran()) == ["a", "b"]


def test_run_with_nothing_to_run_says_so(lab):
    result = lab.result("run")
    assert result.returncode == 2
    assert "commands.txt" in result.stderr
    assert not lab.journal.exists()


def test_a_mistake_in_the_file_adds_nothing(lab):
    lab.commands("echo a >> ran", "# gpuq: mem=much", "echo b >> ran")
    result = lab.result("run")
    assert result.returncode == 2
    assert "commands.txt:2" in result.stderr
    assert lab.ran() == []


def test_two_at_once_on_two_gpus_and_each_sees_its_own(lab):
    lab.commands(*("echo $CUDA_VISIBLE_DEVICES $GPUQ_GPU > gpu.$GPUQ_JOB_ID; until [ -e gpu.1 -a -e gpu.2 ]; do sleep 0.01; done",) * 2)
    lab.gpuq("run")
    seen = {(lab.directory / f"gpu.{n}").read_text().split()[1] for n in (1, 2)}
    assert seen == {"0", "1"}
    assert {tuple(job["gpu_ids"]) for job in lab.jobs().values()} == {(0,), (1,)}


@pytest.mark.parametrize("spec, gpus", [("auto", {0, 1}), ("all", {0, 1}), ("0,1", {0, 1}), ("1", {1})])
def test_gpus_option_selects_from_the_simulated_gpus_of_the_variable(lab, spec, gpus):
    lab.environment["GPUQ_GPUS"] = "sim:2"
    count = len(gpus)
    lab.commands(*(f"touch began.$GPUQ_JOB_ID; until [ -e began.1 -a -e began.{count} ]; do sleep 0.01; done",) * count)
    lab.gpuq("run", "--gpus", spec, "--jobs-per-gpu", "1")
    assert {tuple(job["gpu_ids"]) for job in lab.jobs().values()} == {(gpu,) for gpu in gpus}


def test_why_shows_the_simulated_gpus_of_the_runner_in_any_shell(lab):
    lab.add("--mem", "30G", "true")
    lab.start("run", "--keep", "--gpus", "1", env={"GPUQ_GPUS": "sim:2x24G"})
    lab.until(lambda: "is starting" not in (why := lab.gpuq("why", 1)) and "no runner" not in why, "the settings of the runner")
    for gpus in ("", "sim:4x8G", "0", "nonsense"):
        assert lab.gpuq("why", 1, env={"GPUQ_GPUS": gpus}) == (
            "job 1: Pending\nposition 1 of 1\ncan never start here:\nGPU 1: 24.0 GiB in total, job needs 30.0 GiB\n"), gpus


def test_jobs_per_gpu_and_memory_limit_what_runs_at_once(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1x16G"
    for _ in range(4):
        lab.add("--mem", "5G", "echo + >> ran; until [ -e go ]; do sleep 0.01; done; echo - >> ran")
    runner = lab.start("run")
    lab.until(lambda: lab.ran() == ["+"] * 3)
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 0
    depth = most = 0
    for sign in lab.ran():
        depth += 1 if sign == "+" else -1
        most = max(most, depth)
    assert most == 3


def test_job_that_no_gpu_can_take_is_left_pending_and_reported(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1x8G"
    lab.add("--mem", "12G", "true")
    lab.add("echo ok >> ran")
    out = lab.gpuq("run", code=1)
    assert "1 job left pending" in out
    assert lab.ran() == ["ok"]
    assert lab.job(1)["status"] == "pending"


def test_runner_in_the_background_leaves_when_no_job_can_run(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1x1G"
    lab.gpuq("add", "--mem", "2G", "echo ran >> ran")
    log = lab.directory / "jobs.jsonl.d/runner.log"
    lab.until(lambda: log.exists() and "left pending" in log.read_text(), "the runner to leave")
    lab.gpuq("run", env={"GPUQ_GPUS": "sim:1x4G"})
    assert lab.ran() == ["ran"]


def test_job_that_needs_two_gpus_gets_two_and_is_not_starved(lab):
    lab.add("sleep 0.05")
    lab.add("--num-gpus", "2", "echo two $CUDA_VISIBLE_DEVICES $GPUQ_GPU >> ran; echo $GPUQ_GPU > both")
    for _ in range(6):
        lab.add("sleep 0.02; echo small >> ran")
    lab.gpuq("run")
    assert lab.job(2)["gpu_ids"] == [0, 1]
    order = [event["id"] for event in lab.events() if event["event"] == "start"]
    assert order.index(2) <= 3


def test_cpu_job_does_not_wait_for_a_gpu(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1"
    lab.add("until [ -e cpu ]; do sleep 0.01; done")
    lab.add("--num-gpus", "0", "touch cpu; echo \"[$CUDA_VISIBLE_DEVICES]\" > seen")
    lab.gpuq("run")
    assert lab.job(2)["gpu_ids"] == []


def test_job_and_its_hook_have_the_umask_of_the_command_that_added_them(lab):
    """Whatever the umask of the runner."""
    lab.start("run", "--keep")
    for mask in (0o077, 0o002):
        before = os.umask(mask)
        lab.gpuq("add", "--no-start", "--on-finish", f"umask > hook-{mask:o}", f"umask > job-{mask:o}; echo $GPUQ_UMASK >> job-{mask:o}")
        os.umask(before)
        lab.until((lab.directory / f"hook-{mask:o}").exists)
        assert (lab.directory / f"job-{mask:o}").read_text() == f"{mask:04o}\n" * 2
        lab.until(lambda mask=mask: (lab.directory / f"hook-{mask:o}").read_text() == f"{mask:04o}\n")


def test_add_that_fails_leaves_the_queue_to_a_runner_that_waits_for_the_first_job(lab):
    runner = lab.start("run", "--keep")
    lab.until(lab.runner, "the runner")
    assert lab.result("add", "--freeze", "true").returncode != 0  # not in a git repository
    assert lab.runner() == runner.pid
    lab.gpuq("add", "--no-start", "echo it >> ran")
    lab.until(lambda: lab.ran() == ["it"])
    assert runner.poll() is None


def test_runner_with_keep_waits_for_more_jobs(lab):
    runner = lab.start("run", "--keep")
    lab.until(lambda: lab.journal.exists())
    lab.add("echo a >> ran")
    lab.until(lambda: lab.ran() == ["a"], "the first")
    lab.add("echo b >> ran")
    lab.until(lambda: lab.ran() == ["a", "b"], "the second")
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=LIMIT) == 130


def test_second_run_hands_over_and_exits_with_its_own_result(lab):
    lab.commands("echo first >> ran; until [ -e go ]; do sleep 0.01; done")
    first = lab.start("run")
    lab.until(lab.ran)
    lab.commands("exit 4", name="second.txt")
    result = lab.result("run", "--commands-file", "second.txt")
    assert result.returncode == 1
    assert f"already active (PID {first.pid})" in result.stderr
    assert lab.job(1)["status"] == "running"
    (lab.directory / "go").touch()
    assert first.wait(timeout=LIMIT) == 1


def test_second_run_takes_over_when_the_first_is_killed(lab):
    lab.commands("echo first >> ran; until [ -e go ]; do sleep 0.01; done")
    first = lab.start("run", "--jobs-per-gpu", "1", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran)
    lab.commands("echo second >> ran", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lambda: len(lab.jobs()) == 2)
    first.kill()
    (lab.directory / "go").touch()
    out, err = second.communicate(timeout=LIMIT)
    assert second.returncode == 0, (out, err)
    assert lab.ran() == ["first", "second"]


def test_next_job_starts_after_the_one_before_has_ended(lab):
    lab.commands("true", "true")
    lab.gpuq("run", env={"GPUQ_GPUS": "sim:1"}, prefix=())
    times = {(event["event"], event["id"]): event["time"] for event in lab.events() if event["event"] in ("start", "end")}
    assert times["end", 1] <= times["start", 2]


def test_run_takes_its_defaults_from_the_configuration_file(lab):
    (lab.directory / "gpuq.yaml").write_text("commands_file: list.txt\nlog_dir: out\ngpu_ids: [0]\n")
    (lab.directory / "gpuq.yaml").chmod(0o644)
    lab.commands("echo a >> ran", name="list.txt")
    del lab.environment["GPUQ_GPUS"]
    result = lab.result("run")
    if result.returncode == 0:
        return  # a machine with a GPU 0
    assert result.returncode == 2
    lab.environment["GPUQ_GPUS"] = "sim:2"
    (lab.directory / "gpuq.yaml").write_text("commands_file: list.txt\nlog_dir: out\ngpus: sim:2\n")
    lab.gpuq("run")
    assert lab.ran() == ["a"]
    assert lab.job(1)["log_file"].startswith(f"{lab.directory}/out/job_")


def test_idle_runner_uses_no_cpu(lab):
    lab.journal.touch()
    lab.journal.chmod(0o600)
    runner = lab.start("run", "--keep")
    lab.until(lambda: (lab.directory / "jobs.jsonl.d/runner.lock").exists() and lab.runner() == runner.pid)

    def ticks():
        fields = pathlib.Path(f"/proc/{runner.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    # It checks for changes once a second.
    begun = naps(runner.pid)
    lab.until(lambda: naps(runner.pid) > begun, "a check for changes")
    before, begun = ticks(), naps(runner.pid)
    lab.until(lambda: naps(runner.pid) >= begun + 2, "two more checks")
    assert ticks() - before <= 1


# ---- Signals -----------------------------------------------------------------------


def test_first_interrupt_lets_running_jobs_finish(lab):
    lab.commands("echo a >> ran; until [ -e go ]; do sleep 0.01; done; echo end >> ran", "echo b >> ran")
    runner = lab.start("run", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran)
    runner.send_signal(signal.SIGINT)
    assert "no new jobs start" in read_until(runner, "no new jobs start")
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 130
    assert lab.ran() == ["a", "end"]
    assert (lab.job(1)["status"], lab.job(2)["status"]) == ("completed", "pending")


def read_until(process, words):
    text = ""
    while words not in text:
        line = process.stdout.readline().decode()
        assert line, text
        text += line
    return text


def test_second_interrupt_ends_the_jobs(lab):
    lab.commands("trap 'echo term >> ran; exit 9' TERM; echo a >> ran; while :; do sleep 0.01; done")
    runner = lab.start("run")
    lab.until(lab.ran)
    runner.send_signal(signal.SIGINT)
    read_until(runner, "no new jobs start")
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=LIMIT) == 130
    assert lab.ran() == ["a", "term"]
    assert lab.job(1)["status"] == "cancelled"


def test_third_interrupt_kills_the_jobs(lab):
    lab.commands("trap '' TERM INT; echo a >> ran; while :; do sleep 0.01; done")
    runner = lab.start("run")
    lab.until(lab.ran)
    for words in ("no new jobs start", "ending 1 running"):
        runner.send_signal(signal.SIGINT)
        read_until(runner, words)
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=LIMIT) == 130
    assert (lab.job(1)["status"], lab.job(1)["signal"]) == ("cancelled", 9)


def test_sigterm_leaves_jobs_for_the_next_run(lab):
    lab.commands("echo a >> ran; until [ -e go ]; do sleep 0.01; done; exit 2")
    runner = lab.start("run")
    lab.until(lab.ran)
    runner.terminate()
    assert runner.wait(timeout=LIMIT) == 130
    assert lab.job(1)["status"] == "running"
    second = lab.start("run")
    lab.until(lambda: lab.runner() == second.pid)
    # A runner that starts a job has read everything before it.
    lab.add("--num-gpus", "0", "echo b >> ran")
    lab.until(lambda: lab.ran() == ["a", "b"])
    (lab.directory / "go").touch()
    assert second.wait(timeout=LIMIT) == 1
    assert (lab.ran(), lab.job(1)["exit_code"]) == (["a", "b"], 2)


def test_runner_continues_detached_after_sighup(lab):
    lab.commands("echo a >> ran; until [ -e go ]; do sleep 0.01; done", "echo b >> ran")
    runner = lab.start("run", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran)
    runner.send_signal(signal.SIGHUP)
    assert runner.stdout.read() is not None
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 0
    assert lab.ran() == ["a", "b"]


@pytest.mark.parametrize("gpus", ["5x", "9-3", "99"])
def test_rejected_configuration_leaves_no_queue_behind(lab, gpus):
    lab.commands("true")
    before = sorted(path.name for path in lab.directory.iterdir())
    lab.gpuq("run", "--gpus", gpus, code=2)
    assert sorted(path.name for path in lab.directory.iterdir() if path.name != "state") == before
    assert lab.gpuq("queues", "--json") == "[]\n"
    lab.add("true")
    lab.gpuq("run", "--gpus", gpus, code=2)
    assert lab.job(1)["status"] == "pending"


def test_cpus_of_a_job_follow_its_gpu(lab):
    cpus = sorted(os.sched_getaffinity(0))
    near = [cpus[0], cpus[-1]]
    for node, cpu in enumerate(near):
        path = lab.directory / f"sys/devices/system/node/node{node}/cpulist"
        path.parent.mkdir(parents=True)
        path.write_text(f"{cpu},7000-7003\n")
    env = {"GPUQ_SYSFS_ROOT": str(lab.directory / "sys"), "GPUQ_SIM_NODES": "2"}
    show = "echo $(grep Cpus_allowed_list /proc/self/status | cut -f2) $GPUQ_CPUS $GPUQ_GPU > cpus$GPUQ_JOB_ID"
    lab.add(show)
    lab.add("--num-gpus", "2", show)
    lab.add("--num-gpus", "0", show)
    lab.gpuq("run", "--cpu-affinity", "gpu", env=env)
    lab.add(show)
    lab.gpuq("run", env=env)
    allowed, given, gpu = (lab.directory / "cpus1").read_text().split()
    assert allowed == given == str(near[int(gpu)])
    assert {int(cpu) for cpu in re.findall(r"\d+", (lab.directory / "cpus2").read_text().split()[0])} == set(near)
    everything = subprocess.check_output(["grep", "Cpus_allowed_list", "/proc/self/status"], text=True).split()[1]
    assert (lab.directory / "cpus3").read_text().split() == [everything]
    assert (lab.directory / "cpus4").read_text().split()[0] == everything


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_git_adds_no_environments_and_no_logs(lab):
    subprocess.run(["git", "init", "-q"], cwd=lab.directory, check=True)
    lab.add("echo a")
    lab.add("--log-dir", "mine", "echo b")
    lab.gpuq("run")
    subprocess.run(["git", "add", "."], cwd=lab.directory, check=True)
    added = subprocess.run(["git", "ls-files"], cwd=lab.directory, capture_output=True, text=True, check=True).stdout.split()
    assert "jobs.jsonl" in added and not any(name.startswith(("jobs.jsonl.d/", "logs/")) for name in added)
    # A folder that the user named may have other files.
    assert any(name.startswith("mine/") for name in added)


def test_journal_that_was_made_with_touch_becomes_private(lab):
    """Its commands can contain secrets. What the user chooses later stays."""
    lab.journal.touch()
    lab.journal.chmod(0o644)
    lab.add("true")
    assert lab.journal.stat().st_mode & 0o777 == 0o600
    lab.journal.chmod(0o644)
    lab.add("true")
    lab.gpuq("run")
    assert lab.journal.stat().st_mode & 0o777 == 0o644
