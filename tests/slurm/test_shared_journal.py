# SPDX-License-Identifier: MIT
"""Two allocations on one journal: one of them runs the jobs, and neither reports them completed too early."""
import json

from cluster import COMMAND, POLITE, RUN


def both(lab):
    lab.commands(POLITE, COMMAND)
    first = lab.sbatch("--wrap", RUN, gpus=1)
    lab.until(lambda: len(lab.ran()) == 1, "the first job")
    second = lab.sbatch("--wrap", RUN, gpus=1)
    lab.until(lambda: "a runner is already active (PID" in lab.output(second), "the second run")
    return first, second


def test_second_allocation_does_not_end_before_the_jobs_of_the_first(lab):
    first, second = both(lab)
    lab.until(lambda: "waiting for 2 jobs that were already in the queue" in lab.output(second), "its message")
    assert lab.batch_state(second) == "RUNNING" and lab.ran() == ["1:1"]
    lab.finish(first)
    assert lab.exit_code(second) == 0, lab.output(second)
    assert lab.ran() == ["1:1", "2:1"]


def test_second_allocation_takes_over_from_one_that_ends(lab):
    first, second = both(lab)
    lab.slurm("scancel", first)
    lab.until(lambda: len(lab.ran()) == 2, "the second attempt")
    assert lab.ran() == ["1:1", "1:2"]
    lab.check_interrupted(count=1)
    lab.finish(second)


def test_second_allocation_fails_if_a_job_of_the_first_does(lab):
    lab.commands("echo 1 >> ran; until [ -e go ]; do sleep 0.05; done; exit 3")
    first = lab.sbatch("--wrap", RUN, gpus=1)
    lab.until(lab.ran, "the job")
    second = lab.sbatch("--wrap", RUN, gpus=1)
    lab.until(lambda: "waiting for 1 job that was already in the queue" in lab.output(second), "the second run")
    lab.touch("go")
    assert (lab.exit_code(first), lab.exit_code(second)) == (1, 1)
    assert json.loads(lab.gpuq("status", "--json"))[0]["exit_code"] == 3
