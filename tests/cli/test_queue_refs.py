# SPDX-License-Identifier: MIT
"""References to jobs other than by id, and output about one job."""
import json
import re

import pytest
from lab import LIMIT

HANG = "until [ -e go ]; do sleep 0.01; done"


def ids(lab, *words):
    return [job["id"] for job in json.loads(lab.gpuq("status", "--json", *words))]


@pytest.fixture(name="named")
def make_named(lab):
    lab.add("--name", "eval", "true 1")
    lab.add("--name", "train", "true 2")
    lab.add("--name", "train", "true 3")
    lab.add("--name", "v7", "true 4")
    return lab


def test_last_jobs_and_names(named):
    assert ids(named, "@") == [4]
    assert ids(named, "@~1,@~3") == [3, 1]
    assert ids(named, "eval") == [1]
    assert ids(named, "train", "1") == [1, 2, 3]
    assert ids(named, "name:v7") == [4]


@pytest.mark.parametrize("name", ["12", "12-15", "g12", "@", "@~1", "@x", "tag:x", "name:x", "a,b", "-1"])
def test_names_that_no_command_could_refer_to_are_refused(lab, name):
    result = lab.result("add", "--no-start", f"--name={name}", "true")
    assert result.returncode == 2 and f"--name: '{name}' cannot be the name of a job" in result.stderr
    assert not lab.journal.exists()


@pytest.mark.parametrize("name", ["v12", "12x", "g12b", "a@b", "tagged:x", "exp/7", "my training"])
def test_names_that_commands_can_refer_to(lab, name):
    lab.add("--name", name, "true")
    assert ids(lab, name) == [1]


@pytest.mark.parametrize("word, complaint", [("@~4", "the queue has 4 jobs"), ("nobody", "no job has this id or name"),
                                             ("7", "no such job"), ("@x", "not a job"), ("@~x", "not a job"), ("4-2", "not a job"),
                                             ("1,,2", "not a job"), ("", "not a job")])
@pytest.mark.parametrize("command", ["status", "info", "logs", "why", "cancel", "hold", "wait"])
def test_reference_to_a_missing_job_is_refused(named, command, word, complaint):
    result = named.result(command, word)
    assert result.returncode in ((1, 2) if command != "wait" else (125,)), result
    assert complaint in result.stderr


def test_an_empty_queue_has_no_last_job(lab):
    lab.journal.touch()
    assert lab.result("wait", "@").stderr == "gpuq: there is no last job: the queue is empty\n"


def test_controls_take_names_and_the_last_job(named):
    named.gpuq("cancel", "@")
    named.gpuq("hold", "train")
    assert [named.job(n)["status"] for n in (1, 2, 3, 4)] == ["pending", "held", "held", "cancelled"]
    # A name shared by several jobs selects those that the command applies to; the command must apply
    # to a single named job.
    named.gpuq("cancel", 2)
    named.gpuq("cancel", "train")
    assert named.job(3)["status"] == "cancelled"
    assert "already" in named.result("cancel", "name:v7").stderr


def test_hold_all(named):
    named.gpuq("cancel", 1)
    named.gpuq("hold", "--all")
    assert [named.job(n)["status"] for n in (1, 2, 3, 4)] == ["cancelled", "held", "held", "held"]


@pytest.mark.parametrize("alias, command", [("ls", "status"), ("log", "logs"), ("kill", "cancel"), ("rm", "cancel")])
def test_short_forms(named, alias, command):
    assert named.gpuq(alias, "--help") == named.gpuq(command, "--help")
    assert named.gpuq("help", alias) == named.gpuq(command, "--help")


@pytest.mark.parametrize("command", ["run", "add", "status", "queues", "info", "top", "logs", "wait", "why", "web", "cancel", "retry", "hold",
                                     "release", "urgent", "prune", "verify", "launch", "map", "report", "gpus", "exec", "shell", "edit", "pause", "resume"])
def test_h_is_help(lab, command):
    help_text = lab.gpuq(command, "--help")
    assert help_text.startswith("Usage: gpuq ") and lab.gpuq(command, "-h") == help_text
    assert " -h" not in help_text
    assert not re.search("\n +\n", help_text), "a line consists only of spaces"


@pytest.mark.parametrize("word, command", [("submit", "add"), ("squeue", "status"), ("stop", "cancel"), ("restart", "retry"), ("tail", "logs"),
                                           ("clean", "prune"), ("suspend", "pause"), ("pasue", "pause"), ("unpause", "resume"), ("check", "doctor"), ("stauts", "status"), ("version", "--version")])
def test_unknown_commands_are_suggested_by_meaning(lab, word, command):
    result = lab.result(word)
    assert result.returncode == 2
    assert result.stderr == f"gpuq: unknown command '{word}'; did you mean '{command}'? 'gpuq help --all' lists all commands\n"


def test_help_fits_on_a_screen_and_everything_is_in_help_all(lab):
    text = lab.gpuq("--help")
    assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 80
    everything = lab.gpuq("help", "--all")
    commands = re.findall(r"^  ([a-z]+) {2,}", everything, re.M)
    assert len(commands) == len(set(commands)) > 25
    summaries = dict(re.findall(r"^  ([a-z]+) {2,}(.*)$", everything, re.M))
    shown = dict(re.findall(r"^   ([a-z]+) {2,}(.*)$", text, re.M))
    assert len(shown) > 12 and set(shown) < set(commands) and "help --all" in text
    assert [name for name in shown if shown[name] != summaries[name]] == []
    for command in commands:
        assert lab.gpuq(command, "--help").startswith("Usage: gpuq ")
    assert lab.gpuq("help") == text == lab.gpuq("-h")


