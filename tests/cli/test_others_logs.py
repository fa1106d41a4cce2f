# SPDX-License-Identifier: MIT
"""Other users attack the logs and reports of a queue."""
import contextlib
import json
import os
import shutil
import stat
import subprocess

import pytest
import sealing

from users import FLIP, GROUP, JOURNAL, LIMIT, STICKY, hold_pipe, job, plant, until, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users


# ---- Logs -------------------------------------------------------------------------------


def test_log_is_readable_by_its_owner_alone(machine, owner, other):
    """Even if the umask and the directory allow everyone."""
    shared = machine.project(owner)
    result = owner.run("gpuq", "add", "echo secret", cwd=shared, umask=0)
    assert result.returncode == 0
    assert owner.gpuq("wait", 1, cwd=shared).returncode == 0
    assert owner.gpuq("logs", 1, cwd=shared).stdout == "secret\n"
    assert other.run("sh", "-c", "cat logs/*", cwd=shared).stdout == ""
    (shared / "logs").chmod(0o777)
    assert other.run("sh", "-c", "cat logs/*.log", cwd=shared).stdout == ""


@pytest.mark.parametrize("way, readable", [("mkdir logs; chmod 2777 logs", False), ("mkdir logs; setfacl -d -m u:{other.uid}:r logs; chmod 777 logs", False),
                                           ("mkdir logs; chgrp {group} logs; chmod 2777 logs", True)], ids=["group", "access list", "common group"])
@pytest.mark.parametrize("folder", ["logs", "logs/mine"])
def test_log_for_a_group_gets_no_group_of_another_user(machine, owner, other, way, readable, folder):
    """The user names a folder of another user, or a new one in it. That user may have chosen who can read new files."""
    if "setfacl" in way and not shutil.which("setfacl"):
        pytest.skip("needs setfacl")
    shared, project = machine.directory(STICKY), machine.project(owner)
    other.sh(way.format(other=other, group=machine.group), shared)
    owner.sh("echo 'echo secret' > commands.txt", project)
    result = owner.gpuq("run", "--log-dir", shared / folder, "--log-access", "group", cwd=project)
    assert result.returncode == 0, result
    log, = (path for path in (shared / folder).iterdir() if path.name != "latest")
    assert owner.sh(f"cat '{log}'", "/") == "secret\n"
    assert (other.run("cat", log, cwd="/").returncode == 0) == readable


@pytest.mark.parametrize("attack", ["mkdir -m 700 project", "mkdir -p project/logs; echo forged > project/logs/{0}; chmod -R a+rX project",
                                    "ln -s /etc project"], ids=["closed", "forged", "link"])
def test_logs_of_a_renamed_queue_are_found_if_another_user_takes_its_old_path(machine, owner, other, attack):
    shared = machine.directory(STICKY)
    owner.sh("mkdir project", shared)
    queue = ("--jobs-file", "jobs.jsonl")
    assert owner.gpuq("add", *queue, "echo mine", cwd=shared / "project").returncode == 0
    assert owner.gpuq("wait", *queue, "1", cwd=shared / "project").returncode == 0
    log, = (shared / "project/logs").glob("*.log")
    owner.sh("mv project renamed", shared)
    other.sh(attack.format(log.name), shared)
    result = owner.gpuq("logs", *queue, "1", cwd=shared / "renamed")
    assert result.returncode == 0 and result.stdout == "mine\n", result


def test_folder_for_logs_of_another_user_is_not_used(machine, owner, other):
    """It was created while everybody could write to the directory."""
    shared = machine.project(owner)
    shared.chmod(STICKY)
    other.sh("mkdir -m 777 logs", shared)
    shared.chmod(0o755)
    assert owner.gpuq("add", "--no-start", "echo secret", cwd=shared).returncode == 0
    result = owner.gpuq("run", cwd=shared)
    assert result.returncode == 2
    assert result.stderr == (f"gpuq: refusing to write logs to '{shared}/logs': it belongs to another user; "
                             "name another directory with --log-dir\n")
    assert list((shared / "logs").iterdir()) == []
    assert owner.gpuq("run", "--log-dir", owner.home / "own", cwd=shared).returncode == 0


