# SPDX-License-Identifier: MIT
"""gpuq on kernels, or in sandboxes, that lack system calls that it prefers."""
import os
import pathlib
import subprocess

import pytest

from lab import LIMIT
from launch_lab import COPY, PROGRAM

WITHOUT_CALLS = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/without_calls"
CALLS = [*subprocess.run([WITHOUT_CALLS], capture_output=True, text=True, check=True).stdout.split(), "all"]


@pytest.mark.parametrize("call", CALLS)
def test_jobs_run_without_a_call(lab, call):
    prefix = (WITHOUT_CALLS, call)
    lab.commands("echo a >> ran", "exit 3")
    lab.gpuq("run", code=1, prefix=prefix)
    assert lab.ran() == ["a"]
    assert lab.job(2)["exit_code"] == 3


def test_a_job_is_cancelled_without_the_calls(lab):
    prefix = (WITHOUT_CALLS, "all")
    lab.add("echo $$ >> ran; sleep 1000 & wait", prefix=prefix)
    runner = lab.start("run", prefix=prefix)
    lab.until(lab.ran)
    lab.gpuq("cancel", 1, prefix=prefix)
    assert runner.wait(timeout=LIMIT) == 1
    assert lab.job(1)["status"] == "cancelled"


def test_a_runner_takes_over_a_job_without_the_calls(lab):
    prefix = (WITHOUT_CALLS, "all")
    lab.commands("echo a >> ran; until [ -e go ]; do sleep 0.01; done; echo b >> ran")
    runner = lab.start("run", prefix=prefix)
    lab.until(lab.ran)
    runner.kill()
    runner.wait()
    second = lab.start("run", prefix=prefix)
    lab.until(lambda: lab.runner() == second.pid)
    (lab.directory / "go").touch()
    assert second.wait(timeout=LIMIT) == 0
    assert lab.ran() == ["a", "b"]


@pytest.mark.parametrize("worker", [COPY, PROGRAM], ids=["command", "program"])
def test_launch_works_without_the_calls(launch, worker):
    launch.put("a.wav", "b.wav")
    result = subprocess.run([WITHOUT_CALLS, "all", *launch.words(*worker)], cwd=launch.directory, env=launch.environment,
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 0, result
    assert "2 of 2 files done" in result.stdout


def test_summary_and_report_are_written_if_modes_cannot_be_changed(launch):
    """Some mounts, such as those of object stores, refuse to change the mode of a file."""
    launch.put("a.wav", "b.wav")
    for words in (launch.words("--json", "sum.json", *COPY), [launch.program, "report", "--launch", "out", "-o", "page.html"]):
        result = subprocess.run([WITHOUT_CALLS, "fchmod", *words], cwd=launch.directory, env=launch.environment,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert result.returncode == 0 and "cannot write" not in result.stderr, result
    assert "files" in (launch.directory / "sum.json").read_text()
    assert "<html" in (launch.directory / "page.html").read_text()


def test_failed_items_are_retried_if_modes_cannot_be_changed(map):
    map.put(1, "bad-once")
    map.run(code=1)
    result = subprocess.run([WITHOUT_CALLS, "fchmod", *map.words()], cwd=map.directory, env=map.environment, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 0 and map.results() == {1: 2, 2: "bad-once"}, result


def test_stored_environment_is_used_again_if_modes_cannot_be_changed(lab):
    lab.gpuq("add", "--no-start", "true")
    for path in (lab.directory / "jobs.jsonl.d/env").iterdir():
        path.chmod(0o620)
    lab.gpuq("add", "--no-start", "true", prefix=(WITHOUT_CALLS, "fchmod"))
    assert len(list((lab.directory / "jobs.jsonl.d/env").iterdir())) == 1
