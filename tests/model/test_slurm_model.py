# SPDX-License-Identifier: MIT
"""The models of the protocol on a cluster (slurm.pml) and of its leases (leases.pml): Spin finds no
error in them, and detects every omitted rule."""

import os
import pathlib
import shutil
import subprocess

import pytest

MODEL = pathlib.Path(__file__).with_name("slurm.pml")
LEASES = pathlib.Path(__file__).with_name("leases.pml")

pytestmark = pytest.mark.skipif(not shutil.which("spin"), reason="needs spin")

# A lease that a renewal can extend: too many states for a complete search.
RENEWED = ["LEASE=2", "MARGIN=0"]

MUTANTS = {
    "NO_WAIT": [],
    "NO_KILL": [],
    "NOT_R": [],
    "NO_SYNC": [],
    "NO_SESSION": [],
    "LEASE_FROM_RECEIPT": RENEWED,
}

LEASE_MUTANTS = ["NO_WAIT", "NO_KILL", "NOT_R", "NO_CHECK", "LEASE_FROM_RECEIPT", "NO_MARGIN", "RESTART_KNOWS_NOTHING"]


# Mutants are compiled without optimization, because their search ends with the first error. From the other end of the list of processes, NO_SYNC is found after 90,000 states instead of 6,800,000.
QUICK = ("-O0",)
REVERSED = {"NO_SYNC": ("-DREVERSE",)}


def search(tmp_path: pathlib.Path, defines: list[str], how: tuple[str, ...] = ("-DCOLLAPSE",), limits: tuple[str, ...] = ("-w26",), model: pathlib.Path = MODEL) -> str:
    """The report of the search; each call has its own directory, because Spin writes to the current one."""
    arguments = ["-D" + define for define in defines]
    subprocess.run(["spin", *arguments, "-a", str(model)], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-w", "-O2", "-DSAFETY", *how, "-o", "pan", "pan.c"], cwd=tmp_path, check=True)
    # -E: processes that wait forever are not an error here.
    pan = subprocess.run(["./pan", "-m1000000", "-E", "-n", *limits], cwd=tmp_path, capture_output=True, text=True)
    return pan.stdout


def test_no_attempt_begins_twice_or_overlaps_another_and_no_end_is_wrong(tmp_path: pathlib.Path) -> None:
    output = search(tmp_path, [])
    assert "errors: 0" in output, output
    assert "Search not completed" not in output, output


@pytest.mark.skipif("CAMPAIGN_SEED" not in os.environ, reason="part of make campaign")
def test_no_attempt_begins_twice_with_renewed_leases_in_a_longer_search(tmp_path: pathlib.Path) -> None:
    output = search(tmp_path, RENEWED, ("-DBITSTATE",), ("-w30", "-Q1"))
    assert "errors: 0" in output, output


@pytest.mark.parametrize("mutant", MUTANTS)
def test_protocol_without_one_of_its_rules_is_found_wrong(tmp_path: pathlib.Path, mutant: str) -> None:
    output = search(tmp_path, [*MUTANTS[mutant], "MUTANT_" + mutant], (*QUICK, "-DCOLLAPSE", *REVERSED.get(mutant, ())), ("-w24",))
    assert "assertion violated" in output, output


def test_no_living_pilot_is_taken_for_dead_while_leases_are_renewed_and_clocks_are_slow(tmp_path: pathlib.Path) -> None:
    output = search(tmp_path, [], ("-DNOFAIR",), ("-w24",), LEASES)
    assert "errors: 0" in output, output
    assert "Search not completed" not in output, output


@pytest.mark.parametrize("mutant", LEASE_MUTANTS)
def test_leases_without_one_of_their_rules_are_found_wrong(tmp_path: pathlib.Path, mutant: str) -> None:
    output = search(tmp_path, ["MUTANT_" + mutant], (*QUICK, "-DNOFAIR"), ("-w22",), LEASES)
    assert "assertion violated" in output, output
