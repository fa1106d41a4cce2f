# SPDX-License-Identifier: MIT
"""A queue on eight nodes with eight GPUs each, in their own namespaces (datacenter.py), under faults (chaos.py)."""
import os
import pathlib
import re
import subprocess
import sys

import datacenter
import pytest

HERE = pathlib.Path(__file__).parent
LIMIT = 600
MISSING = datacenter.missing()
# `make test-slurm SEEDS='1 2 3'`: whole runs; otherwise one short one.
SEEDS = os.environ.get("SEEDS", "").split()

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def chaos(*words, script="chaos.py"):
    """Its output and exit code."""
    result = subprocess.run([sys.executable, HERE / script, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                            check=False)
    return result.stdout + result.stderr, result.returncode


# A defect, and the faults that show it.
MUTANTS = {
    "no-wait": ["--faults", "cut-login,unplug"],
    "no-kill": ["--faults", "cut-login,unplug"],
    "no-sync": ["--faults", "login-power"],
    "not-r": ["--faults", "unplug-scancel", "--lease", 12, "--silence", 2],
}


def test_each_of_200_jobs_runs_once_on_64_gpus():
    words, code = chaos(1, "--faults", "none", "--jobs", 200, "--lease", 60, "--silence", 10)
    assert code == 0 and "200 jobs, 200 attempts on 64 GPUs" in words, words


if SEEDS:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_chaos(seed):
        words, code = chaos(seed)
        print(words)
        assert code == 0 and int(re.search(r"(\d+) effective", words)[1]) >= 10, words
else:
    def test_short_chaos():
        words, code = chaos(1, "--seconds", 15, "--interval", 0.8, "--jobs", 120)
        assert code == 0 and int(re.search(r"(\d+) effective", words)[1]) > 0, words


@pytest.mark.parametrize("seed", SEEDS or [1])
def test_launch_processes_no_file_twice_at_the_same_time(seed):
    words, code = chaos(seed, *([] if SEEDS else ["--seconds", 10, "--interval", 0.8, "--files", 80]), script="launch_chaos.py")
    print(words)
    assert code == 0 and int(re.search(r"(\d+) effective", words)[1]) > 0, words


@pytest.mark.heavy
@pytest.mark.parametrize("mutant", MUTANTS)
def test_harness_catches_mutants(mutant):
    """One of three runs suffices, because a fault must happen at the right moment. A run that only times out does not count."""
    for seed in (11, 12, 13):
        words, code = chaos(seed, "--mutant", mutant, "--seconds", 20, "--interval", 1.5, "--jobs", 150, "--limit", 60, *MUTANTS[mutant])
        if code and re.search(r"was alive .* after the begin of|was begun \d+ times", words):
            return
    pytest.fail(words)
