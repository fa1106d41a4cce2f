# SPDX-License-Identifier: MIT
"""A copy of a queue neither repeats the jobs of the original nor ends them."""
import os
import pathlib
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
    assert result.returncode in (2, 125) and "has 1 unfinished job, but it was copied here" in result.stderr, result
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


@pytest.mark.parametrize("words", [(), ("--trust",)])
def test_copy_does_not_keep_the_secret_of_its_original(lab, words):
    """The user who made the copy knows the secret of pilots on a cluster."""
    lab.gpuq("add", "--no-start", "true")
    if not words:
        lab.gpuq("run")
    (lab.directory / "jobs.jsonl.d/slurm.secret").write_text("0" * 64)
    journal = copy(lab)
    lab.gpuq("add", "--jobs-file", journal, "--no-start", *words, "true")
    assert not (journal.parent / "jobs.jsonl.d/slurm.secret").exists()
    if not words:
        lab.gpuq("add", "--no-start", "true")
        assert (lab.directory / "jobs.jsonl.d/slurm.secret").exists()


def test_queue_that_was_renamed_is_used(lab):
    lab.gpuq("add", "--no-start", "echo 1 >> ran")
    folder = lab.directory / "moved"
    folder.mkdir()
    (lab.directory / "jobs.jsonl").rename(folder / "jobs.jsonl")
    (lab.directory / "jobs.jsonl.d").rename(folder / "jobs.jsonl.d")
    lab.gpuq("add", "--jobs-file", folder / "jobs.jsonl", "--no-start", "echo 2 >> ran")
    lab.gpuq("run", "--jobs-file", folder / "jobs.jsonl")
    assert sorted(lab.ran()) == ["1", "2"]


LOST = "but its folder 'jobs.jsonl.d' was removed, or was not copied with it"


@pytest.mark.parametrize("missing", ["folder", "home", "content of home"])
def test_journal_without_its_folder_is_refused_like_a_copy(lab, missing):
    """As in the clone of a repository that contains only jobs.jsonl."""
    lab.gpuq("add", "--no-start", "echo 1 >> ran")
    folder = lab.directory / "jobs.jsonl.d"
    if missing == "folder":
        shutil.rmtree(folder)
    elif missing == "home":
        (folder / "home").unlink()
    else:
        (folder / "home").write_text("inode 1")
    why = "but it was copied here" if missing == "content of home" else LOST
    for words in (("add", "true"), ("run",), ("run",)):
        result = lab.result(*words)
        assert result.returncode == 2 and f"has 1 unfinished job, {why}" in result.stderr, result
    assert lab.ran() == []
    lab.gpuq("run", "--trust", code=None)  # the environments of jobs are in the folder
    assert lab.ran() == ([] if missing == "folder" else ["1"])
    lab.gpuq("add", "--no-start", "echo 2 >> ran")
    lab.gpuq("run")
    assert lab.ran()[-1] == "2"


def test_folder_that_was_restored_has_the_environments_of_jobs(lab):
    """As after git clean -dX, which removes the folder and keeps the journal."""
    lab.gpuq("add", "--no-start", "echo 1 >> ran")
    folder = lab.directory / "jobs.jsonl.d"
    shutil.copytree(folder, lab.directory / "backup")
    shutil.rmtree(folder)
    assert LOST in lab.result("run").stderr
    shutil.rmtree(folder)
    shutil.copytree(lab.directory / "backup", folder)
    lab.gpuq("run", "--trust")
    lab.gpuq("add", "--no-start", "echo 2 >> ran")
    lab.gpuq("run")
    assert lab.ran() == ["1", "2"]


@pytest.mark.parametrize("with_folder", [False, True])
def test_copy_does_not_run_a_hook_that_is_due(lab, with_folder):
    """A finished job, whose hook was not run yet."""
    end = {"event": "end", "id": 1, "attempt": 1, "time": ADD["time"], "status": "completed", "exit_code": 0, "hook": True}
    lab.journal.write_bytes(sealing.journal({**ADD, "cwd": str(lab.directory), "on_finish": "echo hook >> ran"}, end))
    if with_folder:
        (lab.directory / "jobs.jsonl.d").mkdir(mode=0o700)
        (lab.directory / "jobs.jsonl.d/home").write_text("inode 12345;")
    assert "1 completed" in lab.gpuq("status")
    for words in (("add", "true"), ("run",)):
        result = lab.result(*words)
        assert result.returncode == 2 and f"has 1 hook to run, {'but it was copied here' if with_folder else LOST}" in result.stderr, result
    assert lab.ran() == []
    lab.gpuq("run", "--trust")
    lab.until(lambda: lab.ran() == ["hook"], "the hook")