def test_help_has_no_note_about_short_options_and_no_wrapped_examples(lab):
    commands = re.findall(r"^  ([a-z]+) {2,}", lab.gpuq("help", "--all"), re.M)
    examples = {}
    for command in [*commands, "slurm check"]:
        text = lab.gpuq(*command.split(), "--help")
        assert "Mandatory or optional arguments" not in text, command
        examples.update(re.findall(r"^(  gpuq \S.*)\n(.*)$", text, re.M))
    assert len(examples) >= 2
    assert set(examples.values()) == {""}, "an example continues on the next line"


def test_an_option_before_the_command_is_explained(lab):
    assert lab.result("--mem", "1G", "add", "true").stderr == (
        "gpuq: unknown option '--mem'; options of a command go after its name, as in 'gpuq add --mem'\n")


# ---- info ------------------------------------------------------------------------------------


def test_info_prints_all_details(lab):
    lab.add("true")
    lab.add("--name", "n", "--mem", "1G", "--timeout", "2h", "--retries", "1", "--priority", "5", "--after", "1", "exit 3")
    words = lab.gpuq("info", "@")
    for pattern in ("job 2\n", "command +exit 3", "status +Pending", "position +1", "waits +after job 1", "name +n", "GPU memory +1.0 GiB",
                    "time limit +2h", "retries +1", "priority +5", "after +1", f"directory +{lab.directory}"):
        assert re.search(pattern, words), (pattern, words)
    lab.gpuq("run", code=1)
    words = lab.gpuq("info", 2)
    assert "attempt 1: failed (exit 3)" in words and "attempt 2: failed (exit 3)" in words
    assert len(re.findall(r"log +/.*\.log", words)) == 2
    assert json.loads(lab.gpuq("info", "--json", 2)) == json.loads(lab.gpuq("status", "--json", 2))


# ---- logs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines, ending", [(0, "\n"), (1, "\n"), (2, ""), (3, "\n"), (9, ""), (20000, "\n")])
def test_last_lines_of_a_log(lab, lines, ending):
    lab.add(f"seq 1 9999; printf '10000{ending and chr(92) + 'n'}'")
    lab.gpuq("run")
    whole = lab.gpuq("logs", 1)
    assert whole.endswith(f"9999\n10000{ending}")
    assert lab.gpuq("logs", "-n", lines, 1) == "".join(whole.splitlines(True)[max(0, 10000 - lines):])


def test_log_of_an_attempt(lab):
    lab.add("--retries", "2", "echo attempt $GPUQ_ATTEMPT; exit 1")
    lab.gpuq("run", code=1)
    assert lab.gpuq("logs", 1) == "attempt 3\n"
    assert lab.gpuq("logs", "--attempt", 2, 1) == lab.gpuq("logs", "-f", "--attempt", 2, 1) == "attempt 2\n"
    result = lab.result("logs", "--attempt", 4, 1)
    assert (result.returncode, result.stderr) == (2, "gpuq: job 1: no attempt 4; the job has 3 attempts\n")
    assert lab.result("logs", "--attempt", 0, 1).returncode == 2


def test_following_says_that_it_waits(lab):
    lab.add("echo done")
    lab.add("--hold", "true")
    follow = lab.start("logs", "-f", 1, text=True)
    assert follow.stderr.readline() == "gpuq: job 1 has not started; waiting ('gpuq why 1' explains why)\n"
    lab.gpuq("run")
    assert follow.wait(LIMIT) == 0
    assert (follow.stdout.read(), follow.stderr.read()) == ("done\n", "")
    held = lab.start("logs", "-f", 2, text=True)
    assert held.stderr.readline() == "gpuq: job 2 is held; waiting for 'gpuq release 2'\n"
    lab.gpuq("cancel", 2)
    assert held.wait(LIMIT) == 0


def test_following_from_the_last_lines(lab):
    lab.add(f"seq 1 50; touch written; {HANG}; echo more")
    runner = lab.start("run")
    lab.until((lab.directory / "written").exists)
    follow = lab.start("logs", "-f", "-n", 2, 1, text=True)
    assert [follow.stdout.readline() for _ in range(2)] == ["49\n", "50\n"]
    (lab.directory / "go").touch()
    assert follow.stdout.read() == "more\n" and follow.wait(LIMIT) == 0
    assert runner.wait(LIMIT) == 0


# ---- wait ------------------------------------------------------------------------------------


def test_wait_gives_up(lab):
    lab.add("true")
    result = lab.result("wait", "--timeout", "10ms", 1)
    assert result.returncode == 124 and "giving up after 10ms: not all jobs have ended" in result.stderr
    lab.gpuq("run")
    assert lab.gpuq("wait", "--timeout", "10s", 1) == ""
    assert lab.result("wait", "--timeout", "soon", 1).returncode == lab.result("wait", "--timeout", "0", 1).returncode == 125


def test_wait_for_the_first(lab):
    lab.add(HANG)
    lab.add("exit 7")
    lab.add("--hold", "true")
    runner = lab.start("run")
    assert lab.gpuq("wait", "--any", code=7) == "2\n"
    assert lab.gpuq("wait", "--any", 1, 2, code=7) == "2\n"
    assert lab.gpuq("wait", "--any", "--timeout", "10ms", 3, code=124) == ""
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) in (0, 1)
