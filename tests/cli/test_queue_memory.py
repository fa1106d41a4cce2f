# SPDX-License-Identifier: MIT
"""Placement on GPUs by memory: a fake NVML behind the real loader, real runners and jobs."""
import getpass
import os
import pathlib
import signal

import pytest

import processes
from lab import LIMIT, Lab

FAKE = pathlib.Path(os.environ["GD_BUILD"]) / "tests/gpu/libnvidia-ml.so.1"
GIB = 1 << 30


def card(number, total=80, free=80, **more):
    lines = [f"uuid=GPU-{number}0000000-0000-0000-0000-000000000000", f"name=Card {number}", f"pci=0:{number + 1}:0",
             f"memory={total * GIB} {free * GIB} {(total - free) * GIB} 0", "mode=0"]
    for key, values in more.items():
        for value in values if isinstance(values, list) else [values]:
            lines.append(f"{key}={value}")
    return "card\n" + "\n".join(lines) + "\n"


class Box(Lab):
    """A machine with the cards in `cards`."""

    def __init__(self, directory):
        super().__init__(directory)
        (self.directory / "sys").mkdir()
        for key in list(self.environment):
            if key.endswith("VISIBLE_DEVICES") or key == "GPUQ_GPUS":
                del self.environment[key]
        self.environment |= {"GPUQ_SYSFS_ROOT": str(self.directory / "sys"), "GPUQ_NVML_LIBRARY": str(FAKE),
                             "FAKE_NVML": str(self.directory / "nvml")}

    def cards(self, *cards):
        draft = self.directory / "nvml.draft"
        draft.write_text("".join(cards))
        draft.rename(self.directory / "nvml")

    def why_of_runner(self, number, **options):
        def ask():
            words = self.gpuq("why", number, **options)
            return words if "no runner is active" not in words and "is starting" not in words else None
        return self.until(ask, "the runner")

    def running(self):
        return [number for number, job in self.jobs().items() if job["status"] == "running"]


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    yield made
    made.end()


HANG_ABOUT = "echo $GPUQ_JOB_ID >> ran; until [ -e go ]; do sleep 0.02; done"


def go(box):
    (box.directory / "go").touch()


def test_job_goes_to_the_gpu_with_the_most_free_memory(box):
    box.cards(card(0, free=20), card(1, free=70), card(2, free=50))
    box.add("--mem", "10G", HANG_ABOUT)
    box.start("run")
    box.until(lambda: box.running() == [1])
    assert box.job(1)["gpu_id"] == 1
    go(box)


def test_jobs_that_have_not_allocated_yet_keep_their_room(box):
    """The start-up stampede: the driver still reports all memory as free."""
    box.cards(card(0, total=80, free=80))
    for _ in range(3):
        box.add("--mem", "30G", HANG_ABOUT)
    runner = box.start("run", "--poll-interval", "0.1")
    box.until(lambda: len(box.running()) == 2)
    assert "job needs 30.0 GiB" in box.gpuq("why", 3)
    box.add("--num-gpus", "0", "true")
    box.until(lambda: box.job(4)["status"] == "completed")
    assert len(box.running()) == 2
    go(box)
    assert runner.wait(timeout=LIMIT) == 0


@pytest.mark.parametrize("processes", ["4294967 1000000", "99"], ids=["foreign-pids", "memory-not-available"])
def test_two_40_gb_jobs_fit_on_80_gb_and_three_do_not_where_processes_cannot_be_attributed(box, processes):
    box.cards(card(0, total=80, free=80))
    for _ in range(3):
        box.add("--mem", "40G", HANG_ABOUT)
    runner = box.start("run", "--poll-interval", "0.05")
    box.until(lambda: len(box.running()) == 2)
    # They allocate, but the driver does not report by which process.
    box.cards(card(0, total=80, free=30, compute=processes))
    box.add("--num-gpus", "0", "sleep 0.3")
    box.until(lambda: box.job(4)["status"] == "completed")
    assert box.running() == [1, 2]
    go(box)
    box.cards(card(0, total=80, free=80))
    assert runner.wait(timeout=LIMIT) == 0


