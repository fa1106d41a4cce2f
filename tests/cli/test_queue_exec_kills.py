# SPDX-License-Identifier: MIT
"""gpuq exec and SIGKILL: no command starts twice, nothing is left running, the queue continues."""
import itertools
import os
import signal
import subprocess

import pytest

import kill_points
import processes
from lab import LIMIT

FINAL = ("completed", "failed", "cancelled")
FRONT, KEEPER, RUNNER = 0, 1, 2


def start_runner(lab):
    runner = lab.start("run", "--keep", "--quiet", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lab.until(lambda: (lab.directory / "jobs.jsonl.d/schedule").exists(), "the runner")
    return runner


def check_queue_goes_on(lab):
    number = int(lab.gpuq("add", "--num-gpus", len_of_gpus(lab), "echo after >> ran"))
    lab.gpuq("wait", number)
    assert lab.ran()[-1] == "after"


def len_of_gpus(lab):
    return int(lab.environment["GPUQ_GPUS"].partition(":")[2])


def check_lease(lab, number, word):
    """Checks that the lease started at most once, has ended, and ran if it reports so."""
    events = [event for event in lab.events() if event.get("id") == number]
    starts = [event for event in events if event["event"] == "start"]
    assert len(starts) <= 1, events
    assert [event["event"] for event in events].count("end") == len(starts), events
    job = lab.job(number)
    assert job["status"] in FINAL, job
    assert lab.ran().count(word) <= len(starts)
    if job["exit_code"] is not None:
        assert (job["exit_code"], lab.ran().count(word)) == (3, 1), job
    return job


def left_over(lab):
    return [pid for pid in lab.processes() if processes.name_of(pid) in ("sh", "sleep")]


EXEC = ("exec", "--quiet", "--", "sh", "-c", "echo leased >> ran; sleep 0.001 & exit 3")


def made(lab, name, runner_before):
    """A separate queue."""
    directory = lab.directory / name
    directory.mkdir()
    one = type(lab)(directory)
    if runner_before:
        start_runner(one)
    return one


def calls_of(lab, name, depth, step):
    """The calls of `gpuq exec` at which a process of that depth is killed."""
    if kill_points.ALL:
        return itertools.count(1, step)
    one = made(lab, "count", True)
    calls = kill_points.count_calls(one, depth, *EXEC)
    one.end()
    return kill_points.chosen(name, calls)


def every_call(lab, depth, calls, runner_before):
    """Kills at each of these system calls of processes of that depth; returns how the leases ended."""
    ends = []
    for n in calls:
        one = made(lab, f"at-{n}", runner_before)
        try:
            killed = kill_points.killed_at(one, depth, n, *EXEC)
            try:
                check_queue_goes_on(one)
                added = [event["id"] for event in one.events() if event["event"] == "add" and "keeper" in event]
                for number in added:
                    one.until(lambda: one.job(number)["status"] in FINAL, "the end of the lease")
                    ends.append(check_lease(one, number, "leased")["status"])
                one.until(lambda: not left_over(one), "the end of the remaining processes")
            except AssertionError as error:
                raise AssertionError(f"killed at call {n}: {error}\n{one.journal.read_text()}") from error
        finally:
            one.end()
        if kill_points.ALL and not killed:
            break
    return ends


def check_ends(ends, kinds):
    """If all calls were tried, every kind of end must have occurred."""
    assert ends and set(ends) <= set(FINAL)
    assert not kill_points.ALL or (kinds <= set(ends) and len(ends) > 10), ends


def test_exec_killed_at_any_system_call(lab):
    check_ends(every_call(lab, FRONT, calls_of(lab, "front", FRONT, 7), True), {"cancelled", "failed"})


def test_keeper_of_exec_killed_at_any_system_call(lab):
    check_ends(every_call(lab, KEEPER, calls_of(lab, "keeper", KEEPER, 3), True), {"cancelled", "failed"})


def test_runner_killed_at_any_system_call_while_exec_waits(lab):
    """The runner that exec starts, and the process that becomes the command. The runner lingers afterwards."""
    calls = range(5, 900, 40)
    if not kill_points.ALL:
        calls = sorted(kill_points.seeded("runner").sample(calls, 5))
    ends = every_call(lab, RUNNER, calls, False)
    check_ends(ends, {"failed"})
    assert set(ends) <= {"failed"}


def kill_somebody(lab, rng, fronts):
    """Kills one of the processes that may be killed at any time."""
    victims = [lab.runner()] if rng.random() < 0.4 else rng.choice([[p.pid for p in fronts if p.poll() is None], lab.keepers()])
    for pid in rng.sample(victims, min(1, len(victims))):
        try:
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
                return 1
        except ProcessLookupError:
            pass
    return 0


@pytest.mark.parametrize("case", range(3 if kill_points.ALL else 1))
def test_kills_at_random_moments(lab, case):
    rng = kill_points.seeded(f"exec {case}")
    fronts, kills = [], 0
    lab.add("true")
    for number in range(1, 41):
        if rng.random() < 0.3:
            lab.gpuq("add", "--mem", f"{rng.randint(1, 12)}G", f"echo job{number} >> ran")
        fronts.append(lab.start("exec", "--quiet", "--mem", f"{rng.randint(1, 12)}G", "--", "sh", "-c",
                                f"echo lease{number} >> ran; sleep {rng.uniform(0, 0.05):.3f}",
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if rng.random() < 0.6:
            kills += kill_somebody(lab, rng, fronts)
    for process in fronts:
        process.wait(timeout=LIMIT)
    # The last runner may have been killed after the last exec.
    lab.gpuq("run", "--quiet", code=None)
    lab.until(lambda: all(job["status"] in FINAL for job in lab.jobs().values()), "all ends")
    assert kills >= 5
    starts = [event["id"] for event in lab.events() if event["event"] == "start"]
    ran = lab.ran()
    for word in set(ran):
        assert ran.count(word) == 1 or word.startswith("job"), (word, ran)
    for number, job in lab.jobs().items():
        assert not job["lease"] or starts.count(number) <= 1, job
        assert job["lease"] or job["status"] == "completed" or job["reason"] == "keeper lost", job
    lab.until(lambda: not left_over(lab), "the end of all commands")
