# SPDX-License-Identifier: MIT
"""A copy of a queue neither repeats the jobs of the original nor ends them."""
import shutil

import pytest

import sealing

ADD = {"event": "add", "id": 1, "time": "2026-11-15T21:42:19.599Z", "command": "echo stolen >> ran", "cwd": "/"}
FOREIGN = {
    "ordinary": sealing.journal(ADD),
    "long header": sealing.sealed({**sealing.HEADER, "x": "a" * 2000}, ADD),
    "very long header": sealing.sealed({**sealing.HEADER, "x": "a" * (2 << 20)}, ADD),
    "no header": sealing.sealed(ADD),
    "damaged header": b"{}\n" + sealing.sealed(ADD, first=2),
    "original": b'{"id":1,"command":"echo stolen >> ran","status":"pending"}\n',
}


def copy(lab, name="copy"):
    """Copies the queue as cp -r does."""
    folder = lab.directory / name
    folder.mkdir()
    shutil.copy(lab.directory / "jobs.jsonl", folder)
    shutil.copytree(lab.directory / "jobs.jsonl.d", folder / "jobs.jsonl.d")
    return folder / "jobs.jsonl"


@pytest.mark.parametrize("words", [("add", "true"), ("run",), ("cancel", "--all"), ("exec", "--", "true"), ("prune", "-y")])
def test_copy_with_unfinished_jobs_is_refused(lab, words):
    lab.gpuq("add", "--no-start", "echo 1 >> ran")
    journal = copy(lab)
    result = lab.result(words[0], "--jobs-file", journal, *words[1:])
    assert result.returncode in (2, 125) and "was copied from another place, where its 1 unfinished job may run, too" in result.stderr, result
    assert "--trust" in result.stderr
    assert "1 pending" in lab.gpuq("status", "--jobs-file", journal)
    assert lab.ran() == []


def test_copy_that_the_user_accepts_is_a_queue_of_its_own(lab):
    lab.gpuq("add", "--no-start", "echo 1 >> ran")
    journal = copy(lab)
    lab.gpuq("run", "--jobs-file", journal, "--trust")
    lab.gpuq("add", "--jobs-file", journal, "--no-start", "true")
    lab.gpuq("run", "--jobs-file", journal)
    assert lab.ran() == ["1"]
    lab.gpuq("run")
    assert lab.ran() == ["1", "1"]


def test_copy_without_unfinished_jobs_is_used(lab):
    lab.gpuq("add", "--no-start", "true")
    lab.gpuq("run")
    journal = copy(lab)
    lab.gpuq("add", "--jobs-file", journal, "--no-start", "true")
    lab.gpuq("run", "--jobs-file", journal)
    assert "2 completed" in lab.gpuq("status", "--jobs-file", journal)


def test_queue_that_was_renamed_or_lost_its_file_is_used(lab):
    lab.gpuq("add", "--no-start", "echo 1 >> ran")
    folder = lab.directory / "moved"
    folder.mkdir()
    (lab.directory / "jobs.jsonl").rename(folder / "jobs.jsonl")
    (lab.directory / "jobs.jsonl.d").rename(folder / "jobs.jsonl.d")
    lab.gpuq("add", "--jobs-file", folder / "jobs.jsonl", "--no-start", "echo 2 >> ran")
    (folder / "jobs.jsonl.d/home").write_text("inode 1")  # incomplete, as after a power cut
    lab.gpuq("add", "--jobs-file", folder / "jobs.jsonl", "--no-start", "echo 3 >> ran")
    (folder / "jobs.jsonl.d/home").unlink()
    lab.gpuq("run", "--jobs-file", folder / "jobs.jsonl")
    assert sorted(lab.ran()) == ["1", "2", "3"]


def test_runner_of_a_copy_does_not_end_jobs_of_the_original(lab):
    runner = lab.start("run", "--keep")
    lab.gpuq("add", "echo 1 >> ran; while [ ! -e go ]; do sleep 0.01; done; echo 2 >> ran")
    lab.until(lambda: lab.ran() == ["1"], "the job")
    journal = copy(lab)
    lab.gpuq("run", "--jobs-file", journal, "--trust", code=None)
    assert "1 failed" in lab.gpuq("status", "--jobs-file", journal)
    (lab.directory / "go").touch()
    lab.until(lambda: lab.job(1)["status"] == "completed", "the end")
    assert lab.ran() == ["1", "2"]
    runner.terminate()


@pytest.mark.parametrize("same_inode", [False, True], ids=["new", "same inode"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_journal_that_replaces_that_of_a_queue_is_not_executed(lab, kind, same_inode):
    """As git does with a file that it ignores, if a commit contains a file of this name."""
    lab.gpuq("add", "--no-start", "true")
    if same_inode:
        number = lab.journal.stat().st_ino
        for _ in range(100):  # file systems may give the number of a removed file to a new one
            lab.journal.unlink()
            lab.journal.write_bytes(FOREIGN[kind])
            if lab.journal.stat().st_ino == number:
                break
    else:
        draft = lab.directory / "draft"
        draft.write_bytes(FOREIGN[kind])
        draft.rename(lab.journal)
    for words in (("add", "--no-start", "true"), ("run",)):
        result = lab.result(*words)
        assert result.returncode == 2 and ("belongs to another journal" in result.stderr or "not a journal" in result.stderr), result
    assert lab.journal.read_bytes() == FOREIGN[kind] and lab.ran() == []


def test_link_that_replaces_the_journal_of_a_queue_is_not_followed(lab):
    """Git creates links, too."""
    lab.gpuq("add", "--no-start", "true")
    (lab.directory / "data").mkdir()
    (lab.directory / "data/results.jsonl").write_bytes(FOREIGN["original"])
    lab.journal.unlink()
    lab.journal.symlink_to("data/results.jsonl")
    for words in (("add", "--no-start", "true"), ("run",)):
        result = lab.result(*words)
        assert result.returncode == 2 and "it is a symbolic link, but the folder of a queue is next to it" in result.stderr, result
    assert (lab.directory / "data/results.jsonl").read_bytes() == FOREIGN["original"] and lab.ran() == []
