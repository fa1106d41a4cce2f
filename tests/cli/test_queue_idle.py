# SPDX-License-Identifier: MIT
"""--idle-warn: jobs with idle GPUs are marked, their hook runs, and the report counts the waste."""
import json
import os
import signal

from lab import LIMIT
from test_queue_memory import box, card  # noqa: F401
from web_lab import Page

FAST = ("--poll-interval", "0.05")
WAIT = "echo $GPUQ_JOB_ID >> ran; until [ -e go ]; do sleep 0.02; done"
HOOK = 'read -r job; echo "$GPUQ_HOOK_EVENT $GPUQ_HOOK_TRY $job" >> hooks'


def hooks(box):
    """Event, try, status and idle GPUs of each hook that ran."""
    path = box.directory / "hooks"
    found = []
    for line in path.read_text().split("\n")[:-1] if path.exists() else []:
        event, number, job = line.split(" ", 2)
        job = json.loads(job)
        found.append((event, int(number), job["id"], job["status"], job["idle_gpus"]))
    return found


def idle_lines(box):
    return [event for event in box.events() if event["event"] == "idle" and "gpus" in event]


def test_job_whose_gpu_is_idle_is_marked_until_it_is_busy(box):  # noqa: F811
    box.cards(card(0, utilization=0), card(1, utilization=95))
    box.add("--num-gpus", "2", "--idle-warn", "0.3", WAIT)
    runner = box.start("run", *FAST, "--on-finish", HOOK, "--on-idle", HOOK)
    box.until(lambda: box.jobs()[1]["idle_gpus"], "the mark")
    job = box.job(1)
    assert (job["idle_gpus"], job["idle_warn"], job["status"]) == ([0], 0.3, "running")
    assert job["start_time"] <= job["idle_since"]
    assert ", GPU 0 idle for " in box.gpuq("status")
    assert ", GPU 0 idle for " in box.gpuq("why", 1)
    info = box.gpuq("info", 1)
    assert "GPUs idle now" in info and "idle warning" in info
    box.until(lambda: hooks(box), "the hook")
    assert hooks(box) == [("idle", 1, 1, "running", [0])]
    box.cards(card(0, utilization=50), card(1, utilization=95))
    box.until(lambda: not box.job(1)["idle_gpus"], "the end of the mark")
    waste = box.job(1)["idle_gpu_seconds"]
    assert waste >= 0.3
    (box.directory / "go").touch()
    assert runner.wait(LIMIT) == 0
    # It was reported once, and the end has its own hook.
    assert [hook[:4] for hook in hooks(box)] == [("idle", 1, 1, "running"), ("finish", 1, 1, "completed")]
    assert [line["gpus"] for line in idle_lines(box)] == [[0], []]
    told = [json.loads(line.split(" ", 2)[2])["idle_gpu_seconds"] for line in (box.directory / "hooks").read_text().splitlines()]
    assert told[-1] == waste
    assert box.job(1)["idle_gpu_seconds"] == waste == box.job(1)["history"][0]["idle_gpu_seconds"]
    assert ", GPU 0 idle" not in box.gpuq("status")
    report = box.gpuq("report", "-o", "-")
    assert "<h2>Idle GPUs</h2>" in report and "GPU-hours were wasted by 1 attempt " in report
    box.gpuq("verify")


def test_unknown_utilization_work_and_jobs_that_do_not_ask_are_not_idle(box):  # noqa: F811
    box.cards(card(0), card(1, utilization=2), card(2, utilization=0), card(3, utilization=0))
    box.add("--gpu", "0", WAIT)
    box.add("--gpu", "1", WAIT)
    box.add("--gpu", "2", "--idle-warn", "0", WAIT)
    box.add("--gpu", "3", WAIT)
    runner = box.start("run", *FAST, "--idle-warn", "0.3", "--on-finish", HOOK)  # and no --on-idle
    # The mark of the last job shows that the time has passed.
    box.until(lambda: box.job(4)["idle_gpus"] == [3], "the mark")
    assert [box.job(number)["idle_gpu_seconds"] for number in (1, 2, 3)] == [None] * 3
    assert [box.job(number)["idle_warn"] for number in (1, 3)] == [None, 0]
    (box.directory / "go").touch()
    assert runner.wait(LIMIT) == 0
    assert {line["id"] for line in idle_lines(box)} == {4}
    assert [hook[0] for hook in hooks(box)] == ["finish"] * 4


def test_paused_job_is_not_idle(box):  # noqa: F811
    box.cards(card(0, utilization=0), card(1, utilization=0))
    box.add("--gpu", "0", WAIT)
    box.add("--gpu", "1", WAIT)
    runner = box.start("run", *FAST, "--idle-warn", "0.5")
    box.until(lambda: len(box.ran()) == 2, "the jobs")
    box.gpuq("pause", 1)
    box.until(lambda: box.job(2)["idle_gpus"], "the mark of the other")
    assert box.job(1)["idle_gpus"] == []
    box.gpuq("resume", 1)
    box.until(lambda: box.job(1)["idle_gpus"], "its own mark")
    box.gpuq("pause", 1)
    box.until(lambda: not box.job(1)["idle_gpus"], "the end of the mark")
    box.gpuq("resume", 1)
    (box.directory / "go").touch()
    assert runner.wait(LIMIT) == 0


