# SPDX-License-Identifier: MIT
"""The coordinator with pilots that were not started by Slurm: placement of jobs, and the state
after one of them dies."""
import contextlib
import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess

import processes
import pytest
from coordinator import GRANT, WELCOME, read_exactly
from fake_pilot import FakePilot
from pilot_process import BUILD, LIMIT, Pilot

WAITING = "echo $GPUQ_JOB_ID:$GPUQ_ATTEMPT:$GPUQ_NODE >> ran; until [ -e go ]; do sleep 0.02; done"


class Queue:
    def __init__(self, directory):
        self.directory, self.started = directory, []
        self.environment = {**os.environ, "GPUQ_JOBS_FILE": "./jobs.jsonl", "XDG_STATE_HOME": str(directory / "state"),
                            "XDG_CONFIG_HOME": str(directory / "none"), "GPUQ_CLAIMS_DIR": str(directory / "claims"), "GPUQ_GPUS": "sim:2"}

    def gpuq(self, *words):
        return subprocess.run([os.environ["GPUQ"], *words], cwd=self.directory, env=self.environment, check=True, capture_output=True,
                              text=True, timeout=LIMIT).stdout

    def add(self, *words):
        return int(self.gpuq("add", "--no-start", *words))

    def coordinator(self, *words):
        with open(self.directory / "coordinator.out", "a", encoding="utf-8") as log:
            process = subprocess.Popen([BUILD / "gpuq-slurm", "coordinator", "--jobs-file", self.directory / "jobs.jsonl", "--towards",
                                        "127.0.0.1", *words], stdout=log, stderr=log, cwd="/", env=self.environment)
        self.started.append(process)
        return process

    def pilot(self, job=4711, **options):
        # It is started by a coordinator, which has already created the secret.
        self.until((self.directory / "jobs.jsonl.d" / "slurm.address").exists, "the address")
        made = Pilot(self.directory, job=job, **options)
        self.started.append(made)
        return made

    def job(self, number):
        return {job["id"]: job for job in json.loads(self.gpuq("status", "--json"))}[number]

    def events(self, kind):
        rows = [json.loads(row) for row in (self.directory / "jobs.jsonl").read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if row["event"] == kind]

    def ran(self):
        path = self.directory / "ran"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def until(self, condition, what):
        return processes.until(condition, LIMIT, lambda: f"{what}: {(self.directory / 'coordinator.out').read_text(encoding='utf-8')}")

    def go(self):
        (self.directory / "go").touch()


@pytest.fixture(name="queue")
def make_queue(tmp_path):
    tmp_path.chmod(0o700)
    made = Queue(tmp_path)
    yield made
    for one in made.started:
        one.kill()
        one.wait()


def test_each_job_runs_once_on_two_pilots(queue):
    # Three at a time need both pilots.
    for number in range(40):
        meet = "echo here >> met; until [ $(wc -l < met) -ge 3 ]; do sleep 0.02; done; " if number < 3 else ""
        queue.add(meet + "echo $GPUQ_JOB_ID >> ran; echo $GPUQ_NODE:$GPUQ_ARRAY_INDEX")
    queue.add("--hold", "echo held >> ran")
    queue.add("--after", "1", "exit 3")
    boss = queue.coordinator()
    pilots = [queue.pilot(job=job) for job in (1, 2)]
    assert boss.wait(LIMIT) == 1
    assert [pilot.wait() for pilot in pilots] == [0, 0]
    assert sorted(map(int, queue.ran())) == list(range(1, 41))
    starts = queue.events("start")
    assert len(starts) == 41 and len(queue.events("end")) == 41 and not queue.events("void")
    assert {start["pilot"].split("-")[0] for start in starts} == {"p1", "p2"}
    assert all(pathlib.Path(start["log"]).read_text(encoding="utf-8") == "node7:\n" for start in starts if start["id"] <= 40)
    assert queue.job(42)["exit_code"] == 3
    assert [row.get("status") for row in queue.events("pilot")].count("gone") == 2


