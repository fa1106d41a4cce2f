# SPDX-License-Identifier: MIT
"""Sweeps: several jobs from one command, which form a group."""
import fcntl
import json
import os
import pty
import signal
import subprocess

import pytest

import sealing
from lab import GPUQ, LIMIT


def dry(lab, *words):
    return lab.gpuq("add", "--dry-run", *words).splitlines()


def test_parameters_are_crossed_and_the_last_varies_fastest(lab):
    assert dry(lab, "--param", "lr=0.1,0.01", "--param", "seed=1-3", "--", "python", "train.py", "--lr", "{lr}", "--seed={seed}") == [
        f"python train.py --lr {lr} --seed={seed}" for lr in ("0.1", "0.01") for seed in (1, 2, 3)]


def test_zip_pairs_the_values(lab):
    words = ["--param", "a=1,2", "--param", "b=x,y", "--zip", "echo", "{a}{b}", "{b}"]
    assert dry(lab, *words) == ["echo 1x x", "echo 2y y"]
    result = lab.result("add", "--dry-run", "--param", "a=1-3", "--param", "b=x,y", "--zip", "echo", "{a}{b}")
    assert result.returncode == 2 and "--zip: 'a' has 3 values and 'b' has 2" in result.stderr


def test_ranges(lab):
    assert dry(lab, "--param", "n=08-10,20-30:5,x-1,-5", "echo", "{n}") == [
        f"echo {n}" for n in ("08", "09", "10", "20", "25", "30", "x-1", "-5")]


def test_a_file_gives_rows_of_values(lab):
    (lab.directory / "grid.csv").write_bytes(b'\xef\xbb\xbflr,text\r\n0.1,"a, ""b"""\r\n\r\n0.2,it\'s 1-3\r\n')
    assert dry(lab, "--param-file", "grid.csv", "--param", "n=1,2", "echo", "{lr}", "{text}", "{n}") == [
        "echo 0.1 'a, \"b\"' 1", "echo 0.1 'a, \"b\"' 2", "echo 0.2 'it'\\''s 1-3' 1", "echo 0.2 'it'\\''s 1-3' 2"]


@pytest.mark.parametrize("text, message", [
    ("a,b\n1\n", "grid.csv:2: 1 value for 2 parameters"),
    ("a,b\n\n1,2,3\n", "grid.csv:3: 3 values for 2 parameters"),
    ('a\n"x\n', "grid.csv:2: the quotation mark is not closed"),
    ('a\n"x"y\n', "grid.csv:2: expected a comma"),
    ("a\n", "at least one line of values"),
    ("", "at least one line of values"),
    ("a b\n1\n", "grid.csv:1: 'a b' is not a valid parameter name"),
    ("a\x1b[31m \n1\n", r"grid.csv:1: 'a\x1b[31m ' is not a valid parameter name"),
    pytest.param(",".join(f"n{n}" for n in range(1001)) + "\n", "grid.csv:1: more than 1000 names", id="many names"),
    ("a,a\n1,2\n", "parameter 'a' is given twice"),
    (None, "cannot read 'grid.csv': No such file"),
])
def test_files_of_parameters_that_make_no_sense_are_refused(lab, text, message):
    if text is not None:
        (lab.directory / "grid.csv").write_text(text)
    result = lab.result("add", "--no-start", "--param-file", "grid.csv", "echo", "{a}", "{b}")
    assert result.returncode == 2 and message in result.stderr, result.stderr
    assert not lab.journal.exists()


@pytest.mark.parametrize("words, message", [
    (["--param", "lr=1,2", "echo", "{Lr}"], "parameter 'lr': the command does not contain {lr}"),
    (["--param", "lr", "echo", "{lr}"], "expected NAME=VALUE,VALUE…"),
    (["--param", "=1", "echo"], "expected NAME=VALUE,VALUE…"),
    (["--param", "n=5-1", "echo", "{n}"], "5-1 is reversed"),
    (["--param", "n=1-2000", "--param", "m=1-2000", "echo", "{n}{m}"], "more than 1000000 jobs"),
    (["--param", "n=1-99999999", "echo", "{n}"], "more than 1000000 values"),
    (["--param", "n=1-1000000,x", "echo", "{n}"], "more than 1000000 values"),
    (["--param", "n=x,1-1000000", "echo", "{n}"], "more than 1000000 values"),
    (["--param", "n=1", "--zip", "echo", "{n}"], "--zip: nothing to pair"),
    (["--param", "n=1", "--array", "1-3", "echo", "{n}"], "--array cannot be used with --param"),
    (["--param", "n=1", "-"], "cannot be used with commands from standard input"),
    (["--array", "1-10%2", "echo"], "a limit with % is not supported"),
    (["--array", "3-1", "echo"], "expected indices"),
    (["--array", "x", "echo"], "expected indices"),
    (["--array", "", "echo"], "expected indices"),
    (["--array", "1-4294967296", "echo"], "at most 1000000 indices"),
])
def test_sweeps_that_make_no_sense_are_refused(lab, words, message):
    result = lab.result("add", "--no-start", *words)
    assert result.returncode == 2 and message in result.stderr, result.stderr
    assert not lab.journal.exists()