def test_memory_of_others_counts_and_a_change_is_seen(box):
    box.cards(card(0, total=80, free=10, compute=f"{os.getpid()} {70 * GIB}"))
    box.add("--mem", "20G", "true")
    runner = box.start("run", "--poll-interval", "0.05")
    why = box.why_of_runner(1)
    assert f"GPU 0: 10.0 GiB free, job needs 20.0 GiB; 70.0 GiB held by pid {os.getpid()}" in why
    box.cards(card(0, total=80, free=80))
    assert runner.wait(timeout=LIMIT) == 0


def test_job_whose_gpu_is_lost_fails_and_the_rest_goes_on(box):
    box.cards(card(0, free=80), card(1, free=70))
    box.add(HANG_ABOUT)
    box.add(HANG_ABOUT)
    runner = box.start("run", "--poll-interval", "0.05")
    box.until(lambda: len(box.running()) == 2)
    lost = card(0, free=80).replace("card\n", "card\nfail=GetMemoryInfo 15\nfail=GetUtilizationRates 15\n")
    box.cards(lost, card(1, free=70))
    box.until(lambda: box.job(1)["status"] == "failed", "the failure")
    assert box.job(1)["reason"] == "GPU lost"
    assert box.job(2)["status"] == "running"
    box.add("echo third >> ran")
    go(box)
    assert runner.wait(timeout=LIMIT) == 1
    assert box.job(3)["gpu_id"] == 1


def test_card_that_never_answers_delays_no_other_job(box):
    box.cards(card(0), card(1))
    box.add(HANG_ABOUT)
    box.add(HANG_ABOUT)
    box.add("--mem", "78G", "echo third >> ran")
    runner = box.start("run", "--poll-interval", "0.05")
    box.until(lambda: len(box.running()) == 2)
    box.cards(card(0, hang="GetMemoryInfo"), card(1))
    box.gpuq("cancel", 2)
    box.until(lambda: box.job(2)["status"] == "cancelled")
    box.until(lambda: box.job(3)["status"] == "completed", "the job on the other card")
    assert box.job(3)["gpu_ids"] == box.job(2)["gpu_ids"]
    go(box)
    assert runner.wait(timeout=LIMIT) == 1


class Filling:
    """A job on card 0; another job waits until that card fills up, and then fits on card 1."""

    def __init__(self, box, end, *options):
        box.cards(card(0, total=80, free=80), card(1, total=24, free=1))
        box.add(*options, "--mem", "70G", f"echo $$ > pid; until [ -e go ]; do sleep 0.02; done; {end}")
        box.add("--mem", "20G", "echo seen >> ran")
        self.box = box
        self.runner = box.start("run", "--poll-interval", "0.05")
        path = box.directory / "pid"
        self.pid = box.until(lambda: path.exists() and path.read_text().strip(), "the job")

    def runner_dies(self):
        """Another one finds the job, whose keeper it did not start."""
        self.runner.kill()
        self.runner.wait()
        self.runner = self.box.start("run", "--poll-interval", "0.05")
        self.box.why_of_runner(2)  # it has sampled the cards

    def use(self, gigabytes, free, pid=None):
        self.box.cards(card(0, total=80, free=free, compute=f"{pid or self.pid} {int(gigabytes * GIB)}"),
                       card(1, total=24, free=24))
        self.box.until(lambda: "seen" in self.box.ran(), "the sample")

    def end(self, code=1, cards=None):
        self.box.cards(*(cards or [card(0, total=80, free=80), card(1, total=24, free=24)]))
        go(self.box)
        assert self.runner.wait(timeout=LIMIT) == code


