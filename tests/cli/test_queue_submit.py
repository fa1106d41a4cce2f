# SPDX-License-Identifier: MIT
"""How jobs are described on the command line of `gpuq add`."""
import json

import pytest


def added(lab):
    return [event["command"] for event in lab.events() if event["event"] == "add"]


@pytest.mark.parametrize("option", ["--mem", "--host-mem"])
def test_a_size_without_a_unit_is_refused(lab, option):
    result = lab.result("add", "--no-start", option, "12", "true")
    assert result.returncode == 2 and f"{option}: '12' has no unit" in result.stderr
    assert not lab.journal.exists()


def test_a_size_without_a_unit_is_refused_in_a_commands_file(lab):
    lab.commands("# gpuq: mem=12", "true")
    result = lab.result("run")
    assert result.returncode == 2 and "commands.txt:1: mem: '12' has no unit" in result.stderr


def test_a_size_without_a_unit_is_refused_as_an_option_of_run(lab):
    lab.commands("true")
    result = lab.result("run", "--host-mem", "32")
    assert result.returncode == 2 and "--host-mem: '32' has no unit" in result.stderr
    lab.gpuq("run", "--min-free-mem-mb", "100", "--max-log-size", "0")


def test_options_after_the_first_word_belong_to_the_command(lab):
    lab.add("ls", "-l", "--color=never", "my file")
    lab.add("--name", "x", "nice", "-n", "5", "true")
    lab.add("--", "python", "train.py", "--mem", "12G")
    assert added(lab) == ["ls -l --color=never 'my file'", "nice -n 5 true", "python train.py --mem 12G"]


@pytest.mark.parametrize("words, message", [
    (["python train.py", "--mem", "12G"], "--mem is an option of gpuq, but comes after the command; move it before 'python train.py'"),
    (["python", "train.py", "--mem=12G"], "--mem is an option of gpuq, but comes after the command; move it before 'python'"),
    (["true", "--jobs-file", "x"], "--jobs-file is an option of gpuq, but comes after the command; move it before 'true'"),
    (["true", "--", "x"], "'--' must be before the command"),
])
def test_options_that_may_be_meant_for_gpuq_are_refused_after_the_command(lab, words, message):
    result = lab.result("add", "--no-start", *words)
    assert result.returncode == 2 and message in result.stderr and "gpuq add [OPTION…] -- " in result.stderr
    assert not lab.journal.exists()


def test_ids_as_json(lab):
    one = json.loads(lab.gpuq("add", "--no-start", "--json", "true"))
    assert one == {"ids": [1], "group": None, "jobs_file": str(lab.journal)}
    several = json.loads(lab.gpuq("add", "--no-start", "--json", "-", input="true\nfalse\n"))
    assert several["ids"] == [2, 3]
    assert json.loads(lab.gpuq("add", "--no-start", "--json", "-", input=""))["ids"] == []


def test_a_dry_run_prints_the_commands_and_adds_nothing(lab):
    assert lab.gpuq("add", "--dry-run", "echo", "a b") == "echo 'a b'\n"
    assert lab.gpuq("add", "--dry-run", "-", input="# a remark\ntrue\n\necho x | cat\n") == "true\necho x | cat\n"
    assert json.loads(lab.gpuq("add", "--dry-run", "--json", "echo", "a b")) == {"commands": ["echo 'a b'"]}
    result = lab.result("add", "--dry-run", "-", input="# gpuq: gpu=0 num_gpus=2\ntrue\n")
    assert result.returncode == 2 and "standard input:2: the job is pinned" in result.stderr
    assert not lab.journal.exists() and not (lab.directory / "jobs.jsonl.d").exists()
