# SPDX-License-Identifier: MIT
"""Jobs that wait for others, and the commands that change a job: urgent, hold, release, cancel, retry."""
import os
import signal

import pytest

from lab import LIMIT
from processes import alive


def test_after_waits_and_failure_fails_the_dependents(lab):
    lab.add("sleep 0.05; echo a >> ran")
    lab.add("--after", "1", "echo b >> ran")
    lab.add("exit 1")
    lab.add("--after", "3", "echo never >> ran")
    lab.add("--after", "4", "echo never >> ran")
    lab.gpuq("run", code=1)
    assert lab.ran() == ["a", "b"]
    jobs = lab.jobs()
    assert jobs[4]["reason"] == "job 3, which it waits for, failed"
    assert (jobs[5]["status"], jobs[5]["reason"]) == ("failed", "job 4, which it waits for, failed")


def test_priority_and_urgent_go_first(lab):
    for n in range(1, 5):
        lab.add("--priority", "5" if n == 3 else "0", f"echo {n} >> ran")
    lab.gpuq("urgent", 4)
    lab.gpuq("run", env={"GPUQ_GPUS": "sim:1"})
    assert lab.ran() == ["4", "3", "1", "2"]


def test_held_job_does_not_run_until_released(lab):
    lab.add("echo 1 >> ran")
    lab.add("--hold", "echo 2 >> ran")
    lab.add("echo 3 >> ran")
    lab.gpuq("hold", 1)
    assert lab.job(1)["status"] == "held"
    lab.gpuq("run")
    assert lab.ran() == ["3"]
    assert "not held" in lab.result("release", 3).stderr
    runner = lab.start("run", "--keep")
    lab.until(lambda: (lab.directory / "jobs.jsonl.d/runner.lock").exists() and lab.runner() == runner.pid)
    lab.gpuq("release", "1", "2")
    lab.until(lambda: len(lab.ran()) == 3)


def test_cancel_ends_pending_and_running_jobs(lab):
    lab.add("echo $$ >> ran; sleep 1000 & wait")
    lab.add("echo never >> ran")
    runner = lab.start("run", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran)
    lab.gpuq("cancel", 1, 2)
    assert runner.wait(timeout=LIMIT) == 1
    jobs = lab.jobs()
    assert (jobs[1]["status"], jobs[2]["status"]) == ("cancelled", "cancelled")
    assert len(lab.ran()) == 1
    result = lab.result("cancel", 1)
    assert result.returncode == 1
    assert "already ended (cancelled)" in result.stderr


@pytest.mark.parametrize("word, before, after", [
    ("cancel", "pending", "cancelled"), ("hold", "pending", "held"), ("release", "held", "pending"),
    ("urgent", "pending", "pending"), ("retry", "completed", "pending")])
def test_command_on_several_ids_skips_unknown_ones_and_exits_1(lab, word, before, after):
    if before == "completed":
        lab.add("--mem", "1G", "true")
        lab.gpuq("run")
    else:
        lab.add("--mem", "1G", *(["--hold"] if before == "held" else []), "true")
    # Nothing must run here, because retry and release start a runner.
    result = lab.result(word, 9, 1, "8", env={"GPUQ_GPUS": "sim:1x1M"})
    assert result.returncode == 1
    assert [line.split(":")[1].split()[-1] for line in result.stderr.splitlines()] == ["9", "8"]
    assert lab.job(1)["status"] == after
    assert lab.events()[-1]["event"] in (word, "runner")


def test_cancel_skips_a_finished_job_and_cancels_the_other(lab):
    lab.add("true")
    lab.gpuq("run")
    lab.add("true")
    result = lab.result("cancel", 1, 2)
    assert (result.returncode, result.stderr) == (1, "gpuq: cannot cancel job 1: it has already ended (completed)\n")
    assert (lab.job(1)["status"], lab.job(2)["status"]) == ("completed", "cancelled")


def test_cancel_all_leaves_only_completed_and_cancelled_jobs(lab):
    lab.commands(*["true"] * 2000)
    runner = lab.start("run", "--quiet", "--jobs-per-gpu", "2")
    lab.until(lambda: lab.journal.exists() and b'"end"' in lab.journal.read_bytes())
    lab.gpuq("cancel", "--all")
    assert runner.wait(timeout=LIMIT) == 1
    states = {job["status"] for job in lab.jobs().values()}
    assert "cancelled" in states and states <= {"completed", "cancelled"}


def test_all_and_a_job_together_are_refused(lab):
    lab.add("--hold", "true")
    before = lab.journal.read_bytes()
    for command in ("cancel", "hold", "pause", "resume"):
        result = lab.result(command, "--all", 1)
        assert result.returncode == 2 and "give either --all or jobs" in result.stderr
    assert lab.journal.read_bytes() == before


def test_retry_of_failed_or_cancelled_jobs_leaves_the_others_of_a_group(lab):
    lab.gpuq("add", "--no-start", "--param", "s=1-3", "--", "test", "{s}", "!=", "2")
    lab.add("--hold", "true")
    lab.add("exit 1")
    lab.gpuq("cancel", 4)
    lab.gpuq("run", "--quiet", code=1)
    lab.gpuq("retry", "--failed", "g1", "4")
    lab.gpuq("wait", 2, code=1)
    assert [lab.job(n)["attempts"] for n in (1, 2, 3, 5)] == [1, 2, 1, 1]
    assert lab.job(4)["status"] == "cancelled"
    result = lab.result("retry", "--cancelled", "g1")
    assert (result.returncode, result.stderr) == (0, "gpuq: nothing to do: none of these jobs was cancelled\n")
    assert lab.result("retry", "--failed", 1, 3).stderr == "gpuq: nothing to do: none of these jobs has failed\n"
    result = lab.result("retry", "--failed", "--cancelled", 1, 3)
    assert result.stderr == "gpuq: nothing to do: none of these jobs has failed or was cancelled\n"
    lab.gpuq("retry", "--cancelled")
    lab.gpuq("wait", 4)
    assert [lab.job(n)["attempts"] for n in (1, 2, 3, 4, 5)] == [1, 2, 1, 1, 1]