def test_values_are_arguments_and_never_code(lab):
    (lab.directory / "v.csv").write_text("v\n$(touch broken)\n'; touch broken; '\na  b\n\n\"x\ny\"\n")
    lab.gpuq("add", "--no-start", "--param-file", "v.csv", "--", "printf", "<%s>", "{v}", "--v={v}")
    lab.gpuq("run", "--quiet")
    logs = sorted((lab.directory / "logs").glob("job*.log"))
    assert {path.read_text() for path in logs} == {
        f"<{v}><--v={v}>" for v in ("$(touch broken)", "'; touch broken; '", "a  b", "x\ny")}
    assert not (lab.directory / "broken").exists()


@pytest.mark.parametrize("command", [
    ["echo {v}"],
    ["echo \"{v}\""],
    ["sh", "-c", "echo {v}"],
    ["sh", "-c", "{v}"],
    ["bash", "-lc", "{v}"],
    ["zsh", "-fc", "{v}"],
    ["python3", "-Ic", "{v}"],
    ["sh", "-cx", "{v}"],
    ["bash", "-c", "-x", "{v}"],
    ["sh", "-c", "--", "{v}"],
    ["python3", "--command={v}"],
    ["ssh", "host", "{v}"],
    ["{v}", "x"],
])
def test_values_with_special_characters_are_refused_where_they_could_become_code(lab, command):
    (lab.directory / "v.csv").write_text("v\nplain\n$(touch broken)\n")
    result = lab.result("add", "--no-start", "--param-file", "v.csv", "--", *command)
    assert result.returncode == 2 and "value '$(touch broken)' of 'v' would become part of a script" in result.stderr
    assert not lab.journal.exists()
    lab.gpuq("add", "--no-start", "--param", "v=plain,0.1,a/b.c", "--", *command)


@pytest.mark.parametrize("value", ["@options", "|touch broken"])
def test_values_with_a_special_beginning_do_not_begin_an_argument(lab, value):
    (lab.directory / "v.csv").write_text(f"v\nplain\n{value}\n")
    for words in (["{v}"], ["{v}.c"]):
        result = lab.result("add", "--no-start", "--param-file", "v.csv", "--", "gcc", *words)
        assert result.returncode == 2 and f"value '{value}' of 'v' begins with '{value[0]}'" in result.stderr, result
    result = lab.result("add", "--no-start", "--param", "v=@x", "gcc {v}")
    assert result.returncode == 2 and "value '@x' of 'v' begins with '@'" in result.stderr, result
    assert not lab.journal.exists()
    lab.gpuq("add", "--no-start", "--param-file", "v.csv", "--", "gcc", "./{v}", "--v={v}")
    lab.gpuq("add", "--no-start", "--param", "v=-1,+2,[x],/x", "--", "gcc", "{v}")


def test_only_known_names_in_braces_are_replaced(lab):
    assert dry(lab, "--param", "a=1", "echo {a} {b} ${a} {} {{a}} {a,b}") == ["echo 1 {b} ${a} {} {1} {a,b}"]


def test_an_array_finds_its_index_in_the_environment(lab):
    assert dry(lab, "--array", "1,3", "train.sh") == ["GPUQ_ARRAY_INDEX=1 train.sh", "GPUQ_ARRAY_INDEX=3 train.sh"]
    ids = lab.gpuq("add", "--no-start", "--array", "7,0-4:2,2", "echo $GPUQ_ARRAY_INDEX >> ran").split()
    assert ids == ["1", "2", "3", "4"]
    lab.add("echo none${GPUQ_ARRAY_INDEX-} >> ran", env={"GPUQ_ARRAY_INDEX": "9"})
    lab.gpuq("run", "--quiet")
    assert sorted(lab.ran()) == ["0", "2", "4", "7", "none"]
    assert [lab.job(number)["array_index"] for number in (1, 4, 5)] == [0, 7, None]


