# SPDX-License-Identifier: MIT
"""gd_dispatcher_run_shown(): a program of a user, with a panel."""
import os
import pathlib
import re
import signal
import subprocess

import pytest

from terminal import Terminal

BUILD = pathlib.Path(os.environ["GD_BUILD"])
PROGRAM = BUILD / "tests/shown/shown_program"
PRINTING = BUILD / "tests/shown/printing_program"


@pytest.fixture
def shown(tmp_path):
    started = []

    def start(*words, gpus="sim:2", **env):
        terminal = Terminal([PROGRAM, *words], cwd=tmp_path, env={"GPUQ_GPUS": gpus, "NO_COLOR": "", **env})
        started.append(terminal)
        return terminal

    yield start
    for terminal in started:
        terminal.end()


def test_the_panel_names_tasks_and_stays_at_the_end(shown, tmp_path):
    terminal = shown("wait:one", "wait:one", "fail", "a", "b")
    terminal.until(lambda screen: sum("running       <wait:one>" in line for line in screen.text()) == 2)
    assert not terminal.screen.cursor
    (tmp_path / "one").touch()
    assert terminal.wait() == 0
    assert terminal.screen.cursor
    text = terminal.screen.everything()
    assert re.search(r"^\n?shown_program  ━+  100%  5/5\n1 failed · .*took .*\n\nGPU  STATUS.*\n  0  finished .*\n  1  finished .*\n"
                     r"4 completed, 1 failed\n$", text), text


def test_printed_lines_stand_above_the_panel(shown, tmp_path):
    terminal = shown(*(f"print:worker {n}" for n in range(100)), "say:here", "wait:one", "print:\x1b[2Jno \x1b[5Aharm")
    terminal.shows("<wait:one>")
    terminal.until(lambda screen: "program: here" in screen.everything(), "the program's output")
    (tmp_path / "one").touch()
    assert terminal.wait() == 0
    text = terminal.screen.everything()
    above, picture = text.split("shown_program  ")
    assert sorted(int(n) for n in re.findall(r"^worker (\d+)$", above, re.MULTILINE)) == list(range(100))
    assert "\nno harm\n" in above
    assert "100%  103/103" in picture


@pytest.mark.parametrize("how, status", [("exit", 3), ("abort", -signal.SIGABRT)])
def test_a_program_that_ends_in_a_callback_leaves_a_usable_terminal(shown, how, status):
    terminal = shown("say:first", how)
    assert terminal.wait() == status
    assert terminal.screen.cursor
    assert "last words\n" in terminal.screen.everything()


def test_ctrl_c_stops_then_cancels_and_says_so(shown, tmp_path):
    terminal = shown(*["wait:never"] * 30, gpus="sim:1")
    terminal.shows("<wait:never>")
    terminal.type("\x03")
    terminal.shows("Stopping after the running tasks. Ctrl-C again cancels them.")
    terminal.shows("29 cancelled")
    terminal.type("\x03")
    assert terminal.wait() == 1
    text = terminal.screen.everything()
    assert terminal.screen.cursor
    assert "error: interrupted by SIGINT (Ctrl-C)" in text
    assert "0%  0/30" in text and "0 failed · 30 cancelled" in text
    assert "100%" not in text


def test_fourth_ctrl_c_ends_the_program_and_gives_the_terminal_back(shown):
    terminal = shown("block")
    terminal.until(lambda screen: not screen.cursor, "the panel")
    for words in ["Stopping after the running tasks.", "Cancelling running tasks.", "Killing the workers. Ctrl-C again ends the program."]:
        terminal.type("\x03")
        terminal.shows(words)
    terminal.type("\x03")
    assert terminal.wait() == -signal.SIGINT
    assert terminal.screen.cursor


def test_a_run_that_is_stopped_shows_how_far_it_got(shown):
    terminal = shown("stop", *["a"] * 5000)
    assert terminal.wait() == 1
    text = terminal.screen.everything()
    assert terminal.screen.cursor
    assert "error: stopped by gd_dispatcher_stop()" in text
    assert text.count("shown_program  ") == 1


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colors_gets_lines(shown, env):
    terminal = shown("print:worker", "a", **env)
    assert terminal.wait() == 0
    text = terminal.screen.everything()
    assert "worker" in text.splitlines()
    assert re.search(r"^shown_program: 100%, 2/2 done, 0 failed, .*took", text, re.MULTILINE)
    assert "━" not in text


