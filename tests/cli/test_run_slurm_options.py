# SPDX-License-Identifier: MIT
"""Options of `gpuq run --slurm` that conflict are refused with advice; this needs no Slurm."""
import os
import subprocess

import pytest

GPUQ = os.environ["GPUQ"]
OK = "--gres=gpu:1"


def run(directory, *words):
    (directory / "commands.txt").write_text("true\n", encoding="utf-8")
    return subprocess.run([GPUQ, "run", *words], cwd=directory, capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("words, said", [
    (("--max-nodes", "2"), "--max-nodes needs --slurm"),
    (("--slurm-lease", "60"), "--slurm-lease needs --slurm"),
    (("--takeover",), "--takeover needs --slurm"),
    (("--slurm", OK, "--gpus", "0"), "ask for them with --slurm '--gres=gpu:4'"),
    (("--slurm", OK, "--idle-warn", "15m"), "--idle-warn cannot be used with --slurm"),
    (("--slurm", OK, "--slurm-lease", "20"), "--slurm-lease (20s) must be at least twice --slurm-silence (15s)"),
    (("--slurm", OK, "--max-nodes", "0"), "--max-nodes: "),
    (("--slurm", OK, "--slurm", "-N4"), "each pilot has one node"),
    (("--slurm", "gpu"), "'gpu' is not an option of sbatch"),
    (("--slurm", "--gres='gpu:1"), "a quotation mark is not closed"),
    (("--slurm", "--array=1-8"), "see --max-nodes"),
    (("--slurm", "-N 4"), "each pilot has one node"),
    (("--slurm", "-N4"), "each pilot has one node"),
    (("--slurm", "-p gpu --ntasks=4"), "--cpus-per-task"),
    (("--slurm", "--job-name=x"), "chooses the names of its pilots"),
    (("--slurm", "-o pilot.out"), "output of pilots"),
])
def test_refused_options_name_a_remedy(tmp_path, words, said):
    result = run(tmp_path, *words)
    assert result.returncode == 2 and said in result.stderr, result
    assert not (tmp_path / "jobs.jsonl").exists()


def test_options_that_do_no_harm_pass(tmp_path):
    """The run fails only when it searches for Slurm's commands."""
    result = subprocess.run([GPUQ, "run", "--slurm", "-N1 --ntasks 1 --nodes=1 -p gpu"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                            check=False, env={"PATH": str(tmp_path), "HOME": str(tmp_path), "GPUQ_JOBS_FILE": str(tmp_path / "jobs.jsonl")},
                            input="true\n")
    assert "cannot be used" not in result.stderr and result.returncode == 2
