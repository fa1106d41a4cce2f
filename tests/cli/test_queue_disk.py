# SPDX-License-Identifier: MIT
"""Journal contents and disk errors: nothing is lost, and nothing is accepted that is not stored."""
import errno
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import pytest

import sealing
from lab import GPUQ, LIMIT
from processes import naps

FAULTS = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libfaults.so"


def faulty(lab, passing, failing, call="write", number=errno.ENOSPC, short=0):
    """The environment in which, after `passing` calls, `failing` fail."""
    path = lab.directory / "counter"
    path.write_bytes(struct.pack("qq", passing, failing))
    return {"LD_PRELOAD": str(FAULTS), "FAULT_CALL": call, "FAULT_ERRNO": str(number), "FAULT_SHORT": str(short),
            "FAULT_COUNTER": str(path), "ASAN_OPTIONS": "verify_asan_link_order=0"}


def fault_happened(lab, failing):
    return struct.unpack("qq", (lab.directory / "counter").read_bytes())[1] < failing


@pytest.mark.parametrize("short", [0, 20])
def test_disk_full_at_any_write_loses_no_job(lab, short):
    """Each write fails in turn: whatever the command reports, each job has run once afterwards."""
    passing = 0
    while True:
        directory = lab.directory / f"{passing}"
        directory.mkdir()
        one = type(lab)(directory)
        try:
            one.commands(*(f"echo {n} >> ran; exit {n}" for n in range(4)))
            result = one.result("run", "--quiet", env=faulty(one, passing, 1, short=short))
            assert result.returncode in (0, 1), (passing, result)
            if not fault_happened(one, 1):
                break
            if result.returncode == 1 and "failed" not in result.stdout:
                assert result.stderr.startswith("gpuq: ") or one.jobs(), result
            after = one.result("run", "--quiet")
            assert after.returncode in (0, 1) and after.stderr == "", (passing, after)
            assert sorted(one.ran()) == ["0", "1", "2", "3"], (passing, one.journal.read_text())
            assert {job["exit_code"] for job in one.jobs().values()} == {0, 1, 2, 3}
            assert all(job["attempts"] == 1 for job in one.jobs().values())
        finally:
            one.end()
        passing += 1
    assert passing > 10


def test_disk_full_for_a_while_holds_everything_back_and_then_goes_on(lab):
    lab.commands(*(f"echo {n} >> ran" for n in range(6)))
    result = lab.result("run", "--quiet", env=faulty(lab, 20, 20))
    assert result.returncode == 0, result
    assert fault_happened(lab, 20)
    assert sorted(lab.ran()) == [str(n) for n in range(6)]
    assert "No space left on device" in result.stdout + result.stderr


def test_repeated_failure_is_reported_once_and_so_is_its_end(lab):
    """Other users can change the directory for logs: no job is started until that is corrected."""
    out, logs = lab.directory / "out", lab.directory / "logs"
    first = lab.add("echo begun; until [ -e go ]; do sleep 0.01; done")
    lab.add("--after", first, "echo 1 >> ran")
    with out.open("w") as file:
        runner = lab.start("run", stdout=file)
    lab.until(lambda: "begun" in lab.gpuq("logs", first, code=None), "the first job")
    logs.chmod(0o777)
    (lab.directory / "go").touch()
    lab.until(lambda: "retrying" in out.read_text(), "the message")

    def tries():
        return sum(naps(keeper) for keeper in lab.keepers())

    begun = tries()
    lab.until(lambda: tries() >= begun + 2, "two more attempts")
    assert lab.ran() == []
    logs.chmod(0o700)
    assert runner.wait(LIMIT) == 0
    assert lab.ran() == ["1"]
    said = out.read_text().splitlines()
    assert [line for line in said if line.startswith("gpuq:")] == [
        f"gpuq: cannot start a job: other users can change the directory for logs, '{logs}': Operation not permitted; retrying",
        "gpuq: the error is gone; continuing"]


def test_add_on_a_full_disk_accepts_nothing(lab):
    lab.add("true")
    for passing in range(10):
        before = lab.journal.read_bytes()
        result = lab.result("add", "--no-start", "echo x", env=faulty(lab, passing, 1000))
        if not fault_happened(lab, 1000):
            break
        if result.returncode == 0:  # only the counters could not be written; they are rebuilt
            assert lab.job(int(result.stdout))["status"] == "pending"
            continue
        assert (result.returncode, result.stdout) == (1, ""), (passing, result)
        assert "No space left on device" in result.stderr
        assert lab.journal.read_bytes() == before
    assert 0 < passing < 10
    assert lab.add("true") > 1


