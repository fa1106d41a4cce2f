# SPDX-License-Identifier: MIT
"""gpuq exec and gpuq shell in a terminal, below a shell with job control."""
import os
import pathlib

import pytest

from lab import GPUQ
from terminal import Terminal

BLOCKER = "while [ ! -e go ]; do sleep 0.01; done"


class Shell:
    """bash in its own terminal; each prompt has a number."""

    def __init__(self, lab):
        self.lab = lab
        rc = lab.directory / "rc"
        rc.write_text(f"PATH={os.path.dirname(GPUQ)}:$PATH; PS1='<\\#> '; PS2=; unset PROMPT_COMMAND\n")
        self.inner = lab.directory / "innersh"
        self.inner.write_text("#!/bin/sh\nPS1='inner> ' exec bash --norc --noediting -i\n")
        self.inner.chmod(0o755)
        self.terminal = Terminal(["bash", "--noprofile", "--noediting", "--rcfile", rc, "-i"], cwd=lab.directory,
                                 env={**lab.environment, "TERM": "dumb", "SHELL": self.inner, "ENV": None, "INPUTRC": "/dev/null"})
        self.number = 1
        self.sees("<1>")

    def sees(self, text):
        self.terminal.until(lambda screen: text in screen.everything(), text)

    def keys(self, text):
        os.write(self.terminal.fd, text.encode())

    def types(self, line):
        """Types a line and waits for the next prompt."""
        self.keys(line + "\n")
        self.number += 1

    def prompt(self):
        self.sees(f"<{self.number}>")

    def does(self, line):
        self.types(line)
        self.prompt()


