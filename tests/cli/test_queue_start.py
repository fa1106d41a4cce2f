# SPDX-License-Identifier: MIT
"""Jobs that cannot be started: each says what is missing."""
import os
import shutil
import subprocess

from lab import LIMIT


def test_job_whose_environment_is_gone_fails_with_the_reason(lab):
    lab.add("true")
    (name,) = os.listdir(lab.directory / "jobs.jsonl.d/env")
    (lab.directory / "jobs.jsonl.d/env" / name).unlink()
    lab.gpuq("run", code=1)
    assert lab.job(1)["reason"] == (
        f"could not be started: its environment '{lab.journal}.d/env/{name}' is no longer there")


def test_job_whose_log_cannot_be_made_fails_with_the_reason(lab):
    (lab.directory / "logs").symlink_to("/nowhere/at/all")
    (lab.directory / "file").touch()
    lab.add("true")
    lab.add("--log-dir", "file", "true")
    lab.add("--log-dir", "file/below", "true")
    lab.add("--log-dir", "good", "echo ran >> ran")
    lab.gpuq("run", code=1)
    start = f"could not be started: making its log in '{lab.directory}"
    assert lab.job(1)["reason"] == f"{start}/logs': No such file or directory"
    assert lab.job(2)["reason"] == f"{start}/file': Not a directory"
    assert lab.job(3)["reason"] == f"{start}/file/below': Not a directory"
    assert lab.ran() == ["ran"]


def test_job_whose_directory_is_gone_fails_with_the_reason(lab):
    gone = lab.directory / "gone"
    gone.mkdir()
    lab.gpuq("add", "--no-start", "--jobs-file", lab.journal, "true", prefix=["env", "-C", gone])
    gone.rmdir()
    lab.gpuq("run", code=1)
    assert lab.job(1)["reason"] == f"entering directory '{gone}': No such file or directory"


def test_folder_of_the_queue_that_is_gone_is_no_fault_of_the_job(lab):
    """It waits until the folder is there again; every command makes it, and a new keeper does."""
    lab.add("echo a >> ran; until [ -e go ]; do sleep 0.01; done")
    lab.gpuq("add", "--no-start", "--after", 1, "-", input="true " + "x" * 200_000 + "\n")
    runner = lab.start("run", "--keep", stdout=subprocess.DEVNULL)
    lab.until(lab.ran)
    shutil.rmtree(lab.directory / "jobs.jsonl.d/scripts")
    (lab.directory / "go").touch()
    lab.gpuq("wait", 1)
    lab.add("true")
    lab.gpuq("wait", 2)
    runner.terminate()
    assert runner.wait(timeout=LIMIT) in (0, 130)
