# SPDX-License-Identifier: MIT
"""`gpuq doctor`: finds each problem, and reports no false ones."""
import errno
import json
import os
import pathlib
import shutil
import struct

import pytest

from lab import Lab


def findings(lab, *words, code=0, **options):
    report = json.loads(lab.gpuq("doctor", "--json", *words, code=code, **options))
    assert report["problems"] == sum(f["level"] == "problem" for f in report["findings"])
    assert report["notes"] == sum(f["level"] == "note" for f in report["findings"])
    return report["findings"]


def problems(lab, *words, **options):
    return {(f["section"], f["name"]): f for f in findings(lab, *words, code=1, **options) if f["level"] == "problem"}


def test_a_healthy_queue_has_no_problem_and_the_report_leaves_nothing_behind(lab):
    lab.add("true")
    lab.gpuq("run")
    before = sorted(os.listdir(lab.directory))
    out = lab.gpuq("doctor")
    for section in ("Installation", "System", "Settings", "GPUs", "Limits", "File system", "Queue", "Claims"):
        assert f"{section}\n" in out
    assert "\n0 problems, " in out and "  ok       locks           work\n" in out and "  ok       journal         intact" in out
    assert sorted(os.listdir(lab.directory)) == before


def test_a_missing_queue_is_not_a_problem_and_is_not_created(lab):
    paths = {f["name"]: f for f in findings(lab) if f["section"] == "Queue"}
    assert paths["path"]["words"].endswith("not created yet") and list(paths) == ["path"]
    assert not lab.journal.exists()


def test_a_machine_without_a_gpu_is_a_problem(lab):
    (lab.directory / "sysfs").mkdir()
    found = problems(lab, env={"GPUQ_GPUS": "", "GPUQ_SYSFS_ROOT": str(lab.directory / "sysfs"), "CUDA_VISIBLE_DEVICES": "",
                               "GPUQ_NVML_LIBRARY": str(lab.directory / "missing.so")})
    assert found["GPUs", "GPUs"]["words"] == "no GPU found"
    assert "GPUQ_GPUS=sim:4" in found["GPUs", "GPUs"]["advice"]


def test_a_login_node_needs_no_gpu(lab):
    (lab.directory / "sysfs").mkdir()
    (lab.directory / "gpuq.yaml").write_text("slurm: --gres=gpu:1\n", encoding="utf-8")
    found = findings(lab, code=1, env={"GPUQ_GPUS": "", "GPUQ_SYSFS_ROOT": str(lab.directory / "sysfs"), "CUDA_VISIBLE_DEVICES": "",
                               "GPUQ_NVML_LIBRARY": str(lab.directory / "missing.so")})
    assert [f["level"] for f in found if f["name"] == "GPUs"] == ["note"]


def test_a_program_of_another_version_is_a_problem(lab):
    found = problems(lab, env={"GPUQ_MAP": "/bin/echo", "GPUQ_PROBE": str(lab.directory / "missing")})
    assert "is not version" in found["Installation", "gpuq-map"]["words"]
    assert "missing" in found["Installation", "gpuq-probe"]["words"]


def test_a_configuration_that_cannot_be_read_is_a_problem_and_the_rest_is_checked(lab):
    (lab.directory / "gpuq.yaml").write_text("jobs_per_gpu: many\n")
    found = problems(lab)
    assert list(found) == [("Settings", "configuration")]
    assert "gpuq.yaml" in found["Settings", "configuration"]["words"]


def test_a_journal_that_others_can_write_is_a_problem_unless_it_is_trusted(lab):
    lab.add("--hold", "true")
    lab.journal.chmod(0o666)
    assert "written by everybody" in problems(lab)["Queue", "trust"]["words"]
    levels = {f["name"]: f["level"] for f in findings(lab, "--trust") if f["section"] == "Queue"}
    assert levels["trust"] == "note"


@pytest.mark.parametrize("is_removed", [False, True], ids=["copied", "folder removed"])
def test_a_copy_with_unfinished_jobs_is_a_problem(lab, is_removed):
    lab.add("--hold", "true")
    if is_removed:
        shutil.rmtree(lab.directory / "jobs.jsonl.d")
    else:
        (lab.directory / "jobs.jsonl.d/home").write_text("inode 1;")
    found = problems(lab)["Queue", "copy"]
    why = "its folder was removed, or was not copied with it" if is_removed else "it was copied here"
    assert found["words"] == f"the queue has 1 unfinished job, but {why}"
    assert "remove the journal and its folder" in found["advice"] and "use --trust once" in found["advice"]
    lab.gpuq("cancel", 1, "--trust")
    assert "copy" not in {f["name"] for f in findings(lab)}


def test_a_damaged_journal_and_jobs_without_a_runner_are_problems(lab):
    lab.add("true")
    lab.add("true")
    assert list(problems(lab)) == [("Queue", "runner")]
    lines = lab.journal.read_bytes().splitlines(keepends=True)
    lab.journal.write_bytes(b"".join(lines[:1] + [lines[1].replace(b"true", b"trux")] + lines[2:]))
    assert ("Queue", "journal") in problems(lab)


@pytest.mark.parametrize("call, name", [("sync", "fsync"), ("lock", "locks")])
def test_an_unsuitable_file_system_is_a_problem(lab, call, name):
    faults = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libfaults.so"
    counter = lab.directory / "counter"
    counter.write_bytes(struct.pack("qq", 0, 1 << 40))
    found = problems(lab, env={"LD_PRELOAD": str(faults), "FAULT_CALL": call, "FAULT_ERRNO": str(errno.ENOLCK),
                               "FAULT_COUNTER": str(counter)})
    assert ("File system", name) in found


def test_low_limits_are_problems(lab):
    found = problems(lab, prefix=["prlimit", "--nofile=100:200", "--fsize=1000000"])
    assert found["Limits", "open files"]["words"] == "100 (hard limit 200)"
    assert ("Limits", "file size") in found


def test_a_directory_that_cannot_be_written_is_a_problem(lab):
    found = problems(lab, "--jobs-file", "/proc/jobs.jsonl")
    assert ("File system", "writing") in found


def test_the_report_reveals_neither_the_home_nor_tokens(tmp_path):
    home = Lab(tmp_path)
    home.environment["HOME"] = str(tmp_path)
    home.add("--hold", "echo private")
    out = home.gpuq("doctor", env={"GPUQ_WEB_TOKEN": "secret-of-the-page"})
    assert "~/jobs.jsonl" in out and "private" not in out and "secret-of-the-page" not in out
    assert str(tmp_path) not in out
    home.end()