def test_link_in_the_place_of_the_folder_for_logs_is_not_followed(machine, owner, other):
    """The link is created while the runner waits, and leads to a folder of the victim: neither logs
    nor the link `latest` go there."""
    shared = machine.project(owner)
    owner.sh("rm -rf ckpt; mkdir ckpt; echo precious > ckpt/latest", owner.home)
    runner = owner.start("gpuq", "run", "--keep", cwd=shared)
    until((shared / "jobs.jsonl.d/runner.lock").exists, "the runner")
    assert owner.gpuq("add", "--no-start", "true", cwd=shared).returncode == 0
    assert owner.gpuq("wait", "1", cwd=shared).returncode == 0
    owner.sh("rm -r logs", shared)
    shared.chmod(STICKY)
    other.sh(f"ln -s '{owner.home}/ckpt' logs", shared)
    shared.chmod(0o755)
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=shared).returncode == 0
    words = next(line for line in runner.stdout if line.startswith(("gpuq:", "[→] 2")))
    assert "other users can change the directory for logs" in words
    assert not (shared / "ran").exists()
    assert [entry.name for entry in (owner.home / "ckpt").iterdir()] == ["latest"]
    assert (owner.home / "ckpt/latest").read_text() == "precious\n"
    owner.sh("rm logs", shared)
    until((shared / "ran").exists, "the job")


def test_named_folder_for_logs_is_not_followed_through_a_link_that_another_user_puts_there(machine, owner, other):
    project, shared = machine.project(owner), machine.directory(GROUP)
    owner.sh("rm -rf private; mkdir -m 700 private", owner.home)
    other.sh("mkdir -m 2777 logs; mkdir -m 2777 kept", shared)
    owner.sh("ln -s kept link", shared)
    assert owner.gpuq("add", "--no-start", "--log-dir", shared / "logs", "true", cwd=project).returncode == 0
    assert owner.gpuq("add", "--no-start", "--log-dir", shared / "link", "true", cwd=project).returncode == 0  # a link of the user
    other.sh(f"mv logs old; ln -s '{owner.home}/private' logs", shared)
    assert owner.gpuq("add", "--no-start", "--log-dir", shared / "logs", "true", cwd=project).returncode == 0
    assert owner.gpuq("run", cwd=project).returncode == 1
    assert list((owner.home / "private").iterdir()) == []
    for number in (1, 3):
        assert f"cannot create its log in '{shared}/logs': '{shared}/logs' is a symbolic link of another user" in owner.gpuq("info", number, cwd=project).stdout
    assert any(path.suffix == ".log" for path in (shared / "kept").iterdir())


