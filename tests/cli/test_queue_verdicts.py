# SPDX-License-Identifier: MIT
"""Explanations of waiting jobs, from the data that the runner publishes."""
import json
import os
import stat
import subprocess

import pytest

from lab import LIMIT

HANG_ABOUT = "until [ -e go ]; do sleep 0.02; done"


def waits(lab):
    return {number: job["waits"] for number, job in lab.jobs().items() if job["status"] == "pending"}


def test_status_has_a_position_and_a_reason_for_every_pending_job(lab):
    for _ in range(4):
        lab.add("--no-start", HANG_ABOUT)
    lab.add("--no-start", "--after", "1", "true")
    lab.add("--no-start", "--priority", "5", "--mem", "1G", "true")
    assert set(waits(lab).values()) == {"no runner is active", "after job 1"}
    assert [lab.job(number)["position"] for number in range(1, 7)] == [2, 3, 4, 5, 6, 1]
    lab.start("run", "--gpus", "sim:2x24G", "--keep")
    lab.until(lambda: waits(lab) == {3: "GPUs busy", 4: "GPUs busy", 5: "after job 1"}, "the verdicts")
    lines = lab.gpuq("status", "3", "5")
    assert "Pending  #1 GPUs busy" in lines and "Pending  #3 after job 1" in lines
    assert lab.job(1)["position"] is None and lab.job(1)["waits"] is None
    (lab.directory / "go").touch()


def test_jobs_without_declared_memory_have_their_gpus_to_themselves(lab):
    for _ in range(3):
        lab.add("--no-start", HANG_ABOUT)
    lab.add("--no-start", "--mem", "1G", HANG_ABOUT)
    lab.start("run", "--gpus", "sim:1x80G")
    lab.until(lambda: waits(lab) == {number: "GPUs busy" for number in (2, 3, 4)}, "the verdicts")
    assert "GPU 0: in use by job 1, which does not share it" in lab.gpuq("why", 4)
    (lab.directory / "go").touch()


@pytest.mark.parametrize("options, words", [
    (["--num-gpus", "3"], "job 1 cannot start: needs 3 GPUs, there are 2; add it again with a smaller --num-gpus"),
    (["--mem", "100G"], "job 1 cannot start: needs 100.0 GiB, at most 80.0 GiB per GPU; add it again with a smaller --mem"),
    (["--cpus", "4000"], "job 1 cannot start: needs 4000 CPUs, the machine has "),
    (["--gpu", "7"], "job 1 cannot start: needs GPU 7, which does not exist (existing GPUs: 0 and 1); add it again with another --gpu\n"),
    (["--gpu", "0,7", "--mem", "90G"], "job 1 cannot start: needs GPUs 0,7, which do not all exist (existing GPUs: 0 and 1); "
                                       "add it again with another --gpu\n"),
    (["--gpu", "0-1", "--mem", "90G"], "job 1 cannot start: needs 90.0 GiB, at most 80.0 GiB per GPU; add it again with a smaller --mem\n"),
])
def test_add_reports_at_once_that_a_job_can_never_start(lab, options, words):
    result = lab.result("add", *options, "true", env={"GPUQ_GPUS": "sim:2x80G"})
    assert (result.returncode, result.stdout) == (0, "1\n")
    assert result.stderr.startswith("gpuq: " + words)
    assert "--host-mem" not in result.stderr


def test_add_reports_once_that_several_jobs_can_never_start(lab):
    result = lab.result("add", "--mem", "100G", "--array", "1-3", "true", env={"GPUQ_GPUS": "sim:2x80G"})
    assert (result.returncode, result.stdout) == (0, "1\n2\n3\n")
    words = "gpuq: jobs with these options cannot start: needs 100.0 GiB, at most 80.0 GiB per GPU; add them again with a smaller --mem"
    assert result.stderr.count(words) == result.stderr.count("cannot start") == 1, result.stderr


