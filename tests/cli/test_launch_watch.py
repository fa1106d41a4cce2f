# SPDX-License-Identifier: MIT
"""gpuq launch --watch: files that are added while it runs, with real kernel events."""
import json
import os
import pathlib
import shutil
import signal

import pytest

from launch_lab import COPY, LIMIT, PROGRAM


def watch(launch, *words, **options):
    words = words or PROGRAM
    return launch.start("--watch", "--json", "summary.json", *words, **options)


def wait_for(launch, *names, times=1):
    """Waits until each of these files has been processed this many times."""
    launch.until(lambda: all(launch.notes("end").count(name) >= times for name in names), names)


def stop(launch, process, code=0):
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert code is None or process.returncode == code, (process.returncode, out, err)
    assert launch.processes() == []
    return json.loads((launch.directory / "summary.json").read_text()), out, err


def preloaded(name):
    return os.path.join(os.path.dirname(os.environ["GPUQ"]), "tests", "cli", f"lib{name}.so")


def ready(launch, process):
    """Waits until the folder was searched once: an existing file and a new one are done."""
    launch.put("ready.wav")
    wait_for(launch, "ready.wav")
    assert process.poll() is None


def test_existing_and_new_files_are_processed_until_interrupted(launch):
    launch.put("a.wav")
    process = watch(launch)
    wait_for(launch, "a.wav")
    launch.put("b.wav", "fail.wav", "notes.txt")
    wait_for(launch, "b.wav")
    launch.until(lambda: "fail.wav" in launch.notes("begin"), "the failing file")
    launch.put("c.wav")
    wait_for(launch, "c.wav")
    while "4 of 4 files, 1 failed" not in (line := process.stdout.readline()):
        assert process.poll() is None
    assert line.endswith("waiting for new files\n")
    summary, _, err = stop(launch, process, code=1)
    assert (summary["files_total"], summary["files_done"], summary["files_failed"], summary["files_left"]) == (4, 3, 1, 0)
    # On a busy machine, a worker may have been loading all the time.
    assert summary["idle_seconds"] > 0 or summary["loading_seconds"] >= summary["wall_seconds"] - 0.01
    assert "watching 'in' for new files; press Ctrl-C to stop" in err
    assert "interrupted" not in err
    assert sorted(launch.notes("begin")) == ["a.wav", "b.wav", "c.wav", "fail.wav"]


def test_empty_folder_has_no_file_yet(launch):
    process = watch(launch)
    assert "watching 'in'" in process.stderr.readline()
    assert "no file in 'in' matches '*.wav' yet" in process.stderr.readline()
    assert process.stdout.readline() == "no files yet, waiting for new files\n"
    summary, out, _ = stop(launch, process)
    assert "0 of 0 files done; " in out and "100%" not in out and "speedup" not in out
    assert summary["speedup"] is None and summary["rtf"] is None
    process = watch(launch)
    ready(launch, process)
    stop(launch, process)


def test_the_next_run_skips_what_was_done_while_watching(launch):
    process = watch(launch)
    ready(launch, process)
    launch.put("b.wav")
    wait_for(launch, "b.wav")
    stop(launch, process)
    process = watch(launch)
    launch.put("c.wav")
    wait_for(launch, "c.wav")
    summary, _, _ = stop(launch, process)
    assert (summary["files_total"], summary["files_done"], summary["files_skipped"]) == (3, 1, 2)
    assert len(launch.notes("begin")) == 3


def test_first_interrupt_finishes_what_runs(launch):
    process = watch(launch)
    launch.put("wait1.wav", "wait2.wav")
    launch.wait_for_workers()
    launch.put("wait3.wav")  # no worker is free
    process.send_signal(signal.SIGINT)
    while "stopping after 2 running files" not in process.stderr.readline():
        assert process.poll() is None
    (launch.directory / "go").touch()
    process.communicate(timeout=LIMIT)
    assert sorted(launch.notes("end")) == ["wait1.wav", "wait2.wav"]
    assert process.returncode in (0, 130)  # 130 if it had found the third file


