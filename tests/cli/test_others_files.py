# SPDX-License-Identifier: MIT
"""Another user of the same machine changes directories and files around a queue or a launch of the victim."""
import contextlib
import json
import os
import pathlib
import stat
import subprocess

import pytest

import processes
from users import LIMIT, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

STICKY, GROUP = 0o1777, 0o2775


def until(condition, what):
    return processes.until(condition, LIMIT, lambda: what)


def has_open(pid, path):
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed just now
            if os.readlink(entry) == str(path):
                return True
    return False


# ---- Directories of a path ---------------------------------------------------------------


def test_runner_stays_in_its_directory(machine, owner, other):
    """A member of the group puts a link to another queue of the victim in the place of the directory."""
    shared = machine.directory(GROUP)
    owner.sh(f"mkdir proj; mkdir -p '{owner.home}/private'", shared)
    private = owner.home / "private/jobs.jsonl"
    assert owner.gpuq("add", "--no-start", "--jobs-file", private, "touch stolen", cwd=owner.home / "private").returncode == 0
    before = private.read_text()
    runner = owner.start("gpuq", "run", "--keep", "--log-dir", owner.home / "kept_logs", cwd=shared / "proj")
    assert owner.gpuq("add", "--no-start", "touch first", cwd=shared / "proj").returncode == 0
    until((shared / "proj/first").exists, "the first job")
    other.sh(f"mv proj kept; ln -s '{owner.home}/private' proj", shared)
    second = ("add", "--no-start", "--jobs-file", shared / "kept/jobs.jsonl", f"touch '{shared}/proj/second'")
    assert owner.gpuq(*second, cwd=owner.home).returncode == 0
    words = next(line for line in runner.stdout if line.startswith(("gpuq:", "[→] 2")))
    assert "trying again" in words and not (shared / "kept/second").exists()
    assert private.read_text() == before
    assert not (owner.home / "private/logs").exists()
    assert not (owner.home / "private/stolen").exists()
    other.sh("rm proj; mv kept proj", shared)
    until((shared / "proj/second").exists, "the second job")


@pytest.mark.parametrize("words", [("add", "--no-start", "true"), ("run", "--keep"), ("prune",)])
def test_link_of_another_user_to_a_directory_leads_to_no_queue(machine, owner, other, words):
    shared = machine.directory(STICKY)
    owner.sh("rm -rf docs; mkdir docs", owner.home)
    other.sh(f"ln -s '{owner.home}/docs' dir", shared)
    result = owner.gpuq(*words, "--jobs-file", shared / "dir/jobs.jsonl", cwd=owner.home)
    assert result.returncode == 2, result
    assert f"'{shared}/dir/jobs.jsonl': it leads through a symbolic link of another user" in result.stderr
    assert list((owner.home / "docs").iterdir()) == []
    # The victim's own links are followed.
    owner.sh(f"ln -s '{owner.home}/docs' own", shared)
    if words[0] != "run":
        assert owner.gpuq(*words, "--jobs-file", shared / "own/jobs.jsonl", cwd=owner.home).returncode == 0


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
    owner.sh(f"ln -s '{owner.home}/docs' own", shared)
    assert owner.gpuq("report", "-o", shared / "own/report.html", cwd=owner.home).returncode == 0
    assert "</html>" in (owner.home / "docs/report.html").read_text()


