# SPDX-License-Identifier: MIT
"""A queue on a real Slurm, as an ordinary user: the coordinator submits pilots, which run the jobs."""
import collections
import json
import os
import signal
import subprocess

import processes
import pytest
import sealing

LIMIT = 240
OPTIONS = "--gres=gpu:1 --time=10"
WAITING = "echo $GPUQ_JOB_ID:$GPUQ_ATTEMPT >> ran; until [ -e go ]; do sleep 0.05; done; echo $GPUQ_JOB_ID >> done"


class Queue:
    def __init__(self, lab):
        self.lab, self.started = lab, []

    def add(self, *words):
        return int(self.lab.gpuq("add", "--no-start", "--jobs-file", "jobs.jsonl", *words))

    def run(self, *words, nodes=2, options=OPTIONS):
        with open(self.lab.directory / "coordinator.out", "a", encoding="utf-8") as log:
            process = subprocess.Popen(["gpuq-slurm", "coordinator", "--jobs-file", self.lab.journal, "--towards", "127.0.0.1", "--slurm", options,
                                        "--max-nodes", str(nodes), *words], cwd=self.lab.directory, env=self.lab.cluster.environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.lab.cluster.identity())
        self.started.append(process)
        return process

    def events(self, *kinds):
        rows = [json.loads(row) for row in self.lab.journal.read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if row["event"] in kinds]

    def until(self, condition, what):
        return self.lab.until(condition, f"{what}: {(self.lab.directory / 'coordinator.out').read_text(encoding='utf-8')}")

    def squeue(self):
        """Slurm jobs that have not ended."""
        return self.lab.slurm("squeue", "-h", "-o", "%i").split()

    def check_once(self, count):
        ends = collections.Counter(row["id"] for row in self.events("end") if row["status"] == "completed")
        assert ends == {number: 1 for number in range(1, count + 1)}

    def finish(self, boss):
        """Pilots leave with the coordinator."""
        self.lab.touch("go")
        code = boss.wait(LIMIT)
        self.until(lambda: not self.squeue(), "the end of the pilots")
        return code


@pytest.fixture(name="queue")
def make_queue(lab):
    made = Queue(lab)
    yield made
    for process in made.started:
        process.kill()
        process.wait()
    lab.slurm("scancel", "-u", lab.cluster.user.pw_name, code=None)
    processes.until(lambda: not made.squeue(), LIMIT, lambda: "an idle node")


def test_each_job_runs_once_through_pilots(queue):
    # Two at a time need two pilots.
    for number in range(12):
        meet = "echo here >> met; until [ $(wc -l < met) -ge 2 ]; do sleep 0.02; done; " if number < 2 else ""
        queue.add(meet + "echo $GPUQ_JOB_ID >> ran; echo $CUDA_VISIBLE_DEVICES on $GPUQ_NODE")
    boss = queue.run()
    assert queue.finish(boss) == 0
    assert sorted(map(int, queue.lab.ran())) == list(range(1, 13))
    queue.check_once(12)
    assert len({row["pilot"] for row in queue.events("start")}) == 2
    assert queue.lab.gpuq("logs", "5").strip() in ("0 on node", "1 on node")


def test_coordinator_is_killed_and_the_next_goes_on(queue):
    for _ in range(3):
        queue.add(WAITING)
    boss = queue.run()
    queue.until(lambda: len(queue.lab.ran()) == 2, "two jobs")
    boss.kill()
    boss.wait()
    assert queue.lab.states() == ["running", "running", "pending"]
    boss = queue.run()
    assert queue.finish(boss) == 0
    queue.check_once(3)
    assert sorted(queue.lab.ran()) == ["1:1", "2:1", "3:1"] and not queue.events("interrupted", "void")


@pytest.mark.parametrize("replaced", [False, True])
def test_job_starts_on_a_node_only_in_the_directory_in_which_it_was_added(queue, replaced):
    """Others can rename the directory. The device number is that of another host."""
    shared, private = queue.lab.directory / "shared", queue.lab.directory / "private"
    queue.lab.cluster.run("sh", "-ec", f"umask 0; mkdir {shared} {shared}/proj {private}; touch {shared}/proj/state {private}/state")
    words = ("add", "--no-start", "--jobs-file", queue.lab.journal, "--on-finish", f"pwd -P > {queue.lab.directory}/where", "rm state")
    queue.lab.cluster.run("gpuq", *words, cwd=shared / "proj")
    events = [json.loads(line) for line in queue.lab.journal.read_text(encoding="utf-8").splitlines()]
    (added,) = (event for event in events if event["event"] == "add")
    assert "cwd_own" not in added
    added["cwd_dev"] += 1
    queue.lab.journal.write_bytes(sealing.again(events))
    if replaced:
        queue.lab.cluster.run("sh", "-ec", "mv proj proj.old; ln -s ../private proj", cwd=shared)
    assert queue.finish(queue.run(nodes=1)) == (1 if replaced else 0)
    (end,) = queue.events("end")
    assert ("another user may have replaced it since the job was added" in end.get("reason", "")) == replaced
    assert (private / "state").exists() and (shared / "proj.old/state").exists() == replaced
    assert (queue.lab.directory / "where").read_text(encoding="utf-8") == ("/\n" if replaced else f"{shared}/proj\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: run it as root")
