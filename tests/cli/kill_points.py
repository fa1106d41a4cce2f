# SPDX-License-Identifier: MIT
"""
Kills a process at one of its system calls, with killer.c.

KILL_POINTS: how many calls to test per case, chosen by KILL_SEED; "all": each one, as make campaign does.
"""
import os
import pathlib
import random
import subprocess

from lab import LIMIT

KILLER = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/killer"
KILLED, NOT_KILLED = 42, 0
SEED = os.environ.get("KILL_SEED", "1")
POINTS = os.environ.get("KILL_POINTS", "12")
ALL = POINTS == "all"


def seeded(name):
    """A random number generator for one case."""
    return random.Random(f"{SEED} {name}")


def killed_at(lab, depth, number, *words):
    """Runs gpuq with these arguments and kills a process of that depth at that call. False if it made fewer calls."""
    result = subprocess.run([KILLER, str(depth), str(number), os.environ["GPUQ"], *map(str, words)], cwd=lab.directory,
                            env=lab.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
    assert result.returncode in (KILLED, NOT_KILLED), result
    return result.returncode == KILLED


def count_calls(lab, depth, *words):
    """How many calls processes of that depth make."""
    result = subprocess.run([KILLER, str(depth), "count", os.environ["GPUQ"], *map(str, words)], cwd=lab.directory,
                            env=lab.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=True)
    return int(result.stdout.split()[-1])


def chosen(name, count):
    """Some of `count` calls, in the order of their numbers."""
    return sorted(seeded(name).sample(range(1, count + 1), min(int(POINTS), count)))