def test_options_that_select_no_job_print_a_note(lab):
    lab.add("true")
    lab.gpuq("run", "--quiet")
    for words, note in ((("retry", "--failed"), "no job has failed"), (("retry", "--cancelled"), "no job was cancelled"),
                        (("retry", "--failed", "--cancelled"), "no job has failed or was cancelled"), (("cancel", "--all"), "all jobs have ended")):
        result = lab.result(*words)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", f"gpuq: nothing to do: {note}\n")


def test_logs_of_a_job_that_has_not_started_print_a_note(lab):
    lab.add("echo one")
    lab.add("--hold", "echo two")
    for number, words in ((1, "has not started"), (2, "is held and has not started")):
        result = lab.result("logs", number)
        assert (result.returncode, result.stdout) == (0, "")
        assert result.stderr == f"gpuq: job {number} {words}; 'gpuq logs -f {number}' waits for its output\n"
    lab.gpuq("run", "--quiet")
    result = lab.result("logs", 1)
    assert (result.stdout, result.stderr) == ("one\n", "")


def test_command_that_applies_to_no_job_changes_nothing(lab):
    lab.add("true")
    before = lab.journal.read_bytes()
    result = lab.result("cancel", 9)
    assert result.returncode == 1
    assert "job 9" in result.stderr
    assert lab.journal.read_bytes() == before


def test_cancel_without_a_queue_creates_none(lab):
    result = lab.result("cancel", 1)
    assert result.returncode == 2
    assert "no such file" in result.stderr
    assert list(lab.directory.iterdir()) == []


def test_retry_failed_runs_failed_jobs_again(lab):
    lab.add("[ -e fixed ] && echo ok >> ran")
    lab.add("echo fine >> ran")
    lab.gpuq("run", code=1)
    (lab.directory / "fixed").touch()
    lab.gpuq("retry", "--failed")
    lab.gpuq("wait", 1)
    assert sorted(lab.ran()) == ["fine", "ok"]
    assert lab.job(1)["attempts"] == 2
    assert [attempt["status"] for attempt in lab.job(1)["history"]] == ["failed", "completed"]
    lab.until(lambda: alive(lab.runner()))
    os.kill(lab.runner(), signal.SIGTERM)


def test_failed_job_is_tried_again_as_often_as_retries_says(lab):
    lab.commands("echo x >> ran; exit 1")
    lab.gpuq("run", "--retries", "2", code=1)
    assert lab.ran() == ["x"] * 3
    assert lab.job(1)["attempts"] == 3
    assert len({attempt["log_file"] for attempt in lab.job(1)["history"]}) == 3


def test_max_failures_starts_nothing_new(lab):
    lab.commands(*["echo x >> ran; exit 1"] * 5)
    lab.gpuq("run", "--max-failures", "2", code=1, env={"GPUQ_GPUS": "sim:1"})
    assert lab.ran() == ["x"] * 2


def test_commands_report_what_they_did(lab):
    lab.add("true")
    lab.gpuq("pause")  # nothing starts
    lab.gpuq("cancel", "1")
    for number in range(2, 15):
        lab.add("--name", "n" if number < 5 else f"m{number}", "true")
    assert lab.gpuq("hold", "4", "3", "2", "4") == "held 3 jobs: 2, 3, 4\n"
    assert lab.gpuq("release", "--quiet", "2") == "" and lab.gpuq("release", "3") == "released job 3\n"
    assert lab.gpuq("urgent", "-q", "4") == "" and lab.gpuq("urgent", "4") == "prioritized job 4\n"
    result = lab.result("cancel", "1", "5", "99")
    assert (result.returncode, result.stdout) == (1, "cancelled job 5\n")
    assert "job 1: it has already ended (cancelled)" in result.stderr and "job 99" in result.stderr
    lab.gpuq("cancel", "3")
    assert lab.gpuq("cancel", "n") == "cancelled 2 jobs: 2, 4\n"
    assert lab.gpuq("cancel", "--all") == "cancelled 9 jobs: 6-14\n"
    assert lab.gpuq("cancel", "m7", code=1) == "" and lab.gpuq("cancel", "--all") == ""
    assert lab.gpuq("retry", "1,3", "2") == "requeued 3 jobs: 1, 2, 3\n"


def test_wait_for_the_queue_counts_jobs_that_were_cancelled_whenever_that_was(lab):
    lab.add("true")
    lab.gpuq("run")
    lab.gpuq("wait")
    lab.add("true")
    lab.gpuq("cancel", "2")
    lab.gpuq("wait", code=1)
    lab.gpuq("wait", "1")
    waiting = lab.add("--hold", "true")
    wait = lab.start("wait")
    lab.gpuq("cancel", waiting)
    assert wait.wait(240) == 1
    lab.gpuq("prune", "--yes")
    lab.gpuq("wait")