@pytest.mark.parametrize("at", range(4))
def test_add_that_cannot_be_synced_is_not_accepted(lab, at):
    lab.add("true")
    result = lab.result("add", "--no-start", "echo x >> ran", env={**faulty(lab, at, 1, "sync", errno.EIO), "X": str(at)})
    if not fault_happened(lab, 1):
        assert at >= 2
        return
    assert (result.returncode, result.stdout) == (1, "")
    assert "Input/output error" in result.stderr
    lab.gpuq("run", "--quiet", code=None)
    assert lab.ran() == []


def test_run_again_after_a_failed_sync_runs_the_file(lab):
    lab.commands("echo 1 >> ran", "echo 2 >> ran")
    for at in range(3):
        lab.result("run", "--quiet", env=faulty(lab, at, 1, "sync", errno.EIO))
    lab.gpuq("run", "--quiet", code=None)
    assert sorted(lab.ran()) == ["1", "2"]


def test_file_system_without_locks_is_refused_with_a_message(lab):
    lab.commands("echo 1 >> ran")
    for words in (["add", "--no-start", "true"], ["run"]):
        result = lab.result(*words, env=faulty(lab, 0, 0, "lock", errno.ENOLCK))
        assert result.returncode == 1, result
        assert "does not support locks" in result.stderr, result
    assert lab.ran() == []


def test_runner_without_inotify_sees_new_jobs(lab):
    lab.commands("echo 1 >> ran")
    without = faulty(lab, 0, 0, "inotify", errno.EMFILE)
    runner = lab.start("run", "--keep", env=without)
    lab.until(lab.ran)
    lab.add("echo 2 >> ran")
    lab.until(lambda: lab.ran() == ["1", "2"], "the second job, started by a timer")
    lab.gpuq("wait", 2, env=without)
    runner.kill()


# ---- Contents of a journal ------------------------------------------------


def test_journal_that_is_replaced_all_the_time_ends_the_runner_with_a_message(lab):
    lab.add("echo 1 >> ran")
    result = lab.result("run", env=faulty(lab, 1, 10_000, "replace"))
    assert result.returncode in (1, 2) and "the file keeps being replaced" in result.stderr, result
    assert lab.ran() == []
    lab.gpuq("run")
    assert lab.ran() == ["1"]


def test_nothing_starts_while_one_keeper_cannot_write_its_end_although_another_leaves(lab):
    out = lab.directory / "out"
    for n in (1, 2):
        lab.add(f"echo {n} >> ran; until [ -e go-{n} ]; do sleep 0.01; done")
    lab.add("echo 3 >> ran")
    with out.open("w") as file:
        runner = lab.start("run", stdout=file)
    lab.until(lambda: sorted(lab.ran()) == ["1", "2"], "two jobs")
    keepers = {event["keeper"]: event["pid"] for event in lab.events() if event["event"] == "keeper"}
    first, second = (keepers[event["keeper"]] for event in sorted(
        (event for event in lab.events() if event["event"] == "start"), key=lambda event: event["id"]))
    _, hard = resource.prlimit(first, resource.RLIMIT_FSIZE)
    resource.prlimit(first, resource.RLIMIT_FSIZE, (0, hard))
    (lab.directory / "go-1").touch()
    lab.until(lambda: "cannot record the end of job 1 in the journal: File too large" in out.read_text(), "the message")
    os.kill(second, signal.SIGKILL)
    lab.until(lambda: lab.job(2)["status"] == "failed", "the end of job 2")
    rounds = naps(runner.pid)
    lab.until(lambda: naps(runner.pid) > rounds + 3, "some rounds of the runner")
    lab.until(lambda: "cannot be recorded" in lab.gpuq("why", 3) or "3" in lab.ran(), "the reason")
    assert "3" not in lab.ran()
    resource.prlimit(first, resource.RLIMIT_FSIZE, (hard, hard))
    assert runner.wait(LIMIT) == 1
    assert sorted(lab.ran()) == ["1", "2", "3"]
    assert "the end of job 1 has been recorded; continuing" in out.read_text()


def test_torn_last_line_is_ignored_and_cut_by_the_next_append(lab):
    lab.add("echo 1 >> ran")
    whole = lab.journal.read_bytes()
    lab.journal.write_bytes(whole + b'{"event":"add","id":2,"comm')
    assert list(lab.jobs()) == [1]
    assert lab.journal.read_bytes().endswith(b'"comm')
    number = lab.add("echo 2 >> ran")
    assert number == 2
    assert b'"comm{' not in lab.journal.read_bytes()
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["1", "2"]


