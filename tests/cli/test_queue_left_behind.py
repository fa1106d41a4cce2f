# SPDX-License-Identifier: MIT
"""Processes left behind when the processes above a job are killed, and unkillable processes."""
import os
import pathlib
import platform
import signal
import subprocess
import sys

import pytest

from lab import GPUQ, LIMIT
from processes import alive, name_of
from sealing import again

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def number_in(path):
    return path.exists() and path.read_text().strip() and int(path.read_text())


# ---- Keeper and nursery killed -----------------------------------------------------------

DAEMON = "setsid env -i sh -c 'echo $$ > daemon; exec sleep 1000' & until [ -s daemon ]; do sleep 0.01; done; " \
         "echo $$ > first; exec sleep 1000"


@pytest.mark.parametrize("nursery_first", [True, False], ids=["nursery-first", "keeper-first"])
def test_nothing_of_a_job_keeps_running_when_keeper_and_nursery_are_killed_together(lab, nursery_first):
    lab.commands(DAEMON, "until [ -e go ]; do sleep 0.01; done; echo second >> ran")
    runner = lab.start("run")
    lab.until(lambda: number_in(lab.directory / "first"), "the job")
    lab.until(lambda: len(lab.keepers()) == 2)
    daemon = number_in(lab.directory / "daemon")
    keeper = next(pid for pid in lab.keepers() if pid == parent_of(number_in(lab.directory / "first")))
    nursery = parent_of(keeper)
    assert name_of(nursery) == "gpuq-nursery"
    # Stop the nursery, so that it does nothing between the two kills.
    os.kill(nursery, signal.SIGSTOP)
    for pid in (nursery, keeper) if nursery_first else (keeper, nursery):
        os.kill(pid, signal.SIGKILL)
    lab.until(lambda: not alive(daemon), "the end of the daemon")
    lab.until(lambda: lab.job(1)["reason"] == "keeper lost", "the end of the job")
    # The other keeper has become the runner's child, and its job continues.
    assert lab.job(2)["status"] == "running"
    lab.add("echo third >> ran")
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 1
    assert sorted(lab.ran()) == ["second", "third"]


def test_children_that_a_runner_had_before_are_left_alone(lab):
    """`server & exec gpuq run`: processes that do not belong to a job are not ended."""
    lab.commands("echo $$ > first; until [ -e go ]; do sleep 0.01; done")
    script = "(sleep 1000 & echo $! > server.draft; mv server.draft server; wait) & exec \"$0\" run"
    runner = subprocess.Popen(["sh", "-c", script, os.environ["GPUQ"]], cwd=lab.directory, env=lab.environment,
                              stdout=subprocess.DEVNULL)
    lab.started.append(runner)
    server = lab.until(lambda: number_in(lab.directory / "server"))
    first = lab.until(lambda: number_in(lab.directory / "first"), "the job")
    nursery = parent_of(parent_of(first))
    os.kill(nursery, signal.SIGKILL)
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 0
    assert alive(server)
    os.kill(server, signal.SIGKILL)


def test_jobs_of_many_lost_keepers_are_ended_at_once(lab):
    """Their processes are gone when their ends are written."""
    count = 30
    lab.environment["GPUQ_GPUS"] = f"sim:{count}"
    for number in range(count):
        lab.add(f"echo $$ > pid.{number}; exec sleep 1000")
    runner = lab.start("run", "--jobs-per-gpu", "1")
    pids = [lab.until(lambda: number_in(lab.directory / f"pid.{number}"), "the jobs") for number in range(count)]
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    for pid in lab.keepers():
        os.kill(pid, signal.SIGKILL)
    lab.gpuq("run", code=1)
    assert {job["reason"] for job in lab.jobs().values()} == {"keeper lost"}
    assert not any(alive(pid) for pid in pids)


# A process that is exiting, and has closed its descriptors, but still has a child: its other thread continues.
EXITING = """
import ctypes, os, subprocess, threading
def work():
    while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
        pass
    child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, env={"GPUQ_COOKIE": os.environ["GPUQ_COOKIE"]})
    print(child.pid, flush=True)
    child.wait()
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(%d, 0)
""" % {"x86_64": 60, "aarch64": 93}.get(platform.machine(), 0)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the number of the system call is unknown")
def test_processes_of_a_keeper_that_is_exiting_are_ended(lab):
    """The kernel frees the lock of a killed keeper shortly before its job gets another parent."""
    lab.add("exec sleep 1000")
    runner = lab.start("run")
    lab.until(lambda: any(event["event"] == "start" for event in lab.events()), "the job")
    keeper = next(event for event in lab.events() if event["event"] == "keeper")
    for pid in (runner.pid, keeper["pid"]):
        os.kill(pid, signal.SIGKILL)
    runner.wait()
    lab.until(lambda: not alive(keeper["pid"]), "the end of the keeper")
    exiting = subprocess.Popen([sys.executable, "-c", EXITING], env={**lab.environment, "GPUQ_COOKIE": f"{keeper['keeper']}-1-1"},
                               stdout=subprocess.PIPE, text=True)
    lab.started.append(exiting)
    left = int(exiting.stdout.readline())
    events = [{**event, "pid": exiting.pid} if event["event"] == "keeper" else event for event in lab.events()]
    lab.journal.write_bytes(again(events))
    lab.gpuq("run", code=1)
    assert lab.job(1)["reason"] == "keeper lost" and not alive(left)