def test_cancelled_job_ends_and_the_rest_goes_on(queue):
    queue.add(WAITING)
    queue.add(WAITING)
    boss, _ = queue.coordinator(), queue.pilot()
    queue.until(lambda: len(queue.ran()) == 2, "the jobs")
    queue.gpuq("cancel", "1")
    queue.until(lambda: queue.job(1)["status"] == "cancelled", "the end of job 1")
    queue.go()
    assert boss.wait(LIMIT) == 0
    assert queue.job(2)["status"] == "completed" and len(queue.ran()) == 2


def test_jobs_that_are_added_meanwhile_run(queue):
    queue.add(WAITING)
    boss, _ = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the job")
    queue.add("echo later >> ran")
    queue.until(lambda: "later" in queue.ran(), "the second job")
    queue.go()
    assert boss.wait(LIMIT) == 0


def test_pilot_that_ends_interrupts_its_job_which_runs_on_the_next(queue):
    queue.add(WAITING)
    boss, first = queue.coordinator(), queue.pilot(job=1)
    queue.until(queue.ran, "the job")
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == 0
    queue.until(lambda: queue.job(1)["status"] == "pending", "the interruption")
    queue.pilot(job=2)
    queue.until(lambda: len(queue.ran()) == 2, "the second attempt")
    queue.go()
    assert boss.wait(LIMIT) == 0
    assert queue.ran() == ["1:1:node7", "1:2:node7"] and len(queue.events("interrupted")) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_job_outlives_its_coordinator_and_ends_with_the_next(queue, number):
    queue.add(WAITING)
    boss, pilot = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the job")
    boss.send_signal(number)
    boss.wait(LIMIT)
    assert pilot.process.poll() is None and queue.job(1)["status"] == "running"
    queue.go()
    boss = queue.coordinator()
    assert boss.wait(LIMIT) == 0
    assert pilot.wait() == 0
    assert queue.ran() == ["1:1:node7"] and queue.job(1)["status"] == "completed"
    assert [row["epoch"] for row in queue.events("coordinator")] == [1, 2]


def test_restarted_coordinator_starts_nothing_before_it_knows_all_pilots(queue):
    """Without listings of Slurm it waits for the longest lease: there may be an unknown pilot."""
    queue.add(WAITING)
    boss, _ = queue.coordinator("--lease", "5"), queue.pilot()
    queue.until(queue.ran, "the job")
    boss.kill()
    boss.wait()
    queue.add("echo second >> ran")
    boss = queue.coordinator("--lease", "5")
    queue.go()
    assert boss.wait(LIMIT) == 0
    begun, started = queue.events("coordinator")[-1], [row for row in queue.events("start") if row["id"] == 2]
    assert len(started) == 1 and seconds(started[0]) - seconds(begun) >= 5


def seconds(row):
    hours, minutes, rest = row["time"].split("T")[1].rstrip("Z").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def test_one_coordinator_at_a_time(queue):
    queue.add(WAITING)
    boss, _ = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the job")
    assert queue.coordinator().wait(LIMIT) == 1
    assert f"process {boss.pid} already runs this queue" in (queue.directory / "coordinator.out").read_text(encoding="utf-8")
    queue.go()
    assert boss.wait(LIMIT) == 0


def test_coordinator_that_is_interrupted_twice_cancels_its_jobs(queue):
    queue.add(WAITING)
    boss, pilot = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the job")
    boss.send_signal(signal.SIGINT)
    queue.add("echo second >> ran")
    boss.send_signal(signal.SIGINT)
    assert boss.wait(LIMIT) == 1
    assert pilot.wait() == 0
    assert queue.job(1)["status"] == "cancelled" and queue.job(2)["status"] == "pending" and queue.ran() == ["1:1:node7"]


def hook(name="hooks"):
    return f'echo $GPUQ_JOB_ID:$GPUQ_HOOK_TRY >> {name}; cat > {name}.$GPUQ_JOB_ID'


