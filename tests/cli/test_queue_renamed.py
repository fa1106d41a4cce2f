# SPDX-License-Identifier: MIT
"""The directory of a queue, or one above it, is renamed while processes work on the queue."""
import fcntl
import os
import shutil
import signal
import subprocess

import pytest

import processes
from lab import LIMIT, Lab

HELD = "echo a >> ran; until [ -e go ]; do sleep 0.02; done; echo b >> ran"


class MovingLab(Lab):
    """A queue in HOME/above/project. Everything that does not belong to the queue stays where it is."""

    def __init__(self, home):
        (home / "above/project").mkdir(parents=True)
        super().__init__(home / "above/project")
        self.home = home
        for variable, name in (("XDG_CONFIG_HOME", "no-config"), ("XDG_STATE_HOME", "state"), ("GPUQ_CLAIMS_DIR", "claims")):
            self.environment[variable] = str(home / name)

    def processes(self):
        return processes.with_variable("GPUQ_CLAIMS_DIR", self.home / "claims")

    def go_to(self, directory):
        self.directory = directory
        self.journal = directory / "jobs.jsonl"

    def rename(self, which="project"):
        """Returns the old path, which no longer exists."""
        old = self.home / "above"
        if which == "above":
            old.rename(self.home / "elsewhere")
            self.go_to(self.home / "elsewhere/project")
        else:
            old = old / "project"
            old.rename(self.home / "above/renamed")
            self.go_to(self.home / "above/renamed")
        return old

    def add_in(self, directory, *words):
        self.add(*words, prefix=("env", "-C", directory), env={"GPUQ_JOBS_FILE": "../jobs.jsonl"})

    def states(self):
        return [job["status"] for _, job in sorted(self.jobs().items())]


