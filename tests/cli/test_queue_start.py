# SPDX-License-Identifier: MIT
"""Jobs that cannot be started: each says what is missing."""
import os


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
