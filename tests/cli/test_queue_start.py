# SPDX-License-Identifier: MIT
"""Jobs that cannot be started: each reports what is missing."""
import os


def test_job_whose_environment_is_gone_fails_with_the_reason(lab):
    lab.add("true")
    (name,) = os.listdir(lab.directory / "jobs.jsonl.d/env")
    (lab.directory / "jobs.jsonl.d/env" / name).unlink()
    lab.gpuq("run", code=1)
    assert lab.job(1)["reason"] == (
        f"could not be started: its environment '{lab.journal}.d/env/{name}' no longer exists")


def test_job_whose_environment_is_not_one_fails_with_the_reason(lab):
    """It must not be retried forever."""
    lab.add("true")
    (name,) = os.listdir(lab.directory / "jobs.jsonl.d/env")
    os.truncate(lab.directory / "jobs.jsonl.d/env" / name, 1 << 40)
    lab.gpuq("run", code=1)
    assert lab.job(1)["reason"] == (
        f"could not be started: cannot read its environment '{lab.journal}.d/env/{name}': File too large")


def test_job_whose_log_cannot_be_made_fails_with_the_reason(lab):
    (lab.directory / "logs").symlink_to("/nowhere/at/all")
    (lab.directory / "file").touch()
    lab.add("true")
    lab.add("--log-dir", "file", "true")
    lab.add("--log-dir", "file/below", "true")
    lab.add("--log-dir", "good", "echo ran >> ran")
    lab.gpuq("run", code=1)
    start = f"could not be started: cannot create its log in '{lab.directory}"
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
    assert lab.job(1)["reason"] == f"cannot enter directory '{gone}': No such file or directory"


def test_keeper_sees_that_its_directories_were_replaced(lab):
    """It keeps them open from job to job."""
    lab.environment["GPUQ_GPUS"] = "sim:1"
    work = lab.directory / "work"
    work.mkdir()

    def run(number):
        lab.gpuq("add", "--no-start", "--jobs-file", lab.journal, "pwd -P > where", prefix=["env", "-C", work])
        lab.until(lambda: lab.job(number)["status"] == "completed", "the job")
        assert (work / "where").exists()
        assert os.path.samefile(os.path.dirname(lab.job(number)["log_file"]), lab.directory / "logs")
        assert os.path.exists(lab.job(number)["log_file"])

    lab.start("run", "--keep")
    run_number = 0
    for replace in (False, True):
        run_number += 1
        run(run_number)
        for name in ("work", "logs"):
            (lab.directory / name).rename(lab.directory / f"{name}-{run_number}")
        work.mkdir()
        if replace:
            (lab.directory / "logs").mkdir()
    run(3)
    assert len(lab.keepers()) == 1