def read(path):
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_hooks_run_once_on_the_host_of_the_coordinator(queue):
    queue.add("--on-finish", hook(), "exit 3")
    queue.add("--on-finish", hook() + "; exit 7", "true")
    queue.add("--on-finish", hook(), "--after", "1", "true")
    boss, _ = queue.coordinator(), queue.pilot()
    assert boss.wait(LIMIT) == 1
    assert sorted(read(queue.directory / "hooks").split()) == ["1:1", "2:1", "3:1"]
    seen = {number: json.loads(read(queue.directory / f"hooks.{number}")) for number in (1, 2, 3)}
    assert [seen[number]["status"] for number in (1, 2, 3)] == ["failed", "completed", "failed"] and seen[1]["exit_code"] == 3
    assert "the --on-finish hook of job 2 failed with exit code 7" in read(queue.directory / "coordinator.out")


def keeper_pid(queue, number):
    keepers = {row["keeper"]: row["pid"] for row in queue.events("keeper")}
    tries = [row for row in queue.events("hook") if row["id"] == number and "keeper" in row]
    return keepers[tries[-1]["keeper"]] if tries else 0


def test_hook_whose_keeper_is_killed_runs_again_three_times_at_most(queue):
    queue.add("--on-finish", "echo $GPUQ_HOOK_TRY >> hooks; until [ -e go ]; do sleep 0.02; done", "true")
    boss, _ = queue.coordinator(), queue.pilot()
    for number in (1, 2, 3):
        queue.until(lambda number=number: read(queue.directory / "hooks").split() == [str(n) for n in range(1, number + 1)], f"try {number}")
        os.kill(keeper_pid(queue, 1), signal.SIGKILL)
    assert boss.wait(LIMIT) == 0
    assert read(queue.directory / "hooks").split() == ["1", "2", "3"]
    assert "the hook of job 1 will not be retried" in read(queue.directory / "coordinator.out")


def test_hook_that_outlives_its_coordinator_is_not_run_again(queue):
    queue.add("--on-finish", "echo $GPUQ_HOOK_TRY >> hooks; until [ -e go ]; do sleep 0.02; done; echo done >> hooks", "true")
    boss, _ = queue.coordinator(), queue.pilot()
    queue.until(lambda: read(queue.directory / "hooks"), "the hook")
    boss.kill()
    boss.wait()
    boss = queue.coordinator("--lease", "5")
    queue.until(lambda: len(queue.events("coordinator")) == 2, "the second coordinator")
    queue.go()
    assert boss.wait(LIMIT) == 0
    assert read(queue.directory / "hooks").split() == ["1", "done"]


def test_exec_is_refused_with_a_message(queue):
    queue.add(WAITING)
    boss, _ = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the job")
    done = subprocess.run([os.environ["GPUQ"], "exec", "--", "true"], cwd=queue.directory, env=queue.environment, capture_output=True,
                          text=True, timeout=LIMIT, check=False)
    assert done.returncode == 125 and "this queue runs on a cluster" in done.stderr
    queue.go()
    assert boss.wait(LIMIT) == 1


def test_why_and_status_show_nodes(queue):
    for _ in range(3):
        queue.add(WAITING)
    boss = queue.coordinator()
    queue.until(lambda: "no node accepts jobs now" in queue.gpuq("why", "1"), "a verdict without pilots")
    queue.pilot()
    queue.until(lambda: len(queue.ran()) == 2, "two jobs")
    queue.until(lambda: "node7 GPU 0: " in queue.gpuq("why", "3"), "a verdict with nodes")
    assert "GPU 0 on node7 → Running" in queue.gpuq("status") and queue.job(2)["host"] == "node7"
    assert "PID 0" not in queue.gpuq("status")
    queue.until((queue.directory / "logs" / "latest").is_file, "the link to the log of the last start")
    queue.go()
    assert boss.wait(LIMIT) == 0


