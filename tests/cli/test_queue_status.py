# SPDX-License-Identifier: MIT
"""The list of jobs on a terminal: as wide as the terminal, and as high when it is watched."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import unicodedata

import pytest

from lab import GPUQ, LIMIT


class Terminal:
    def __init__(self, lab, columns, rows):
        self.lab = lab
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text = b""

    def start(self, *words, **env):
        process = subprocess.Popen([GPUQ, *words], cwd=self.lab.directory, stdin=subprocess.DEVNULL, stdout=self.theirs,
                                   stderr=self.theirs, env={**self.lab.environment, "TERM": "xterm", **env})
        self.lab.started.append(process)
        return process

    def lines(self, *words, **env):
        """The output of a command, without colors."""
        process = self.start(*words, **env)
        os.close(self.theirs)
        try:
            while piece := os.read(self.ours, 65536):
                self.text += piece
        except OSError:  # EIO: the other side is closed
            pass
        assert process.wait(timeout=LIMIT) == 0
        return re.sub(r"\033\[[0-9;]*m", "", self.text.decode()).replace("\r\n", "\n").splitlines()

    def screen(self, process, done):
        """The frames of a program that redraws, until one is `done`."""
        while True:
            assert select.select([self.ours], [], [], LIMIT)[0], self.text
            self.text += os.read(self.ours, 65536)
            frames = re.sub(rb"\033\[[0-9;]*m", b"", self.text).split(b"\033[H")[1:]
            for frame in (frame.decode() for frame in frames if b"\033[J" in frame):
                lines = frame.replace("\033[K", "").replace("\033[J", "").replace("\r\n", "\n").splitlines()
                if done(lines):
                    process.kill()
                    return lines


def columns_of(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def fill(lab):
    lab.add("--name", "a-rather-long-name-for-a-job", "true " + "long " * 30)
    lab.add("--log-dir", "/dev/null/nowhere", "true")
    lab.add("--name", "odd\udcff\n\t\x1b[31mname", "echo ünïcödé 日本語")
    lab.gpuq("run", code=1)
    for number in range(20):
        lab.add(f"true {number}")


@pytest.mark.parametrize("columns", [20, 40, 57, 80, 200])
def test_lines_are_cut_to_the_terminal_and_aligned(lab, columns):
    fill(lab)
    *jobs, counts = Terminal(lab, columns, 24).lines("status")
    assert len(jobs) == 23 and counts == "23 jobs: 20 pending, 2 completed, 1 failed"
    assert max(map(columns_of, jobs)) <= columns
    assert len({columns_of(line[:line.index(" → ")]) for line in jobs if " → " in line}) == 1


def test_commands_use_the_width_of_the_terminal(lab):
    command = "python train.py --model " + "m" * 80 + " --lr 0.1"
    lab.add(command)
    lab.add("true")
    wide = Terminal(lab, 200, 24).lines("status")
    assert command in wide[0]
    assert wide[0].index(" → ") == wide[1].index(" → ")
    narrow = Terminal(lab, 100, 24).lines("status")
    assert "…" in narrow[0] and "→ Pending" in narrow[0] and 40 < narrow[0].index(" → ")


def test_the_last_line_counts_the_jobs_that_are_listed(lab):
    for number in range(4):
        lab.add("--name", "x" if number < 3 else "y", "true")
    lab.gpuq("hold", "2")
    lab.gpuq("cancel", "4")
    last = lambda *words: lab.gpuq("status", *words).splitlines()[-1]  # noqa: E731
    assert last() == "4 jobs: 2 pending, 1 held, 1 cancelled"
    assert last("--name", "x") == "3 of 4 jobs: 2 pending, 1 held"
    assert last("--state", "held,cancelled") == "2 of 4 jobs: 1 held, 1 cancelled"
    assert last("1") == "1 of 4 jobs: 1 pending"
    assert last("--state", "running") == "0 of 4 jobs"


def test_a_watched_list_fits_the_terminal(lab):
    fill(lab)
    terminal = Terminal(lab, 80, 10)
    lines = terminal.screen(terminal.start("status", "--watch"), lambda lines: len(lines) > 1)
    assert len(lines) <= 9
    assert [line[4:6].strip() for line in lines[:-1]] == ["2", "4", "5", "6", "7", "8", "1", "3"]
    assert lines[-1] == "23 jobs: 20 pending, 2 completed, 1 failed; 15 not shown"


def test_a_watched_list_changes_with_the_queue_and_shows_what_runs(lab):
    for number in range(30):
        lab.add(f"echo {number} >> ran; until [ -e go ]; do sleep 0.01; done" if number == 17 else "true")
    lab.gpuq("hold", "19-30")
    lab.start("run")
    lab.until(lab.ran)
    terminal = Terminal(lab, 80, 8)
    watch = terminal.start("status", "--watch")
    lines = terminal.screen(watch, lambda lines: "1 running" in lines[-1] and "17 completed" in lines[-1])
    assert [line.split("]")[1].split()[0] for line in lines[:-1]] == ["18", "19", "20", "21", "16", "17"]
    assert "Running" in lines[0]
    (lab.directory / "go").touch()


def test_status_has_no_colors_with_no_color_and_selects_states(lab):
    fill(lab)
    terminal = Terminal(lab, 80, 24)
    lines = terminal.lines("status", "--state", "failed,completed", NO_COLOR="1")
    assert b"\033" not in terminal.text
    assert len(lines) == 4 and lines[-1].startswith("3 of 23 jobs: ")


def test_commands_are_complete_in_pipes_and_distinct_on_terminals(lab):
    commands = [f"python train.py --model resnet --dataset imagenet --learning-rate 0.001 --seed {seed}" for seed in range(3)]
    for command in commands:
        lab.add(command)
    lines = lab.gpuq("status").splitlines()
    assert [line[len("[ ] 1 "):line.index(" → ")] for line in lines[:-1]] == commands
    *lines, _ = Terminal(lab, 80, 24).lines("status")
    assert [line[len("[ ] 1 "):line.index(" → ")].rstrip()[-1] for line in lines] == ["0", "1", "2"]
    assert all("…" in line and "#" in line.split("Pending")[1] for line in lines)


def test_duration_and_exit_code_are_not_cut(lab):
    lab.add("--log-dir", "/dev/null/" + "nowhere" * 12, "true " + "long " * 30)
    lab.add("--name", "n" * 60, "exit 3; " + "long " * 30)
    lab.gpuq("run", code=1)
    first, second, _ = Terminal(lab, 80, 24).lines("status")
    assert re.search(r"Failed \(exit 3\)  [0-9.]+m?s", second)
    assert columns_of(first) <= 80 and "Failed (" in first


def test_failed_jobs_do_not_fill_a_watched_screen(lab):
    for _ in range(12):
        lab.add("exit 1")
    lab.gpuq("run", code=1)
    for _ in range(12):
        lab.add("true")
    terminal = Terminal(lab, 80, 10)
    lines = terminal.screen(terminal.start("status", "--watch"), lambda lines: len(lines) > 1)
    assert [line[4:6].strip() for line in lines[:-1]] == ["9", "10", "11", "12", "13", "14", "15", "16"]