def test_idle_hook_whose_keeper_dies_runs_again_and_a_later_runner_knows_the_mark(box):  # noqa: F811
    box.cards(card(0, utilization=0))
    box.add("--idle-warn", "0.2", "--on-finish", HOOK, "--on-idle", HOOK + '; [ "$GPUQ_HOOK_EVENT$GPUQ_HOOK_TRY" != idle1 ] || kill -9 $PPID', WAIT)
    runner = box.start("run", *FAST)
    box.until(lambda: len(hooks(box)) == 2, "the second try")
    assert [hook[:2] for hook in hooks(box)] == [("idle", 1), ("idle", 2)]
    # Its outcome is written before another runner could run it again.
    box.until(lambda: any(event["event"] == "idle" and event.get("status") == "completed" for event in box.events()), "its end")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    box.cards(card(0, utilization=99))
    runner = box.start("run", *FAST)
    box.until(lambda: box.job(1)["idle_gpus"] == [], "the next runner to see that the GPU is busy")
    (box.directory / "go").touch()
    assert runner.wait(LIMIT) == 0
    assert [hook[:2] for hook in hooks(box)] == [("idle", 1), ("idle", 2), ("finish", 1)]
    assert [line["gpus"] for line in idle_lines(box)] == [[0], []]


def test_idle_warn_comes_from_scripts_commands_files_configuration_and_edit(box):  # noqa: F811
    script = box.directory / "train.sh"
    script.write_text("#!/bin/sh\n#GPUQ --idle-warn 20m\ntrue\n")
    script.chmod(0o755)
    box.gpuq("add", "--hold", "--no-start", "./train.sh")
    box.gpuq("add", "--hold", "--no-start", "--idle-warn", "15m", "true")
    (box.directory / "gpuq.yaml").write_text("idle_warn: 1h\n")
    box.gpuq("add", "--hold", "--no-start", "true")
    box.gpuq("add", "--hold", "--no-start", "--idle-warn", "0", "true")
    assert [box.job(number)["idle_warn"] for number in (1, 2, 3, 4)] == [1200, 900, 3600, 0]
    box.gpuq("edit", 4, "--idle-warn", "30s")
    assert box.job(4)["idle_warn"] == 30
    assert "idle_warn" in box.gpuq("config")
    result = box.result("add", "--idle-warn", "soon", "true")
    assert result.returncode == 2 and "--idle-warn: " in result.stderr
    box.commands("# gpuq: idle_warn=10m", "true")
    box.gpuq("run", "--commands-file", "commands.txt", "--gpus", "sim:1")
    assert box.job(5)["idle_warn"] == 600


def test_simulated_gpus_are_never_idle(box):  # noqa: F811
    box.add("--idle-warn", "0.05", "echo 1 >> ran; sleep 0.5")
    box.gpuq("run", "--gpus", "sim:1", *FAST)
    assert box.job(1)["idle_gpu_seconds"] is None


def test_views_show_the_idle_mark_the_peak_so_far_and_the_pause(box):  # noqa: F811
    box.cards(card(0, utilization=0))
    box.add("--idle-warn", "0.3", "echo $$ > pid; " + WAIT)
    runner = box.start("run", *FAST)
    box.until(lambda: (box.directory / "pid").exists() and (box.directory / "pid").read_text().strip(), "the job")
    pid = (box.directory / "pid").read_text().strip()
    box.cards(card(0, free=50, utilization=0, compute=f"{pid} {30 << 30}"))
    page = Page(box)
    stream = page.stream()
    rows = stream.until("rows", lambda told: told["rows"] and told["rows"][0]["idle_since"] and told["rows"][0]["peak_mb"])
    assert rows["rows"][0]["peak_mb"] == 30 << 10 and not rows["rows"][0]["paused"]
    metrics = page.ask("/metrics").content.decode()
    assert f'gpuq_job_memory_peak_bytes{{id="1",name=""}} {30 << 30}\n' in metrics
    box.gpuq("pause", "1")
    stream.until("rows", lambda told: told["rows"] and told["rows"][0]["paused"])
    box.gpuq("pause")
    stream.until("state", lambda told: told["paused"])
    box.gpuq("resume")
    box.gpuq("resume", "1")
    stream.until("state", lambda told: not told["paused"])
    stream.close()
    (box.directory / "go").touch()
    assert runner.wait(LIMIT) == 0


def test_the_hook_for_idle_gpus_is_that_of_the_job_before_that_of_the_runner(box):  # noqa: F811
    box.cards(card(0, utilization=0), card(1, utilization=0))
    (box.directory / "train.sh").write_text("#!/bin/sh\n#GPUQ --on-idle 'echo script >> told; exit 3'\n#GPUQ --gpu 0 --idle-warn 0.2\n" + WAIT + "\n")
    box.add("train.sh")
    box.add("--gpu", "1", "--idle-warn", "0.2", WAIT)
    assert box.job(1)["on_idle"] == "echo script >> told; exit 3" and box.job(2)["on_idle"] is None
    box.gpuq("edit", "--no-start", 1, "--priority", "1")
    assert "echo script >> told; exit 3" in box.gpuq("info", 1)
    runner = box.start("run", *FAST, "--on-idle", "echo runner >> told")
    box.until(lambda: len(told(box)) == 2, "the hooks")
    assert sorted(told(box)) == ["runner", "script"]
    (box.directory / "go").touch()
    out, _ = runner.communicate(timeout=LIMIT)
    assert runner.returncode == 0 and b"the --on-idle hook of job 1 failed with exit code 3; its output is in" in out


def told(box):
    path = box.directory / "told"
    return path.read_text().split() if path.exists() else []
