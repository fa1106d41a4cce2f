# SPDX-License-Identifier: MIT
"""The time limit of an allocation."""
from cluster import RUN


def test_time_limit_interrupts_the_jobs_and_the_next_allocation_completes_them(lab):
    """slurmctld checks time limits every 30 seconds."""
    lab.commands("trap 'exit 0' TERM; echo $GPUQ_JOB_ID:$GPUQ_ATTEMPT >> ran; until [ -e go ]; do sleep 0.05; done",
                 "echo $GPUQ_JOB_ID:$GPUQ_ATTEMPT >> ran; until [ -e go ]; do sleep 0.05; done")
    first = lab.sbatch("--time=60", "--wrap", RUN)
    lab.until(lambda: len(lab.ran()) == 2, "the jobs")
    lab.slurm("scontrol", "update", f"JobId={first}", "EndTime=now")
    lab.exit_code(first)
    assert lab.batch_state(first) == "TIMEOUT"
    second = lab.sbatch("--wrap", RUN)
    lab.until(lambda: len(lab.ran()) == 4, "the second attempts")
    lab.touch("go")
    assert lab.exit_code(second) == 0, lab.output(second)
    assert [lab.history(number) for number in (1, 2)] == [["interrupted", "completed"]] * 2
    assert sorted(lab.ran()) == ["1:1", "1:2", "2:1", "2:2"]


def test_job_that_does_not_fit_into_the_remaining_time_is_left_pending(lab):
    """By its timeout, and by the duration of a similar command."""
    lab.commands("# gpuq: timeout=30m", "echo long >> ran", "# gpuq: timeout=1m",
                 "echo short >> ran; until [ -e go ]; do sleep 0.05; done", "echo unknown >> ran")
    number = lab.sbatch("--time=10", "--wrap", RUN)
    words = f"does not fit into the remaining time of Slurm job {number} ("
    lab.until(lambda: len(lab.ran()) == 2, "the jobs that fit")
    assert words in lab.until(lambda: lab.gpuq("why", "1") if words in lab.gpuq("why", "1") else None, "its reason")
    lab.touch("go")
    assert lab.exit_code(number) == 1
    assert lab.states() == ["pending", "completed", "completed"]
    assert sorted(lab.ran()) == ["short", "unknown"]
    assert f"gpuq: job 1 {words}" in lab.output(number) and "1 job left pending" in lab.output(number)
    following = lab.sbatch("--time=60", "--wrap", RUN)
    assert lab.exit_code(following) == 0, lab.output(following)
    assert lab.states() == ["completed"] * 3


def test_time_limit_that_is_changed_is_noticed(lab):
    """Slurm is asked again before gpuq leaves because of jobs that do not fit."""
    lab.commands("# gpuq: timeout=30m", "echo long >> ran", "# gpuq: timeout=1m", "echo short >> ran; until [ -e go ]; do sleep 0.05; done")
    number = lab.sbatch("--time=10", "--wrap", f"exec {RUN}")
    words = f"does not fit into the remaining time of Slurm job {number} ("
    lab.until(lambda: lab.ran() == ["short"] and words in lab.gpuq("why", "1"), "the job that fits")
    lab.slurm("scontrol", "update", f"JobId={number}", "TimeLimit=+50")
    lab.touch("go")
    assert lab.exit_code(number) == 0, lab.output(number)
    assert lab.states() == ["completed", "completed"] and lab.ran() == ["short", "long"]
    assert f"gpuq: the time limit of Slurm job {number} was changed; time left: " in lab.output(number)