def test_runner_of_a_copy_does_not_end_jobs_of_the_original(lab):
    runner = lab.start("run", "--keep")
    lab.gpuq("add", "echo 1 >> ran; while [ ! -e go ]; do sleep 0.01; done; echo 2 >> ran")
    lab.until(lambda: lab.ran() == ["1"], "the job")
    journal = copy(lab)
    lab.gpuq("add", "--jobs-file", journal, "--trust", "--no-start", "echo copy >> ran")
    second = lab.start("run", "--jobs-file", journal)
    lab.until(lambda: lab.ran() == ["1", "copy"], "the job of the copy")
    (lab.directory / "go").touch()
    lab.until(lambda: lab.job(1)["status"] == "completed", "the end")
    assert lab.ran() == ["1", "copy", "2"]
    assert second.wait(120) == 1 and "1 failed" in lab.gpuq("status", "--jobs-file", journal)
    runner.terminate()


def test_job_goes_on_without_the_folder_of_its_queue_and_does_not_run_twice(lab):
    folder = lab.directory / "jobs.jsonl.d"
    lab.gpuq("add", "--retries", "1", "echo 1 >> ran; while [ ! -e go ]; do sleep 0.01; done; echo 2 >> ran")
    lab.gpuq("add", "--gpu", "1", "echo other >> ran")
    lab.until(lambda: sorted(lab.ran()) == ["1", "other"], "the jobs")
    shutil.copytree(folder, lab.directory / "backup")
    shutil.rmtree(folder)
    wait = lab.start("wait", "1")
    assert "Running" in lab.gpuq("status", "1")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(lab.directory / "backup", folder)
    lab.gpuq("add", "--trust", "--no-start", "echo third >> ran")
    runner = lab.start("run")
    lab.until(lambda: "third" in lab.ran(), "a job of the new runner")
    (lab.directory / "go").touch()
    assert runner.wait(120) == 0 and wait.wait(120) == 0
    assert sorted(lab.ran()) == ["1", "2", "other", "third"]


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


def test_link_to_another_folder_in_the_folder_of_a_queue_is_not_followed(lab):
    """Git and tar create links: prune must not remove files of the folder that such a link leads to, and add must not write there."""
    thesis = lab.directory / "thesis"
    thesis.mkdir()
    (thesis / "chapter.tex").write_text("text")
    (thesis / "pictures").mkdir()
    for path in (thesis / "chapter.tex", thesis / "pictures"):
        os.utime(path, (1, 1))
    lab.gpuq("add", "--no-start", "true")
    lab.gpuq("run")
    (lab.directory / "jobs.jsonl.d/scripts").symlink_to("../thesis")
    (lab.directory / "script.sh").write_text("#!/bin/sh\ntrue\n")
    for words in (("prune", "-y"), ("add", "--no-start", "./script.sh")):
        result = lab.result(*words)
        assert result.returncode == 2 and "/scripts': Not a directory" in result.stderr, result
    assert sorted(p.name for p in thesis.iterdir()) == ["chapter.tex", "pictures"]


def test_copy_is_cleaned_of_links_and_open_files(lab):
    """An archive of another user can contain hard links, and files that others can read."""
    lab.gpuq("add", "--no-start", "true")
    lab.gpuq("run")
    folder = copy(lab).parent / "jobs.jsonl.d"
    precious = lab.directory / "precious"
    precious.write_text("text")
    for name in ("runner.lock", "runner.log"):
        (folder / name).unlink(missing_ok=True)
        os.link(precious, folder / name)
    (folder / "env/open").write_text("")
    (folder / "env/open").chmod(0o644)
    folder.chmod(0o755)
    lab.gpuq("add", "--jobs-file", folder.parent / "jobs.jsonl", "true")
    lab.gpuq("wait", "--jobs-file", folder.parent / "jobs.jsonl", "2")
    assert precious.read_text() == "text" and precious.stat().st_nlink == 1
    assert folder.stat().st_mode & 0o77 == 0 and all(p.stat().st_mode & 0o77 == 0 for p in folder.rglob("*"))


def test_home_that_is_a_link_does_not_hide_that_the_queue_is_a_copy(lab):
    lab.gpuq("add", "--no-start", "echo 1 >> ran")
    journal = copy(lab)
    home = journal.parent / "jobs.jsonl.d/home"
    (lab.directory / "elsewhere").write_text(f"inode {home.parent.stat().st_ino};")
    home.unlink()
    home.symlink_to(lab.directory / "elsewhere")
    result = lab.result("add", "--jobs-file", journal, "true")
    assert result.returncode == 2 and "it was copied here" in result.stderr, result


