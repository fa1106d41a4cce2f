# SPDX-License-Identifier: MIT
"""Names of files of another user on the command line, because the shell has expanded a pattern."""
import os
import pathlib
import re
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["GD_BUILD"])
GPUQ = os.environ["GPUQ"]
LIMIT = 60

# Sets the title of a terminal, clears it, prints a line that looks like one of gpuq, and reverses text.
HOSTILE = "d\x1b]0;PWN\x07\u009b2J\ngpuq: all is well\u202e.mp3"
SHOWN = r"d\x1b]0;PWN\x07\u009b2J\ngpuq: all is well\u202e.mp3"
COMMANDS = re.findall(r"^  ([a-z]+) ", subprocess.check_output([GPUQ, "help", "--all"], text=True), re.M)


def check_text(result, *shown):
    """The message has these words, and nothing that is not text."""
    assert result.returncode in (2, 125), result
    for words in shown:
        assert words in result.stderr, result
    assert [c for c in result.stderr.replace("\n", "") if not c.isprintable()] == [], result
    assert "gpuq: all is well" not in [line[:17] for line in result.stderr.splitlines()], result


def skip_unless_built(command):
    if command in ("slurm", "top", "web") and not (BUILD / f"gpuq-{command}").exists():
        pytest.skip(f"gpuq-{command} was not built")


# ---- Commands ----------------------------------------------------------------------


@pytest.fixture(name="folder")
def make_folder(launch):
    """The input folder 'in' in which another user has put a folder, and a program with a later name."""
    launch.put("0/x.wav", "rec.wav")
    (launch.input / "1").write_text("#!/bin/sh\ntouch planted\n")
    (launch.input / "1").chmod(0o755)

    def run(script):
        return subprocess.run(["sh", "-c", script], cwd=launch.directory, env={**launch.environment, "gpuq": GPUQ}, capture_output=True,
                              text=True, timeout=LIMIT, check=False, stdin=subprocess.DEVNULL)
    launch.sh = run
    return launch


@pytest.mark.parametrize("script", ["--input-dir in/* -- wc -c {file}", "--input-dir in/*", "--pattern '*.wav' --input-dir in/* --force",
                                    "--input-dir in in/1 -- wc -c {file}"])
def test_expanded_pattern_is_not_a_command(folder, script):
    result = folder.sh(f'"$gpuq" launch --output-dir out {script}')
    assert result.returncode == 2 and not (folder.directory / "planted").exists(), result
    assert result.stderr.startswith("gpuq launch: unexpected argument 'in/1'; quote patterns, and write -- before the command\n"), result
    assert not folder.output.exists()


def test_value_of_an_option_is_not_a_separator(folder):
    result = folder.sh('"$gpuq" launch --output-dir out --input-dir in --set k=v --json -- in/1')
    assert result.returncode == 2 and "unexpected argument 'in/1'" in result.stderr, result
    assert not (folder.directory / "planted").exists()


def test_command_after_the_separator_runs(folder):
    result = folder.sh('"$gpuq" launch --output-dir out --input-dir in -- sh -c \'echo "$@" > {output}/args\' -- --force -- {name}')
    assert result.returncode == 0, result
    assert (folder.output / "rec/args").read_text() == "--force -- rec.wav\n"


# ---- Messages ----------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_options_are_printed_as_text(lab, command):
    if command == "help":
        pytest.skip("has no options")
    skip_unless_built(command)
    check_text(lab.result(command, "--" + HOSTILE), f"--{SHOWN}'", "--help'")
    check_text(lab.result(command, f"--{HOSTILE}=x\ny"), rf"--{SHOWN}=x\ny'")
    check_text(lab.result(command, "-\x1b"), r"'\x1b'")


@pytest.mark.parametrize("command", ["status", "launch", "map"])
@pytest.mark.parametrize("size", [4096, 8192, 100_000])
def test_long_unknown_options_are_printed_as_text(lab, command, size):
    """They are longer than the buffer of a stream."""
    times = size // len(HOSTILE.encode()) + 1
    check_text(lab.result(command, "--" + HOSTILE * times), f"--{SHOWN * times}'", "--help'")


@pytest.mark.parametrize("word, shown", [("-\n", r"'\n'"), ("-\r", r"'\r'"), ("--\n", r"'--\n'"), ("--\udcff\n", r"'--\xff\n'")])
def test_short_unknown_options_are_printed_as_text(lab, word, shown):
    result = lab.result("status", word)
    check_text(result, shown)
    assert len(result.stderr.splitlines()) == 2, result


@pytest.mark.parametrize("word", ["--jo=a\nb", "--j=a\nb", "--json=a\nb", "--st=\x1b\ngpuq: all is well", "--s=\x1b\ngpuq: all is well"])
def test_rejected_values_of_options_are_printed_as_text(lab, word):
    """Ambiguous options, and options without a value."""
    check_text(lab.result("status", word))


@pytest.mark.parametrize("command", ["config", "doctor", "gpus", "launch", "map", "prune", "queues", "run", "slurm", "verify", "web"])
def test_unexpected_arguments_are_printed_as_text(lab, command):
    skip_unless_built(command)
    check_text(lab.result(command, HOSTILE), f"'{SHOWN}'")


@pytest.mark.parametrize("words", [("add", HOSTILE, "--", "x"), ("exec", HOSTILE, "--", "x"), ("add", HOSTILE, "--mem", "1G"),
                                   ("launch", "--balance", HOSTILE), ("launch", f"--set={HOSTILE}"), ("map", "--set", HOSTILE),
                                   ("report", f"--json={HOSTILE}"), (f"--{HOSTILE}",), (HOSTILE,)])
def test_values_are_printed_as_text(lab, words):
    check_text(lab.result(*words), r"d\x1b]0;PWN\x07")


@pytest.mark.parametrize("words", [("add", "--num-gpus"), ("add", "--gpus"), ("add", "--mem"), ("add", "--after"), ("edit", "1", "--begin"),
                                   ("logs", "--tail"), ("wait", "--timeout"), ("prune", "--older"), ("report", "--since"), ("cancel",),
                                   ("info",), ("why",), ("pause",), ("launch", "--retries"), ("launch", "--timeout"), ("map", "--batch"),
                                   ("launch", "--input-dir", "in", "--slurm", "--gres=gpu:1", "--slurm-lease"), ("status", "--state"),
                                   ("status",), ("run", "--gpus"), ("run", "--slurm", "--gres=gpu:1", "--max-nodes")])
def test_wrong_values_are_printed_as_text(lab, words):
    check_text(lab.result(*words, HOSTILE))


def test_later_messages_are_printed_too(lab):
    """The filter of messages is removed after the arguments are parsed, even if the program ends there."""
    with open("/dev/full", "w") as full:
        for command in ("run", "launch"):
            _, err = lab.start(command, "--help", stdout=full).communicate(timeout=LIMIT)
            assert err == b"gpuq: cannot write the output: No space left on device\n"