def test_wait_believes_no_journal_that_another_user_puts_in_place(machine, owner, other):
    """For a moment, the job is completed in another journal."""
    shared = machine.directory(GROUP)
    owner.sh("mkfifo go", shared)
    owner.start("gpuq", "run", "--keep", cwd=shared)
    assert owner.gpuq("add", "--no-start", "touch began; cat go; exit 7", cwd=shared).returncode == 0
    until((shared / "began").exists, "the job")
    waiting = owner.start("gpuq", "wait", "1", cwd=shared)
    until(lambda: waiting.poll() is not None or has_open(waiting.pid, shared / "jobs.jsonl"), "gpuq wait, which reads the journal")
    end = {"event": "end", "id": 1, "attempt": 1, "status": "completed", "exit_code": 0}
    (shared / "evil").write_text((shared / "jobs.jsonl").read_text() + json.dumps(end) + "\n")
    os.chown(shared / "evil", other.uid, other.gid)
    (shared / "evil").chmod(0o644)
    other.sh("mv jobs.jsonl real; mv evil jobs.jsonl", shared)
    code = waiting.wait(LIMIT)
    begun_later = owner.gpuq("wait", "1", cwd=shared)
    assert begun_later.returncode == 125 and "belongs to another user" in begun_later.stderr, begun_later
    other.sh("mv real jobs.jsonl", shared)
    assert code == 125 and "belongs to another user" in waiting.stderr.read()


# ---- The folder for logs -----------------------------------------------------------------


@pytest.mark.parametrize("plan", ["touch logs", "mkfifo logs", "ln -s /nonexistent/x logs"])
def test_jobs_wait_while_the_folder_for_logs_cannot_be_made(machine, owner, other, plan):
    shared = machine.directory(STICKY)
    other.sh(plan, shared)
    runner = owner.start("sh", "-c", f"exec gpuq run --keep > '{owner.home}/words' 2>&1", cwd=shared)
    if "ln" in plan:
        assert runner.wait(LIMIT) == 2  # a link of another user is seen before the first job
        return
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=shared).returncode == 0
    words = owner.home / "words"
    until(lambda: runner.poll() is not None or "trying again" in words.read_text() or "[✗]" in words.read_text(), "the runner")
    assert f"other users can change the directory for logs, '{shared}/logs'" in words.read_text()
    assert json.loads(owner.gpuq("status", "--json", cwd=shared).stdout)[0]["status"] == "pending"
    other.sh("rm logs", shared)
    until((shared / "ran").exists, "the job")


def test_log_that_is_one_hole_is_not_printed(machine, owner, other):
    """It costs the other user nothing, whatever its size."""
    shared = machine.directory(STICKY)
    assert other.gpuq("add", "--no-start", "echo hello", cwd=shared).returncode == 0
    assert other.gpuq("run", "--log-access", "all", cwd=shared).returncode == 0
    other.sh("chmod 644 jobs.jsonl", shared)
    log = json.loads(other.gpuq("status", "--json", cwd=shared).stdout)[0]["log_file"]
    os.truncate(log, 64 << 20)
    result = owner.gpuq("logs", "1", cwd=shared)
    assert result.stdout.startswith("hello\n") and len(result.stdout) < 100000, len(result.stdout)
    assert "[gpuq: gap of 6" in result.stdout


# ---- Groups --------------------------------------------------------------------------------


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


# ---- The history of a launch ---------------------------------------------------------------


def launch(user, folder, *words):
    return user.run("gpuq", "launch", "--input-dir", user.home / "in", "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1",
                    *words, "--", "true", cwd=folder, umask=0o002)


def test_group_cannot_write_the_history_of_a_launch(machine, owner, other):
    shared = owner.home / "work"
    owner.sh(f"rm -rf work in; mkdir -p work in; echo 1 > in/a; chgrp {machine.group} work; chmod 2755 work", owner.home)
    assert launch(owner, shared).returncode == 0
    history = shared / "out/launch.jsonl"
    assert history.stat().st_gid != owner.gid
    assert stat.S_IMODE(history.stat().st_mode) == 0o644
    # As an older version made it.
    history.chmod(0o664)
    before = history.read_text()
    result = launch(owner, shared)
    assert result.returncode == 2, result
    assert "out/launch.jsonl': it can be written by its group" in result.stderr and "--trust" in result.stderr, result
    assert history.read_text() == before
    assert "skipped" in launch(owner, shared, "--trust").stdout