@pytest.mark.parametrize("folder, words", [("scripts", "its stored script"), ("env", "its environment")])
def test_stored_file_of_another_user_is_used_only_with_trust(queue, folder, words):
    """Another user was able to write to the folder in the past."""
    run = ("gpuq", "run", "--slurm", "--partition=gpu --gres=gpu:1 --time=10", "--jobs-file", queue.lab.journal)
    script = queue.lab.directory / "run.sh"
    script.write_text("#!/bin/sh\necho ran >> ran\n", encoding="ascii")
    script.chmod(0o755)
    for _ in range(2):
        queue.lab.gpuq("add", "--no-start", "--jobs-file", queue.lab.journal, "--retries", "0", "./run.sh", env={"OF_THE_JOB": "1"})
    stored, = (queue.lab.directory / "jobs.jsonl.d" / folder).iterdir()
    queue.lab.gpuq("hold", "--jobs-file", queue.lab.journal, "2")
    os.chown(stored, 54321, 54321)
    stored.chmod(0o755)
    queue.lab.cluster.run(*run, cwd=queue.lab.directory, code=1)
    (end,) = queue.events("end")
    assert end["reason"] == f"could not be started: other users may have written {words}; add the job again"
    assert not queue.lab.ran()
    queue.lab.gpuq("release", "--jobs-file", queue.lab.journal, "2", code=None)  # it cannot start a runner
    queue.lab.cluster.run(*run, "--trust", cwd=queue.lab.directory)
    assert queue.lab.ran() == ["ran"]


def test_cancelled_job_ends(queue):
    queue.add(WAITING)
    queue.add(WAITING)
    boss = queue.run()
    queue.until(lambda: len(queue.lab.ran()) == 2, "two jobs")
    queue.lab.gpuq("cancel", "1")
    queue.until(lambda: queue.lab.states()[0] == "cancelled", "the end of job 1")
    assert queue.finish(boss) == 0
    assert queue.lab.states() == ["cancelled", "completed"]


def test_cancelled_pilot_interrupts_its_job_which_runs_on_another(queue):
    queue.add(WAITING)
    boss = queue.run(nodes=1)
    queue.until(queue.lab.ran, "the job")
    (pilot,) = queue.squeue()
    queue.lab.slurm("scancel", pilot)
    queue.until(lambda: queue.lab.ran() == ["1:1", "1:2"], "the second attempt")
    assert queue.finish(boss) == 0
    queue.check_once(1)
    assert [row["attempt"] for row in queue.events("interrupted")] == [1]


def test_wrong_option_is_reported_and_nothing_waits_in_slurm(queue):
    queue.add("true")
    boss = queue.run(options="--partition=nowhere")
    queue.until(lambda: "partition" in (queue.lab.directory / "coordinator.out").read_text(encoding="utf-8"), "Slurm's message")
    boss.send_signal(signal.SIGINT)
    assert boss.wait(LIMIT) == 1
    assert queue.squeue() == [] and queue.lab.states() == ["pending"]


def test_pending_pilots_are_cancelled_at_the_end(queue):
    """The node has two GPUs: one pilot runs, and the next must wait for it."""
    for _ in range(3):
        queue.add(WAITING)
    boss = queue.run(options="--gres=gpu:2 --time=10", nodes=2)
    queue.until(lambda: len(queue.lab.ran()) == 2 and len(queue.squeue()) == 2, "two jobs, and a pilot that waits")
    queue.lab.gpuq("cancel", "3")
    assert queue.finish(boss) == 0
    assert queue.lab.states() == ["completed", "completed", "cancelled"] and len(queue.events("pilot")) == 2


def output(queue):
    return (queue.lab.directory / "coordinator.out").read_text(encoding="utf-8")


def test_job_that_is_added_while_pilots_leave_gets_another_one(queue):
    """The coordinator waits until Slurm has confirmed that the pending pilot was cancelled."""
    for _ in range(3):
        queue.add(WAITING)
    boss = queue.run(options="--gres=gpu:2 --time=10", nodes=2)
    queue.until(lambda: len(queue.lab.ran()) == 2 and len(queue.squeue()) == 2, "two jobs, and a pilot that waits")
    queue.lab.gpuq("cancel", "3")
    queue.lab.touch("go")
    queue.until(lambda: queue.lab.states() == ["completed", "completed", "cancelled"], "the end of the jobs")
    queue.add("echo $GPUQ_JOB_ID >> ran")
    assert boss.wait(LIMIT) == 0
    assert queue.lab.states()[3] == "completed" and len(queue.events("coordinator")) == 1


def test_job_that_no_pilot_takes_is_reported_and_ends_the_run(queue):
    queue.add("--num-gpus", "2", "true")
    queue.add("true")
    assert queue.run(nodes=1).wait(LIMIT) == 1
    assert queue.lab.states() == ["pending", "completed"]
    assert "no pilot can run 1 job: a job needs 2 GPUs, a pilot has 1" in output(queue)
    queue.until(lambda: not queue.squeue(), "the end of the pilots")


def test_jobs_get_a_pilot_of_the_first_kind_that_takes_them(queue):
    queue.add("--num-gpus", "2", "echo $CUDA_VISIBLE_DEVICES > two")
    boss = queue.run("--slurm", "--gres=gpu:2 --time=10", nodes=1)
    assert queue.finish(boss) == 0
    assert (queue.lab.directory / "two").read_text(encoding="utf-8").strip() == "0,1"


def test_pilot_that_fails_at_once_is_reported_with_its_own_message(queue):
    queue.add("--begin", "+1h", "true")
    boss = queue.run(nodes=1)
    secret = queue.lab.directory / "jobs.jsonl.d" / "slurm.secret"
    queue.until(secret.exists, "the secret")
    secret.chmod(0o666)  # pilots do not trust it
    queue.add("true")
    queue.until(lambda: "the last pilot ran no job (it ended before it reached the coordinator)" in output(queue), "the failure")
    assert "slurm.secret" in output(queue)
    boss.send_signal(signal.SIGINT)
    assert boss.wait(LIMIT) == 1
    assert queue.lab.states() == ["pending", "pending"]
