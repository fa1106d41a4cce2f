# SPDX-License-Identifier: MIT
"""Forged files of a queue, as a single user can create them; see test_others_queue.py for other users."""
import json
import os
import pathlib
import stat

import pytest

import sealing
from lab import LIMIT

# Files that are not journals.
OTHERS = {
    "binary": bytes(range(256)) * 4096,
    "zeros": b"\0" * 5000,
    "text": b"text\nmore text",
    "events of others": b'{"event":"other"}\n',
    "objects of others": b'{"loss":0.5,"status":"ok"}\n',
    "short": b"torn",
    "an archive": b'{"event":"add","id":1,"command":"echo 1 >> ran"}\n',
    "begins alike": b'{"event":"journ' + b"x" * 500,
}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def log_of(lab, number):
    return pathlib.Path(lab.job(number)["log_file"])


# ---- Files that are not journals -------------------------------------------------------------------


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("words", [("add", "--no-start", "true"), ("cancel", "1"), ("prune",), ("run",)])
def test_file_that_is_not_a_journal_is_not_changed(lab, content, words):
    path = lab.directory / "mine.bin"
    path.write_bytes(content)
    result = lab.result(words[0], "--jobs-file", path, *words[1:])
    assert result.returncode == 2, result
    assert result.stderr == f"gpuq: refusing to change '{path}': it is not a journal of gpuq; name another file with --jobs-file\n"
    assert path.read_bytes() == content
    assert not (lab.directory / "mine.bin.d").exists()


@pytest.mark.parametrize("content", ["", "{", '{"event":"journal","ver', '{"event":"journal","version":2}'])
def test_journal_whose_first_line_was_torn_is_used(lab, content):
    lab.journal.write_text(content)
    assert lab.add("true") == 1
    assert [event["event"] for event in lab.events()] == ["journal", "add"]


@pytest.mark.parametrize("length", [4, 100_000])
def test_journal_of_the_first_gpu_dispatch_is_used(lab, length):
    lab.journal.write_text(json.dumps({"command": "true" + " " * (length - 4), "status": "completed", "gpu_id": 0}) + "\n")
    assert lab.add("true") == 2


def test_journal_with_a_damaged_beginning_is_known_by_its_counters(lab):
    lab.add("echo 1 >> ran")
    text = lab.journal.read_text()
    with lab.journal.open("r+") as file:
        file.write("x" * 20)
    assert lab.add("echo 2 >> ran") == 2
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["1", "2"]
    assert text[20:] in lab.journal.read_text()


def test_file_that_takes_the_place_of_a_journal_is_not_changed(lab):
    """The folder exists, but belongs to another file."""
    lab.add("true")
    lab.journal.unlink()
    lab.journal.write_bytes(b"a checkpoint")
    assert "it is not a journal of gpuq" in lab.result("add", "--no-start", "true").stderr
    assert lab.journal.read_bytes() == b"a checkpoint"


# ---- Pipes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, words", [("gpuq.yaml", ("status",)), ("gpuq.yaml", ("run",)), ("commands.txt", ("run",)),
                                         ("jobs.jsonl", ("add", "true")), ("jobs.jsonl", ("status",)), ("jobs.jsonl", ("run",))])
@pytest.mark.parametrize("trust", ["", "1"])
def test_pipe_that_was_not_named_is_not_waited_for(lab, name, words, trust):
    os.mkfifo(lab.directory / name)
    result = lab.result(*words, env={"GPUQ_TRUST": trust})
    assert result.returncode == 2, result
    assert "not a regular file" in result.stderr, result


@pytest.mark.parametrize("option, name, text", [("--config", "c.yaml", "commands_file: list\n"), ("--commands-file", "pipe", "echo 1 >> ran\n")])
def test_pipe_that_was_named_is_read(lab, option, name, text):
    lab.commands("echo 1 >> ran", name="list")
    os.mkfifo(lab.directory / name)
    run = lab.start("run", option, name)
    (lab.directory / name).write_text(text)
    assert run.wait(LIMIT) == 0
    assert lab.ran() == ["1"]


def test_log_that_becomes_a_pipe_hangs_neither_keeper_nor_reader(lab):
    lab.add("echo 'CUDA out of memory'; until [ -e go ]; do sleep 0.01; done; exit 3")
    runner = lab.start("run")
    lab.until(lambda: "memory" in lab.gpuq("logs", 1, code=None), "the log")
    log = log_of(lab, 1)
    log.unlink()
    os.mkfifo(log)
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 1
    job = lab.job(1)
    assert (job["exit_code"], job["reason"]) == (3, "GPU out of memory")  # from the log that the job has written
    result = lab.result("logs", 1)
    assert result.returncode != 0
    assert f"'{log}': it is not a regular file" in result.stderr


def test_folder_whose_locks_are_pipes_does_not_hang_readers(lab):
    lab.journal.write_bytes(sealing.journal({"event": "add", "id": 1, "command": "true"}))
    (lab.directory / "jobs.jsonl.d").mkdir()
    for name in ("append.lock", "counts", "runner.lock", "samples.jsonl"):
        os.mkfifo(lab.directory / "jobs.jsonl.d" / name)
    lab.gpuq("status")
    lab.gpuq("why", 1)


