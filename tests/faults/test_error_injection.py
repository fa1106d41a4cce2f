# SPDX-License-Identifier: MIT
"""Each call fails in turn: no hang, no crash, no accepted job is lost, and errors are reported.

    INJECT_SEED    which calls are tried (default 1)
    INJECT_POINTS  how many for each command and error; 0: every one, until a run succeeds without an injected error
"""

import errno
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))

from injection import Injection  # noqa: E402
from lab import Lab  # noqa: E402

SEED = int(os.environ.get("INJECT_SEED", "1"))
POINTS = int(os.environ.get("INJECT_POINTS", "1"))

# The errors of each call. The names are those of inject.c.
ERRORS = {
    "write": [errno.ENOSPC, errno.EIO, errno.EINTR],
    "read": [errno.EIO, errno.EINTR],
    "open": [errno.EMFILE, errno.ENOMEM, errno.EIO, errno.ENOSPC],
    "sync": [errno.EIO, errno.ENOSPC],
    "ftruncate": [errno.EIO, errno.EINTR],
    "rename": [errno.ENOSPC, errno.EIO],
    "stat": [errno.EIO, errno.ENOMEM],
    "name": [errno.ENOSPC, errno.EIO],
    "lock": [errno.EINTR],
    "fork": [errno.EAGAIN, errno.ENOMEM],
    "descriptor": [errno.EMFILE, errno.ENOMEM],
    "wait": [errno.EINTR],
    "message": [errno.EINTR, errno.ENOMEM, errno.EAGAIN],
    "memory": [errno.ENOMEM],
}

FINAL = ("completed", "failed", "cancelled", "skipped")


def check_ran_once(lab: Lab) -> None:
    """Each job has an end, and each command has run once. Jobs that could not be synced were
    refused and added again."""
    for job in lab.jobs().values():
        assert job["status"] in FINAL, job
        assert job["status"] == "completed" or job["reason"] or job["exit_code"], job
    assert sorted(lab.ran()) == ["1", "2"], (lab.ran(), lab.jobs())


def run(i: Injection) -> None:
    i.lab.commands("echo 1 >> ran", "echo 2 >> ran")
    result = i.command("run", "--quiet")
    ends = i.lab.jobs() if i.lab.journal.exists() else {}
    if result.returncode == 0:
        assert sorted(i.lab.ran()) == ["1", "2"], (result, ends)
    elif not any(job["status"] == "failed" for job in ends.values()):
        assert result.stderr.startswith("gpuq: ") and "left pending" not in result.stdout, (result, ends)
    after = i.lab.result("run", "--quiet")
    assert after.returncode in (0, 1), after
    check_ran_once(i.lab)


def add(i: Injection) -> None:
    i.lab.add("echo 1 >> ran")
    result = i.command("add", "--no-start", "echo 2 >> ran")
    assert (result.returncode == 0) == bool(result.stdout), result
    accepted = {1, 2} if result.returncode == 0 else {1}
    if result.returncode:
        assert result.stderr.startswith("gpuq: "), result
    last = i.lab.add("true")
    assert accepted | {last} <= set(i.lab.jobs())
    i.lab.gpuq("run", "--quiet")
    assert i.lab.ran() == [str(n) for n in sorted(accepted)], result


def prune(i: Injection) -> None:
    i.lab.add("echo 1 >> ran")
    i.lab.gpuq("run", "--quiet")
    waiting = i.lab.add("echo 2 >> ran")
    result = i.command("prune")
    if result.returncode:
        assert result.stderr.startswith("gpuq: "), result
    archive = i.lab.directory / "jobs.jsonl.archive"
    lines = archive.read_text().splitlines() if archive.exists() else []
    archived = {json.loads(line).get("id") for line in lines if line.endswith("}")}
    assert waiting in i.lab.jobs()
    assert 1 in i.lab.jobs() or 1 in archived, result
    i.lab.gpuq("run", "--quiet")
    assert i.lab.ran() == ["1", "2"]


def count_calls(directory: pathlib.Path, command, call: str, number: int) -> int:
    """Counts the calls of a run without failures."""
    never = 1_000_000
    first = Injection(directory, call, number, never)
    try:
        command(first)
    finally:
        first.lab.end()
    return never + 1 - first.calls_left()


def points(count: int, chance: random.Random):
    """The numbers of the calls that fail. Runs differ in their number of calls, so "every call" is an endless sequence."""
    if not POINTS:
        return itertools.count()
    return sorted(chance.sample(range(count), min(POINTS, count)))


def problem_at(directory: pathlib.Path, command, call: str, number: int, at: int) -> tuple[bool, str]:
    """Whether a call failed, and what went wrong because of it."""
    one = Injection(directory, call, number, at)
    try:
        command(one)
    except (AssertionError, ValueError, KeyError, OSError, subprocess.SubprocessError) as problem:
        return True, f"INJECT_SEED={SEED}: {command.__name__}, call {at} to {call}: {problem}"
    finally:
        one.lab.end()
        shutil.rmtree(directory, ignore_errors=True)
    return one.calls_left() <= 0, ""


@pytest.mark.parametrize("command", [add, run, prune])
@pytest.mark.parametrize(
    ("call", "number"),
    [(call, number) for call, numbers in ERRORS.items() for number in numbers],
    ids=lambda value: errno.errorcode.get(value, value),
)
def test_failing_call_costs_no_job_and_no_time(tmp_path: pathlib.Path, command, call: str, number: int) -> None:
    chance = random.Random(f"{SEED} {command.__name__} {call} {number}")
    count = count_calls(tmp_path / "first", command, call, number)
    problems = []
    tried = 0
    for at in points(count, chance):
        failed, problem = problem_at(tmp_path / str(at), command, call, number, at)
        if problem:
            problems.append(problem)
        if not failed and not POINTS:
            break
        tried += failed
    print(f"INJECT_SEED={SEED}: {command.__name__} makes {count} calls to {call}; {tried} failed in turn")
    assert not problems, f"{len(problems)} of {tried}:\n" + "\n".join(problems)