@pytest.fixture(name="waiting")
def make_waiting(queue):
    """A queue with a job and a coordinator that waits for pilots."""
    queue.add("echo $GPUQ_NODE >> ran")
    queue.coordinator("--silence", "20")
    queue.until((queue.directory / "jobs.jsonl.d/slurm.address").exists, "the address")
    return queue


def check_honest_pilot_runs_the_job(queue):
    assert not queue.events("pilot") or queue.events("start") == []
    queue.pilot()
    queue.until(queue.ran, "the job on an honest pilot")
    assert queue.ran() == ["node7"] and len(queue.events("start")) == 1


def test_genuine_pilot_is_welcomed_and_gets_the_job(waiting):
    """Otherwise the refusals below would prove nothing."""
    pilot = FakePilot(waiting.directory / "jobs.jsonl.d")
    assert pilot.is_genuine
    pilot.send(pilot.sealed(pilot.hello("p4711-x")))
    assert pilot.receive() == WELCOME and pilot.receive() == GRANT
    pilot.close()


def test_pilot_of_another_user_gets_nothing(waiting):
    """Not even an answer."""
    with pytest.raises(ConnectionError):
        FakePilot(waiting.directory / "jobs.jsonl.d", secret=b"x" * 32)
    assert waiting.events("pilot") == []
    check_honest_pilot_runs_the_job(waiting)


def test_pilot_that_speaks_for_another_slurm_job_gets_nothing(waiting):
    pilot = FakePilot(waiting.directory / "jobs.jsonl.d", slurm_job=5)
    pilot.send(pilot.sealed(pilot.hello("p6-x", slurm_job=6)))
    assert pilot.receive() is None and waiting.events("pilot") == []
    check_honest_pilot_runs_the_job(waiting)


def thief_of_the_port(queue, boss):
    """Kills the coordinator, and listens on its port before a pilot that waits for the next one connects."""
    host, port = read(queue.directory / "jobs.jsonl.d/slurm.address").split()[:2]
    boss.kill()
    boss.wait()
    thief = socket.create_server((host, int(port)))
    thief.settimeout(LIMIT)
    return thief


def next_coordinator(queue):
    """Starts one; returns it and a function that connects to it."""
    before = read(queue.directory / "jobs.jsonl.d/slurm.address")
    boss = queue.coordinator()
    queue.until(lambda: read(queue.directory / "jobs.jsonl.d/slurm.address") != before, "the new address")
    host, port = read(queue.directory / "jobs.jsonl.d/slurm.address").split()[:2]
    return boss, lambda: socket.create_connection((host, int(port)), timeout=LIMIT)


def answer_to(connection, opening):
    """The bytes that the coordinator sends before it closes the connection."""
    with connection, contextlib.suppress(ConnectionResetError):
        connection.sendall(opening)
        return connection.recv(1000)
    return b""


def test_pilot_that_connects_to_another_process_on_the_port_is_not_relayed(queue):
    """Otherwise the thief could read all commands. The pilot connects to the next coordinator itself."""
    queue.add(WAITING)
    boss, pilot = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the job")
    with thief_of_the_port(queue, boss) as thief:
        stolen = thief.accept()[0]
        opening = read_exactly(stolen, 80)
        boss, connect = next_coordinator(queue)
        assert answer_to(connect(), opening) == b""
        stolen.close()
        queue.go()
        assert boss.wait(LIMIT) == 0
    assert pilot.wait() == 0
    assert queue.ran() == ["1:1:node7"] and queue.job(1)["status"] == "completed"


def test_opening_is_accepted_once(waiting):
    """Otherwise many connections that repeat it would displace pilots."""
    directory = waiting.directory / "jobs.jsonl.d"
    pilot = FakePilot(directory)
    assert pilot.is_genuine
    assert [answer_to(pilot.connect(), pilot.opening) for _ in range(3)] == [b""] * 3
    # The pilot itself is not disturbed.
    pilot.send(pilot.sealed(pilot.hello("p4711-x")))
    assert pilot.receive() == WELCOME
    pilot.close()


