# SPDX-License-Identifier: MIT
"""A user who can read the files of a queue takes read locks on the files that gpuq locks."""
import json
import os
import signal
import stat

import pytest

from users import LIMIT, WAIT_FOR, until, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

# Waits for a read lock and keeps it; argv: path.
READ_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "rb")
print("opened", flush=True)
fcntl.lockf(file, fcntl.LOCK_SH)
print("locked", flush=True)
sys.stdin.read()
"""

# Opens the file for writing, waits for a line, takes a write lock and keeps it; argv: path, way.
WRITE_LOCK = """
import fcntl, os, sys
file = open(sys.argv[1], "r+b")
os.set_inheritable(file.fileno(), True)
print("opened", flush=True)
sys.stdin.readline()
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
if sys.argv[2] == "su":
    os.execvp("su", ["su", "root"])  # waits for the password
sys.stdin.read()
"""

SHARE = "chmod -R a+rX ."  # as users do who share a project for reading


class Reader:
    """A process of another user that has the file open, and waits for a read lock."""

    def __init__(self, user, path):
        assert user.attack(READ_LOCK, path) == "opened"
        self.process = user.started[-1]
        self.words = f"process {self.process.pid} of user '{user.name}' has a lock on "

    def await_lock(self):
        assert self.process.stdout.readline() == "locked\n"
        return self

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(name="queue")
def make_queue(machine, owner):
    """A directory with a queue that has run a job, readable by everyone."""
    place = machine.project(owner)
    assert owner.gpuq("add", "--no-start", "true", cwd=place).returncode == 0
    assert owner.gpuq("run", cwd=place).returncode == 0
    owner.sh(SHARE, place)
    return place


@pytest.mark.parametrize("words", [("add", "--no-start", "true"), ("run",), ("cancel", "1")])
def test_read_lock_on_the_journal_is_reported(owner, other, queue, words):
    reader = Reader(other, queue / "jobs.jsonl.d/append.lock").await_lock()
    result = owner.gpuq(*words, cwd=queue)
    assert result.returncode == 1 and f"cannot lock journal '{queue}/jobs.jsonl': {reader.words}append.lock in its folder; end that process" in result.stderr, result
    assert owner.gpuq("status", cwd=queue).returncode == 0
    reader.end()
    assert owner.gpuq("add", "--no-start", "true", cwd=queue).returncode == 0


def test_read_lock_that_keeps_a_runner_from_starting_is_reported(owner, other, queue):
    reader = Reader(other, queue / "jobs.jsonl.d/runner.lock").await_lock()
    result = owner.gpuq("add", "true", cwd=queue)
    expected = f"gpuq: cannot start a runner: {reader.words}'{queue}/jobs.jsonl.d/runner.lock'; end that process or, if no runner is active, remove the file"
    assert expected in result.stderr and result.stderr.count("cannot start a runner") == 1, result
    reader.end()


@pytest.mark.parametrize("way", ["plain", "su"])
def test_write_lock_of_a_user_who_had_write_access_is_reported(owner, other, queue, way):
    """A lock stays when a process executes a program with a set-user-ID bit, but /proc/PID then belongs to root."""
    path = queue / "jobs.jsonl.d/append.lock"
    owner.sh("chmod 666 jobs.jsonl.d/append.lock", queue)
    assert other.attack(WRITE_LOCK, path, way) == "opened"
    owner.sh("chmod 600 jobs.jsonl.d/append.lock", queue)
    process = other.started[-1]
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "locked\n"
    if way == "su":
        until(lambda: os.stat(f"/proc/{process.pid}").st_uid == 0, "a process of root")
    result = owner.gpuq("add", "--no-start", "true", cwd=queue)
    holder = f"process {process.pid} of user '{'root' if way == 'su' else other.name}'"
    assert result.returncode == 1 and f"cannot lock journal '{queue}/jobs.jsonl': {holder} has a lock on append.lock" in result.stderr, result
    process.kill()
    process.wait()
    assert owner.gpuq("add", "--no-start", "true", cwd=queue).returncode == 0


def test_queue_works_after_the_lock_is_replaced_as_the_message_says(owner, other, queue):
    Reader(other, queue / "jobs.jsonl.d/append.lock").await_lock()
    words = owner.gpuq("add", "--no-start", "true", cwd=queue).stderr
    before = (queue / "jobs.jsonl.d/append.lock").read_text()
    owner.sh(words[words.index("cd /"):], queue)
    assert (queue / "jobs.jsonl.d/append.lock").read_text() == before
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=queue).returncode == 0
    assert owner.gpuq("run", cwd=queue).returncode == 0
    assert (queue / "ran").exists()


def test_permission_to_read_the_locks_is_taken_back(owner, other, queue):
    locks = [queue / "jobs.jsonl.d" / name for name in ("append.lock", "runner.lock")]
    for command in (("add", "--no-start", "true"), ("run",)):
        owner.sh(SHARE, queue)
        assert [stat.S_IMODE(path.stat().st_mode) for path in locks] == [0o644, 0o644]
        assert owner.gpuq(*command, cwd=queue).returncode == 0
        assert [stat.S_IMODE(path.stat().st_mode) for path in locks] == [0o600, 0o600]
    assert other.gpuq("status", cwd=queue).returncode == 0
    # The folder stays as the user wants it: others may read reasons and samples.
    assert stat.S_IMODE((queue / "jobs.jsonl.d").stat().st_mode) == 0o755


def test_others_are_not_told_that_no_runner_is_active(owner, other, queue):
    """They cannot open runner.lock, so they do not know."""
    assert owner.gpuq("add", "--no-start", "true", cwd=queue).returncode == 0
    why = other.gpuq("why", "2", cwd=queue)
    assert "only the owner of the queue can see whether a runner is active" in why.stdout and "no runner" not in why.stdout, why
    status = other.gpuq("status", cwd=queue)
    assert "only the owner of the queue can see why" in status.stdout and "no runner" not in status.stdout, status
    wait = other.gpuq("wait", "--trust", "--timeout", "1s", cwd=queue)
    assert wait.stderr == "gpuq: giving up after 1.0s: not all jobs have ended\n", wait
    assert "no runner is active" in owner.gpuq("why", "2", cwd=queue).stdout


def test_read_lock_is_not_a_runner(owner, other, queue):
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=queue).returncode == 0
    owner.sh(SHARE, queue)
    path = queue / "jobs.jsonl.d/runner.lock"
    reader = Reader(other, path).await_lock()
    result = owner.gpuq("run", cwd=queue)
    assert result.returncode == 1 and f"{reader.words}'{path}'; end that process or, if no runner is active, remove the file" in result.stderr, result
    path.unlink()
    assert owner.gpuq("run", cwd=queue).returncode == 0
    assert (queue / "ran").exists()


def start_job(owner, place):
    """A runner, a running job that ends with the file `go`, and the PID of its keeper."""
    assert owner.gpuq("add", "--no-start", f"touch began; {WAIT_FOR.format('go')}", cwd=place).returncode == 0
    runner = owner.start("gpuq", "run", "--no-panel", cwd=place)
    until((place / "began").exists, "the job")
    keepers = [line for line in map(json.loads, (place / "jobs.jsonl").read_text().splitlines()) if line["event"] == "keeper"]
    return runner, keepers[-1]


def test_read_lock_on_a_dead_keepers_file_keeps_no_job_running(owner, other, queue):
    runner, keeper = start_job(owner, queue)
    owner.sh(SHARE, queue)
    reader = Reader(other, queue / "jobs.jsonl.d/keepers" / keeper["keeper"])
    runner.kill()
    runner.wait()
    os.kill(keeper["pid"], signal.SIGKILL)
    reader.await_lock()
    (queue / "go").touch()
    result = owner.gpuq("run", cwd=queue)
    assert result.returncode == 1, result
    assert json.loads(owner.gpuq("status", "--json", cwd=queue).stdout)[-1]["status"] == "failed"


def test_runner_reports_a_read_lock_and_continues_afterwards(owner, other, queue):
    runner, _ = start_job(owner, queue)
    owner.sh(SHARE, queue)
    reader = Reader(other, queue / "jobs.jsonl.d/append.lock").await_lock()
    (queue / "go").touch()
    words = next(line for line in runner.stdout if line.startswith("gpuq:"))
    assert reader.words in words
    reader.end()
    assert runner.wait(LIMIT) == 0
    assert json.loads(owner.gpuq("status", "--json", cwd=queue).stdout)[-1]["status"] == "completed"


def test_read_lock_on_the_lock_of_a_killed_launch_is_reported(machine, owner, other):
    place = machine.project(owner)
    owner.sh(f"mkdir in out; echo 1 > in/a; : > out/launch.lock; {SHARE}", place)
    path = place / "out/launch.lock"
    reader = Reader(other, path).await_lock()
    launch = ("launch", "--input-dir", "in", "--output-dir", "out", "--pattern", "*", "--", "true")
    result = owner.gpuq(*launch, cwd=place)
    assert result.returncode != 0 and f"cannot lock '{place}/out/launch.lock': {reader.words}it; end that process or remove the file" in result.stderr, result
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    assert owner.gpuq(*launch, cwd=place).returncode == 0


def test_read_lock_on_the_lock_of_a_killed_map_is_reported(machine, owner, other):
    place = machine.project(owner)
    owner.sh(f"echo 1 > in; : > out.lock; {SHARE}", place)
    reader = Reader(other, place / "out.lock").await_lock()
    map_ = ("map", "--input", "in", "--output", "out", "--worker-command", "true")
    result = owner.gpuq(*map_, cwd=place)
    assert result.returncode != 0 and f"cannot lock 'out.lock': {reader.words}it; end that process or remove the file" in result.stderr, result