def test_zeros_that_a_power_cut_left_of_a_new_journal_do_not_stop_it(lab):
    lab.add("false")
    (lab.directory / "jobs.jsonl.d/append.lock").write_bytes(b"")
    lab.journal.write_bytes(bytes(300))
    lab.add("echo 1 >> ran")
    lab.gpuq("run")
    assert lab.ran() == ["1"]


def test_last_line_without_a_newline_that_was_never_shown_does_not_run(lab):
    """It was not written by this queue, or the process that wrote it was not told that the job was added."""
    lab.add("echo 1 >> ran")
    with lab.journal.open("ab") as file:
        number = len(lab.journal.read_bytes().splitlines()) + 1
        file.write(sealing.sealed({"event": "add", "id": 2, "time": "2026-11-15T21:42:19.599Z", "command": "echo hidden >> ran"}, first=number)[:-1])
    assert "1 job: 1 pending" in lab.gpuq("status")
    lab.add("echo 2 >> ran")
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["1", "2"]


def test_last_line_that_lacks_only_its_newline_is_kept(lab):
    """The counters show that this queue wrote it."""
    lab.add("echo 1 >> ran")
    lab.journal.write_bytes(lab.journal.read_bytes()[:-1])
    lab.add("echo 2 >> ran")
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["1", "2"]


def test_bad_lines_are_reported_with_their_number_and_skipped(lab):
    lab.add("echo 1 >> ran")
    with lab.journal.open("ab") as file:
        file.write(b"garbage\n\x00\x00\x00\n[1,2]\n{}\n{\"event\":\"add\"}\n\xff\xfe\n"
                   b'{"event":"end","id":77,"status":"completed"}\n{"event":"from the future","id":1}\n\n')
    lab.add("echo 2 >> ran")
    result = lab.result("status")
    assert result.returncode == 0
    assert "8 bad lines skipped, the first is line 3" in result.stderr
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["1", "2"]


def test_command_of_ten_megabytes_runs(lab):
    text = "x" * 10_000_000
    number = int(lab.gpuq("add", "--no-start", "-", input=f"echo {text} | wc -c > out\n"))
    assert number == 1
    lab.add("echo 2 >> ran")
    lab.gpuq("run")
    assert (lab.directory / "out").read_text().strip() == "10000001"
    assert lab.job(1)["command"].startswith("echo xxx")


def test_command_of_any_bytes_runs_unchanged(lab):
    command = b"printf '%s' '\xff\xfe\x01 \xc3\xa9 \\ \"' > out"
    lab.gpuq("add", "--no-start", "-", input=command + b"\n")
    lab.gpuq("run")
    assert (lab.directory / "out").read_bytes() == b"\xff\xfe\x01 \xc3\xa9 \\ \""
    json.loads(lab.gpuq("status", "--json"))


def test_empty_journal_is_an_empty_queue(lab):
    lab.journal.touch()
    assert lab.jobs() == {}
    assert lab.add("echo 1 >> ran") == 1
    lab.gpuq("run")
    assert lab.ran() == ["1"]


def test_journal_that_is_a_directory_is_an_error_that_says_so(lab):
    lab.journal.mkdir()
    for words in (["status"], ["add", "--no-start", "true"], ["run"]):
        result = lab.result(*words)
        assert result.returncode in (1, 2)
        assert "directory" in result.stderr.lower(), result


NOBODY = 65534


def test_missing_permission_is_an_error_that_says_so(lab):
    """Root has all permissions, so root runs it as another user, with a directory and a program
    that this user can access."""
    with tempfile.TemporaryDirectory(prefix="gpuq-test-") as directory:
        os.chmod(directory, 0o755)
        place = pathlib.Path(directory) / "place"
        place.mkdir(0o755)
        program = shutil.copy(GPUQ, directory)
        journal = place / "jobs.jsonl"
        other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if other:
            os.chown(place, NOBODY, NOBODY)
        environment = {**lab.environment, "GPUQ_CLAIMS_DIR": str(place / "claims"),
                       "XDG_CONFIG_HOME": str(place)}

        def result(*words):
            return subprocess.run([program, *words], cwd=place, env=environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=LIMIT, check=False, **other)

        assert result("add", "--no-start", "true").returncode == 0
        journal.chmod(0)
        for words in (["status"], ["add", "--no-start", "true"], ["run"], ["why", "1"], ["logs", "1"], ["cancel", "1"],
                      ["wait", "1"], ["prune"]):
            answer = result(*words)
            assert answer.returncode == (125 if words[0] == "wait" else 1), (words, answer)
            assert f" journal '{journal}': Permission denied" in answer.stderr, (words, answer)
        journal.chmod(0o600)
        assert result("run", "--quiet").returncode == 0