def test_a_file_that_is_being_written_waits_until_it_is_closed(launch):
    with open(launch.input / "long.wav", "wb") as early:  # open before the launch begins
        early.write(b"x")
        early.flush()
        os.utime(early.fileno(), (1, 1))  # as if last changed long ago
        process = watch(launch)
        ready(launch, process)
        with open(launch.input / "new.wav", "wb") as late:
            late.write(b"x")
            late.flush()
            launch.put("other.wav")
            wait_for(launch, "other.wav")
            assert launch.notes("begin") == ["ready.wav", "other.wav"]
        wait_for(launch, "new.wav")
        assert "long.wav" not in launch.notes("begin")
    wait_for(launch, "long.wav")
    summary, _, _ = stop(launch, process)
    assert summary["files_done"] == 4 and launch.notes("begin").count("long.wav") == 1


def test_a_file_that_is_still_open_at_the_end_is_not_counted(launch):
    with open(launch.input / "long.wav", "wb"):
        process = watch(launch)
        ready(launch, process)
        summary, _, _ = stop(launch, process)
    assert (summary["files_total"], summary["files_left"]) == (1, 0)


def test_names_that_match_no_pattern_count_when_they_are_renamed_into_place(launch):
    process = watch(launch)
    launch.put("a.wav.part", ".hidden.wav", "b.tmp")
    ready(launch, process)
    assert launch.notes("begin") == ["ready.wav"]
    os.rename(launch.input / "a.wav.part", launch.input / "a.wav")
    os.rename(launch.input / ".hidden.wav", launch.input / "hidden.wav")
    wait_for(launch, "a.wav", "hidden.wav")
    (launch.directory / "c.wav").write_bytes(b"x")
    os.rename(launch.directory / "c.wav", launch.input / "c.wav")
    os.link(launch.input / "b.tmp", launch.input / "linked.wav")
    os.symlink("b.tmp", launch.input / "link.wav")
    wait_for(launch, "c.wav", "linked.wav", "link.wav")
    stop(launch, process)


