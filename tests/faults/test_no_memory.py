# SPDX-License-Identifier: MIT
"""A runner that runs out of memory while it starts jobs reports it and retries; nothing is left pending."""

import errno
import itertools
import pathlib
import shutil
import subprocess

import pytest
from injection import Injection

LARGE = 2 << 20  # bytes: only buffers with the whole command are this large
AGAIN = "cannot start a job: Cannot allocate memory; retrying"


def run_at(directory: pathlib.Path, at: int, size: int) -> tuple[bool, subprocess.CompletedProcess[str]]:
    """Whether an allocation of the runner failed, and how the runner ended."""
    one = Injection(directory, "memory", errno.ENOMEM, at, INJECT_PROCESS="gpuq", INJECT_LEAST=str(size))
    try:
        one.lab.gpuq("add", "--no-start", "-", input=f"echo 1 >> ran #{'x' * size}\necho 2 >> ran\n")
        result = one.command("run", "--quiet")
        assert "left pending" not in result.stdout + result.stderr, (at, result)
        if result.returncode == 0:
            assert sorted(one.lab.ran()) == ["1", "2"], (at, result)
        else:
            assert "Cannot allocate memory" in result.stderr or "out of memory" in result.stderr, (at, result)
        if AGAIN in result.stdout:
            assert result.returncode == 0, (at, result)
        one.lab.gpuq("run", "--quiet")
        assert sorted(one.lab.ran()) == ["1", "2"], (at, result)
        return one.calls_left() <= 0, result
    finally:
        one.lab.end()
        shutil.rmtree(directory)


@pytest.mark.parametrize("size", [0, LARGE], ids=["any", "large"])
def test_runner_without_memory_for_a_start_tries_again(tmp_path: pathlib.Path, size: int) -> None:
    again = 0
    problems = []
    for at in itertools.count():
        try:
            failed, result = run_at(tmp_path / str(at), at, size)
        except AssertionError as problem:
            problems.append(str(problem))
            continue
        if not failed:
            break
        again += AGAIN in result.stdout
    assert not problems, "\n".join(problems)
    print(f"{at} allocations failed in turn; after {again} of them the runner tried again")
    # Even with a large command at least two: the order to the keeper, and the message with that order.
    assert again >= 2


def test_runner_sends_a_message_again_if_the_kernel_had_no_memory_for_it(tmp_path: pathlib.Path) -> None:
    for at in itertools.count():
        one = Injection(tmp_path / str(at), "message", errno.ENOMEM, at, INJECT_PROCESS="gpuq")
        try:
            one.lab.commands("echo 1 >> ran", "echo 2 >> ran")
            result = one.command("run", "--quiet")
            # No output about jobs: the runner could not start.
            if result.returncode:
                assert result.stderr.startswith("gpuq: cannot start the runner: "), (at, result)
                one.lab.gpuq("run", "--quiet")
            assert sorted(one.lab.ran()) == ["1", "2"], (at, result)
            if one.calls_left() > 0:
                break
        finally:
            one.lab.end()
    print(f"{at} messages failed in turn")
    assert at > 4