def test_journal_of_the_original_gpu_dispatch_is_read_and_continued(lab):
    old = [
        {"command": "python a.py", "status": "completed", "pid": 11, "gpu_id": 0, "start_time": "2024-05-01T10:00:00.123456",
         "log_file": "logs/a.log"},
        {"command": "echo ran-running >> ran", "status": "running", "pid": 1, "gpu_id": 1,
         "start_time": "2024-05-01T10:00:00", "log_file": "logs/b.log"},
        {"command": "echo pending >> ran", "status": "pending", "pid": None, "gpu_id": None, "start_time": None,
         "log_file": None},
        {"command": "python d.py", "status": "failed", "pid": 13, "gpu_id": 1, "start_time": "2024-05-01 10:00:00",
         "log_file": "logs/d.log"},
    ]
    lab.journal.write_text("".join(json.dumps(job) + "\n" for job in old))
    jobs = lab.jobs()
    assert [jobs[n]["status"] for n in (1, 2, 3, 4)] == ["completed", "failed", "pending", "failed"]
    assert jobs[2]["reason"] == "end unknown"
    assert jobs[1]["gpu_id"] == 0
    assert lab.add("echo new >> ran") == 5
    lab.gpuq("run", code=0)
    assert sorted(lab.ran()) == ["new", "pending"]
    assert lab.jobs()[2]["status"] == "failed"


def test_jobs_of_the_original_gpu_dispatch_are_lines_of_the_commands_file(lab):
    lab.journal.write_text('{"command":"echo 1 >> ran","status":"completed"}\n{"command":"echo 2 >> ran","status":"pending"}\n'
                           '{"command":"echo \n')
    result = lab.result("verify")
    assert result.returncode == 1 and "jobs.jsonl.original" in result.stdout and "2 jobs" in result.stdout, result
    lab.commands("echo 1 >> ran", "echo 2 >> ran", "echo 3 >> ran")
    result = lab.result("run")
    assert result.returncode == 0, result
    assert ("converted 2 jobs of the original gpu_dispatch; 1 line could not be read; the old file is kept as "
            "'jobs.jsonl.original'") in result.stderr, result
    assert sorted(lab.ran()) == ["2", "3"]
    lab.gpuq("prune")
    assert "converted" not in lab.result("run").stderr
    assert sorted(lab.ran()) == ["2", "3"]


def test_journal_of_a_newer_version_is_refused(lab):
    lab.journal.write_bytes(sealing.sealed({**sealing.HEADER, "version": 3}))
    for words in (["status"], ["run"]):
        result = lab.result(*words)
        assert result.returncode == 1
        assert "a newer version of gpuq" in result.stderr


def test_journal_that_others_can_write_is_not_executed(lab):
    lab.add("echo 1 >> ran")
    lab.journal.chmod(0o666)
    result = lab.result("run")
    assert result.returncode == 2
    assert "--trust" in result.stderr
    assert lab.ran() == []
    lab.gpuq("run", "--trust")
    assert lab.ran() == ["1"]


def test_ids_continue_when_the_folder_of_the_journal_is_lost(lab):
    for _ in range(3):
        lab.add("true")
    subprocess.run(["rm", "-r", str(lab.journal) + ".d"], check=True, timeout=LIMIT)
    assert lab.gpuq("add", "--no-start", "--trust", "true").strip() == "4"


def test_ids_go_on_with_a_restored_journal(lab):
    for _ in range(3):
        lab.add("true")
    lines = lab.events()
    lines[-1]["id"] = 30
    lab.journal.unlink()
    lab.journal.write_bytes(sealing.again(lines))
    assert lab.add("true") == 31


@pytest.mark.parametrize("part", ["", "env", "keepers"])
def test_folder_of_others_or_that_others_can_write_is_not_used(lab, part):
    """In a world-writable directory another user may have created it first, and their commands would be executed."""
    lab.add("echo 1 >> ran")
    folder = lab.directory / "jobs.jsonl.d" / part
    for change in (lambda: folder.chmod(0o777), lambda: (folder.chmod(0o700), os.chown(folder, 12345, 12345))):
        try:
            change()
        except PermissionError:  # only root can change the owner
            continue
        for words in (["add", "--no-start", "true"], ["run"]):
            result = lab.result(*words)
            assert result.returncode in (1, 2), result
            assert "could run commands as you" in result.stderr, result
    assert lab.ran() == []


