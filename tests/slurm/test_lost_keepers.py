# SPDX-License-Identifier: MIT
"""Keepers that are killed with their allocation before they can write the end of their job."""
from cluster import RUN


def test_job_that_ignores_sigterm_is_interrupted_however_often(lab):
    """Each time its keeper is killed with the allocation. Without the announced end of an
    allocation, lost keepers are tolerated only three times."""
    lab.commands("trap '' TERM; echo $GPUQ_ATTEMPT >> ran; until [ -e go ]; do sleep 0.05; done")
    for attempt in range(1, 6):
        number = lab.sbatch("--wrap", f"exec {RUN} --grace 1h")
        lab.until(lambda n=attempt: len(lab.ran()) == n, "the job")
        if attempt < 5:
            lab.slurm("scancel", number)
            lab.until_gone(number)
    lab.touch("go")
    assert lab.exit_code(number) == 0, lab.output(number)
    assert lab.history(1) == ["interrupted"] * 4 + ["completed"]
    assert lab.ran() == ["1", "2", "3", "4", "5"]
