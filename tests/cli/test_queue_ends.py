# SPDX-License-Identifier: MIT
"""How jobs end: by a timeout, a signal or an exit code."""
from processes import alive


def test_timeout_ends_a_job_that_ignores_sigterm(lab):
    lab.add("--timeout", "0.1", "trap '' TERM; echo $$ >> ran; while :; do sleep 0.05; done")
    lab.gpuq("run", "--grace", "100ms", code=1)
    job = lab.job(1)
    assert (job["status"], job["reason"], job["signal"]) == ("failed", "timeout", 9)


def test_daemons_of_a_job_end_with_it(lab):
    lab.add("setsid sleep 1000 & env -i setsid sleep 1000 & sh -c 'echo $$ >> ran; exec sleep 1000' & until [ -s ran ]; do sleep 0.01; done")
    lab.gpuq("run")
    assert not alive(int(lab.ran()[0]))
    assert lab.job(1)["status"] == "completed"


def test_job_that_closes_its_output_or_leaves_orphans_keeps_its_exit_code(lab):
    lab.add("exec >&- 2>&-; sleep 0.01; exit 4")
    lab.add("(sleep 0.01 & exec sleep 0.05) & exit 5")
    lab.gpuq("run", code=1)
    assert [lab.job(n)["exit_code"] for n in (1, 2)] == [4, 5]


def test_exit_codes_and_signals_are_reported(lab):
    lab.add("exit 7")
    lab.add("kill -SEGV $$")
    lab.add("cd /nowhere")
    out = lab.gpuq("run", code=1)
    assert "Failed (exit 7)" in out
    assert "Failed (SIGSEGV)" in out
    assert lab.result("wait", 1).returncode == 7
    assert lab.result("wait", 2).returncode == 139
    assert lab.result("wait", 1, 2).returncode == 1
    assert lab.result("wait", 99).returncode == 125


def test_out_of_gpu_memory_is_recognized(lab):
    lab.add("echo 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'; exit 1")
    lab.gpuq("run", code=1)
    assert lab.job(1)["reason"] == "GPU out of memory"


def test_wait_for_all_exits_as_the_only_job_did(lab):
    lab.add("exit 3")
    lab.gpuq("run", code=1)
    lab.gpuq("wait", code=3)


def test_wait_for_all_has_the_same_exit_code_before_and_after_the_jobs_are_over(lab):
    lab.add("true")
    lab.add("exit 3")
    waiting = lab.start("wait")
    lab.gpuq("run", code=1)
    waiting.communicate(timeout=60)
    assert waiting.returncode == 1
    lab.gpuq("wait", code=1)


def test_wait_for_all_counts_jobs_that_failed_before(lab):
    """A fast failure must not be missed because it came before the wait."""
    lab.commands("exit 3", "true")
    lab.gpuq("run", code=1)
    lab.gpuq("wait", code=1)
    lab.add("exit 4")
    lab.gpuq("run", code=1)
    lab.gpuq("wait", code=1)
    lab.gpuq("wait", 2)
    cancelled = lab.add("true")
    lab.gpuq("cancel", cancelled)
    lab.gpuq("prune")
    lab.add("true")
    lab.gpuq("run")
    lab.gpuq("wait")
