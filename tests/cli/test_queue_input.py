# SPDX-License-Identifier: MIT
"""Commands that are read from pipes."""
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
    lab.until(lambda: unread(slow.stdin) == 0, "gpuq to read all available input")
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


def test_dependency_on_a_missing_job_adds_nothing(lab):
    lab.add("true")
    result = lab.result("add", "--no-start", "--after", "1,9", "-", input="echo a\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "gpuq: cannot add the jobs after job 9: no such job\n"
    assert len(lab.jobs()) == 1


@pytest.mark.parametrize("words", [[], ["--background"]])
def test_commands_file_may_be_a_pipe_and_each_is_new(lab, words):
    """Like <(…) of a shell: it can be read only once, and is a new one each time."""
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


# ---- Needs of a job ------------------------------------------------------------------------

NEEDS = ("num_gpus", "mem_mb", "gpu", "exclusive", "host_mem_mb", "cpus")


def needs(lab, number):
    return tuple(lab.job(number)[key] for key in NEEDS)


def test_needs_of_add_are_recorded(lab):
    lab.add("--gpu", "0-1", "--exclusive", "--mem", "4G", "--host-mem", "32G", "--cpus", "8", "true")
    lab.add("--num-gpus", "0", "true")
    assert needs(lab, 1) == (2, 4096, "0,1", True, 32768, 8)
    assert needs(lab, 2) == (0, None, None, False, None, None)


def test_needs_of_a_line_override_the_settings(lab):
    (lab.directory / "gpuq.yaml").write_text("exclusive: true\nhost_mem: 2G\ncpus: 1\n")
    lab.commands("# gpuq: exclusive=no cpus=2 gpu=0", "true", "true")
    lab.gpuq("run", "--host-mem", "1G")
    lab.add("--cpus", "4", "true")
    assert [needs(lab, number) for number in (1, 2, 3)] == [
        (1, None, "0", False, 1024, 2), (1, None, None, True, 1024, 1), (1, None, None, True, 2048, 4)]


@pytest.mark.parametrize("options, words", [
    (["--gpu", "0,1", "--num-gpus", "1"], "the job is pinned to 2 GPUs (0,1) but requests 1; the numbers must be equal"),
    (["--gpu", "0", "--num-gpus", "0"], "the job is pinned to GPU 0 but requests no GPU"),
    (["--mem", "4G", "--num-gpus", "0"], "the job requests GPU memory but no GPU"),
    (["--exclusive", "--num-gpus", "0"], "the job is exclusive but requests no GPU"),
    (["--gpu", "x"], "--gpu: 'x' is not a GPU; expected the number or UUID of a GPU"),
    (["--cpus", "0"], "--cpus: '0' is out of range"),
    (["--host-mem", "0"], "--host-mem: must be greater than 0"),
])
def test_needs_that_contradict_each_other_are_refused(lab, options, words):
    result = lab.result("add", "--no-start", *options, "true")
    assert result.returncode == 2 and words in result.stderr
    assert not (lab.directory / "jobs.jsonl").exists()


def test_needs_of_a_line_that_contradict_each_other_add_nothing(lab):
    lab.commands("true", "# gpuq: gpu=0,1 num_gpus=1", "true")
    assert "commands.txt:3: the job is pinned to 2 GPUs" in lab.result("run").stderr
    assert not lab.jobs()