@pytest.mark.parametrize("how", ["replayed", "changed", "skipped", "of another connection"])
def test_frame_that_is_not_the_next_one_ends_the_connection(waiting, how):
    directory = waiting.directory / "jobs.jsonl.d"
    pilot = FakePilot(directory)
    first = pilot.sealed(pilot.hello("p4711-x"))
    if how == "replayed":
        # The first one alone would be welcomed; of two, the coordinator reads the second before it answers.
        pilot.send(first + first)
    elif how == "changed":
        pilot.send(first[:40] + bytes([first[40] ^ 1]) + first[41:])
    elif how == "skipped":
        pilot.send(pilot.sealed(pilot.hello("p4711-x"), counter=2))
    else:
        other = FakePilot(directory)
        other.send(first)
        pilot.close()
        pilot = other
    kinds = []
    while (kind := pilot.receive()) is not None:
        kinds.append(kind)
    assert GRANT not in kinds and (how == "replayed" or kinds == [])
    pilot.close()
    if how != "replayed":
        check_honest_pilot_runs_the_job(waiting)


def test_slow_disk_does_not_cut_off_pilots(queue):
    """Each sync takes longer than a pilot may be silent."""
    queue.add("true")
    queue.environment.update({"LD_PRELOAD": str(BUILD / "tests" / "slurm" / "slow_sync.so"), "SLOW_SYNC_MS": "2500",
                              "SLOW_SYNC_JOURNAL": str(queue.directory / "jobs.jsonl"), "SLOW_SYNC_FILE": str(queue.directory / "synced")})
    boss = queue.coordinator("--silence", "1.5")
    del queue.environment["LD_PRELOAD"]
    pilot = queue.pilot()
    assert boss.wait(LIMIT) == 0
    assert pilot.wait() == 0 and queue.job(1)["status"] == "completed" and len(queue.events("start")) == 1
    assert "is away" not in read(queue.directory / "coordinator.out")