@contextlib.contextmanager
def read_only(folder):
    """Makes a directory read-only for everybody."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,mode=755", "none", folder], check=False, capture_output=True).returncode != 0:
        pytest.skip("not allowed to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_folder_for_the_logs_of_one_job_does_not_delay_other_jobs(machine, owner, other):
    """Users who can replace the folder can choose its error, even one that counts as temporary for other folders."""
    project, shared = machine.project(owner), machine.directory(GROUP)
    other.sh("mkdir -m 2775 logs", shared)
    assert owner.gpuq("add", "--no-start", "--log-dir", shared / "logs", "true", cwd=project).returncode == 0
    assert owner.gpuq("add", "--no-start", "true", cwd=project).returncode == 0
    with read_only(shared / "logs"):
        result = owner.gpuq("run", cwd=project, env={"GPUQ_GPUS": "sim:1"})
    assert result.returncode == 1
    assert f"cannot create its log in '{shared}/logs': Read-only file system" in result.stdout
    assert [job["status"] for job in json.loads(owner.gpuq("status", "--json", cwd=project).stdout)] == ["failed", "completed"]


def test_own_folder_for_logs_that_is_not_writable_yet_delays_its_jobs(machine, owner):
    project, logs = machine.project(owner), owner.home / "own-logs"
    owner.sh(f"mkdir -p '{logs}'", owner.home)
    assert owner.gpuq("add", "--no-start", "--log-dir", logs, "true", cwd=project).returncode == 0
    with read_only(logs):
        runner = owner.start("gpuq", "run", cwd=project)
        words = next(line for line in runner.stdout if line.startswith("gpuq: cannot start"))
        assert words == f"gpuq: cannot start a job: its log cannot be created in '{logs}': Read-only file system; retrying\n"
    assert runner.wait(LIMIT) == 0


def test_link_of_another_user_in_the_place_of_a_log_is_not_shown(machine, owner, other):
    """The owner chose a group-writable folder."""
    project, shared = machine.project(owner), machine.directory(GROUP)
    owner.sh("echo private > secret; chmod 600 secret", owner.home)
    assert owner.gpuq("add", "--no-start", "echo said", cwd=project).returncode == 0
    assert owner.gpuq("run", "--log-dir", shared, cwd=project).returncode == 0
    log = next(path for path in shared.iterdir() if path.suffix == ".log")
    assert owner.gpuq("logs", 1, cwd=project).stdout == "said\n"
    other.sh(f"mv {log.name} old; ln -s {owner.home}/secret {log.name}", shared)
    result = owner.gpuq("logs", 1, cwd=project)
    assert result.returncode != 0 and result.stdout == "", result
    assert f"cannot open log '{log}': its path contains a symbolic link of another user" in result.stderr
    # Nor is a file of that user, directly or behind a link.
    for plan in ("ln -s his", "cp his"):
        other.sh(f"rm -f {log.name}; echo his > his; chmod 644 his; {plan} {log.name}", shared)
        result = owner.gpuq("logs", 1, cwd=project)
        assert result.returncode != 0 and result.stdout == "" and "belongs to another user, who may have replaced the log" in result.stderr, result
    assert owner.gpuq("logs", "--trust", 1, cwd=project).stdout == "his\n"


def test_file_named_latest_is_not_replaced(machine, owner):
    shared = machine.project(owner)
    owner.sh("mkdir -m 700 logs; echo precious > logs/latest", shared)
    assert owner.gpuq("add", "true", cwd=shared).returncode == 0
    assert owner.gpuq("wait", "1", cwd=shared).returncode == 0
    assert (shared / "logs/latest").read_text() == "precious\n"


@pytest.mark.parametrize("target", ["step900.pt", "job_1.pt", "/job_x.log"])
def test_link_named_latest_to_something_else_is_not_replaced(machine, owner, target):
    project = machine.project(owner)
    owner.sh(f"mkdir -m 700 logs; ln -s {target} logs/latest", project)
    assert owner.gpuq("add", "true", cwd=project).returncode == 0
    assert owner.gpuq("wait", "1", cwd=project).returncode == 0
    assert os.readlink(project / "logs/latest") == target


# ---- The folder for logs ----------------------------------------------------------------


@pytest.mark.parametrize("plan", ["touch logs", "mkfifo logs", "ln -s /nonexistent/x logs"])
def test_jobs_wait_while_the_folder_for_logs_cannot_be_made(machine, owner, other, plan):
    shared = machine.project(owner)
    shared.chmod(STICKY)
    other.sh(plan, shared)
    shared.chmod(0o755)
    runner = owner.start("sh", "-c", f"exec gpuq run --keep > '{owner.home}/words' 2>&1", cwd=shared)
    if "ln" in plan:
        assert runner.wait(LIMIT) == 2  # a link of another user is seen before the first job
        return
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=shared).returncode == 0
    words = owner.home / "words"
    until(lambda: runner.poll() is not None or "retrying" in words.read_text() or "[✗]" in words.read_text(), "the runner")
    assert f"other users can change the directory for logs, '{shared}/logs'" in words.read_text()
    assert json.loads(owner.gpuq("status", "--json", cwd=shared).stdout)[0]["status"] == "pending"
    owner.sh("rm -f logs", shared)
    until((shared / "ran").exists, "the job")


def test_log_that_is_one_hole_is_not_printed(machine, owner, other):
    """A sparse file of any size costs the other user nothing."""
    shared = machine.project(other)
    assert other.gpuq("add", "--no-start", "echo hello", cwd=shared).returncode == 0
    assert other.gpuq("run", "--log-access", "all", cwd=shared).returncode == 0
    other.sh("chmod 644 jobs.jsonl", shared)
    log = json.loads(other.gpuq("status", "--json", cwd=shared).stdout)[0]["log_file"]
    os.truncate(log, 64 << 20)
    result = owner.gpuq("logs", "1", cwd=shared)
    assert result.stdout.startswith("hello\n") and len(result.stdout) < 100000, len(result.stdout)
    assert "[gpuq: 6" in result.stdout
    # Nor is a hole searched for the last lines.
    os.truncate(log, 1 << 42)
    with open(log, "ab") as file:
        file.write(b"one\ntwo")
    result = owner.run("prlimit", "--cpu=20", "gpuq", "logs", "-n", "2", "1", cwd=shared)
    assert result.returncode == 0 and result.stdout.endswith("missing: removed by max_log_size, or never written by the job]\none\ntwo"), result


def test_journal_of_another_user_does_not_choose_which_file_is_printed(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(owner, owner.home / "secret", "private\n", 0o600)
    start = {"event": "start", "id": 1, "attempt": 1, "time": "2026-11-15T21:42:20.599Z", "gpus": [0], "log": str(owner.home / "secret")}
    plant(other, shared / "jobs.jsonl", JOURNAL + job("true") + sealing.seal(start, 3).decode())
    result = owner.gpuq("logs", "1", cwd=shared)
    assert result.returncode != 0 and result.stdout == "", result
    assert "other users can write to the journal" in result.stderr
    assert owner.gpuq("logs", "--trust", "1", cwd=shared).stdout == "private\n"


def test_line_without_end_is_printed_in_pieces(machine, owner):
    """Each piece has the id of its job, and little memory is enough."""
    project = machine.project(owner)
    for command in ("head -c 300000000 /dev/zero | tr '\\0' x", "echo second"):
        assert owner.gpuq("add", "--no-start", command, cwd=project).returncode == 0
    assert owner.gpuq("run", "--max-log-size", "0", cwd=project).returncode == 0
    count = owner.run("sh", "-c", f"prlimit --as={200 << 20} gpuq logs 1 2 | tr -cd x | wc -c", cwd=project)
    assert count.stdout.strip() == "300000000", count
    lines = owner.run("sh", "-c", "gpuq logs 1 2 | cut -c 1-8 | sort | uniq -c | awk '{print $2, $3}'", cwd=project)
    assert lines.stdout.split("\n")[:-1] == ["1: xxxxx", "2: secon"], lines


# ---- A report ---------------------------------------------------------------------------


@pytest.fixture(name="report")
def make_report(owner):
    """The arguments of the command, for a queue with one job."""
    journal = owner.home / "reported.jsonl"
    assert owner.gpuq("add", "--no-start", "--jobs-file", journal, "true", cwd=owner.home).returncode == 0
    return ("report", "--jobs-file", journal)


@pytest.mark.parametrize("words", [(), ("-o", "report.html")])
@pytest.mark.parametrize("exists", [True, False])
def test_report_does_not_follow_a_link_of_another_user(machine, owner, other, report, words, exists):
    shared = machine.directory(STICKY)
    secret = owner.home / f"secret{exists}"
    if exists:
        plant(owner, secret, "precious\n", 0o600)
    other.sh(f"ln -s '{secret}' report.html", shared)
    result = owner.gpuq(*report, *words, cwd=shared)
    assert result.returncode == 2, result
    assert "'report.html': it is a symbolic link" in result.stderr
    assert secret.exists() == exists
    if exists:
        assert secret.read_text() == "precious\n" and stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert [p.name for p in shared.iterdir()] == ["report.html"]


@pytest.mark.parametrize("words", [(), ("-o", "report.html")], ids=["default", "named"])
def test_report_does_not_follow_a_link_of_the_user_that_appears_meanwhile(machine, owner, other, report, words):
    place = machine.directory(GROUP)
    plant(owner, owner.home / "table", "precious\n", 0o600)
    owner.sh(f"ln -s '{owner.home}/table' link; echo old > report.html", place)
    assert other.attack(FLIP, place / "link", place / "report.html") == "begun"
    for _ in range(60):
        owner.gpuq(*report, *words, cwd=place)
        assert (owner.home / "table").read_text() == "precious\n"


@pytest.mark.parametrize("mode", [STICKY, GROUP], ids=["sticky", "group"])
def test_report_does_not_follow_a_link_of_the_user_that_another_user_moved(machine, owner, other, report, mode):
    place, group = machine.directory(mode), machine.directory(GROUP)
    plant(owner, owner.home / "table", "precious\n", 0o600)
    owner.sh(f"ln -s '{owner.home}/table' link", group)
    other.sh(f"mv '{group}/link' report", place)
    result = owner.gpuq(*report, "-o", place / "report", cwd=owner.home)
    assert result.returncode == 2 and "is a symbolic link that another user may have moved there" in result.stderr, result
    assert (owner.home / "table").read_text() == "precious\n"
    owner.sh(f"ln -sf '{owner.home}/table' chosen.html", owner.home)
    assert owner.gpuq(*report, "-o", owner.home / "chosen.html", cwd=owner.home).returncode == 0
    assert (owner.home / "chosen.html").is_symlink() and "precious" not in (owner.home / "table").read_text()


@pytest.mark.parametrize("words", [(), ("-o", "report.html")])
def test_report_does_not_wait_for_a_pipe_of_another_user(machine, owner, other, report, words):
    shared = machine.directory(GROUP)
    other.sh("mkfifo -m 666 report.html", shared)
    result = owner.gpuq(*report, *words, cwd=shared)
    assert result.returncode != 0 and "report.html" in result.stderr, result
    (shared / "report.html").unlink()
    hold_pipe(other, shared / "report.html")
    result = owner.gpuq(*report, *words, cwd=shared)
    assert result.returncode != 0 and ("pipe of another user" in result.stderr or not words), result
    piped = owner.run("sh", "-c", 'gpuq "$@" -o /dev/stdout | cat', "sh", *report, cwd=shared)
    assert "</html>" in piped.stdout, piped


def test_report_replaces_what_the_user_chose(machine, owner, other, report):
    """A link that the user named is kept, and the user's own file keeps its mode; a file of another user is
    replaced only if it is named."""
    shared, own = machine.directory(GROUP), machine.project(owner)
    plant(owner, owner.home / "page", "old\n", 0o600)
    owner.sh(f"ln -s '{owner.home}/page' report.html", own)
    result = owner.gpuq(*report, "-o", "report.html", cwd=own)
    assert result.returncode == 0, result
    assert (own / "report.html").is_symlink()
    assert "</html>" in (owner.home / "page").read_text()
    assert stat.S_IMODE((owner.home / "page").stat().st_mode) == 0o600
    plant(other, shared / "report.html", "theirs\n")
    result = owner.gpuq(*report, cwd=shared)
    assert result.returncode == 2 and "belongs to another user" in result.stderr, result
    assert (shared / "report.html").read_text() == "theirs\n"
    assert owner.gpuq(*report, "-o", "report.html", cwd=shared).returncode == 0