def test_retry_after_out_of_memory_is_placed_by_the_peak_memory(box):
    filling = Filling(box, "[ $GPUQ_ATTEMPT = 2 ] || { echo 'CUDA out of memory'; exit 1; }", "--retries", "1")
    filling.use(40, free=40)
    filling.end(0)
    job = box.job(1)
    assert [attempt["reason"] for attempt in job["history"]] == ["GPU out of memory", None]
    assert job["history"][0]["peak_mem_mb"] == 40 * 1024
    assert job["gpu_id"] == 0


@pytest.mark.parametrize("end", ["exit 1", "kill -ABRT $$", "echo Aborted; exit 134",
                                 "echo 'RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED'; exit 1"])
def test_failure_on_a_gpu_that_the_job_had_filled_is_out_of_memory(box, end):
    filling = Filling(box, end)
    filling.use(79, free=0)
    filling.end()
    job = box.job(1)
    assert (job["status"], job["reason"], job["peak_mem_mb"]) == ("failed", "GPU out of memory", 79 * 1024)
    assert "Failed (GPU out of memory)" in box.gpuq("status", 1)


def test_end_between_two_queries_of_the_driver_is_out_of_memory_too(box):
    """The processes are still listed, but their memory is already free: this does not show whether
    the card was full."""
    filling = Filling(box, "exit 1")
    uses = f"{filling.pid} {79 * GIB}"
    box.cards(card(0, total=80, free=0, compute=uses), card(1, total=24, free=21))
    box.until(lambda: "seen" in box.ran(), "the sample")
    box.add("--mem", "23G", "echo again >> ran")
    box.cards(card(0, total=80, free=10, compute=uses), card(1, total=24, free=24))
    box.until(lambda: "again" in box.ran(), "the torn sample")
    filling.end()
    assert box.job(1)["reason"] == "GPU out of memory"


def test_memory_that_a_later_runner_observes_is_recorded_too(box):
    filling = Filling(box, "exit 1")
    filling.runner_dies()
    filling.use(79, free=0)
    filling.end()
    job = box.job(1)
    assert (job["status"], job["reason"], job["peak_mem_mb"]) == ("failed", "GPU out of memory", 79 * 1024)


def test_later_runner_sees_that_the_gpu_is_lost(box):
    filling = Filling(box, "true")
    filling.runner_dies()
    lost = card(0, free=80).replace("card\n", "card\nfail=GetMemoryInfo 15\nfail=GetUtilizationRates 15\n")
    box.cards(lost, card(1, total=24, free=24))
    assert filling.runner.wait(timeout=LIMIT) == 1
    assert (box.job(1)["status"], box.job(1)["reason"]) == ("failed", "GPU lost")
    assert box.job(2)["gpu_id"] == 1


TRACEBACK = """printf 'Traceback (most recent call last):\\n  File "t.py", line 1\\nKeyError: 7\\n'; exit 1"""


@pytest.mark.parametrize("end,gigabytes,free", [
    ("exit 1", 70, 10),    # the card is not full
    ("exit 1", 10, 0),     # full, but because of other users
    ("kill -KILL $$", 79, 0),
    ("exit 143", 79, 0),   # a shell's exit code for SIGTERM
    (TRACEBACK, 79, 0),
])
def test_other_failures_are_not_out_of_memory(box, end, gigabytes, free):
    filling = Filling(box, end)
    filling.use(gigabytes, free)
    filling.end()
    assert box.job(1)["status"] == "failed"
    assert box.job(1)["reason"] is None


def test_out_of_memory_is_recognized_where_processes_cannot_be_attributed(box):
    filling = Filling(box, "exit 1")
    box.cards(card(0, total=80, free=0, compute="99"), card(1, total=24, free=24))
    box.until(lambda: "seen" in box.ran(), "the sample")
    filling.end()
    assert (box.job(1)["reason"], box.job(1)["peak_mem_mb"]) == ("GPU out of memory", None)


