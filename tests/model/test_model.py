# SPDX-License-Identifier: MIT
"""The model of the queue's protocol (queue.pml): Spin finds no error in it, and detects every omitted rule."""

import os
import pathlib
import shutil
import subprocess

import pytest

MODEL = pathlib.Path(__file__).with_name("queue.pml")

pytestmark = pytest.mark.skipif(not shutil.which("spin"), reason="needs spin")

# Configurations small enough to be searched completely.
CANCEL = ["KILLS=1", "NO_PRUNE"]
# The second is part of make campaign.
PRUNE = ["KILLS=1", "NO_CANCEL"]
TWO_KILLS = ["KILLS=2", "NO_PRUNE", "NO_CANCEL"]

MUTANTS = {
    "NO_FENCE": CANCEL,
    "UNLOCK_BEFORE_APPEND": CANCEL,
    "TAKEOVER_KEEPS_FENCE": CANCEL,
    "DEAD_KEEPER_KEEPS_FENCE": CANCEL,
    "CANCEL_KEEPS_FENCE": CANCEL,
    "JUDGE_WITHOUT_READING": TWO_KILLS,
    "LEAVE_WITHOUT_LOCK": CANCEL,
    "PLACE_BEFORE_READING": CANCEL,
}


def search(tmp_path: pathlib.Path, defines: list[str], compile_args: list[str], run_args: list[str]) -> str:
    """The report of the search; each call has its own directory, because Spin writes to the current one."""
    arguments = ["-D" + define for define in defines]
    subprocess.run(["spin", *arguments, "-a", str(MODEL)], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-w", "-O2", "-DSAFETY", *compile_args, "-o", "pan", "pan.c"], cwd=tmp_path, check=True
    )
    # -E: processes that wait forever are not an error; the model itself asserts what must hold then.
    pan = subprocess.run(["./pan", "-m1000000", "-E", "-n", *run_args], cwd=tmp_path, capture_output=True, text=True)
    return pan.stdout


@pytest.mark.parametrize("defines", [CANCEL], ids="+".join)
def test_protocol_starts_each_job_once_and_loses_none(tmp_path: pathlib.Path, defines: list[str]) -> None:
    output = search(tmp_path, defines, ["-DCOLLAPSE"], [])
    assert "errors: 0" in output, output
    assert "Search not completed" not in output, output


@pytest.mark.skipif("CAMPAIGN_SEED" not in os.environ, reason="part of make campaign")
def test_protocol_with_prune_starts_each_job_once_and_loses_none(tmp_path: pathlib.Path) -> None:
    test_protocol_starts_each_job_once_and_loses_none(tmp_path, PRUNE)


@pytest.mark.skipif("CAMPAIGN_SEED" not in os.environ, reason="part of make campaign")
def test_protocol_survives_two_kills_with_everything_at_once(tmp_path: pathlib.Path) -> None:
    """Incomplete: as many states as possible in a minute, in random order."""
    seed = os.environ["CAMPAIGN_SEED"]
    output = search(tmp_path, ["KILLS=2"], ["-DBITSTATE", "-DT_RAND", "-DP_RAND"], ["-w27", f"-RS{seed}", "-Q1"])
    assert "errors: 0" in output, output


@pytest.mark.parametrize("mutant", MUTANTS)
def test_protocol_without_one_of_its_rules_is_found_wrong(tmp_path: pathlib.Path, mutant: str) -> None:
    output = search(tmp_path, [*MUTANTS[mutant], "MUTANT_" + mutant], ["-O0", "-DCOLLAPSE"], [])
    assert "assertion violated" in output, output