# ---- Trust -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["commands.txt", "gpuq.yaml", "jobs.jsonl"])
def test_file_that_everybody_can_write_is_not_used(lab, name):
    lab.commands("echo 1 >> ran")
    (lab.directory / "gpuq.yaml").write_text("retries: 0\n")
    lab.add("echo 1 >> ran")
    (lab.directory / name).chmod(0o666)
    result = lab.result("run")
    assert result.returncode == 2
    assert f"{name}': it can be written by everybody, so other users could run commands as you; check its content, then run chmod go-w {lab.directory}/{name}, or " in result.stderr and "or use --trust" in result.stderr
    assert lab.ran() == []
    lab.gpuq("run", env={"GPUQ_TRUST": "1"})
    assert lab.ran() == ["1", "1"]


def test_journal_that_everybody_can_write_later_is_no_longer_read(lab):
    """Put in place while the runner works: each file is checked, not only the first."""
    runner = lab.start("run", "--keep")
    lab.gpuq("add", "echo 1 >> ran")
    lab.gpuq("wait", 1)
    draft = lab.directory / "draft"
    draft.write_bytes(lab.journal.read_bytes())
    sealing.append(draft, {"event": "add", "id": 2, "command": "echo stolen >> ran"})
    draft.chmod(0o666)
    draft.rename(lab.journal)
    assert runner.wait(LIMIT) == 2
    assert b"it can be written by everybody" in runner.stderr.read()
    assert lab.ran() == ["1"]


def test_background_runner_inherits_the_trust_of_its_starter(lab):
    lab.add("echo 1 >> ran")
    lab.journal.chmod(0o666)
    lab.gpuq("add", "--trust", "echo 2 >> ran")
    lab.gpuq("wait", "--trust", 1)
    lab.gpuq("wait", "--trust", 2)
    assert sorted(lab.ran()) == ["1", "2"]


def test_archive_that_is_not_a_file_of_ours_is_not_written(lab):
    lab.add("true")
    lab.gpuq("run")
    archive = lab.directory / "jobs.jsonl.archive"
    before = lab.journal.read_bytes()
    archive.touch(mode=0o600)
    archive.chmod(0o666)
    assert "it can be written by everybody" in lab.result("prune").stderr
    archive.unlink()
    os.mkfifo(archive)
    assert "not a regular file" in lab.result("prune").stderr
    archive.unlink()
    archive.write_bytes(b"notes\n")  # a renamed file of the user
    archive.chmod(0o600)
    assert "jobs.jsonl.archive': it is not an archive of gpuq; move it away" in lab.result("prune").stderr
    assert archive.read_bytes() == b"notes\n"
    assert lab.journal.read_bytes() == before
    archive.write_bytes(b'{"even')  # torn by a crash
    assert lab.gpuq("prune") == "1 pruned, 0 kept\n"


# ---- Logs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0, 0o077])
@pytest.mark.parametrize("access, file, folder", [(None, 0o600, 0o700), ("owner", 0o600, 0o700), ("group", 0o640, 0o750), ("all", 0o644, 0o755)])
def test_access_to_logs_is_as_configured_whatever_the_umask(lab, umask, access, file, folder):
    lab.add("umask; echo hello")
    lab.gpuq("run", *(["--log-access", access] if access else []), preexec_fn=lambda: os.umask(umask))
    assert mode(log_of(lab, 1)) == file
    assert mode(lab.directory / "logs") == folder


def test_access_to_an_existing_folder_stays(lab):
    (lab.directory / "logs").mkdir(mode=0o711)
    lab.add("true")
    lab.gpuq("run", "--log-access", "all")
    assert mode(lab.directory / "logs") == 0o711


def test_settings_of_logs_come_from_the_configuration(lab):
    (lab.directory / "gpuq.yaml").write_text("log_access: all\nmax_log_size: 1M\n")
    lab.gpuq("add", "head -c 20000000 /dev/zero | tr '\\0' x")
    lab.gpuq("wait", 1)
    log = log_of(lab, 1)
    assert mode(log) == 0o644
    assert log.stat().st_size == 20000000
    assert log.stat().st_blocks * 512 <= 1200 << 10


def test_large_log_keeps_its_beginning_and_its_end(lab):
    lab.add("echo first; seq 1 2000000; echo last")
    lab.gpuq("run", "--max-log-size", "2M")
    log = log_of(lab, 1)
    whole = "first\n" + "".join(f"{n}\n" for n in range(1, 2000001)) + "last\n"
    assert log.stat().st_size == len(whole)
    assert log.stat().st_blocks * 512 <= 2200 << 10
    text = lab.gpuq("logs", 1)
    head, gap, tail = text.partition("\n[gpuq: ")
    words, _, tail = tail.partition("\n")
    assert gap and words.endswith(" MiB missing: removed by max_log_size, or never written by the job]")
    assert len(head) >= 1 << 20 and whole.startswith(head)
    assert len(tail) >= 1 << 20 and whole.endswith(tail)


def test_log_of_a_running_job_is_kept_small(lab):
    lab.add("head -c 20000000 /dev/zero | tr '\\0' x; echo; touch written; until [ -e go ]; do sleep 0.01; done")
    runner = lab.start("run", "--max-log-size", "1M")
    lab.until((lab.directory / "written").exists, "the job")
    log = log_of(lab, 1)
    lab.until(lambda: log.stat().st_blocks * 512 <= 1200 << 10, "a hole in the log")
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 0


def test_long_command_is_executed_and_leaves_nothing(lab):
    """It is too long for an argument."""
    lab.gpuq("add", "--no-start", "-", input=f"echo $GPUQ_JOB_ID >> ran; : {'x' * 200_000}\n")
    lab.gpuq("run")
    assert lab.ran() == ["1"]
    assert not (lab.directory / "jobs.jsonl.d/scripts").exists()
