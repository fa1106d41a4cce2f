# SPDX-License-Identifier: MIT
"""--verbose and GPUQ_DEBUG: decisions as they are made."""
import os

import pytest


@pytest.mark.parametrize("words, env", [(["status", "--verbose"], {}), (["--verbose", "status"], {}), (["status"], {"GPUQ_DEBUG": "1"})])
def test_queue_and_settings_are_reported_with_their_sources(lab, words, env):
    lab.add("--hold", "true")
    (lab.directory / "gpuq.yaml").write_text("jobs_per_gpu: 3\n")
    result = lab.result(*words, env=env)
    assert result.returncode == 0 and "debug" not in result.stdout
    assert result.stderr.splitlines() == [
        "gpuq: debug: configuration: './gpuq.yaml'",
        "gpuq: debug: setting: jobs_per_gpu: 3, from ./gpuq.yaml",
        "gpuq: debug: setting: gpus: sim:2, from $GPUQ_GPUS",
        f"gpuq: debug: queue: '{lab.journal}' ($GPUQ_JOBS_FILE)"]


@pytest.mark.parametrize("value", ["", "0"])
def test_the_variable_can_be_off(lab, value):
    lab.add("--hold", "true")
    assert lab.result("status", env={"GPUQ_DEBUG": value}).stderr == ""


def test_the_runner_reports_placements_reasons_for_waiting_and_its_keepers(lab):
    for name in ("first", "second"):
        os.mkfifo(lab.directory / name)
    lab.add("--mem", "10G", "cat first")
    lab.add("--mem", "12G", "cat second > first")
    lab.add("--mem", "11G", "true")
    lab.add("--num-gpus", "0", "echo > second")
    result = lab.result("run", "--verbose", "--gpus", "sim:2x16G")
    assert result.returncode == 0
    assert "gpuq: debug: setting: gpus: sim:2x16G, from the command line\n" in result.stderr
    lines = [line for line in result.stdout.splitlines() if line.startswith("gpuq: debug: ")]
    for words in ("job 1 starts on GPU 0 (16.0 GiB free in the last sample): needs 10.0 GiB",
                  "job 2 starts on GPU 1 (16.0 GiB free in the last sample): needs 12.0 GiB", "job 4 starts without a GPU"):
        assert f"gpuq: debug: {words}" in lines
    waits = [line for line in lines if line.startswith("gpuq: debug: job 3 waits: ")]
    assert waits and "GPU 0: " in waits[0] and "GPU 1: " in waits[0]
    assert len(waits) == len(set(waits))
    assert any(line.startswith("gpuq: debug: keeper ") and line.endswith(" started") for line in lines)
    assert "debug" not in lab.gpuq("run", "--gpus", "sim:2x16G")


def test_a_runner_in_the_background_logs_its_decisions_and_jobs_do_not_inherit_the_option(lab):
    result = lab.result("add", "--verbose", "echo ${GPUQ_DEBUG-unset} > ran")
    assert "starting a runner in the background; its decisions are in" in result.stderr
    lab.gpuq("wait", 1)
    assert lab.ran() == ["unset"]
    assert "gpuq: debug: job 1 starts on GPU 0" in (lab.directory / "jobs.jsonl.d/runner.log").read_text()


def test_verbose_names_the_program_of_a_command(lab):
    result = lab.result("--verbose", "launch", "--help")
    assert result.stderr.startswith("gpuq: debug: executing '") and result.stderr.endswith("/gpuq-launch'\n")