def test_folder_that_is_a_link_is_not_used(lab):
    lab.add("echo 1 >> ran")
    (lab.directory / "jobs.jsonl.d").rename(lab.directory / "elsewhere")
    (lab.directory / "jobs.jsonl.d").symlink_to("elsewhere")
    assert lab.result("run").returncode in (1, 2)
    assert lab.ran() == []


def test_keeper_whose_name_leads_elsewhere_is_not_signaled(lab):
    """Another user's journal names a locked file of ours; cancelling must not signal any process."""
    marker = lab.directory / "marker"
    marker.touch()
    lab.add("true")
    victim = subprocess.Popen([sys.executable, "-c", "import fcntl, sys\nf = open(sys.argv[1], 'r+')\nfcntl.lockf(f, "
                               "fcntl.LOCK_EX)\nprint(flush=True)\nsys.stdin.read()", marker],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        victim.stdout.readline()
        sealing.append(lab.journal, {"event": "keeper", "keeper": "../../marker", "pid": 1, "host": os.uname().nodename},
                       {"event": "start", "id": 1, "attempt": 1, "time": "2026-11-15T22:12:54.350Z", "gpus": [], "pid": 1,
                        "keeper": "../../marker"})
        lab.result("cancel", 1)
        victim.stdin.close()
        assert victim.wait(timeout=LIMIT) == 0
    finally:
        victim.kill()
        victim.wait()


def test_log_of_five_gigabytes_is_read_with_little_memory(lab):
    """The log is sparse. Commands read only the part they need and use little memory."""
    lab.add("echo begin; truncate -s 5G /dev/stdout; echo 'RuntimeError: CUDA out of memory. Tried to allocate'; exit 1")
    little = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))}
    if b"__asan_init" in pathlib.Path(GPUQ).read_bytes():
        little = {}  # its shadow memory takes terabytes
    runner = lab.start("run", **little)
    assert runner.wait(LIMIT) == 1
    job = lab.job(1)
    assert (job["status"], job["reason"]) == ("failed", "GPU out of memory")
    log = pathlib.Path(job["log_file"])
    assert log.stat().st_size == (5 << 30) + len("RuntimeError: CUDA out of memory. Tried to allocate\n")
    assert "GPU out of memory" in lab.gpuq("status")
    text = lab.gpuq("logs", 1, **little)
    assert text.startswith("begin\n") and text.endswith("Tried to allocate\n")
    assert "\n[gpuq: 5.0 GiB missing: removed by max_log_size, or never written by the job]\n" in text


def test_failed_fork_of_a_keeper_is_reported_and_retried(lab):
    """The nursery cannot fork: nothing is lost, not even the hook of a job that ended without a keeper."""
    lab.add("echo job >> ran")
    cancelled = lab.add("--on-finish", "echo hook >> ran", "true")
    lab.gpuq("cancel", cancelled)
    env = faulty(lab, 1, 1 << 40, "fork", errno.EAGAIN)
    with open(lab.directory / "out", "wb") as out:
        runner = lab.start("run", env=env, stdout=out)
    said = lab.directory / "out"
    lab.until(lambda: "cannot start a keeper: Resource temporarily unavailable; retrying" in said.read_text(), "the message")
    with open(lab.directory / "counter", "r+b") as counter:  # in place: it is mapped
        counter.write(struct.pack("qq", 0, 0))
    assert runner.wait(LIMIT) == 0
    assert sorted(lab.ran()) == ["hook", "job"]
    assert "the error is gone; continuing" in said.read_text()


def test_exec_that_is_interrupted_after_a_prune_writes_with_the_append_lock(lab):
    """If its reader opened and closed the lock file again, the process would lose its lock."""
    lab.environment["GPUQ_GPUS"] = "sim:1"
    lab.gpuq("exec", "true")
    lab.gpuq("add", "echo busy >> ran; while [ ! -e go ]; do sleep 0.01; done")
    lab.until(lab.ran, "the job that keeps the GPU busy")
    process = lab.start("exec", "--quiet", "true", env=faulty(lab, 0, 0, call="unlocked"))
    lab.until(lambda: 3 in lab.jobs())
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    lab.gpuq("prune")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=LIMIT) == 130
    assert lab.job(3)["reason"] == "interrupted while it waited"
    (lab.directory / "go").touch()