def test_retry_after_out_of_memory_gets_a_gpu_with_more_memory(box):
    """The larger card is tried, although less of its memory is free."""
    box.cards(card(0, total=24, free=24), card(1, total=80, free=10))
    box.add("--retries", "1", "--mem", "8G",
            "echo $$ > pid; until [ -e go ]; do sleep 0.02; done; [ $GPUQ_ATTEMPT = 2 ]")
    box.add("--mem", "9G", "echo seen >> ran")
    runner = box.start("run", "--poll-interval", "0.05", "--jobs-per-gpu", "1")
    path = box.directory / "pid"
    pid = box.until(lambda: path.exists() and path.read_text().strip(), "the job")
    assert box.job(1)["gpu_id"] == 0
    box.until(lambda: "seen" in box.ran())
    box.add("--mem", "11G", "echo again >> ran")
    box.cards(card(0, total=24, free=0, compute=f"{pid} {24 * GIB}"), card(1, total=80, free=12))
    box.until(lambda: "again" in box.ran(), "the sample")
    box.cards(card(0, total=24, free=24), card(1, total=80, free=20))
    go(box)
    box.until(lambda: box.job(1)["attempts"] == 1 and box.job(1)["status"] == "pending", "the failure")
    assert "GPU 0: 24.0 GiB in total, job needs 25.4 GiB" in box.gpuq("why", 1)
    box.cards(card(0, total=24, free=24), card(1, total=80, free=40))
    assert runner.wait(timeout=LIMIT) == 0
    assert [attempt["gpu_id"] for attempt in box.job(1)["history"]] == [0, 1]


def test_why_uses_the_settings_of_the_runner_not_those_of_this_shell(box):
    """Its GPUs, its free memory, its jobs per GPU; the caller sees another machine."""
    box.cards(card(0), card(1))
    box.add("--mem", "50G", HANG_ABOUT)
    box.add("--mem", "60G", "echo second >> ran")
    box.add("echo third >> ran")
    box.start("run", "--poll-interval", "0.05", "--gpus", "1", "--min-free-mem-mb", "40960")
    box.until(lambda: box.running() == [1])
    for env in ({"GPUQ_GPUS": "sim:4"}, {"CUDA_VISIBLE_DEVICES": "0"}, {}):
        assert box.gpuq("why", 2, env=env) == (
            "job 2: Pending\nposition 1 of 2\nGPU 1: 30.0 GiB free, job needs 60.0 GiB; 50.0 GiB held by job 1\n"
            "expected start: unknown; there is no data about similar jobs\n")
        assert "GPU 1: 30.0 GiB free, job needs 40.0 GiB" in box.gpuq("why", 3, env=env)
    go(box)


def test_why_counts_allocated_memory_only_once(box):
    box.cards(card(0))
    box.add("--mem", "30G", "echo $$ > pid;" + HANG_ABOUT)
    box.add("--mem", "60G", "true")
    box.start("run", "--poll-interval", "0.05")
    pid = box.until(lambda: box.running() == [1] and (box.directory / "pid").exists()
                    and (box.directory / "pid").read_text().strip())
    box.cards(card(0, free=50, compute=f"{pid} {30 * GIB}"))
    box.until(lambda: "GPU 0: 50.0 GiB free, job needs 60.0 GiB; 30.0 GiB held by job 1" in box.gpuq("why", 2), "the sample")
    go(box)


def test_why_counts_promises_of_other_queues(box):
    box.cards(card(0))
    box.add("--mem", "50G", HANG_ABOUT)
    box.start("run", "--poll-interval", "0.05")
    box.until(lambda: box.running() == [1])
    box.gpuq("add", "--no-start", "--jobs-file", "other.jsonl", "--mem", "40G", "true")
    words = box.gpuq("why", "--jobs-file", "other.jsonl", 1)
    assert f"GPU 0: 30.0 GiB free, job needs 40.0 GiB; 50.0 GiB promised to job 1 of {getpass.getuser()} (queue {box.journal}, pid " in words
    go(box)


