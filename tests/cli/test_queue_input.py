# SPDX-License-Identifier: MIT
"""Commands that come through pipes, and who waits for them."""
import fcntl
import os
import signal
import struct
import subprocess
import termios

import pytest

from lab import LIMIT


def test_slow_writer_to_standard_input_blocks_no_other_command(lab):
    slow = lab.start("add", "--no-start", "-", stdin=subprocess.PIPE)
    slow.stdin.write(b"echo slow >> ran\n")
    slow.stdin.flush()
    lab.until(lambda: unread(slow.stdin) == 0, "it to read all there is")
    lab.add("echo fast >> ran")
    lab.gpuq("run")
    assert lab.ran() == ["fast"]
    assert slow.communicate(timeout=LIMIT)[0] == b"2\n"


def unread(pipe):
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


def test_mistake_in_standard_input_adds_nothing(lab):
    result = lab.result("add", "--no-start", "-", input="echo a\n# gpuq: mem=much\necho b\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert "standard input:2" in result.stderr
    assert not lab.journal.exists() or lab.jobs() == {}


def test_job_that_is_not_there_to_wait_for_adds_nothing(lab):
    lab.add("true")
    result = lab.result("add", "--no-start", "--after", "1,9", "-", input="echo a\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "gpuq: adding a job after 9: there is no such job\n"
    assert len(lab.jobs()) == 1


@pytest.mark.parametrize("words", [[], ["--background"]])
def test_commands_file_may_be_a_pipe_and_each_is_new(lab, words):
    """As <(…) of a shell is one: it can be read but once, and each time is another."""
    for _ in range(2):
        reading, writing = os.pipe()
        os.write(writing, b"echo x >> ran\n")
        os.close(writing)
        runner = lab.start("run", *words, "--commands-file", f"/dev/fd/{reading}", pass_fds=[reading])
        os.close(reading)
        assert runner.wait(timeout=LIMIT) == 0
        lab.gpuq("wait")
    assert lab.ran() == ["x", "x"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("writer", [False, True])
def test_signal_ends_a_run_that_waits_for_commands(lab, number, writer):
    os.mkfifo(lab.directory / "fifo")
    runner = lab.start("run", "--commands-file", "fifo")
    if writer:
        with open(lab.directory / "fifo", "wb", buffering=0) as file:
            file.write(b"echo x >> ran\n")
            runner.send_signal(number)
            runner.wait(timeout=LIMIT)
    else:
        lab.until(lambda: sleeps(runner.pid))
        runner.send_signal(number)
    assert runner.wait(timeout=LIMIT) == -number
    assert lab.ran() == []


def sleeps(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"