def test_trees_of_a_copy_are_set_aside(lab):
    """Prune would run git in them, and their repository can name programs."""
    lab.gpuq("add", "--no-start", "true")
    lab.gpuq("run")
    journal = copy(lab)
    folder = journal.parent / "jobs.jsonl.d"
    for number in (1, 2):
        (folder / f"trees/{number}").mkdir(parents=True)
        (folder / "home").write_text("inode 1;")
        result = lab.result("add", "--jobs-file", journal, "--no-start", "true")
        assert result.returncode == 0 and f"its frozen trees were renamed to '{folder}/trees.copied-{number}'" in result.stderr, result
        lab.gpuq("run", "--jobs-file", journal)
        assert (folder / f"trees.copied-{number}/{number}").is_dir() and not (folder / "trees").exists()


@pytest.mark.parametrize("call", range(1, 6))  # later calls are under the lock
def test_queue_that_another_command_removes_while_it_is_opened_is_created_again(lab, call):
    """A command that creates a queue, and fails, removes it."""
    library = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libremoved_queue.so"
    journal = lab.directory / "jobs.jsonl"
    lab.gpuq("add", "--no-start", "true", env={"LD_PRELOAD": str(library), "REMOVED_QUEUE": str(journal), "REMOVED_AT": str(call),
                                               "ASAN_OPTIONS": "verify_asan_link_order=0"})
    assert (lab.directory / "jobs.jsonl.removed").exists() and lab.job(1)["status"] == "pending"


def test_copy_without_trees_is_used_without_a_message(lab):
    lab.gpuq("add", "--no-start", "true")
    lab.gpuq("run")
    journal = copy(lab)
    (journal.parent / "jobs.jsonl.d/trees").mkdir()
    result = lab.result("add", "--jobs-file", journal, "--no-start", "true")
    assert result.returncode == 0 and result.stderr == "", result
    assert not list((journal.parent / "jobs.jsonl.d").glob("trees*"))


def test_archive_with_a_second_name_is_not_written(lab):
    """It may be the journal of another queue."""
    lab.gpuq("add", "--no-start", "true")
    lab.gpuq("run")
    (lab.directory / "other").mkdir()
    lab.gpuq("add", "--jobs-file", "other/jobs.jsonl", "--no-start", "true")
    before = (lab.directory / "other/jobs.jsonl").read_bytes()
    os.link(lab.directory / "other/jobs.jsonl", lab.directory / "jobs.jsonl.archive")
    result = lab.result("prune", "-y")
    assert result.returncode == 2 and "jobs.jsonl.archive': it has several names (hard links)" in result.stderr, result
    assert (lab.directory / "other/jobs.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["append.lock", "counts"])
def test_file_with_a_second_name_is_not_written(lab, name):
    lab.gpuq("add", "--no-start", "true")
    folder = copy(lab).parent / "jobs.jsonl.d"
    precious = lab.directory / "precious"
    precious.write_text("text")
    (folder / name).unlink()
    os.link(precious, folder / name)
    result = lab.result("add", "--jobs-file", folder.parent / "jobs.jsonl", "true")
    assert result.returncode == 2 and f"{name}': it has several names (hard links)" in result.stderr, result
    assert precious.read_text() == "text"


def test_journal_with_a_second_name_is_not_a_new_queue(lab):
    """Two runners would write to the same file."""
    lab.gpuq("add", "--no-start", "true")
    lab.gpuq("run")
    (lab.directory / "other").mkdir()
    os.link(lab.journal, lab.directory / "other/jobs.jsonl")
    result = lab.result("add", "--jobs-file", "other/jobs.jsonl", "true")
    assert result.returncode == 2 and "it has several names (hard links)" in result.stderr, result
    lab.gpuq("add", "--no-start", "true")


def test_stored_script_of_a_copy_is_executed_from_its_own_folder(lab):
    """Another user may have the old path, for example in /tmp."""
    (lab.directory / "script.sh").write_text("#!/bin/sh\necho right >> ran; exit 3\n")
    lab.gpuq("add", "--no-start", "./script.sh")
    lab.gpuq("run", code=1)
    journal = copy(lab)
    for path in (lab.directory / "jobs.jsonl.d/scripts").iterdir():
        path.write_text("echo wrong >> ran\n")
    lab.gpuq("retry", "--jobs-file", journal, "1")
    lab.gpuq("wait", "--jobs-file", journal, "1", code=3)
    assert lab.ran() == ["right", "right"]