# Takes a read lock, as any user who can read the file may do; argv: path.
READ_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "rb")
fcntl.lockf(file, fcntl.LOCK_SH)
print("locked", flush=True)
sys.stdin.read()
"""


class Stopped:
    """Stops a coordinator while others change the queue, and continues it when a read lock on the journal keeps it from
    writing. The first message of the coordinator names the process that has the lock."""

    def __init__(self, queue, boss):
        self.queue, self.boss, self.reader = queue, boss, None

    def __enter__(self):
        self.boss.send_signal(signal.SIGSTOP)
        os.waitpid(self.boss.pid, os.WUNTRACED)
        return self

    def lock(self):
        self.reader = subprocess.Popen(["python3", "-c", READ_LOCK, self.queue.directory / "jobs.jsonl.d/append.lock"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.queue.started.append(self.reader)
        assert self.reader.stdout.readline() == "locked\n"

    def __exit__(self, *_):
        self.boss.send_signal(signal.SIGCONT)

    def await_words(self):
        words = f"process {self.reader.pid} of user '{pwd.getpwuid(os.geteuid()).pw_name}' has a lock on append.lock"
        self.queue.until(lambda: words in read(self.queue.directory / "coordinator.out"), "words about the lock")
        assert self.boss.poll() is None

    def end_lock(self):
        self.reader.kill()
        self.reader.wait()
        self.queue.until(lambda: "the error is gone; continuing" in read(self.queue.directory / "coordinator.out"), "the end of the error")
        assert read(self.queue.directory / "coordinator.out").count("has a lock on append.lock") == 1


def test_lines_of_a_coordinator_wait_for_a_read_lock(queue):
    """The job that ends and the job that is refused are written later, once."""
    queue.add(WAITING)
    boss, _ = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the job")
    with Stopped(queue, boss) as stopped:
        refused = subprocess.Popen([os.environ["GPUQ"], "exec", "--", "true"], cwd=queue.directory, env=queue.environment,
                                   stderr=subprocess.PIPE, text=True)
        queue.started.append(refused)
        queue.until(lambda: len(queue.events("add")) == 2, "the second job")
        stopped.lock()
    stopped.await_words()
    queue.go()
    assert not queue.events("fail") and not queue.events("end")
    stopped.end_lock()
    assert refused.wait(LIMIT) == 125 and "this queue runs on a cluster" in refused.stderr.read()
    assert boss.wait(LIMIT) == 1
    assert queue.job(1)["status"] == "completed" and len(queue.events("fail")) == len(queue.events("end")) == 1


def test_job_does_not_start_before_its_start_is_written(queue):
    queue.add(WAITING)
    boss, _ = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the first job")
    with Stopped(queue, boss) as stopped:
        queue.add(WAITING)
        stopped.lock()
    stopped.await_words()
    assert queue.ran() == ["1:1:node7"]
    stopped.end_lock()
    queue.until(lambda: len(queue.ran()) == 2, "the second job")
    assert queue.ran()[1] == "2:1:node7" and len(queue.events("start")) == 2 and not queue.events("void")
    queue.go()
    assert boss.wait(LIMIT) == 0


def test_coordinator_that_cannot_leave_retries(queue):
    queue.add("true")
    boss = queue.coordinator()
    queue.until(lambda: queue.events("coordinator"), "the coordinator")
    with Stopped(queue, boss) as stopped:
        stopped.lock()
        boss.send_signal(signal.SIGINT)
    stopped.await_words()
    stopped.reader.kill()
    assert boss.wait(LIMIT) == 1 and not queue.events("start")


def test_lease_is_not_extended_while_the_epoch_is_unknown(queue):
    """`pause` raises the fence, so the epoch is read again, which needs the lock. The coordinator still reacts to signals."""
    queue.add(WAITING)
    boss, _ = queue.coordinator("--silence", "2"), queue.pilot()
    queue.until(queue.ran, "the job")
    with Stopped(queue, boss) as stopped:
        queue.gpuq("pause")
        stopped.lock()
    stopped.await_words()
    boss.terminate()
    assert boss.wait(LIMIT) == 1
    stopped.reader.kill()
    queue.go()


def test_prune_keeps_the_needed_records_of_coordinators_and_pilots(queue):
    for job in (1, 2):
        queue.add("true")
        boss, _ = queue.coordinator("--lease", "3"), queue.pilot(job=job)
        assert boss.wait(LIMIT) == 0
    queue.add("--hold", "--after", "2", "true")  # so job 2 stays
    queue.gpuq("prune", "--yes")
    assert [row["epoch"] for row in queue.events("coordinator")] == [2]
    assert {row["pilot"].split("-")[0] for row in queue.events("pilot")} == {"p2"}
    assert queue.job(2)["host"] == "node7"
    queue.add("true")
    boss, _ = queue.coordinator("--lease", "3"), queue.pilot(job=3)
    assert boss.wait(LIMIT) == 0 and queue.events("coordinator")[-1]["epoch"] == 3


def test_unknown_job_is_not_retried_while_a_pilot_may_run_it(queue):
    queue.add(WAITING)
    boss, _ = queue.coordinator(), queue.pilot()
    queue.until(queue.ran, "the job")
    boss.kill()
    boss.wait()
    path = queue.directory / "jobs.jsonl"
    rows = path.read_bytes().split(b"\n")
    rows = [b"\0" * len(row) if b'"event":"start"' in row else row for row in rows]
    path.write_bytes(b"\n".join(rows))
    assert queue.job(1)["status"] == "unknown"
    done = subprocess.run([os.environ["GPUQ"], "retry", "1"], cwd=queue.directory, env=queue.environment, capture_output=True,
                          text=True, timeout=LIMIT, check=False)
    assert done.returncode != 0 and "Slurm job 4711 on node 'node7' may still be running it" in done.stderr