# ---- Unkillable processes ----------------------------------------------------------------


@pytest.fixture
def ice():
    """Freezes processes: even SIGKILL does not end them until they are thawed."""
    group = FREEZER / f"gpuq-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot create control group '{group}': {error}")

    def settle(state):
        for _ in range(1000):
            (group / "freezer.state").write_text(state)
            if (group / "freezer.state").read_text().strip() == state:
                return
        raise AssertionError(f"control group '{group}' does not become {state}")

    class Ice:
        @staticmethod
        def freeze(pid):
            (group / "cgroup.procs").write_text(str(pid))
            settle("FROZEN")

        @staticmethod
        def thaw():
            settle("THAWED")

    yield Ice
    settle("THAWED")
    for _ in range(10000):
        try:
            group.rmdir()
            break
        except OSError:
            for pid in (group / "cgroup.procs").read_text().split():
                (FREEZER / "cgroup.procs").write_text(pid)


def test_a_job_that_cannot_be_killed_takes_its_gpu_out_of_use(lab, ice):
    lab.add("echo $$ > first; exec sleep 1000")
    runner = lab.start("run", "--jobs-per-gpu", "1", "--grace", "10ms", text=True)
    first = lab.until(lambda: number_in(lab.directory / "first"), "the job")
    ice.freeze(first)
    lab.gpuq("cancel", 1)
    # A process that a hook leaves behind cannot be killed either.
    lab.add("--on-finish", "sleep 1000 & echo $! > child; until [ -e frozen ]; do sleep 0.01; done", "echo 2 >> ran")
    ice.freeze(lab.until(lambda: number_in(lab.directory / "child"), "the hook"))
    (lab.directory / "frozen").touch()
    lab.add("echo 3 >> ran")
    wide = lab.add("--num-gpus", "2", "echo never >> ran")
    # The runner waits at most ten seconds, and other jobs continue meanwhile.
    out, err = runner.communicate(timeout=60)
    assert runner.returncode == 1, (out, err)
    assert lab.ran() == ["2", "3"]
    assert f"job 1 (PID {first}) cannot be killed; its GPU takes no other job until it has ended" in out
    assert "1 job left running: it cannot be killed" in out
    assert "1 job left pending" in out
    assert {lab.job(number)["gpu_id"] for number in (2, 3)} == {1 - lab.job(1)["gpu_id"]}
    job = lab.job(1)
    assert (job["status"], job["reason"]) == ("running", "cannot be killed")
    assert "Running (PID %d), cannot be killed" % first in lab.gpuq("status")
    assert lab.job(wide)["status"] == "pending"
    assert f"GPU {job['gpu_id']}: out of use: job 1 there cannot be killed" in lab.gpuq("why", wide)
    # The next runner also knows, and does not use the GPU; it can exit, too.
    lab.add("echo 5 >> ran")
    lab.gpuq("run", "--jobs-per-gpu", "1", code=1)
    assert lab.job(5)["gpu_id"] == 1 - job["gpu_id"]
    # When the job finally dies, its keeper reports it, and the GPU is used again.
    ice.thaw()
    lab.until(lambda: lab.job(1)["status"] == "cancelled", "its end")
    lab.gpuq("run")
    assert lab.ran() == ["2", "3", "5", "never"]


def test_end_of_an_unkillable_job_without_keeper_is_not_written(lab, ice):
    """Its end is not written while it runs, and no process waits for that."""
    lab.add("echo $$ > first; exec sleep 1000")
    runner = lab.start("run", "--jobs-per-gpu", "1", text=True)
    first = lab.until(lambda: number_in(lab.directory / "first"), "the job")
    ice.freeze(first)
    lab.until(lambda: any(event["event"] == "start" for event in lab.events()))
    os.kill(lab.keepers()[0], signal.SIGKILL)
    lab.add("echo 2 >> ran")
    lab.add("echo 3 >> ran")
    out, err = runner.communicate(timeout=60)
    assert runner.returncode == 1, (out, err)
    assert "cannot be killed" in out
    assert lab.ran() == ["2", "3"]
    assert any(event["event"] == "stuck" for event in lab.events())
    assert not any(event["event"] == "end" and event["id"] == 1 for event in lab.events())
    ice.thaw()
    lab.until(lambda: not alive(first), "its end")
    lab.gpuq("run", code=1)
    assert (lab.job(1)["status"], lab.job(1)["reason"]) == ("failed", "keeper lost")


INIT = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
code = subprocess.call(sys.argv[1:])
me = os.getpid()
left = []
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        fields = open(f"/proc/{name}/stat").read().rsplit(")", 1)
    except OSError:
        continue
    if int(fields[1].split()[1]) == me:
        left.append(fields[0])
print(code, left)
"""


def test_run_leaves_no_zombie_to_an_init_that_does_not_reap(lab):
    """Like PID 1 of a container that inherits every orphan and waits only for the processes that it started."""
    lab.commands("true", "true")
    result = subprocess.run([sys.executable, "-c", INIT, GPUQ, "run", "--quiet"], cwd=lab.directory, env=lab.environment,
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert result.stdout.splitlines()[-1] == "0 []", result