def test_job_that_others_block_is_not_expected_to_start(box):
    box.cards(card(0))
    box.commands("true", "true 2")
    box.gpuq("run")
    box.cards(card(0, free=1, compute=f"{os.getpid()} {79 * GIB}"))
    box.add("--mem", "40G", "true")
    box.start("run", "--poll-interval", "0.05")
    words = box.why_of_runner(3)
    assert f"GPU 0: 1.0 GiB free, job needs 40.0 GiB; 79.0 GiB held by pid {os.getpid()}" in words
    assert "expected" not in words
    assert box.job(3)["expected_start"] is None


def test_why_says_that_the_runner_has_no_gpu(box):
    box.cards()
    box.add("true")
    box.start("run", "--keep")
    why = box.why_of_runner(1, env={"GPUQ_GPUS": "sim:2"})
    assert why == "job 1: Pending\nposition 1 of 1\ncan never start here:\nthis machine has no GPU\n"


def test_job_handed_over_waits_for_its_own_minimum_of_free_memory(box):
    """It waits for this much memory, on a GPU where no job asked for exclusive use."""
    box.cards(card(0, free=30), card(1, free=80))
    box.add(HANG_ABOUT)
    box.start("run", "--poll-interval", "0.05")
    box.until(lambda: box.running() == [1])
    box.commands("echo other >> ran", name="other.txt")
    second = box.start("run", "--commands-file", "other.txt", "--min-free-mem-mb", "40960")
    box.until(lambda: 2 in box.jobs())
    why = box.gpuq("why", 2)
    assert "GPU 0: 30.0 GiB free, job needs 40.0 GiB" in why
    assert "GPU 1: in use by job 1, which does not share it" in why
    box.cards(card(0, free=80), card(1, free=80))
    assert second.wait(timeout=LIMIT) == 0
    assert box.job(2)["gpu_id"] == 0
    go(box)


def test_runner_ends_its_probe(box):
    box.cards(card(0))
    box.add("true")
    runner = box.start("run")
    assert runner.wait(timeout=LIMIT) == 0
    box.until(lambda: not box.processes(), "the end of all processes")


def test_queues_of_one_machine_count_each_others_promises(box):
    """Two journals, one card, and a driver that sees nothing of either yet."""
    box.cards(card(0, total=80, free=80))
    box.add("--mem", "50G", HANG_ABOUT)
    first = box.start("run", "--poll-interval", "0.05")
    box.until(lambda: box.running() == [1])
    box.gpuq("add", "--no-start", "--jobs-file", "other.jsonl", "--mem", "50G", "echo other >> ran")
    box.gpuq("add", "--no-start", "--jobs-file", "other.jsonl", "--mem", "20G", "echo small >> ran")
    second = box.start("run", "--jobs-file", "other.jsonl", "--poll-interval", "0.05")
    box.until(lambda: "small" in box.ran(), "the job that fits next to it")
    assert "other" not in box.ran()
    go(box)
    assert first.wait(timeout=LIMIT) == 0
    assert second.wait(timeout=LIMIT) == 0
    assert box.ran() == ["1", "small", "other"]


# ---- Drivers that do not answer ------------------------------------------------------------

def lines_of(process, box, words):
    """The output of the process, once it contains `words`."""
    seen = []

    def look():
        text = process.stdout.read() or b""
        seen.append(text)
        return words.encode() in b"".join(seen)
    os.set_blocking(process.stdout.fileno(), False)
    box.until(look, words)
    return b"".join(seen).decode()