@pytest.mark.parametrize("options, reason", [
    (["--mem", "100G"], "needs 100.0 GiB, at most 80.0 GiB per GPU"),
    (["--cpus", "4000"], "needs 4000 CPUs, the machine has "),
    (["--gpu", "7"], "needs GPU 7, which does not exist (existing GPUs: 0 and 1)"),
])
def test_a_job_that_can_never_start_is_reported_without_a_runner_too(lab, options, reason):
    lab.environment["GPUQ_GPUS"] = "sim:2x80G"
    lab.add("--no-start", *options, "true")
    lab.add("--no-start", "--after", "1", "true")
    out = lab.gpuq("run", code=1)
    assert f"job 1 cannot start: {reason}" in out and "1 job left pending" in out
    assert waits(lab)[1].startswith(f"cannot start: {reason}")
    why = lab.gpuq("why", 1)
    assert "no runner is active\n" in why and "start one" not in why and "has room" not in why
    assert why.count("GPU 0:") == ("--mem" in options)
    assert f"waits for job 1, which is pending and cannot start: {reason}" in lab.gpuq("why", 2)
    for number in (1, 2):
        result = lab.result("wait", number)
        assert result.returncode == 125
        assert result.stderr.count(f"job 1 cannot start: {reason}") == 1, result.stderr
        assert "start a runner" not in result.stderr
    late = lab.result("add", "--no-start", "--after", "1", "true")
    assert (late.returncode, late.stdout) == (0, "3\n")
    assert f"job 3 waits for job 1, which cannot start: {reason}" in late.stderr


def test_wait_says_once_that_a_job_cannot_start_and_waits_on_with_a_runner(lab):
    lab.add("--no-start", "--mem", "100G", "true")
    runner = lab.start("run", "--gpus", "sim:1x80G", "--keep", stdout=subprocess.DEVNULL)
    lab.until(lambda: waits(lab)[1].startswith("cannot start"), "the verdict")
    waiting = lab.start("wait", 1, text=True)
    assert waiting.stderr.readline() == "gpuq: job 1 cannot start: needs 100.0 GiB, at most 80.0 GiB per GPU\n"
    lab.gpuq("cancel", 1)
    assert waiting.communicate(timeout=LIMIT)[1] == "" and waiting.returncode == 1
    runner.terminate()
    runner.wait(timeout=LIMIT)


def test_wait_does_not_give_up_a_job_that_the_last_runner_has_not_seen(lab):
    lab.commands("true")
    lab.gpuq("run", "--gpus", "sim:1")
    lab.add("--no-start", "--num-gpus", "2", "true")
    waiting = lab.start("wait", 2, text=True)
    assert waiting.stderr.readline() == "gpuq: no runner is active; start one with 'gpuq run'\n"
    lab.gpuq("run", "--gpus", "sim:2")
    assert waiting.wait(timeout=LIMIT) == 0


def test_wait_names_held_jobs_and_goes_on_when_they_are_released(lab):
    lab.add("--no-start", "--hold", "true")
    waiting = lab.start("wait", 1, text=True)
    assert waiting.stderr.readline() == "gpuq: job 1 is held; 'gpuq release 1' releases it\n"
    lab.gpuq("release", 1)
    assert waiting.wait(timeout=LIMIT) == 0


def test_run_names_held_jobs_also_when_quiet(lab):
    lab.add("--no-start", "--hold", "true")
    assert "gpuq: 1 job is held: 1; use 'gpuq release' to release it\n" in lab.gpuq("run", "--quiet")


def test_no_start_is_estimated_for_jobs_that_wait_for_cpus(lab):
    lab.commands(*(f"sleep 0.0{number}1" for number in range(4)))
    lab.gpuq("run", "--gpus", "sim:1")
    cpus = len(os.sched_getaffinity(0))
    lab.add("--no-start", "--num-gpus", "0", "--cpus", cpus, "sleep 30")
    lab.add("--no-start", "--num-gpus", "0", "sleep 0.05")
    runner = lab.start("run", "--gpus", "sim:1")
    lab.until(lambda: waits(lab) == {6: f"needs 1 CPU, 0 of {cpus} are free"}, "the verdict")
    assert lab.job(6)["expected_start"] is None
    assert "expected start: not estimated for jobs that request CPUs or main memory\n" in lab.gpuq("why", 6)
    lab.gpuq("cancel", 5)
    assert runner.wait(timeout=LIMIT) == 1