@pytest.fixture(name="lab")
def make_lab(tmp_path):
    made = MovingLab(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("which", ["project", "above"])
def test_idle_runner_follows_its_queue(lab, which):
    assert int(lab.gpuq("add", "echo 1 >> ran")) == 1
    lab.gpuq("wait", 1)
    runner = lab.runner()
    old = lab.rename(which)
    lab.gpuq("add", "echo 2 >> ran")
    lab.gpuq("wait", 2)
    assert lab.ran() == ["1", "2"] and lab.job(2)["log_file"].startswith(f"{lab.directory}/logs/")
    assert not old.exists()
    assert f"the queue is now '{lab.journal}'" in (lab.directory / "jobs.jsonl.d/runner.log").read_text()
    assert lab.runner() == runner


def test_idle_runner_follows_its_queue_twice(lab):
    lab.gpuq("add", "echo 1 >> ran")
    lab.gpuq("wait", 1)
    for number, which in ((2, "project"), (3, "above")):
        if which == "above":
            lab.directory.rename(lab.home / "above/project")
        old = lab.rename(which)
        lab.gpuq("add", f"echo {number} >> ran")
        lab.gpuq("wait", number)
        assert not old.exists()
    assert lab.ran() == ["1", "2", "3"]


@pytest.mark.parametrize("which", ["project", "above"])
def test_running_job_ends_and_its_dependents_start(lab, which):
    (lab.directory / "sub").mkdir()
    lab.gpuq("add", HELD)
    lab.until(lab.ran, "the job")
    lab.gpuq("add", "--after", "1", "echo c >> ran")
    lab.add_in("sub", "--after", "2", "echo d >> ../ran")
    old = lab.rename(which)
    (lab.directory / "go").touch()
    lab.gpuq("wait", 1, 2, 3)
    assert lab.states() == ["completed"] * 3
    assert lab.ran() == ["a", "b", "c", "d"]
    assert [event["id"] for event in lab.events() if event["event"] == "start"] == [1, 2, 3]
    assert not old.exists()


def test_end_is_recorded_without_a_runner(lab):
    lab.add(HELD)
    runner = lab.start("run")
    lab.until(lab.ran, "the job")
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(LIMIT) == 130
    old = lab.rename()
    (lab.directory / "go").touch()
    lab.until(lambda: lab.job(1)["status"] == "completed", "the end")
    lab.until(lambda: not lab.processes(), "the keeper to leave")
    assert not old.exists()


def test_next_runner_takes_over_a_job_of_the_old_place(lab):
    lab.add(HELD)
    runner = lab.start("run")
    lab.until(lab.ran, "the job")
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(LIMIT) == 130
    lab.rename()
    lab.add("--after", "1", "echo c >> ran")
    runner = lab.start("run")
    lab.until(lambda: lab.runner() == runner.pid, "the runner")
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 0
    assert lab.ran() == ["a", "b", "c"]


@pytest.mark.parametrize("which", ["project", "above"])
def test_runner_in_the_foreground_follows_its_queue(lab, which):
    lab.commands("echo 1 >> ran")
    runner = lab.start("run", "--keep")
    lab.until(lambda: lab.ran() == ["1"], "the first job")
    old = lab.rename(which)
    lab.add("echo 2 >> ran")
    lab.until(lambda: lab.job(2)["status"] == "completed", "the second job")
    assert lab.runner() == runner.pid and not old.exists()
    runner.send_signal(signal.SIGINT)
    _, words = runner.communicate(timeout=LIMIT)
    assert f"the queue is now '{lab.journal}'" in words.decode()
    lab.until(lambda: not lab.processes(), "its helpers to leave")


def test_no_other_runner_takes_the_queue_meanwhile(lab):
    """`gpuq add` would start one with other options, for example on GPUs that this run must not use."""
    runner = lab.start("run", "--keep", "--gpus", "sim:1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lab.until(lambda: lab.runner() == runner.pid, "the runner")
    for number in range(1, 21):
        lab.directory.rename(lab.home / f"above/{number}")
        lab.go_to(lab.home / f"above/{number}")
        assert int(lab.gpuq("add", f"echo {number} >> ran")) == number
        assert lab.runner() == runner.pid
    lab.until(lambda: len(lab.ran()) == 20, "the jobs")
    assert sorted(map(int, lab.ran())) == list(range(1, 21))
    assert [path.name for path in (lab.home / "above").iterdir()] == ["20"]


def test_reader_that_does_not_read_does_not_delay_the_queue(lab):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    lab.commands(*["true"] * 200)
    runner = lab.start("run", "--keep", stdout=writer, stderr=subprocess.DEVNULL)
    lab.until(lambda: lab.journal.exists() and lab.states() == ["completed"] * 200, "more output than the pipe holds")
    lab.rename()
    lab.add("echo 1 >> ran")
    lab.until(lab.ran, "the job at the new place")
    runner.send_signal(signal.SIGTERM)
    os.close(reader)
    assert runner.wait(LIMIT) in (0, 130)
    os.close(writer)


def test_run_counts_jobs_that_ended_before_and_after(lab):
    lab.add("false")
    lab.add(HELD)
    runner = lab.start("run")
    lab.until(lambda: lab.ran() and lab.job(1)["status"] == "failed")
    lab.rename()
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 1
    assert lab.states() == ["failed", "completed"]


def test_failure_before_the_rename_is_not_reported_as_before_the_run(lab):
    lab.commands("false", "exit 2", HELD)
    lab.gpuq("run", "--max-failures", "1", "--gpus", "sim:1", "--jobs-per-gpu", "1", code=1)
    runner = lab.start("run")
    lab.until(lambda: lab.ran() and lab.job(2)["status"] == "failed")
    lab.rename()
    (lab.directory / "go").touch()
    _, words = runner.communicate(timeout=LIMIT)
    assert runner.returncode == 1 and "the queue is now" in words.decode()
    assert words.decode().count("failed before") == 1


def test_limit_of_failures_also_counts_those_before_the_rename(lab):
    lab.add("false")
    lab.add(HELD + "; exit 1")
    runner = lab.start("run", "--max-failures", "2")
    lab.until(lambda: lab.ran() and lab.job(1)["status"] == "failed")
    lab.add("--after-any", "2", "echo c >> ran")
    lab.rename()
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 1
    assert lab.states() == ["failed", "failed", "pending"]


def test_interrupted_run_starts_no_job_at_the_new_place(lab):
    lab.add(HELD)
    runner = lab.start("run", "--gpus", "sim:1", "--jobs-per-gpu", "1")
    lab.until(lab.ran, "the job")
    lab.add("echo c >> ran")
    runner.send_signal(signal.SIGINT)
    lab.until(lambda: "interrupted" in lab.gpuq("why", 2), "the signal")
    lab.rename()
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 130
    assert lab.states() == ["completed", "pending"] and lab.ran() == ["a", "b"]


def test_another_queue_at_the_old_place_is_independent(lab):
    lab.gpuq("add", HELD)
    lab.until(lab.ran, "the job")
    first = lab.runner()
    old = lab.rename()
    new = lab.directory
    old.mkdir()
    lab.go_to(old)
    lab.gpuq("add", "echo other >> ran")
    lab.gpuq("wait", 1)
    assert lab.ran() == ["other"] and lab.runner() != first
    lab.go_to(new)
    (new / "go").touch()
    lab.gpuq("wait", 1)
    lab.gpuq("add", "echo c >> ran")
    lab.gpuq("wait", 2)
    assert lab.ran() == ["a", "b", "c"] and lab.states() == ["completed"] * 2


def test_place_that_others_can_write_is_not_used_until_it_is_safe(lab):
    lab.gpuq("add", HELD)
    lab.until(lab.ran, "the job")
    runner = lab.runner()
    (lab.home / "open").mkdir()
    (lab.home / "open").chmod(0o777)
    lab.add("--after", "1", "echo c >> ran")
    lab.directory.rename(lab.home / "open/project")
    lab.go_to(lab.home / "open/project")
    (lab.directory / "go").touch()
    lab.until(lambda: not processes.alive(runner), "the runner to leave")
    assert "can be written" in (lab.directory / "jobs.jsonl.d/runner.log").read_text()
    result = lab.result("add", "echo d >> ran")
    assert result.returncode == 2 and "other users could run commands as you" in result.stderr
    lab.until(lambda: lab.ran() == ["a", "b"], "the end of the command")
    assert [event["event"] for event in lab.events()].count("end") == 0
    (lab.home / "open").chmod(0o755)
    lab.until(lambda: lab.job(1)["status"] == "completed", "the end")
    lab.gpuq("run")
    assert lab.ran() == ["a", "b", "c"]
    assert sorted(path.name for path in (lab.home / "above").iterdir()) == []


def test_command_of_exec_ends_at_the_new_place(lab):
    command = lab.start("exec", "sh", "-c", HELD)
    lab.until(lab.ran, "the command")
    lab.rename()
    (lab.directory / "go").touch()
    assert command.wait(LIMIT) == 0
    assert lab.states() == ["completed"] and lab.ran() == ["a", "b"]


def test_command_of_exec_that_waits_starts_at_the_new_place(lab):
    lab.gpuq("add", "--exclusive", HELD, env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran, "the job")
    command = lab.start("exec", "--exclusive", "sh", "-c", "echo c >> ran")
    lab.until(lambda: len(lab.jobs()) == 2, "the lease")
    lab.rename()
    (lab.directory / "go").touch()
    assert command.wait(LIMIT) == 0
    assert lab.states() == ["completed"] * 2 and lab.ran() == ["a", "b", "c"]


def test_folder_for_logs_inside_the_queue_moves_with_it(lab):
    lab.add("echo 1 >> ran")
    runner = lab.start("run", "--keep", "--log-dir", lab.directory / "out")
    lab.until(lambda: lab.job(1)["status"] == "completed")
    old = lab.rename()
    lab.add("echo 2 >> ran")
    lab.until(lambda: lab.job(2)["status"] == "completed")
    assert lab.job(2)["log_file"].startswith(f"{lab.directory}/out/") and not old.exists()
    runner.send_signal(signal.SIGINT)
    runner.communicate(timeout=LIMIT)


@pytest.mark.parametrize("which", ["project", "above"])
@pytest.mark.parametrize("logs", [".", "../out"])
def test_folder_for_logs_that_is_or_is_next_to_the_queue(lab, logs, which):
    (lab.directory / logs).mkdir(exist_ok=True)
    lab.add("echo 1 >> ran")
    runner = lab.start("run", "--keep", "--log-dir", logs)
    lab.until(lambda: lab.job(1)["status"] == "completed")
    old = lab.rename(which)
    lab.add("echo 2 >> ran")
    lab.until(lambda: lab.job(2)["status"] == "completed")
    folder = lab.directory if logs == "." else lab.directory.parent / "out"
    assert lab.job(2)["log_file"].rpartition("/")[0] == str(folder) and not old.exists()
    runner.send_signal(signal.SIGINT)
    runner.communicate(timeout=LIMIT)


@pytest.mark.parametrize("with_runner", [True, False])
@pytest.mark.parametrize("which", ["project", "above"])
def test_folder_for_logs_of_a_waiting_job_moves_with_the_queue(lab, which, with_runner):
    """`add` records an absolute path. The log must not create the old directory again: it could not be renamed back."""
    (lab.directory / "sub").mkdir()
    for place in (lab.directory, lab.directory / "sub"):
        (place / "gpuq.yaml").write_text("log_dir: out\n")
    runner = lab.start("run", "--keep") if with_runner else None
    lab.add(HELD)
    lab.add("--after", "1", "echo c >> ran")
    lab.add_in("sub", "--after", "2", "echo d >> ../ran")
    if runner:
        lab.until(lab.ran, "the job")
    old = lab.rename(which)
    (lab.directory / "go").touch()
    if not runner:
        lab.gpuq("run")
    lab.gpuq("wait", 1, 2, 3)
    folders = [lab.job(number)["log_file"].rpartition("/")[0] for number in (2, 3)]
    assert folders == [f"{lab.directory}/out", f"{lab.directory}/sub/out"] and not old.exists()
    if runner:
        runner.send_signal(signal.SIGINT)
        runner.communicate(timeout=LIMIT)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_frozen_job_starts_in_its_tree_at_the_new_place(lab):
    (lab.directory / "gpuq.yaml").write_text("log_dir: out\n")
    subprocess.run(["git", "init", "-q", lab.directory], check=True)
    lab.add("--freeze", "pwd")
    old = lab.rename()
    lab.gpuq("run")
    [tree] = (lab.directory / "jobs.jsonl.d/trees").iterdir()
    assert lab.job(1)["log_file"].startswith(f"{lab.directory}/out/") and not old.exists()
    assert lab.gpuq("logs", 1) == f"{tree}\n"


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_frozen_job_starts_in_its_tree_after_its_journal_was_renamed(lab):
    subprocess.run(["git", "init", "-q", lab.directory], check=True)
    lab.add("--freeze", f"pwd >> '{lab.directory}/ran'")
    journal = lab.directory / "other.jsonl"
    lab.journal.rename(journal)
    folder = (lab.directory / "jobs.jsonl.d").rename(f"{journal}.d")
    lab.gpuq("run", "--jobs-file", journal)
    [tree] = (folder / "trees").iterdir()
    assert lab.ran() == [str(tree)]


def test_logs_are_found_at_the_new_place(lab):
    lab.add("echo first; " + HELD)
    lab.add("echo second")
    runner = lab.start("run")
    lab.until(lambda: lab.ran() and lab.job(2)["status"] == "completed")
    lab.rename()
    assert lab.gpuq("logs", 1) == "first\n" and lab.gpuq("logs", 2) == "second\n"
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 0
    (lab.directory / "logs" / lab.job(2)["log_file"].rsplit("/", 1)[1]).unlink()
    assert "No such file" in lab.result("logs", 2).stderr


def test_directory_of_a_job_that_was_replaced_is_not_entered(lab):
    """Only the directory in which a job was added is found again, not another one with the same name."""
    (lab.directory / "sub").mkdir()
    lab.add_in("sub", "pwd")
    old = lab.rename()
    (lab.directory / "sub").rename(lab.directory / "kept")
    (lab.directory / "sub").mkdir()
    lab.gpuq("run", code=1)
    assert f"cannot enter directory '{old}/sub'" in lab.job(1)["reason"]
    assert not old.exists()


@pytest.mark.parametrize("which", ["project", "above"])
def test_stored_script_is_executed_at_the_new_place(lab, which):
    """Another user may have the old path, for example in /tmp."""
    (lab.directory / "script.sh").write_text("#!/bin/sh\necho $1 >> ran\n")
    lab.gpuq("add", HELD)
    lab.until(lab.ran, "the job")
    lab.gpuq("add", "--after", "1", "--", "script.sh", "c")
    lab.rename(which)
    (lab.directory / "go").touch()
    lab.gpuq("wait", 2)
    assert lab.ran() == ["a", "b", "c"]
