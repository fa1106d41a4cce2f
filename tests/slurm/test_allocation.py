# SPDX-License-Identifier: MIT
"""`gpuq run` inside one allocation of a real Slurm: its GPUs, and what the end of the allocation means for its jobs."""
import processes
import pytest
from cluster import COMMAND, POLITE, RUN

# As the batch process itself, gpuq has KillWait seconds to end its jobs. Below a shell that Slurm's
# SIGTERM kills, gpuq is killed at once.
WRAPS = {"plain": RUN, "exec": f"exec {RUN}"}
# With a child that left its session.
LEAVING = "setsid sh -c 'echo $$ >> left; sleep 1000' & " + COMMAND


def start(lab, *commands, wrap="plain", words=(), begun=2):
    lab.commands(*commands)
    number = lab.sbatch(*words, "--wrap", WRAPS[wrap])
    lab.until(lambda: len(lab.ran()) == begun, "the jobs")
    return number


# ---- GPUs ----

@pytest.mark.parametrize("hidden", [(), ("CUDA_VISIBLE_DEVICES",)], ids=["CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS"])
def test_jobs_run_on_the_granted_gpus_without_a_driver(lab, hidden):
    lab.commands(*["echo $CUDA_VISIBLE_DEVICES >> ran; until [ $(wc -l < ran) -ge 2 ]; do sleep 0.02; done"] * 4)
    number = lab.sbatch("--wrap", "".join(f"unset {name}; " for name in hidden) + RUN)
    assert lab.exit_code(number) == 0, lab.output(number)
    assert set(lab.ran()) == {"0", "1"} and sorted(lab.ran()[:2]) == ["0", "1"]
    variable = "SLURM_JOB_GPUS" if hidden else "CUDA_VISIBLE_DEVICES"
    assert f"GPUs are taken from {variable}='0,1'" in lab.output(number)


def test_two_allocations_with_a_gpu_each_use_different_gpus(lab):
    lab.commands("echo $CUDA_VISIBLE_DEVICES >> ran; until [ -e go ]; do sleep 0.02; done")
    numbers = [lab.sbatch("--wrap", f"{RUN} --jobs-file jobs{n}.jsonl", gpus=1) for n in (1, 2)]
    lab.until(lambda: len(lab.ran()) == 2, "both jobs")
    assert sorted(lab.ran()) == ["0", "1"]
    lab.touch("go")
    assert [lab.exit_code(number) for number in numbers] == [0, 0]


def test_allocation_without_gpus_says_what_to_request(lab):
    lab.commands("true")
    number = lab.sbatch("--gres=none", "--wrap", RUN)
    assert lab.exit_code(number) == 1
    assert f"Slurm job {number} has no GPU" in lab.output(number) and "--gres=gpu:1" in lab.output(number)
    assert lab.states() == ["pending"]


# ---- The end of the allocation ----

@pytest.mark.parametrize("wrap", WRAPS)
def test_requeued_allocation_continues_its_jobs(lab, wrap):
    number = start(lab, POLITE, LEAVING, wrap=wrap)
    lab.slurm("scontrol", "requeue", number)
    lab.begin_again(number)
    lab.until(lambda: len(lab.ran()) == 4, "the second attempts")
    lab.check_interrupted()
    assert sorted(lab.ran()) == ["1:1", "1:2", "2:1", "2:2"]
    lab.finish(number)


@pytest.mark.parametrize("wrap", WRAPS)
def test_cancelled_allocation_leaves_its_jobs_to_the_next(lab, wrap):
    number = start(lab, POLITE, LEAVING, wrap=wrap)
    left = int(lab.until(lambda: (lab.directory / "left").exists() and (lab.directory / "left").read_text(), "the child"))
    lab.slurm("scancel", number)
    lab.until_gone(number)
    assert not processes.alive(left)
    assert lab.processes() == []
    if wrap == "exec":
        assert lab.states() == ["pending"] * 2
    assert "completed" not in lab.states() and "failed" not in lab.states()
    number = lab.sbatch("--wrap", RUN)
    lab.until(lambda: len(lab.ran()) == 4, "the second attempts")
    lab.check_interrupted()
    lab.finish(number)


def test_preempted_allocation_is_requeued_and_continues(lab):
    number = start(lab, POLITE, COMMAND)
    urgent = lab.sbatch("--partition=urgent", "--wrap", "true")
    assert lab.exit_code(urgent) == 0
    lab.begin_again(number)
    lab.until(lambda: len(lab.ran()) == 4, "the second attempts")
    lab.check_interrupted()
    lab.finish(number)


def test_job_has_until_kill_wait_to_save_its_state(lab):
    number = start(lab, "trap 'sleep 0.5; echo saved >> saved; exit 0' TERM; echo 1 >> ran; while :; do sleep 0.05; done",
                   wrap="exec", begun=1)
    lab.slurm("scancel", number)
    lab.until_gone(number)
    assert (lab.directory / "saved").read_text() == "saved\n"
    assert lab.states() == ["pending"] and lab.history(1) == ["interrupted"]


def test_jobs_see_the_allocation_that_they_run_in(lab):
    number = start(lab, "echo $SLURM_JOB_ID:${SLURM_RESTART_COUNT-none} >> ran; until [ -e go ]; do sleep 0.05; done", begun=1)
    lab.slurm("scontrol", "requeue", number)
    lab.begin_again(number)
    lab.until(lambda: len(lab.ran()) == 2, "the second attempt")
    lab.slurm("scancel", number)
    lab.until_gone(number)
    lab.touch("go")
    following = lab.sbatch("--wrap", RUN)
    assert lab.exit_code(following) == 0
    assert lab.ran() == [f"{number}:none", f"{number}:1", f"{following}:none"]