def test_add_says_that_there_is_no_gpu(lab):
    (lab.directory / "sys").mkdir()
    env = {"GPUQ_GPUS": "", "GPUQ_SYSFS_ROOT": str(lab.directory / "sys"), "GPUQ_NVML_LIBRARY": "/nonexistent"}
    result = lab.result("add", "true", env=env)
    assert (result.returncode, result.stdout) == (0, "1\n")
    assert "job 1 cannot start: this machine has no GPU; it waits for a runner that has one" in result.stderr


def test_add_exits_2_where_its_runner_cannot_start(lab):
    result = lab.result("add", "true", env={"GPUQ_GPUS": "nonsense"})
    assert (result.returncode, result.stdout) == (2, "1\n")
    assert "cannot start a runner: " in result.stderr and "nonsense" in result.stderr


def test_published_inputs_are_private_and_what_others_could_have_written_is_not_read(lab):
    lab.add("--no-start", HANG_ABOUT)
    lab.add("--no-start", "true")
    lab.start("run", "--gpus", "sim:1")
    lab.until(lambda: waits(lab) == {2: "GPUs busy"}, "the verdicts")
    path = lab.directory / "jobs.jsonl.d/schedule"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["pid"] == lab.runner()
    os.chmod(path, 0o666)
    assert waits(lab) == {2: "its runner is starting"}
    os.chmod(path, 0o600)
    path.write_text("{")
    assert waits(lab) == {2: "its runner is starting"}
    (lab.directory / "go").touch()


def test_expected_start_comes_from_similar_jobs(lab):
    for number in range(4):
        lab.add("--no-start", f"sleep 0.{number + 1}")
    lab.gpuq("run", "--gpus", "sim:1")
    lab.add("--no-start", HANG_ABOUT)
    lab.add("--no-start", "sleep 0.9")
    lab.start("run", "--gpus", "sim:1")
    lab.until(lambda: waits(lab) == {6: "GPUs busy"}, "the verdict")
    assert "expected start: unknown" in lab.gpuq("why", 6)  # nothing is known of the job in front
    assert lab.job(6)["expected_start"] is None
    (lab.directory / "go").touch()


def test_expected_start_of_the_second_in_line(lab):
    lab.commands(*(f"sleep 0.0{number}1" for number in range(6)))
    lab.gpuq("run", "--gpus", "sim:1")
    lab.add("--no-start", "sleep 30")
    lab.add("--no-start", "sleep 0.05")
    runner = lab.start("run", "--gpus", "sim:1")
    lab.until(lambda: waits(lab) == {8: "GPUs busy"}, "the verdict")
    start = lab.until(lambda: lab.job(8)["expected_start"], "the estimate")
    assert 0 <= start["low"] <= start["in"] <= start["high"]
    assert "expected to start in " in lab.gpuq("why", 8)
    lab.gpuq("cancel", 7)
    assert runner.wait(timeout=LIMIT) == 1


def test_why_and_doctor_name_a_runner_that_has_an_error(lab):
    assert int(lab.gpuq("add", "touch ran; until [ -e go ]; do sleep 0.02; done")) == 1
    lab.until((lab.directory / "ran").exists, "the job")
    runner = lab.runner()
    (lab.directory / "logs").chmod(0o777)
    assert int(lab.gpuq("add", "true")) == 2
    words = f"the runner (PID {runner}) is retrying after an error: cannot start a job: Operation not permitted; "
    lab.until(lambda: words in lab.gpuq("why", 2), "the error")
    assert words in lab.gpuq("doctor", code=None)
    (lab.directory / "logs").chmod(0o700)
    lab.gpuq("wait", 2)
    lab.until(lambda: "error" not in lab.gpuq("doctor", code=None), "the end of the error")
