# SPDX-License-Identifier: MIT
"""Options of run that are defaults for jobs."""
from lab import LIMIT


def test_retries_of_run_apply_to_jobs_added_without_any(lab):
    lab.add("exit 1")
    lab.add("--retries", "0", "exit 1")
    lab.add("--retries", "2", "exit 1")
    lab.gpuq("run", "--retries", "1", code=1)
    assert [lab.job(n)["attempts"] for n in (1, 2, 3)] == [2, 1, 3]


def test_timeout_of_run_applies_to_jobs_added_without_one(lab):
    lab.add("while :; do sleep 0.01; done")
    lab.add("--timeout", "1h", "sleep 0.3")
    lab.gpuq("run", "--timeout", "100ms", code=1)
    assert (lab.job(1)["reason"], lab.job(2)["status"]) == ("timeout", "completed")


def test_running_the_file_again_applies_its_new_options(lab):
    lab.commands("exit 1", "while :; do sleep 0.01; done")
    lab.gpuq("run", "--timeout", "1h", "--max-failures", "1", code=1, env={"GPUQ_GPUS": "sim:1"})
    assert lab.job(2)["status"] == "pending"
    lab.gpuq("run", "--timeout", "100ms", "--retries", "1", code=1)
    assert (lab.job(2)["reason"], lab.job(2)["attempts"]) == ("timeout", 2)


def test_running_the_file_again_names_what_failed_before(lab):
    lab.commands("exit 1", "true", "exit 2")
    lab.gpuq("run", code=1)
    result = lab.result("run")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (f"gpuq: nothing new in '{lab.directory}/commands.txt'; 2 of its commands failed before; "
                             "'gpuq retry --failed' runs them again\n")
    quiet = lab.result("run", "--quiet")
    assert (quiet.returncode, quiet.stderr) == (1, "")
    lab.commands("exit 1", "true", "exit 2", "true new")
    result = lab.result("run")
    assert (result.returncode, result.stderr) == (0, "")
    lab.commands("true")
    assert lab.gpuq("run", "--commands-file", "commands.txt", "--jobs-file", "other.jsonl") != ""
    lab.gpuq("run", "--commands-file", "commands.txt", "--jobs-file", "other.jsonl")


def test_running_the_file_again_names_what_was_cancelled_before(lab):
    lab.commands("exit 1", "true")
    lab.gpuq("run", "--max-failures", "1", code=1, env={"GPUQ_GPUS": "sim:1"})
    lab.gpuq("cancel", 2)
    result = lab.result("run")
    name = f"{lab.directory}/commands.txt"
    assert result.stderr == (f"gpuq: nothing new in '{name}'; 1 of its commands failed before; 'gpuq retry --failed' runs it again\n"
                             f"gpuq: nothing new in '{name}'; 1 of its commands was cancelled before; 'gpuq retry --cancelled' runs it again\n")


def test_retries_apply_to_jobs_that_are_handed_over(lab):
    lab.commands("echo first >> ran; until [ -e go ]; do sleep 0.01; done; exit 1")
    first = lab.start("run")
    lab.until(lab.ran)
    lab.commands("exit 1", "# gpuq: retries=2", "exit 1", name="second.txt")
    lab.gpuq("run", "--commands-file", "second.txt", "--retries", "1", code=1)
    (lab.directory / "go").touch()
    assert first.wait(timeout=LIMIT) == 1
    assert [lab.job(n)["attempts"] for n in (1, 2, 3)] == [1, 2, 3]


def test_attempt_ends_by_the_options_of_the_runner_that_began_it(lab):
    lab.commands("echo x >> ran; until [ -e go ]; do sleep 0.01; done; exit 1")
    first = lab.start("run", "--retries", "5")
    lab.until(lab.ran)
    first.kill()
    first.wait()
    second = lab.start("run")
    lab.until(lambda: lab.runner() == second.pid)
    (lab.directory / "go").touch()
    assert second.wait(timeout=LIMIT) == 1
    assert lab.job(1)["attempts"] == 2