def test_card_whose_driver_call_never_returns_is_reported_and_comes_back(box):
    box.environment["GPUQ_ANSWER_MS"] = "400"
    box.cards(card(0), card(1, stuck="GetMemoryInfo"))
    for _ in range(2):
        box.add("--mem", "50G", HANG_ABOUT)
    run = box.start("run", "--no-panel")
    lines_of(run, box, "gpuq: GPU 1 does not answer; no jobs start on it until it does")
    box.until(lambda: box.ran() == ["1"], "the job on the other card")
    assert box.running() == [1]
    box.cards(card(0), card(1))
    box.until(lambda: box.ran() == ["1", "2"], "the job on the card that is back")
    assert box.job(2)["gpu_ids"] == [1]
    (box.directory / "go").touch()
    assert "gpuq: GPU 1 answers again" in lines_of(run, box, "answers again")
    assert run.wait(LIMIT) == 0


def test_machine_whose_cards_are_all_silent_is_waited_for(box):
    box.environment["GPUQ_ANSWER_MS"] = "300"
    box.cards(card(0, stuck="GetHandleByIndex"))
    box.add("true")
    run = box.start("run", "--no-panel")
    lines_of(run, box, "GPU 0 does not answer")
    box.cards(card(0))
    assert run.wait(LIMIT) == 0
    assert box.job(1)["status"] == "completed"


def test_probe_that_is_killed_forgets_no_silent_card(box):
    box.environment["GPUQ_ANSWER_MS"] = "300"
    box.cards(card(0), card(1))
    run = box.start("run", "--no-panel", "--keep")
    box.until(box.runner, "the runner")
    box.cards(card(0), card(1, stuck="GetMemoryInfo"))
    lines_of(run, box, "GPU 1 does not answer")
    for probe in [pid for pid in box.processes() if processes.name_of(pid) == "gpuq-probe"]:
        os.kill(probe, signal.SIGKILL)
    box.add(HANG_ABOUT)
    box.add(HANG_ABOUT)
    box.until(lambda: box.ran() == ["1"], "the job on the other card")
    box.cards(card(0), card(1))
    box.until(lambda: box.ran() == ["1", "2"], "the job on the card that is back")
    (box.directory / "go").touch()
    box.until(lambda: not box.running(), "their ends")
    run.terminate()
    assert run.wait(LIMIT) in (0, 130)  # 130: the runner has not read the ends yet


def test_driver_that_does_not_open_is_named(box):
    box.environment["GPUQ_ANSWER_MS"] = "300"
    box.cards("hang=Init\n", card(0))
    box.add("true")
    result = box.result("run", "--no-panel")
    assert "gpuq: the NVIDIA driver does not answer: none of its GPUs can be used" in result.stdout + result.stderr
    assert "no GPU found" not in result.stdout + result.stderr
    assert box.job(1)["status"] == "pending"


def test_driver_that_opens_late_is_used(box):
    box.environment["GPUQ_ANSWER_MS"] = "300"
    box.cards("hang=Init\n", card(0))
    run = box.start("run", "--no-panel", "--keep")
    lines_of(run, box, "does not answer")
    box.add("true")
    box.cards(card(0))
    box.until(lambda: box.job(1)["status"] == "completed", "the job")
    run.terminate()
    assert run.wait(LIMIT) in (0, 130)  # 130: the runner has not read the end yet


def test_without_a_driver_the_grant_of_slurm_is_used_one_job_at_a_time(box):
    box.environment |= {"GPUQ_NVML_LIBRARY": str(box.directory / "none.so"), "CUDA_VISIBLE_DEVICES": "2,5", "SLURM_JOB_ID": "77"}
    for _ in range(3):
        box.add("--mem", "1G", "echo $CUDA_VISIBLE_DEVICES >> visible; " + HANG_ABOUT)
    run = box.start("run", "--no-panel")
    lines_of(run, box, "GPUs are taken from CUDA_VISIBLE_DEVICES='2,5'")
    box.until(lambda: len(box.ran()) == 2, "two jobs")
    assert len(box.running()) == 2
    (box.directory / "go").touch()
    assert run.wait(LIMIT) == 0
    visible = (box.directory / "visible").read_text().split()
    assert set(visible) == {"2", "5"} and len(visible) == 3
