# SPDX-License-Identifier: MIT
"""The state of a job is correct whichever process is killed: real runners, keepers and jobs, and SIGKILL."""
import itertools
import os
import pathlib
import signal
import subprocess

import pytest

import kill_points
import sealing
from lab import LIMIT
from processes import alive


def check_each_ran_once(lab, count):
    """Every command ran exactly once, has its own exit code, and its log."""
    assert sorted(map(int, lab.ran())) == list(range(1, count + 1))
    jobs = lab.jobs()
    assert len(jobs) == count
    for number, job in jobs.items():
        code = number % 3
        assert (job["status"], job["exit_code"], job["attempts"]) == (
            "failed" if code else "completed", code, 1), job
        assert pathlib.Path(job["log_file"]).read_text() == f"log {number}\n"
    assert len({job["log_file"] for job in jobs.values()}) == count


def queue_of(lab, count):
    lab.commands(*(f"echo {n} >> ran; echo log {n}; exit {n % 3}" for n in range(1, count + 1)))


def drain(lab, *words):
    """Runs until all jobs have ended, whatever is left from before."""
    result = lab.result("run", "--quiet", "--jobs-per-gpu", "1", *words)
    assert result.returncode in (0, 1), (result.returncode, result.stderr)


def kill_randomly(lab, rng, times, most_ms):
    kills = 0
    while kills < times:
        runner = lab.start("run", "--quiet", "--jobs-per-gpu", "2", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            runner.wait(timeout=rng.uniform(0, most_ms) / 1000)
        except subprocess.TimeoutExpired:
            runner.kill()
            kills += 1
        code = runner.wait()
        if code in (0, 1):
            return kills
    return kills


def test_runner_killed_at_random_moments_runs_each_job_once(lab):
    count = 400
    queue_of(lab, count)
    kills = kill_randomly(lab, kill_points.seeded("runner"), 40, 60)
    drain(lab)
    assert kills >= 10
    check_each_ran_once(lab, count)


@pytest.mark.heavy
def test_runner_killed_200_times_over_2000_jobs_runs_each_once(lab):
    count = 2000
    queue_of(lab, count)
    kills = kill_randomly(lab, kill_points.seeded("runner often"), 200, 14)
    drain(lab)
    assert kills >= 100
    check_each_ran_once(lab, count)


RUN = ("run", "--quiet", "--jobs-per-gpu", "1")


def every_call(lab, depth, check, count=3, step=1, first=None, prepare=queue_of, options=()):
    """
    Kills at some system calls of a process, or at every `step`-th call (kill_points.py), each time in a new
    queue; with `first`, at each of the first calls instead. Returns how many processes were killed, and
    how many kills were planned: a process does not make the same number of calls in every run.
    """
    def prepared(name):
        directory = lab.directory / name
        directory.mkdir()
        one = type(lab)(directory)
        prepare(one, count)
        return one

    def tried(one, number):
        try:
            killed = kill_points.killed_at(one, depth, number, *RUN, *options)
            drain(one)
            try:
                check(one, count)
            except AssertionError as error:
                raise AssertionError(f"killed at call {number}: {error}\n{one.journal.read_text()}") from error
        finally:
            one.end()
        return killed

    if first and not kill_points.ALL:
        numbers = range(1, first + 1)
    elif kill_points.ALL:
        numbers = itertools.count(1, step)
    else:
        one = prepared("count")
        calls = kill_points.count_calls(one, depth, *RUN, *options)
        one.end()
        numbers = kill_points.chosen(f"{check.__name__} {depth}", calls)
    kills = tries = 0
    for number in numbers:
        killed = tried(prepared(f"at-{number}"), number)
        if kill_points.ALL and not killed:
            return kills, tries
        kills += killed
        tries += 1
    return kills, tries


def check_kills(kills, least):
    """Most of the planned kills happened; with "all", at least this many."""
    killed, tries = kills
    assert killed >= (least if kill_points.ALL else max(1, tries // 2)), kills


def test_runner_killed_at_any_system_call_runs_each_job_once(lab):
    check_kills(every_call(lab, 0, check_each_ran_once), 51)


def check_keeper_killed(lab, count):
    """The job finished or failed as lost, never ran twice, and left no process."""
    ran = sorted(map(int, lab.ran()))
    assert len(ran) == len(set(ran)), ran
    jobs = lab.jobs()
    assert sorted(jobs) == list(range(1, count + 1))
    lost = 0
    for number, job in jobs.items():
        assert job["attempts"] == 1
        if job["reason"] == "keeper lost":
            assert job["status"] == "failed"
            lost += 1
        else:
            assert (job["exit_code"], job["reason"]) == (number % 3, None), job
            assert number in ran
    assert lost <= 1


def test_nursery_killed_at_any_system_call_runs_each_job_once(lab):
    check_kills(every_call(lab, 1, check_each_ran_once), 4)


def test_keeper_killed_at_any_system_call_loses_at_most_its_job(lab):
    check_kills(every_call(lab, 2, check_keeper_killed), 21)


def add_each(lab, count):
    for n in range(1, count + 1):
        lab.add(f"echo {n} >> ran; exit {n % 3}")


def check_each_has_its_hook(lab, count):
    """At least one complete run of the hook for each end; each repetition has another number."""
    lines = (lab.directory / "hooks").read_text().split() if (lab.directory / "hooks").exists() else []
    for number in range(1, count + 1):
        tries = [int(line.split(":")[1]) for line in lines if line.startswith(f"{number}:")]
        assert tries, (number, lines)
        assert len(set(tries)) == len(tries) and max(tries) <= 2, lines
    recorded = [event for event in lab.events() if event["event"] == "hook" and "status" in event]
    assert sorted(event["id"] for event in recorded) == list(range(1, count + 1))


def test_no_hook_is_lost_at_whatever_system_call_its_keeper_is_killed(lab):
    """The hook is the runner's; the next runner has none and takes the command from the journal."""
    kills = every_call(lab, 2, check_each_has_its_hook, count=1, step=3, prepare=add_each,
                       options=("--on-finish", "echo $GPUQ_JOB_ID:$GPUQ_HOOK_TRY >> hooks"))
    check_kills(kills, 31)


def test_job_killed_at_any_call_before_its_command_runs_at_most_once(lab):
    def check(one, count):
        ran = sorted(map(int, one.ran()))
        assert len(ran) == len(set(ran)), ran
        jobs = one.jobs()
        assert sorted(jobs) == list(range(1, count + 1))
        for number, job in jobs.items():
            assert job["status"] in ("completed", "failed")
            assert job["signal"] == 9 or (job["exit_code"] == number % 3 and number in ran), job

    # sh makes more calls; only the calls before it matter.
    check_kills(every_call(lab, 3, check, count=1, first=24), 11)


def test_keepers_killed_at_random_moments_run_no_job_twice(lab):
    """Each job has ended or is lost with its keeper; none ran twice, none is missing."""
    count = 300
    queue_of(lab, count)
    rng = kill_points.seeded("keepers")
    runner = lab.start("run", "--quiet", "--jobs-per-gpu", "2", stdout=subprocess.DEVNULL)
    kills = 0
    while runner.poll() is None and kills < 40:
        keepers = lab.keepers() if lab.journal.exists() else []
        if keepers:
            try:
                os.kill(rng.choice(keepers), signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
    assert runner.wait(timeout=LIMIT) == 1
    assert kills >= 10
    ran = list(map(int, lab.ran()))
    assert len(ran) == len(set(ran))
    jobs = lab.jobs()
    assert sorted(jobs) == list(range(1, count + 1))
    for number, job in jobs.items():
        assert job["attempts"] == 1, job
        if job["reason"] != "keeper lost":
            assert (job["exit_code"], number in ran) == (number % 3, True), job
    lab.until(lambda: not lab.processes(), "the end of all processes")


def test_keeper_killed_ends_the_job_and_all_it_left(lab):
    lab.commands("setsid sleep 1000 & env -i setsid sleep 1001 & echo $$ > pid; exec sleep 1002")
    runner = lab.start("run")
    lab.until(lambda: (lab.directory / "pid").exists() and (lab.directory / "pid").read_text(), "the job")
    pid = int((lab.directory / "pid").read_text())
    lab.until(lambda: len(all_sleepers(lab)) == 3, "its processes")
    everyone = all_sleepers(lab)
    assert pid in everyone
    os.kill(lab.keepers()[0], signal.SIGKILL)
    assert runner.wait(timeout=LIMIT) == 1
    assert (lab.job(1)["status"], lab.job(1)["reason"]) == ("failed", "keeper lost")
    lab.until(lambda: not any(alive(p) for p in everyone), "the end of the remaining processes")


def is_sleep(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    except OSError:
        return False


def all_sleepers(lab):
    """All descendants of our keepers called sleep, even those with an empty environment."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    todo, found = list(lab.keepers()), []
    while todo:
        for child in children.get(todo.pop(), []):
            todo.append(child)
            found.append(child)
    return [pid for pid in found if is_sleep(pid)]


def test_jobs_survive_the_runner_and_are_found_again(lab):
    lab.commands("echo 1 >> ran; while [ ! -e go ]; do sleep 0.01; done; exit 5")
    runner = lab.start("run")
    lab.until(lab.ran, "the job")
    runner.kill()
    runner.wait()
    assert lab.job(1)["status"] == "running"
    counters = lab.directory / "jobs.jsonl.d/append.lock"
    before = counters.read_bytes()
    second = lab.start("run")
    # The fence shows that it has read the journal and knows the job.
    lab.until(lambda: counters.read_bytes() != before, "the second runner")
    (lab.directory / "go").touch()
    assert second.wait(timeout=LIMIT) == 1
    assert (lab.job(1)["status"], lab.job(1)["exit_code"], lab.ran()) == ("failed", 5, ["1"])


def test_job_that_ends_without_a_runner_keeps_its_exit_code(lab):
    lab.commands("echo 1 >> ran; while [ ! -e go ]; do sleep 0.01; done; exit 6")
    runner = lab.start("run")
    lab.until(lab.ran, "the job")
    runner.kill()
    runner.wait()
    (lab.directory / "go").touch()
    lab.until(lambda: lab.job(1)["status"] != "running", "the end")
    assert (lab.job(1)["exit_code"], lab.ran()) == (6, ["1"])
    assert lab.result("wait", 1).returncode == 6


def test_retries_run_a_job_again_whose_keeper_was_killed(lab):
    lab.commands("echo 1 >> ran; [ -e go ] || sleep 1000")
    runner = lab.start("run", "--retries", "1")
    lab.until(lab.ran, "the job")
    (lab.directory / "go").touch()
    os.kill(lab.keepers()[0], signal.SIGKILL)
    assert runner.wait(timeout=LIMIT) == 0
    assert lab.ran() == ["1", "1"]
    job = lab.job(1)
    assert (job["status"], job["attempts"]) == ("completed", 2)
    assert job["history"][0]["reason"] == "keeper lost"


def test_cancel_works_without_a_runner(lab):
    lab.commands("echo 1 >> ran; exec sleep 1000")
    runner = lab.start("run")
    lab.until(lab.ran, "the job")
    runner.kill()
    runner.wait()
    lab.gpuq("cancel", 1)
    lab.until(lambda: lab.job(1)["status"] == "cancelled", "the end")


def test_ten_runs_and_fifty_adds_run_each_job_once(lab):
    lab.commands(*(f"echo f{n} >> ran" for n in range(40)))
    runs = [lab.start("run", "--quiet") for _ in range(10)]
    adds = [lab.start("add", "--no-start", f"echo a{n} >> ran") for n in range(50)]
    ids = [int(add.communicate(timeout=LIMIT)[0]) for add in adds]
    assert all(add.returncode == 0 for add in adds)
    assert len(set(ids)) == 50
    for run in runs:
        out, err = run.communicate(timeout=LIMIT)
        assert run.returncode == 0, (out, err)
    drain(lab)
    assert sorted(lab.ran()) == sorted([f"f{n}" for n in range(40)] + [f"a{n}" for n in range(50)])
    assert {job["status"] for job in lab.jobs().values()} == {"completed"}


# ---- Jobs whose keeper is gone or on another host --------------------------------------


def running_elsewhere(lab, pid, **keeper):
    """A journal with a running job, and the unlocked file of its keeper."""
    lab.add("echo again >> ran; exit 4")
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    here = {"event": "keeper", "time": "2026-11-15T21:42:19.600Z", "keeper": "k1", "pid": pid, "host": os.uname().nodename,
            "boot": boot, "pidns": os.readlink("/proc/self/ns/pid")[5:-1]}
    start = {"event": "start", "id": 1, "attempt": 1, "time": "2026-11-15T21:42:19.700Z", "gpus": [0], "pid": pid,
             "keeper": "k1"}
    sealing.append(lab.journal, {**here, **keeper}, start)
    (lab.directory / "jobs.jsonl.d/keepers/k1").touch()


def test_pid_that_was_reused_is_not_taken_for_the_keeper(lab):
    with subprocess.Popen(["sleep", "1000"]) as innocent:
        running_elsewhere(lab, innocent.pid)
        assert lab.job(1)["reason"] == "keeper lost"
        assert lab.result("cancel", 1).returncode == 0
        lab.gpuq("run", code=1)
        assert innocent.poll() is None
        innocent.kill()
    assert lab.ran() == []
    assert lab.job(1)["reason"] == "keeper lost"


def test_job_that_ran_when_the_machine_restarted_fails_with_that_reason(lab):
    running_elsewhere(lab, 4711, boot="11111111-2222-3333-4444-555555555555")
    lab.gpuq("run", code=1)
    assert (lab.job(1)["status"], lab.job(1)["reason"], lab.ran()) == ("failed", "machine restarted", [])


def test_job_of_another_host_is_left_alone(lab):
    running_elsewhere(lab, 4711, host="another-host")
    assert lab.job(1)["status"] == "running"
    lab.add("echo 2 >> ran")
    lab.gpuq("run", code=1)
    assert lab.job(1)["status"] == "running"
    assert lab.ran() == ["2"]


def test_cancel_that_was_not_passed_on_is_obeyed_by_the_next_runner(lab):
    """The cancelling process was killed between the line and the signal."""
    lab.add("echo a >> ran; sleep 60")
    runner = lab.start("run")
    lab.until(lab.ran)
    runner.kill()
    runner.wait()
    sealing.append(lab.journal, {"event": "cancel", "id": 1, "time": "2026-11-15T22:12:54.350Z"})
    lab.gpuq("run", code=1)
    assert lab.job(1)["status"] == "cancelled"


def test_runner_that_is_told_to_exit_does_not_report_that_all_is_done(lab):
    lab.add("--hold", "true")
    lab.add("true")
    runner = lab.start("run", "--keep", "--min-free-mem-mb", "99999999")
    lab.until(lambda: (lab.directory / "jobs.jsonl.d/runner.lock").exists() and lab.runner() == runner.pid)
    runner.terminate()
    assert runner.wait(timeout=LIMIT) == 130
