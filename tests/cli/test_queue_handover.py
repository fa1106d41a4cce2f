# SPDX-License-Identifier: MIT
"""Two runs at the same time, and their exit codes."""
import os
import pathlib
import re
import signal

import pytest
from lab import GPUQ, LIMIT
from processes import naps
from terminal import Terminal


def holding(lab, *words):
    """A runner with a job that runs until the file `go` exists."""
    lab.commands("echo first >> ran; until [ -e go ]; do sleep 0.01; done")
    first = lab.start("run", "--jobs-per-gpu", "2", *words)
    lab.until(lab.ran)
    return first


def status_of(lab, number):
    return lab.jobs().get(number, {}).get("status")


def test_failure_before_a_run_took_over_counts_for_its_exit_code(lab):
    first = holding(lab)
    lab.commands("exit 5", "until [ -e go ]; do sleep 0.01; done", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt")
    lab.until(lambda: (status_of(lab, 2), status_of(lab, 3)) == ("failed", "running"))
    first.kill()
    lab.until(lambda: lab.runner() == second.pid, "the second runner to take over")
    (lab.directory / "go").touch()
    assert second.wait(timeout=LIMIT) == 1


def test_failure_of_other_jobs_after_a_run_took_over_does_not_count(lab):
    lab.commands("echo first >> ran; until [ -e go ]; do sleep 0.01; done; exit 6")
    first = lab.start("run", "--jobs-per-gpu", "2")
    lab.until(lab.ran)
    lab.commands("until [ -e go ]; do sleep 0.01; done", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt")
    lab.until(lambda: status_of(lab, 2) == "running")
    first.kill()
    lab.until(lambda: lab.runner() == second.pid, "the second runner to take over")
    (lab.directory / "go").touch()
    assert second.wait(timeout=LIMIT) == 0
    assert status_of(lab, 1) == "failed"


def test_failure_that_was_pruned_counts_for_the_exit_code(lab):
    holding(lab)
    lab.commands("exit 5", "until [ -e go ]; do sleep 0.01; done", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt")
    lab.until(lambda: (status_of(lab, 2), status_of(lab, 3)) == ("failed", "running"))
    lab.gpuq("prune")
    assert status_of(lab, 2) is None
    (lab.directory / "go").touch()
    assert second.wait(timeout=LIMIT) == 1


def test_a_run_does_not_wait_for_jobs_that_are_held(lab):
    first = holding(lab)
    lab.add("--hold", "true")
    lab.commands("true", "# gpuq: mem=900G", "true", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt", text=True)
    lab.until(lambda: status_of(lab, 4) == "pending")
    lab.gpuq("hold", 4)
    assert second.wait(timeout=LIMIT) == 1
    assert "gpuq: job 4 is held; 'gpuq release 4' releases it\n" in second.stderr.read()
    (lab.directory / "go").touch()
    assert first.wait(timeout=LIMIT) == 0


def end_between_two_prunes(lab, number, reader, go):
    """The job ends in a journal that the reader never opens: it has the previous one open, and will open the next.

    If reader is None, the caller stops and continues the reader itself."""
    if reader:
        reader.send_signal(signal.SIGSTOP)
    lab.gpuq("prune")
    (lab.directory / go).touch()
    lab.until(lambda: status_of(lab, number) in ("completed", "failed"))
    lab.gpuq("prune")
    assert status_of(lab, number) is None
    if reader:
        reader.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("end, code", [("true", 0), ("exit 5", 1)])
def test_run_whose_job_was_pruned_before_it_read_the_end_knows_how_it_ended(lab, end, code):
    lab.add("true")
    lab.gpuq("run")
    holding(lab)
    lab.commands(f"until [ -e go2 ]; do sleep 0.01; done; {end}", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt")
    lab.until(lambda: status_of(lab, 3) == "running")
    end_between_two_prunes(lab, 3, second, "go2")
    assert second.wait(timeout=LIMIT) == code
    (lab.directory / "go").touch()


@pytest.mark.parametrize("end, code", [("true", 0), ("exit 5", 1)])
def test_runner_whose_job_was_pruned_before_it_read_the_end_knows_how_it_ended(lab, end, code):
    lab.add("true")
    lab.gpuq("run")
    lab.commands(f"until [ -e go ]; do sleep 0.01; done; {end}")
    runner = lab.start("run")
    lab.until(lambda: status_of(lab, 2) == "running")
    end_between_two_prunes(lab, 2, runner, "go")
    assert runner.wait(timeout=LIMIT) == code


def test_run_whose_pruned_job_is_not_in_the_archive_either_does_not_wait_forever(lab):
    lab.add("true")
    lab.gpuq("run")
    holding(lab)
    lab.commands("until [ -e go2 ]; do sleep 0.01; done", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt")
    lab.until(lambda: status_of(lab, 3) == "running")
    second.send_signal(signal.SIGSTOP)
    end_between_two_prunes(lab, 3, None, "go2")
    (lab.directory / "jobs.jsonl.archive").unlink()
    second.send_signal(signal.SIGCONT)
    _, words = second.communicate(timeout=LIMIT)
    assert second.returncode == 1 and b"is not in the archive" in words, words


def is_waiting(pid):
    """Whether it is in poll(); if the kernel does not report that, whether it has slept for many seconds.

    A few naps mean nothing: a program whose pages are not in memory sleeps several times before it
    reads the journal."""
    where = pathlib.Path(f"/proc/{pid}/wchan").read_text()
    return "poll" in where or (where == "0" and naps(pid) > 20)


@pytest.mark.parametrize("end, code", [("true", 0), ("exit 7", 7)])
def test_wait_for_a_job_that_was_pruned_before_its_end_was_read_knows_how_it_ended(lab, end, code):
    lab.add("true")
    lab.gpuq("run")
    holding(lab)
    lab.add(f"until [ -e go2 ]; do sleep 0.01; done; {end}")
    wait = lab.start("wait", 3)
    lab.until(lambda: status_of(lab, 3) == "running")
    lab.until(lambda: is_waiting(wait.pid), "gpuq wait to read the journal")
    end_between_two_prunes(lab, 3, wait, "go2")
    assert wait.wait(LIMIT) == code


@pytest.mark.parametrize("trust", [(), ("--trust",)])
@pytest.mark.parametrize("command", ["run", "wait"])
def test_archive_that_others_can_write_is_not_used_for_results(lab, command, trust):
    lab.add("true")
    lab.gpuq("run")
    holding(lab)
    lab.commands("until [ -e go2 ]; do sleep 0.01; done", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt", *trust)
    lab.until(lambda: status_of(lab, 3) == "running")
    reader = second if command == "run" else lab.start("wait", "3", *trust)
    if command == "wait":
        lab.until(lambda: is_waiting(reader.pid), "gpuq wait to read the journal")
    reader.send_signal(signal.SIGSTOP)
    end_between_two_prunes(lab, 3, None, "go2")
    (lab.directory / "jobs.jsonl.archive").chmod(0o666)
    reader.send_signal(signal.SIGCONT)
    _, words = reader.communicate(timeout=LIMIT)
    refused = reader.returncode != 0 and b"jobs.jsonl.archive': it can be written by everybody" in words
    assert refused != bool(trust) and (refused or reader.returncode == 0), (reader.returncode, words)
    (lab.directory / "go").touch()


def test_options_of_a_run_that_hands_over_apply_to_its_jobs(lab):
    first = holding(lab)
    lab.commands("while :; do sleep 0.01; done", "# gpuq: timeout=1h mem=5M", "true", name="second.txt")
    result = lab.result("run", "--commands-file", "second.txt", "--timeout", "100ms", "--min-free-mem-mb", "17",
                        "--gpu-ids", "sim:1", "--max-failures", "3")
    assert result.returncode == 1
    assert "gpuq: --gpus, --max-failures: ignored, because the active runner has its own settings\n" in result.stderr
    assert lab.job(2)["reason"] == "timeout"
    adds = {event["id"]: event for event in lab.events() if event["event"] == "add"}
    # The free memory that a job requires to start is not a promise of how much it uses.
    assert (adds[2]["timeout"], adds[2]["min_free_mem_mb"], "mem_mb" in adds[2]) == (0.1, 17, False)
    assert (adds[3]["timeout"], adds[3]["mem_mb"], "min_free_mem_mb" in adds[3]) == (3600, 5, False)
    assert "timeout" not in adds[1]
    (lab.directory / "go").touch()
    assert first.wait(timeout=LIMIT) == 1


def test_sigterm_with_jobs_left_exits_130(lab):
    lab.add("--mem", "500G", "true")
    runner = lab.start("run", "--keep", stdout=None)
    lab.until(lambda: (lab.directory / "jobs.jsonl.d/runner.lock").exists() and lab.runner() == runner.pid)
    lab.gpuq("add", "--num-gpus", "0", "true")
    lab.gpuq("wait", 2)
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(timeout=LIMIT) == 130
    assert lab.job(1)["status"] == "pending"


def test_jobs_on_gpus_of_another_runner_take_no_processor(lab):
    """More jobs than processors run on GPUs that the next runner does not have: a job without a GPU still starts."""
    count = os.cpu_count() + 1
    for _ in range(count):
        lab.add("echo x >> ran; until [ -e go ]; do sleep 0.02; done")
    first = lab.start("run", "--gpus", f"sim:{count}")
    lab.until(lambda: len(lab.ran()) == count)
    first.kill()
    first.wait()
    cpu = lab.add("--num-gpus", "0", "echo cpu >> ran")
    second = lab.start("run", "--gpus", "sim:1")
    lab.until(lambda: "cpu" in lab.ran(), f"job {cpu}")
    (lab.directory / "go").touch()
    assert second.wait(LIMIT) == 0


def lines_of(text):
    """Output lines without PIDs and durations."""
    return sorted(re.sub(r"\(PID \d+\)|  [0-9.]+m?s$", "", line).strip() for line in text.splitlines())


@pytest.mark.parametrize("words", [[], ["--quiet"]])
def test_a_run_prints_the_lines_of_its_jobs_that_another_runs(lab, words):
    holding(lab)
    lab.commands("true", "exit 5", "until [ -e go2 ]; do sleep 0.01; done", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt", *words)
    lab.until(lambda: (status_of(lab, 2), status_of(lab, 3), status_of(lab, 4)) == ("completed", "failed", "running"))
    # The journal is read again from its start: no line is printed twice.
    lab.gpuq("prune")
    (lab.directory / "go2").touch()
    out = second.communicate(timeout=LIMIT)[0].decode()
    assert second.returncode == 1
    ends = [line for line in lines_of(out) if "Running" not in line]
    assert not out if words else [line.split(" → ")[-1] for line in ends] == ["Failed (exit 5)", "Completed", "Completed"]
    assert "first" not in out
    running = [line for line in lines_of(out) if "Running" in line]
    assert len(running) == len(set(running))
    (lab.directory / "go").touch()


def test_a_run_shows_the_panel_of_what_another_runs(lab):
    holding(lab, "--quiet")
    lab.commands("exit 5", "until [ -e go2 ]; do sleep 0.01; done", name="second.txt")
    terminal = Terminal([GPUQ, "run", "--commands-file", "second.txt"], 100, 30, lab.directory, lab.environment)
    terminal.shows("a runner is already active (PID")
    terminal.shows("Failed (exit 5)")
    terminal.shows("gpuq run")
    terminal.shows(" 1/2")
    terminal.shows("1 running · 1 failed")
    terminal.until(lambda screen: re.search("until . -e go2", "\n".join(screen.text())), "the job on its GPU")
    (lab.directory / "go2").touch()
    assert terminal.wait() == 1
    text = terminal.screen.everything()
    assert terminal.screen.cursor and "Completed" in text and "gpuq retry" in text
    terminal.end()
    (lab.directory / "go").touch()


def test_ctrl_c_of_a_run_that_shows_the_jobs_of_another_restores_the_terminal(lab):
    holding(lab, "--quiet")
    lab.commands("until [ -e go2 ]; do sleep 0.01; done", name="second.txt")
    terminal = Terminal([GPUQ, "run", "--commands-file", "second.txt"], 100, 30, lab.directory, lab.environment)
    terminal.until(lambda screen: not screen.cursor, "the panel")
    terminal.type("\x03")
    assert terminal.wait() == 130 and terminal.screen.cursor
    assert "no longer waiting; the jobs continue" in terminal.screen.everything()
    terminal.end()
    lab.until(lambda: status_of(lab, 2) == "running", "the job to continue")
    for name in ("go", "go2"):
        (lab.directory / name).touch()
