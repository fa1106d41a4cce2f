# SPDX-License-Identifier: MIT
"""The live panel of `gpuq run`, in a terminal."""
import errno
import os
import re
import signal

import pytest

from lab import GPUQ
from terminal import Terminal


@pytest.fixture
def run(lab):
    started = []

    def start(*words, columns=80, rows=24, **env):
        lab.environment["NO_COLOR"] = ""
        terminal = Terminal([GPUQ, "run", "--min-free-mem-mb", "1", "--jobs-per-gpu", "1", *words], columns, rows,
                            lab.directory, {**lab.environment, **env})
        started.append(terminal)
        return terminal

    yield start
    for terminal in started:
        terminal.end()


def gate(lab, name):
    """A command that waits until the gate is opened."""
    os.mkfifo(lab.directory / name)
    return f"cat {name}"


def open_gate(lab, name):
    """Opens the gate once a command waits there; fails instead of hanging if none ever does."""
    def opened():
        try:
            os.close(os.open(lab.directory / name, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            assert error.errno == errno.ENXIO
            return False
        return True

    lab.until(opened, f"a command at the gate '{name}'")


def panels(text):
    """The number of panels on the screen."""
    return text.count("gpuq run  ")


def test_the_panel_shows_what_runs_and_stays_at_the_end(lab, run):
    lab.commands(gate(lab, "one"), gate(lab, "two"), "exit 3")
    terminal = run()
    terminal.shows("2 running")
    terminal.until(lambda screen: sum("  running   " in line for line in screen.text()) == 2)
    assert any(re.search(r"^  0  running       #1 cat one ", line) for line in terminal.screen.text())
    assert not terminal.screen.cursor
    open_gate(lab, "one")
    terminal.shows("2/3")
    open_gate(lab, "two")
    assert terminal.wait() == 1
    assert terminal.screen.cursor
    text = terminal.screen.everything()
    assert panels(text) == 1
    assert re.search(r"gpuq run  ━+  100%  3/3\n1 failed · .*took .*\n\nGPU  STATUS.*\n  0  finished .*\n  1  finished .*\n\n1 failed: 3 · to run again: gpuq retry 3\n$",
                     text), text
    # Each end has a line above the panel; starts appear only in the panel.
    above = text[:text.index("gpuq run")]
    assert re.search(r"\[✓\] 1 cat one → GPU 0 → Completed", above)
    assert re.search(r"\[!\] 3 exit 3 → GPU \d → Failed \(exit 3\)", above)
    assert "Running" not in above


def test_cancelled_job_does_not_count_as_failed_on_its_gpu(lab, run):
    lab.commands(gate(lab, "one"), gate(lab, "two"))
    terminal = run()
    terminal.until(lambda screen: sum("  running   " in line for line in screen.text()) == 2)
    lab.gpuq("cancel", "1")
    open_gate(lab, "two")
    terminal.wait()
    rows = re.findall(r"^ +[01]  finished +(\d+) +(\d+)", terminal.screen.everything(), re.MULTILINE)
    assert sorted(rows) == [("0", "0"), ("1", "0")], terminal.screen.everything()


def one_picture(screen, columns):
    """The redrawn panel, as wide as the terminal: head, facts, perhaps an empty line, titles, two
    GPUs; nothing below."""
    lines = "\n".join(screen.text()).strip().split("\n")
    heads = [number for number, line in enumerate(lines) if line.startswith("gpuq run")]
    return len(heads) == 1 and re.match(r"gpuq run .* \d/3$", lines[heads[0]]) \
        and abs(len(lines[heads[0]]) - (columns - 1)) < 4 \
        and 5 <= len(lines) - heads[0] <= 6 and re.match(r" *1 ", lines[-1])


@pytest.mark.parametrize("reflow", [True, False], ids=["wraps", "cuts"])
def test_resizing_leaves_no_debris(lab, run, reflow):
    lab.commands(gate(lab, "one"), gate(lab, "two"), "true")
    terminal = run(columns=120, rows=30)
    terminal.shows("2 running")
    for columns, rows in [(60, 20), (40, 10), (100, 40), (33, 8), (80, 24)]:
        terminal.resize(columns, rows, reflow)
        terminal.until(lambda screen: one_picture(screen, columns), f"one picture of {columns} columns")
    open_gate(lab, "one")
    open_gate(lab, "two")
    assert terminal.wait() == 0
    text = terminal.screen.everything()
    assert panels(text) == 1, text
    assert text.count("─") < 80 and text.count("GPU  STATUS") == 1, text


def test_lines_stay_above_the_panel_even_if_there_are_many(lab, run):
    lab.commands(*["true"] * 300)
    terminal = run()
    assert terminal.wait() == 0
    text = terminal.screen.everything()
    assert panels(text) == 1
    assert sorted(int(n) for n in re.findall(r"\[✓\] (\d+) true", text)) == list(range(1, 301))


def test_lines_of_long_commands_keep_their_outcome(lab, run):
    lab.commands("exit 3; : " + "x" * 100)
    terminal = run()
    assert terminal.wait() == 1
    assert re.search(r"\[!\] 1 exit 3; : x+.* Failed \(exit 3\)  \d", terminal.screen.everything())


def test_strange_commands_stay_in_their_row(lab, run):
    lab.commands("cat one # 转录 /数据/语音/第一部分.wav \x1b[2J \u202e שלום é̂ 🚀 " + "x" * 200)
    os.mkfifo(lab.directory / "one")
    terminal = run()
    terminal.shows("1 running")
    terminal.shows("cat one")
    open_gate(lab, "one")
    assert terminal.wait() == 0
    assert panels(terminal.screen.everything()) == 1


def test_more_gpus_than_lines_are_shown_in_columns(lab, run):
    lab.environment["GPUQ_GPUS"] = "sim:64"
    lab.commands(gate(lab, "one"))
    terminal = run()
    terminal.shows("● 1 running   ○ 63 idle")
    terminal.until(lambda screen: any(re.search(r"^ 0 ● .* │ 16 ○ .* │ 32 ○ .* │ 48 ○ ", line) for line in screen.text()))
    assert sum(bool(line) for line in terminal.screen.text()) <= 23
    open_gate(lab, "one")
    assert terminal.wait() == 0


def test_typed_keys_do_not_disturb_the_picture(lab, run):
    lab.commands(gate(lab, "one"))
    terminal = run()
    terminal.shows("1 running")
    terminal.type("typed\n\n\n")
    open_gate(lab, "one")
    assert terminal.wait() == 0
    text = terminal.screen.everything()
    assert panels(text) == 1 and "typed" not in text, text


def test_interruption_is_shown_and_the_cursor_is_restored(lab, run):
    lab.commands(gate(lab, "one"), "true")
    lab.environment["GPUQ_GPUS"] = "sim:1"
    terminal = run()
    terminal.shows("1 running")
    terminal.shows("running ")
    terminal.type("\x03")
    terminal.shows("No new jobs start. Ctrl-C again ends the running ones.")
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert terminal.screen.cursor


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGABRT, signal.SIGUSR1])
def test_a_signal_that_ends_it_gives_the_terminal_back(lab, run, how):
    lab.commands(gate(lab, "one"))
    terminal = run()
    terminal.shows("1 running")
    os.kill(terminal.pid, how)
    assert terminal.wait() == -how
    assert terminal.screen.cursor