def test_run_on_a_pipe_writes_plain_lines(tmp_path):
    result = subprocess.run([PROGRAM, "a", "fail"], cwd=tmp_path, env={**os.environ, "GPUQ_GPUS": "sim:1"},
                            capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0
    assert re.fullmatch(r"shown_program: 100%, 2/2 done, 1 failed, .*took \S+\n", result.stderr)
    assert result.stdout == "1 completed, 1 failed\n"


def test_memory_of_real_gpus_is_shown(shown, tmp_path):
    (tmp_path / "sys").mkdir()
    (tmp_path / "nvml").write_text("card\nuuid=GPU-00000000-0000-0000-0000-000000000000\nname=Card\npci=0:1:0\n"
                                   f"memory={80 << 30} {60 << 30} {20 << 30} 0\nmode=0\n")
    terminal = shown("wait:one", gpus=None, CUDA_VISIBLE_DEVICES=None, GPUQ_SYSFS_ROOT=str(tmp_path / "sys"),
                     GPUQ_NVML_LIBRARY=str(BUILD / "tests/gpu/libnvidia-ml.so.1"), FAKE_NVML=str(tmp_path / "nvml"))
    try:
        terminal.until(lambda screen: any(re.search(r"<wait:one> .* 25%", line) for line in screen.text()), "memory")
        assert any("MEMORY" in line for line in terminal.screen.text())
    finally:
        (tmp_path / "one").touch()
    assert terminal.wait() == 0


class Recorder:
    """Records all output, instead of a screen."""

    def __init__(self):
        self.parts = []

    def feed(self, text):
        self.parts.append(text)

    def text(self):
        return self.plain().splitlines()[-20:]

    def plain(self):
        """Without escape sequences, and with terminal newlines converted."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", "".join(self.parts)).replace("\r", "")

    def numbers(self):
        return [int(n) for n in re.findall(r"^line (\d{6}) 0{87}$", self.plain(), re.MULTILINE)]


@pytest.fixture
def run_printing(tmp_path):
    started = []

    def run(mode):
        terminal = Terminal([PRINTING, mode], cwd=tmp_path, env={"NO_COLOR": ""})
        terminal.screen = Recorder()
        started.append(terminal)
        assert terminal.wait() == 0
        return terminal.screen

    yield run
    for terminal in started:
        terminal.end()


def test_lines_that_fill_the_pipe_after_its_last_reading_are_printed(run_printing):
    screen = run_printing("late")
    assert sorted(screen.numbers()) == list(range(2000))
    assert screen.plain().endswith("the program ends\n")


def test_a_thread_that_prints_all_the_time_does_not_stop_the_end(run_printing):
    screen = run_printing("always")
    first, end = map(int, re.search(r"^after the run: lines (\d+) to (\d+)$", screen.plain(), re.MULTILINE).groups())
    assert first > 0 and end >= first + 200
    numbers = screen.numbers()
    assert len(set(numbers)) == len(numbers)
    assert [n for n in numbers if n >= first] == list(range(first, end))


@pytest.mark.parametrize("mode", ["quiet", "yes"])
def test_a_child_that_keeps_the_pipe_open_does_not_stop_the_end(run_printing, mode):
    assert run_printing(mode).plain().endswith("the program ends\n")


def test_a_child_that_prints_all_the_time_does_not_stop_a_program_that_exits(run_printing):
    run_printing("exit")


def test_example_shows_panel_and_messages(tmp_path):
    terminal = Terminal([BUILD / "examples/shown", "60", "5"], cwd=tmp_path, env={"GPUQ_GPUS": "sim:4", "NO_COLOR": ""})
    try:
        assert terminal.wait() == 0
        text = terminal.screen.everything()
        assert "render  ━" in text and "59 of 60 frames, 1 failed, 0 cancelled" in text
        assert "frame 49: texture not found" in text
        assert "frame 32 has only a few samples" in text[:text.index("render  ")]
    finally:
        terminal.end()