@pytest.fixture(name="shell")
def make_shell(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1"
    made = Shell(lab)
    yield made
    made.terminal.end()


def test_command_reads_the_terminal_and_knows_its_size(shell):
    shell.types("gpuq exec -- sh -c 'echo begin; read word; echo got:$word; stty size'")
    shell.sees("\nbegin\n")
    shell.terminal.resize(70, 20)
    shell.keys("hello\n")
    shell.sees("got:hello")
    shell.sees("20 70")
    shell.prompt()


def test_size_of_the_terminal_reaches_a_running_command(shell):
    shell.types("gpuq exec -- bash -c 'trap \"echo changed\" WINCH; echo begin; while [ ! -e go ]; do sleep 0.01; done'")
    shell.sees("\nbegin\n")
    shell.terminal.resize(60, 20)
    shell.sees("\nchanged")
    (shell.lab.directory / "go").touch()
    shell.prompt()


def test_ctrl_c_ends_the_command(shell):
    shell.types("gpuq exec -- sh -c 'echo begin; exec sleep 1000'")
    shell.sees("\nbegin\n")
    shell.keys("\x03")
    shell.prompt()
    shell.does("echo code:$?")
    shell.sees("\ncode:130")
    assert shell.lab.job(1)["signal"] == 2


def test_command_decides_about_ctrl_c(shell):
    shell.types("gpuq exec -- bash -c 'trap \"echo caught; exit 6\" INT; echo begin; while :; do sleep 0.01; done'")
    shell.sees("\nbegin\n")
    shell.keys("\x03")
    shell.prompt()
    shell.does("echo code:$?")
    shell.sees("caught")
    shell.sees("\ncode:6")


def test_ctrl_z_and_fg_stop_and_continue_it(shell):
    shell.types("gpuq exec -- sh -c 'echo begin; read word; echo got:$word'")
    shell.sees("\nbegin\n")
    shell.keys("\x1a")
    shell.prompt()
    shell.sees("Stopped")
    shell.does("echo free:$((1+1))")
    shell.sees("\nfree:2")
    assert shell.lab.job(1)["status"] == "running"
    shell.types("fg")
    shell.keys("hello\n")
    shell.sees("got:hello")
    shell.prompt()


def test_stopped_command_can_be_cancelled(shell):
    shell.types("gpuq exec -- sh -c 'echo begin; exec sleep 1000'")
    shell.sees("\nbegin\n")
    shell.keys("\x1a")
    shell.prompt()
    shell.lab.gpuq("cancel", 1)
    shell.lab.until(lambda: shell.lab.job(1)["status"] == "cancelled", "the end")
    shell.does("fg")
    shell.does("echo code:$?")
    shell.sees("\ncode:143")


def test_command_in_the_background_that_reads_is_stopped(shell):
    shell.does("gpuq exec -- sh -c 'read word; echo got:$word' &")
    shell.lab.until(lambda: shell.lab.journal.exists() and shell.lab.jobs().get(1, {}).get("status") == "running")
    while "Stopped" not in shell.terminal.screen.everything():
        shell.does(":")
    shell.types("fg")
    shell.keys("hello\n")
    shell.sees("got:hello")
    shell.prompt()


def test_parts_of_a_pipeline_share_the_terminal(shell):
    shell.types("gpuq exec -- sh -c 'echo from exec' | (cat; echo question; read word < /dev/tty; echo answer:$word)")
    shell.sees("question")
    shell.keys("yes\n")
    shell.sees("answer:yes")
    shell.sees("\nfrom exec\n")
    shell.prompt()


def test_line_shows_why_exec_waits_and_disappears(shell):
    shell.lab.gpuq("add", BLOCKER)
    shell.types("gpuq exec -- echo output")
    shell.sees("gpuq: job 2 waits, #1 in the queue: GPUs busy")
    shell.lab.gpuq("add", "--priority", "5", "true")
    shell.sees("gpuq: job 2 waits, #2 in the queue: GPUs busy")
    (shell.lab.directory / "go").touch()
    shell.prompt()
    shell.sees("\ngpuq: job 2 runs on GPU 0\noutput\n")
    assert "waits" not in shell.terminal.screen.everything()


def test_ctrl_c_and_ctrl_z_work_while_it_waits(shell):
    shell.lab.gpuq("add", BLOCKER)
    shell.types("gpuq exec -- echo output")
    shell.sees("gpuq: job 2 waits, #1")
    shell.keys("\x1a")
    shell.prompt()
    shell.sees("Stopped")
    shell.types("fg")
    shell.terminal.until(lambda screen: screen.everything().count("job 2 waits") == 2, "the line a second time")
    shell.keys("\x03")
    shell.prompt()
    shell.does("echo code:$?")
    shell.sees("\ncode:130")
    assert shell.lab.job(2)["status"] == "cancelled"
    (shell.lab.directory / "go").touch()


def test_shell_has_job_control_of_its_own(shell):
    shell.types("gpuq shell")
    shell.sees("gpuq: job 1 runs on GPU 0; exit the shell to release it")
    shell.sees("\ninner>")
    shell.keys("sleep 1000\n")
    shell.lab.until(lambda: sleeps(shell.lab), "sleep")
    shell.keys("\x1a")
    shell.sees("Stopped")
    shell.keys("kill -KILL %1; echo gpu:$GPUQ_GPU\n")
    shell.sees("gpu:0")
    shell.lab.until(lambda: not sleeps(shell.lab), "the end of sleep")  # otherwise the shell would refuse to exit
    shell.keys("suspend\n")
    shell.prompt()
    shell.types("fg")
    shell.keys("echo back:$((1+1))\n")
    shell.sees("back:2")
    shell.keys("exit 5\n")
    shell.prompt()
    shell.does("echo code:$?")
    shell.sees("\ncode:5")


def sleeps(lab):
    return [pid for pid in lab.processes() if comm(pid) == "sleep"]


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_terminal_comes_back_from_a_shell_that_was_killed(shell):
    shell.types("gpuq shell")
    shell.sees("exit the shell to release it")
    shell.sees("\ninner>")
    shell.keys("kill -9 $$\n")
    shell.prompt()
    shell.does("echo code:$?")
    shell.sees("\ncode:137")