def test_panel_that_continues_after_ctrl_z_is_drawn_below(lab):
    lab.commands(gate(lab, "one"))
    # Only a shell with job control can stop it.
    terminal = Terminal(["dash", "-i"], cwd=lab.directory, env={**lab.environment, "PS1": "ready> "})
    try:
        terminal.shows("ready>")
        terminal.type(f"'{GPUQ}' run --min-free-mem-mb 1\n")
        terminal.shows("1 running")
        terminal.type("\x1a")
        terminal.shows("Stopped")
        assert terminal.screen.cursor
        terminal.type("fg\n")
        terminal.until(lambda screen: not screen.cursor, "a picture")
        open_gate(lab, "one")
        terminal.shows("100%")
        terminal.shows("ready>")
        terminal.until(lambda screen: screen.cursor, "the cursor")
        terminal.type("echo shown again\n")
        terminal.until(lambda screen: sum("shown again" in line for line in screen.text()) == 2, "keys and their echo")
        terminal.type("exit\n")
        assert terminal.wait() == 0
        text = terminal.screen.everything()
        assert panels(text) == 2, text
        assert text.index("0/1") < text.index("Stopped") < text.index("100%"), text
    finally:
        terminal.end()


@pytest.mark.parametrize("words, env", [(["--no-panel"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})])
def test_without_a_panel_there_are_only_lines(lab, run, words, env):
    lab.commands("true")
    terminal = run(*words, **env)
    assert terminal.wait() == 0
    text = terminal.screen.everything()
    assert panels(text) == 0
    assert re.search(r"^\[→\] 1 true → GPU 0 → Running \(PID \d+\)\n\[✓\] 1 true → GPU 0 → Completed", text), text


def test_quiet_shows_the_panel_without_lines(lab, run):
    lab.commands("true")
    terminal = run("--quiet")
    assert terminal.wait() == 0
    text = terminal.screen.everything()
    assert text.lstrip().startswith("gpuq run  ") and "[✓]" not in text


def test_json_is_not_in_the_picture(lab, run, tmp_path):
    lab.commands("true")
    terminal = Terminal(["sh", "-c", f"'{GPUQ}' run --json >out.json"], cwd=lab.directory, env=lab.environment)
    try:
        terminal.shows("1/1")
        assert terminal.wait() == 0
        assert panels(terminal.screen.everything()) == 1
        assert '"status"' in (lab.directory / "out.json").read_text()
    finally:
        terminal.end()


def test_at_80_columns_a_long_command_leaves_room_for_exit_code_and_duration(lab, run):
    common = "true --config configs/base.yaml --learning-rate 3e-4 --optimizer adamw --scheduler cosine"
    lab.commands(f"{common} --seed 1", f"{common} --seed 2; exit 3")
    terminal = run("--gpus", "sim:1")
    assert terminal.wait() == 1
    lines = terminal.screen.everything().split("\n")
    assert any(re.search(r"^\[!\] 2 true .*…--seed 2; exit 3 → GPU 0 → Failed \(exit 3\)  \d+(\.\d+)?m?s$", line) for line in lines), lines
    assert all(len(line) < 80 for line in lines)
