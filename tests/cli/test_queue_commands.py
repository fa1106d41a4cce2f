# SPDX-License-Identifier: MIT
"""Wrong usage of the commands of the queue; and status, logs and wait as a user types them."""
import os
import pathlib
import re

import pytest

from lab import LIMIT


@pytest.mark.parametrize("words, part", [
    (["run", "--commands-file", "missing.txt"], "missing.txt"),
    (["run", "--gpus", "97"], "97"),
    (["run", "--timeout", "soon"], "soon"),
    (["run", "--config", "missing.yaml"], "missing.yaml"),
    (["add"], "no command given"),
    (["add", "--after", "99", "true"], "99"),
    (["cancel", "3-1"], "not a job"),
    (["cancel"], "no job given"),
    (["nonsense"], "nonsense"),
    (["logs", "1"], "jobs.jsonl"),
])
def test_wrong_usage_exits_2_and_names_it(lab, words, part):
    if words[0] == "run":
        lab.commands("true")
        if "missing.txt" in words:
            (lab.directory / "commands.txt").unlink()
    result = lab.result(*words)
    assert result.returncode == 2, result
    assert part in result.stderr
    assert result.stdout == ""
    assert not lab.journal.exists() or lab.jobs() == {}


def test_status_prints_jobs_as_the_original_gpu_dispatch_did(lab):
    lab.add("true")
    lab.add("exit 3")
    lab.add("--hold", "--name", "later", "true later")
    lab.add("--after", "3", "true after")
    lab.gpuq("run", code=1, env={"GPUQ_GPUS": "sim:1"})
    out = re.sub(r"  \d+ms", "", lab.gpuq("status"))
    assert out == ("[✓] 1 true       → GPU 0 → Completed\n"
                   "[!] 2 exit 3     → GPU 0 → Failed (exit 3)\n"
                   "[‖] 3 true later → GPU N/A → Held  later\n"
                   "[ ] 4 true after → GPU N/A → Pending  #1 after job 3\n"
                   "4 jobs: 1 pending, 1 held, 1 completed, 1 failed\n")
    assert "exit 3" in lab.gpuq("status", "--state", "failed")
    assert "true later" not in lab.gpuq("status", "--state", "failed,completed")
    assert "true later" in lab.gpuq("status", "--name", "later")


def test_status_json_has_what_was_promised(lab):
    lab.add("--name", "n", "exit 3")
    lab.gpuq("run", code=1)
    job = lab.job(1)
    assert set(job) >= {"id", "name", "command", "status", "gpu_id", "gpu_ids", "pid", "cwd", "submit_time", "start_time",
                        "end_time", "duration", "exit_code", "signal", "reason", "attempts", "log_file", "peak_mem_mb",
                        "history"}
    assert (job["id"], job["name"], job["command"], job["status"], job["exit_code"]) == (1, "n", "exit 3", "failed", 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", job["end_time"])
    assert 0 <= job["duration"] < LIMIT
    assert re.fullmatch(rf"{lab.directory}/logs/job_\d{{8}}_\d{{6}}_1\.log", job["log_file"])
    assert os.readlink(lab.directory / "logs/latest") == pathlib.Path(job["log_file"]).name


def test_status_needs_no_write_permission(lab):
    lab.add("true")
    for name in ("jobs.jsonl.d", "."):
        (lab.directory / name).chmod(0o555)
    try:
        assert "Pending" in lab.gpuq("status")
    finally:
        lab.directory.chmod(0o755)
        (lab.directory / "jobs.jsonl.d").chmod(0o755)


def test_logs_follow_to_the_end_and_carry_ids(lab):
    lab.commands("for i in 1 2 3; do echo line $i; sleep 0.02; done", "echo other; printf 'no newline'")
    runner = lab.start("run")
    lab.until(lambda: lab.journal.exists() and len(lab.events()) > 2)
    assert lab.gpuq("logs", "-f", 1) == "line 1\nline 2\nline 3\n"
    out = lab.gpuq("logs", "-f", 1, 2)
    assert sorted(out.splitlines()) == ["1: line 1", "1: line 2", "1: line 3", "2: no newline", "2: other"]
    assert runner.wait(timeout=LIMIT) == 0


def test_wait_returns_when_the_job_is_over(lab):
    lab.commands("until [ -e go ]; do sleep 0.01; done; exit 9")
    lab.start("run")
    lab.until(lambda: lab.journal.exists() and lab.jobs().get(1, {}).get("status") == "running")
    waiting = lab.start("wait", 1)
    (lab.directory / "go").touch()
    assert waiting.wait(timeout=LIMIT) == 9


def test_lines_of_a_file_wait_for_names_of_lines_above(lab):
    lab.add("--name", "prep", "exit 1")  # not a line of the file: names do not refer to it
    lab.gpuq("run", "--commands-file", "/dev/null", code=1)
    lab.commands("# gpuq: name=prep", "sleep 0.1; echo prep >> ran", "# gpuq: name=prep", "echo more >> ran", "# gpuq: after=prep name=train",
                 "echo train >> ran", "# gpuq: after_any=train,prep", "echo report >> ran")
    lab.gpuq("run")
    assert [lab.job(number)["after"] for number in (2, 3, 4)] == [[], [], [2, 3]]
    assert (lab.job(5)["after"], lab.job(5)["after_any"]) == ([], [2, 3, 4])
    assert sorted(lab.ran()[:2]) == ["more", "prep"] and lab.ran()[2:] == ["train", "report"]
    # Again, with a new line: the other lines were already added.
    with open(lab.directory / "commands.txt", "a") as file:
        file.write("# gpuq: after=train,prep\necho last >> ran\n")
    lab.gpuq("run")
    assert lab.job(6)["after"] == [2, 3, 4] and lab.ran()[-1] == "last"
    # Finished and pruned jobs are not waited for.
    lab.gpuq("prune", "--yes")
    with open(lab.directory / "commands.txt", "a") as file:
        file.write("# gpuq: after=train\necho pruned >> ran\n")
    lab.gpuq("run")
    assert lab.job(7)["after"] == [] and lab.ran()[-1] == "pruned"


def test_lines_do_not_wait_for_names_of_lines_below(lab):
    lab.commands("true", "# gpuq: after=later", "true", "# gpuq: name=later", "true")
    result = lab.result("run")
    assert result.returncode == 2
    assert "commands.txt:3: after job 'later': no job has this id or name; 'gpuq status' lists all jobs; no earlier line has this name" in result.stderr
    assert lab.result("add", "--no-start", "-", input="# gpuq: name=a\ntrue\n# gpuq: after=a\ntrue 2\n").stdout == "1\n2\n"
    assert lab.job(2)["after"] == [1]