def test_the_jobs_of_a_sweep_form_a_group_that_every_command_accepts(lab):
    lab.add("true")
    result = lab.result("add", "--no-start", "--hold", "--param", "n=1-3", "echo {n} >> ran")
    assert (result.stdout, result.stderr) == ("2\n3\n4\n", "gpuq: 3 jobs, group g2\n")
    answer = json.loads(lab.gpuq("add", "--no-start", "--hold", "--json", "--array", "1-2", "echo array >> ran"))
    assert (answer["ids"], answer["group"]) == ([5, 6], "g5")
    assert [(job["id"], job["group"]) for job in json.loads(lab.gpuq("status", "--json", "g2,5", "g2"))] == [
        (5, "g5"), (2, "g2"), (3, "g2"), (4, "g2"), (2, "g2"), (3, "g2"), (4, "g2")]
    assert lab.job(1)["group"] is None
    lab.gpuq("cancel", "g5")
    lab.gpuq("cancel", "3")
    lab.gpuq("urgent", "g2")
    lab.gpuq("release", "g2")
    lab.gpuq("wait", "2", "4")
    assert sorted(lab.ran()) == ["1", "3"]
    assert lab.gpuq("logs", "g2") == ""
    assert "Completed" in lab.gpuq("why", "g2")
    lab.gpuq("retry", "g2")
    lab.gpuq("wait", "g2")
    assert sorted(lab.ran()) == ["1", "1", "2", "3", "3"]
    result = lab.result("cancel", "g2")
    assert result.returncode == 0 and "nothing to do: 'cancel' does not apply to the state of any of these jobs" in result.stderr


@pytest.mark.parametrize("command", ["cancel", "status", "logs", "why", "wait", "hold"])
def test_a_group_that_does_not_exist(lab, command):
    lab.add("true")
    result = lab.result(command, "g7")
    assert result.returncode == (125 if command == "wait" else 2) and "group g7: no such group" in result.stderr
    result = lab.result(command, "gx")
    assert result.returncode == (125 if command == "wait" else 2) and "job 'gx': no job has this id or name" in result.stderr


def test_a_group_survives_a_prune(lab):
    lab.gpuq("add", "--no-start", "--hold", "--param", "n=0,1", "--", "sh", "-c", "exit {n}")
    lab.gpuq("release", "1")
    lab.gpuq("wait", "1")
    lab.gpuq("prune")
    assert [job["id"] for job in json.loads(lab.gpuq("status", "--json", "g1"))] == [2]


def test_older_reader_refuses_a_journal_with_a_member_that_it_must_know(lab):
    lab.gpuq("add", "--no-start", "--array", "1", "true")
    assert [event["must"] for event in lab.events() if event["event"] == "add"] == [True]
    lab.add("true")
    assert "must" not in lab.events()[-1]
    sealing.append(lab.journal, {"event": "add", "id": 3, "command": "true", "future": 1})
    assert len(lab.jobs()) == 3
    sealing.append(lab.journal, {"event": "add", "id": 4, "command": "true", "future": 1, "must": True})
    assert "a newer version of gpuq" in lab.result("status").stderr


def test_dry_run_controls_no_terminal(lab):
    """The values of a file may come from another user."""
    (lab.directory / "values.csv").write_text("lr\n\x1b]0;title\x07\n")
    ours, theirs = pty.openpty()
    subprocess.run([GPUQ, "add", "--dry-run", "--param-file", "values.csv", "--", "echo", "{lr}"], cwd=lab.directory, env=lab.environment,
                   stdout=theirs, timeout=LIMIT, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    assert b"\\x1b]0;title\\x07" in shown and b"\x1b" not in shown


@pytest.mark.parametrize("words", [("add", "--param-file", "input", "echo", "{a}"), ("run", "--commands-file", "input"),
                                   ("add", "--config", "input", "true")], ids=["parameters", "commands", "configuration"])
def test_file_with_a_lease_is_not_waited_for_long(lab, words):
    """The holder of the lease ignores the kernel's signal; opening the file would take 45 seconds."""
    (lab.directory / "input").write_text("a\n1\n")
    fd = os.open(lab.directory / "input", os.O_RDWR)
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    try:
        result = lab.result(*words)
    finally:
        os.close(fd)
        signal.signal(signal.SIGIO, signal.SIG_DFL)
    assert result.returncode == 2, result
    assert "cannot read 'input': another process has a lease on it; try again later" in result.stderr
    assert not lab.journal.exists()