def test_files_that_were_linked_into_place_and_have_one_name_are_processed(launch):
    """As sftp servers and WinSCP rename an upload, and as programs publish a file made with O_TMPFILE."""
    process = watch(launch)
    ready(launch, process)
    process.send_signal(signal.SIGSTOP)
    launch.put("a.wav.filepart", "b.wav.filepart")
    if os.geteuid() == 0:  # the launch cannot recognize whether another user still writes it
        os.utime(launch.input / "b.wav.filepart", (1, 1))
        os.chown(launch.input / "b.wav.filepart", 1000, -1)
    for name in ("a.wav", "b.wav"):
        os.link(launch.input / f"{name}.filepart", launch.input / name)
        os.unlink(launch.input / f"{name}.filepart")
    unnamed = os.open(launch.input, os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.write(unnamed, b"x")
    os.link(f"/proc/self/fd/{unnamed}", launch.input / "c.wav", src_dir_fd=unnamed)  # with a directory, it follows links
    os.close(unnamed)
    process.send_signal(signal.SIGCONT)
    wait_for(launch, "a.wav", "b.wav", "c.wav")
    stop(launch, process)


def test_files_with_two_names_for_a_moment_are_files_of_one_user(launch):
    """A result folder that is named a.wav, and not a, belongs to a file that another user may have named."""
    names = [f"a{number}.wav" for number in range(40)]
    launch.put(*(f"{name}.part" for name in names))
    launch.input.chmod(0o1777)
    process = watch(launch)
    ready(launch, process)
    for name in names:
        os.link(launch.input / f"{name}.part", launch.input / name)
        os.unlink(launch.input / f"{name}.part")
        wait_for(launch, name)
    stop(launch, process)
    assert {path.name for path in launch.output.iterdir() if path.name.startswith("a")} == {name[:-4] for name in names}


def test_a_changed_file_is_new_and_an_unchanged_one_is_not(launch):
    launch.put("a.wav", size=10)
    process = watch(launch, "--gpus", "sim:1", *PROGRAM)
    wait_for(launch, "a.wav")
    with open(launch.input / "a.wav", "r+b"):
        pass  # closed after writing nothing
    launch.put("b.wav")
    wait_for(launch, "b.wav")  # if a.wav were new, it would be queued first
    assert launch.notes("begin") == ["a.wav", "b.wav"]
    launch.put("a.wav", size=11)
    wait_for(launch, "a.wav", times=2)
    launch.put("a.wav", size=10)
    wait_for(launch, "a.wav", times=3)
    summary, _, _ = stop(launch, process)
    assert (launch.notes("begin").count("a.wav"), launch.notes("begin").count("b.wav")) == (3, 1)
    assert summary["files_left"] == 0 and summary["files_failed"] == 0
    assert (launch.output / "a" / "result.txt").exists() and not (launch.output / "a.wav").exists()


def test_a_file_that_changes_while_a_worker_has_it_is_processed_again(launch):
    process = watch(launch, "--gpus", "sim:1", *PROGRAM)
    launch.put("wait.wav")
    launch.wait_for_workers(1)
    launch.put("wait.wav", size=99)
    (launch.directory / "go").touch()
    wait_for(launch, "wait.wav", times=2)
    launch.put("b.wav")
    wait_for(launch, "b.wav")
    stop(launch, process)
    assert launch.notes("begin").count("wait.wav") == 2


def test_a_file_that_vanishes_before_its_turn_has_not_failed(launch):
    launch.put("wait.wav", size=20)
    process = watch(launch, "--gpus", "sim:1", "--max-failures", "9", *PROGRAM)  # with a limit, no file is prefetched
    launch.wait_for_workers(1)
    launch.put("a.wav", "b.wav")
    os.remove(launch.input / "a.wav")
    (launch.directory / "go").touch()
    wait_for(launch, "wait.wav", "b.wav")
    summary, _, _ = stop(launch, process)
    assert (summary["files_total"], summary["files_failed"], summary["files_left"]) == (2, 0, 0)


def test_a_file_whose_result_folder_cannot_be_made_has_failed(launch):
    launch.output.mkdir()
    (launch.output / "a").symlink_to("/nonexistent/folder")
    launch.put("a.wav")
    process = watch(launch)
    launch.put("b.wav")
    wait_for(launch, "b.wav")
    launch.until(lambda: any(line["event"] == "failed" for line in launch.history()), "the failure")
    summary, out, err = stop(launch, process, code=1)
    assert (summary["files_done"], summary["files_failed"]) == (1, 1)
    assert "cannot create its output folder" in out and "No such file or directory" in out, (out, err)


def test_folders_come_go_and_are_renamed(launch):
    process = watch(launch, "--recursive", *PROGRAM)
    ready(launch, process)
    launch.put("new/deep/a.wav")
    wait_for(launch, "a.wav")
    os.rename(launch.input / "new", launch.input / "renamed")
    wait_for(launch, "a.wav", times=2)  # another path is another file
    launch.put("renamed/deep/b.wav")
    wait_for(launch, "b.wav")
    shutil.rmtree(launch.input / "renamed")
    launch.put("new/c.wav")
    wait_for(launch, "c.wav")
    (launch.directory / "outside" / "sub").mkdir(parents=True)
    (launch.directory / "outside" / "sub" / "d.wav").write_bytes(b"x")
    os.rename(launch.directory / "outside", launch.input / "moved")
    wait_for(launch, "d.wav")
    os.rename(launch.input / "moved", launch.directory / "outside")
    (launch.directory / "outside" / "sub" / "e.wav").write_bytes(b"x")
    launch.put("new/f.wav")
    wait_for(launch, "f.wav")
    assert "e.wav" not in launch.notes("begin")
    summary, _, err = stop(launch, process)
    assert summary["files_failed"] == 0, err
    paths = {line["file"] for line in launch.history() if line["event"] == "done"}
    assert paths == {"ready.wav", "new/deep/a.wav", "renamed/deep/a.wav", "renamed/deep/b.wav", "new/c.wav",
                     "moved/sub/d.wav", "new/f.wav"}


def test_results_below_the_input_folder_are_not_input(launch):
    process = launch.start("--watch", "--recursive", "--output-dir", "in/out", "--json", "summary.json", *COPY)
    launch.put("a.wav")
    launch.until(lambda: (launch.input / "out" / "a" / "a.wav").exists(), "the copy")
    launch.put("sub/b.wav")
    launch.until(lambda: (launch.input / "out" / "sub" / "b" / "b.wav").exists(), "the copy")
    summary, _, _ = stop(launch, process)
    assert summary["files_total"] == 2


def test_the_input_folder_itself_may_be_removed_and_created_again(launch):
    process = watch(launch)
    ready(launch, process)
    os.rename(launch.input, launch.directory / "away")
    while "looking for it again every 5 seconds" not in process.stderr.readline():
        assert process.poll() is None
    launch.input.mkdir()
    launch.put("b.wav")
    wait_for(launch, "b.wav")
    launch.put("c.wav")
    wait_for(launch, "c.wav")
    stop(launch, process)


def test_lost_events_are_made_up_for_by_a_search(launch):
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
        limit = int(file.read())
    if limit > 100000:
        pytest.skip("the kernel's queue is too long to fill")
    process = watch(launch, "--recursive", *PROGRAM)
    (launch.input / "sub").mkdir()
    ready(launch, process)
    process.send_signal(signal.SIGSTOP)
    for n in range(limit + 10):
        os.close(os.open(launch.input / "sub" / f"{n}.tmp", os.O_CREAT | os.O_WRONLY))
    launch.put("sub/lost.wav", "sub/other/lost2.wav")
    process.send_signal(signal.SIGCONT)
    wait_for(launch, "lost.wav", "lost2.wav")
    launch.put("sub/other/after.wav")
    wait_for(launch, "after.wav")
    stop(launch, process)


@pytest.mark.parametrize("allowed", [0, 1], ids=["no instance", "one watch"])
def test_an_exhausted_inotify_limit_is_reported_and_searches_replace_it(launch, allowed):
    shim = preloaded("inotify_limit")
    process = watch(launch, "--recursive", *PROGRAM, env={"LD_PRELOAD": shim, "INOTIFY_LIMIT": str(allowed)})
    launch.put("sub/a.wav")
    wait_for(launch, "a.wav")
    while "the inotify limit is reached" not in process.stderr.readline():
        assert process.poll() is None
    launch.put("sub/b.wav", "c.wav")
    wait_for(launch, "b.wav", "c.wav")
    with open(launch.input / "sub" / "open.wav", "wb"):
        launch.put("sub/d.wav")
        wait_for(launch, "d.wav")
        assert "open.wav" not in launch.notes("begin")
    wait_for(launch, "open.wav")
    stop(launch, process)


def count_watches(process):
    fds = pathlib.Path(f"/proc/{process.pid}/fd")
    inotify = [fd.name for fd in fds.iterdir() if "inotify" in link_target(fd)]
    return sum(line.startswith("inotify ") for fd in inotify for line in (fds.parent / "fdinfo" / fd).read_text().splitlines())


def link_target(path):
    """Empty if the link is gone: the launch opens and closes other files meanwhile."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


def test_many_folders_leave_watches_for_other_programs(launch):
    """Other users can make any number of folders in the input folder."""
    for n in range(30):
        (launch.input / str(n)).mkdir()
    process = watch(launch, "--recursive", *PROGRAM, env={"LD_PRELOAD": preloaded("inotify_limit"), "INOTIFY_SYSCTL": "20"})
    while "the inotify limit is reached" not in process.stderr.readline():
        assert process.poll() is None
    assert count_watches(process) == 9
    names = [f"file{n}.wav" for n in range(30)]
    launch.put(*(f"{n}/{name}" for n, name in enumerate(names)))
    wait_for(launch, *names)
    assert count_watches(process) <= 19
    stop(launch, process)


def test_longest_of_the_waiting_files_is_processed_next(launch):
    process = watch(launch, "--gpus", "sim:1", "--max-failures", "9", *PROGRAM)  # with a limit, no file is prefetched
    launch.put("wait.wav")
    launch.wait_for_workers(1)
    for name, seconds in (("short.wav", 1), ("long.wav", 9), ("middle.wav", 4)):
        launch.put_wave(name, seconds)
    launch.put("last.wav", size=3)
    launch.until(lambda: progress_has(process, "of 5 files"), "all files to be queued")
    (launch.directory / "go").touch()
    wait_for(launch, "last.wav")
    stop(launch, process)
    assert launch.notes("begin")[1:] == ["long.wav", "middle.wav", "short.wav", "last.wav"]


def progress_has(process, words):
    return words in process.stdout.readline()


def test_round_robin_deals_new_files_out_in_turn(launch):
    process = watch(launch, "--balance", "round-robin", *PROGRAM)
    for n in range(4):
        launch.put(f"{n}.wav")
        wait_for(launch, f"{n}.wav")
    summary, _, _ = stop(launch, process)
    assert [gpu["files"] for gpu in summary["gpus"]] == [2, 2]


def test_watch_needs_a_worker_that_can_be_started(launch):
    process = watch(launch, "--set", "broken=1", *PROGRAM)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert "no model called base" in err


def test_watch_cannot_be_combined_with_a_dry_run(launch):
    _, err = launch.run("--watch", "--dry-run", *COPY, code=2)
    assert "--watch and --dry-run cannot be combined" in err


def test_workers_get_files_while_a_large_folder_is_searched(launch):
    gate = launch.directory / "gate"
    launch.put("a-wait.wav", "b-wait.wav")
    process = watch(launch, "--recursive", "--gpus", "sim:1", *PROGRAM, env={"LD_PRELOAD": preloaded("endless_folder"), "ENDLESS_FOLDER": str(gate)})
    launch.until(lambda: launch.notes("begin"), "the first file")
    gate.touch()
    (launch.input / "new").mkdir()  # triggers another search
    launch.until((launch.directory / "gate.reached").exists, "the search")
    (launch.directory / "go").touch()
    wait_for(launch, "a-wait.wav", "b-wait.wav")
    launch.until(lambda: (launch.output / "launch.jsonl").read_text().count('"event":"done"') == 2, "both results")
    assert gate.exists()
    gate.unlink()
    launch.put("d.wav")
    wait_for(launch, "d.wav")
    summary, _, _ = stop(launch, process)
    assert summary["files_done"] == 3


def test_copy_that_replaces_a_watched_folder_is_searched(launch):
    (launch.directory / "project/in").mkdir(parents=True)
    launch.input = launch.directory / "project/in"
    process = watch(launch, "--input-dir", launch.input, *PROGRAM)
    ready(launch, process)
    os.rename(launch.directory / "project", launch.directory / "moved")
    shutil.copytree(launch.directory / "moved", launch.directory / "project")
    launch.put("new.wav")
    wait_for(launch, "new.wav")
    stop(launch, process)


def test_files_of_a_folder_that_is_renamed_for_a_moment_are_processed(launch):
    """The kernel reports no event if a folder above the watched one is renamed."""
    (launch.directory / "open").mkdir()
    (launch.directory / "open").chmod(0o777)
    (launch.directory / "open/project/in").mkdir(parents=True)
    launch.input = launch.directory / "open/project/in"
    names = [f"{letter}.wav" for letter in "bcdef"]
    launch.put("a-wait.wav", *names)
    process = watch(launch, "--input-dir", launch.input, "--balance", "none", *PROGRAM, env={"GPUQ_GPUS": "sim:1"})
    launch.wait_for_workers(1)
    os.rename(launch.directory / "open/project", launch.directory / "open/moved")
    (launch.directory / "go").touch()
    while "looking for it again" not in process.stderr.readline():
        assert process.poll() is None
    os.rename(launch.directory / "open/moved", launch.directory / "open/project")
    wait_for(launch, *names)
    summary, _, _ = stop(launch, process, code=None)
    assert summary["files_left"] == 0
