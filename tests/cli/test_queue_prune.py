# SPDX-License-Identifier: MIT
"""Finished jobs are removed from the journal while other processes continue."""
import errno
import json
import os
import pathlib
import signal
import struct
import threading

import pytest

import sealing
from lab import GPUQ, LIMIT
from terminal import Terminal


def test_prune_takes_finished_jobs_out_and_keeps_the_rest(lab):
    lab.add("true")
    lab.add("--hold", "echo held >> ran")
    lab.add("exit 3")
    lab.gpuq("run", code=1)
    kept = lab.job(2)
    assert lab.gpuq("prune") == "2 pruned, 1 kept\n"
    assert lab.jobs() == {2: kept}
    archived = [json.loads(line) for line in (lab.directory / "jobs.jsonl.archive").read_text().splitlines()]
    assert {event["id"] for event in archived if "id" in event} == {1, 3}
    assert lab.add("true") == 4


def test_prune_by_age_keeps_recent_jobs(lab):
    lab.add("true")
    lab.gpuq("run")
    assert lab.gpuq("prune", "--older", "1h") == "0 pruned, 1 kept\n"


def test_ids_are_not_given_again_after_a_prune_even_without_the_folder(lab):
    lab.commands("true", "true")
    lab.gpuq("run")
    lab.gpuq("prune")
    for path in sorted((lab.directory / "jobs.jsonl.d").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert lab.add("true") == 3


def test_lines_of_a_file_are_remembered_after_a_prune(lab):
    lab.commands("echo a >> ran", "echo a >> ran", "echo b >> ran")
    lab.gpuq("run")
    assert lab.gpuq("prune") == "3 pruned, 0 kept\n"
    lab.gpuq("run")
    lab.gpuq("prune")
    lab.commands("echo a >> ran", "echo a >> ran", "echo b >> ran", "echo a >> ran", "echo c >> ran")
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["a", "a", "a", "b", "c"]


def test_prune_keeps_a_job_that_an_unfinished_job_waits_for(lab):
    lab.add("true")
    lab.add("--after", "1", "--hold", "echo 2 >> ran")
    lab.gpuq("run")
    assert lab.gpuq("prune") == "0 pruned, 2 kept\n"
    lab.gpuq("release", 2)
    lab.gpuq("wait", 2)
    assert lab.ran() == ["2"]
    os.kill(lab.runner(), signal.SIGTERM)


def test_journal_of_the_original_gpu_dispatch_keeps_its_ids(lab):
    lab.journal.write_text('{"command":"a","status":"completed"}\n{"command":"echo b >> ran","status":"pending"}\n'
                           '{"command":"c","status":"running","gpu_id":1,"log_file":"x.log","pid":7}\n')
    original = lab.journal.read_bytes()
    before = lab.jobs()
    lab.add("true")
    assert {number: job for number, job in lab.jobs().items() if number < 4} == before
    assert (lab.directory / "jobs.jsonl.original").read_bytes() == original
    lab.gpuq("prune", "--older", "1d")
    after = lab.jobs()
    assert sorted(after) == [2, 4]
    assert after[2]["command"] == before[2]["command"]
    lab.gpuq("run")
    assert lab.ran() == ["b"]


def test_running_job_goes_on_through_a_prune(lab):
    lab.add("true")
    lab.add("echo a >> ran; until [ -e go ]; do sleep 0.01; done; exit 6")
    runner = lab.start("run")
    lab.until(lab.ran)
    lab.until(lambda: lab.job(1)["status"] == "completed")
    waiting = lab.start("wait", 2)
    assert lab.gpuq("prune") == "1 pruned, 1 kept\n"
    added = lab.add("echo new >> ran")
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 1
    assert waiting.wait(timeout=LIMIT) == 6
    assert lab.job(2)["exit_code"] == 6
    assert lab.job(added)["status"] == "completed"


def test_prunes_in_the_middle_of_everything_lose_nothing(lab):
    """Runs, adds and prunes at once: each job ran once, and its end is in the journal or in the archive."""
    lab.commands(*(f"echo f{n} >> ran" for n in range(150)))
    stop = threading.Event()

    def prune_on():
        while not stop.is_set():
            lab.gpuq("prune")

    pruner = threading.Thread(target=prune_on, daemon=True)
    runs = [lab.start("run", "--quiet", "--jobs-per-gpu", "2") for _ in range(3)]
    pruner.start()
    adds = [lab.start("add", "--no-start", f"echo a{n} >> ran") for n in range(30)]
    ids = [int(add.communicate(timeout=LIMIT)[0]) for add in adds]
    try:
        for run in runs:
            out, err = run.communicate(timeout=LIMIT)
            assert run.returncode == 0, (out, err)
    finally:
        stop.set()
        pruner.join()
    lab.gpuq("run", "--quiet")
    assert len(set(ids)) == 30
    assert sorted(lab.ran()) == sorted([f"f{n}" for n in range(150)] + [f"a{n}" for n in range(30)])
    lab.gpuq("prune")
    ends = [event["id"] for event in map(json.loads, (lab.directory / "jobs.jsonl.archive").read_text().splitlines())
            if event["event"] == "end"]
    assert sorted(ends) == list(range(1, 181))


def test_what_a_kept_job_waited_for_stays(lab):
    lab.add("true")
    lab.add("--after", "1", "[ -e go ]")
    lab.gpuq("run", code=1)
    lines = lab.events()
    for line in lines:
        if line.get("id") == 1:
            line["time"] = "19" + line["time"][2:]
    lab.journal.write_bytes(sealing.again(lines))
    assert lab.gpuq("prune", "--older", "1h") == "0 pruned, 2 kept\n"
    (lab.directory / "go").touch()
    lab.gpuq("retry", 2)
    runner = lab.start("run")
    assert lab.gpuq("wait", 2) == ""
    runner.wait(timeout=LIMIT)


def test_environments_that_no_job_needs_are_removed_once_they_are_old(lab):
    folder = lab.directory / "jobs.jsonl.d/env"
    lab.add("true", env={"TOKEN": "1"})
    lab.add("--hold", "[ $TOKEN = 2 ]", env={"TOKEN": "2"})
    lab.gpuq("run", env={"TOKEN": "1"})
    lab.add("true", env={"TOKEN": "3"})
    lab.gpuq("cancel", 3)
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    lab.add("--hold", "true", env={"TOKEN": "4"})
    lab.gpuq("cancel", 4)
    assert lab.gpuq("prune") == "3 pruned, 1 kept\n"
    left = [entry for path in folder.iterdir() for entry in path.read_bytes().split(b"\0") if entry.startswith(b"TOKEN=")]
    assert sorted(left) == [b"TOKEN=2", b"TOKEN=4"]
    lab.gpuq("release", 2)
    lab.gpuq("wait", 2)
    os.kill(lab.runner(), signal.SIGTERM)


def test_saving_an_environment_again_updates_its_time(lab):
    folder = lab.directory / "jobs.jsonl.d/env"
    lab.add("true")
    lab.gpuq("run")
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    number = lab.add("true")
    assert [path.stat().st_mtime > 1 for path in folder.iterdir()] == [True]
    lab.gpuq("cancel", number)
    lab.gpuq("prune")
    assert len(list(folder.iterdir())) == 1


def test_prune_that_fails_leaves_the_archive_as_it_was(lab):
    faults = str(pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libfaults.so")
    archive = lab.directory / "jobs.jsonl.archive"
    lab.add("true")
    lab.gpuq("run")
    lab.gpuq("prune")
    for _ in range(2):
        lab.add("true")
    lab.gpuq("run")
    before, journal = archive.read_bytes(), lab.journal.read_bytes()
    counter = lab.directory / "counter"
    failures = 0
    for passing in range(10):
        counter.write_bytes(struct.pack("qq", passing, 1))
        result = lab.result("prune", env={"LD_PRELOAD": faults, "FAULT_CALL": "sync", "FAULT_ERRNO": str(errno.EIO),
                                          "FAULT_COUNTER": str(counter), "ASAN_OPTIONS": "verify_asan_link_order=0"})
        if result.returncode == 0:
            break
        failures += 1
        assert "the journal is unchanged" in result.stderr
        assert (archive.read_bytes(), lab.journal.read_bytes()) == (before, journal)
    assert failures >= 2


def test_line_that_was_cut_off_in_the_archive_spoils_no_other(lab):
    archive = lab.directory / "jobs.jsonl.archive"
    archive.write_text('{"event":"add","id":')
    lab.add("true")
    lab.gpuq("run")
    lab.gpuq("prune")
    lines = archive.read_text().splitlines()
    assert lines[0] == '{"event":"add","id":'
    assert json.loads(lines[1])


def test_wait_knows_the_end_of_a_job_that_was_pruned_meanwhile(lab):
    lab.add("until [ -e go ]; do sleep 0.01; done; exit 5")
    lab.add("until [ -e go ]; do sleep 0.01; done; echo said; exit 6")
    runner = lab.start("run")
    lab.until(lambda: sum(event["event"] == "start" for event in lab.events()) == 2)
    watching = {"one": lab.start("wait", 1), "both": lab.start("wait", 2, 1), "log": lab.start("logs", "-f", 2)}
    for process in watching.values():
        lab.until(lambda: watches(process), "the process to watch the journal")
        process.send_signal(signal.SIGSTOP)
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 1
    lab.gpuq("prune")
    assert lab.jobs() == {}
    for process in watching.values():
        process.send_signal(signal.SIGCONT)
    output = {name: process.communicate(timeout=LIMIT)[0] for name, process in watching.items()}
    codes = {name: process.returncode for name, process in watching.items()}
    assert codes == {"one": 5, "both": 1, "log": 0}
    assert output["log"] == b"said\n"


def watches(process):
    """Whether it sleeps with a watch, which means that it has read everything."""
    try:
        targets = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{process.pid}/fd").iterdir()]
    except FileNotFoundError:  # closed in the meantime
        return False
    state = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return any("inotify" in target for target in targets) and state == "S"


def prune_on_terminal(lab, *words):
    return Terminal([GPUQ, "prune", *words], columns=100, cwd=lab.directory, env=lab.environment)


def make_finished(lab):
    lab.add("true")
    lab.add("--hold", "true")
    lab.add("exit 3")
    lab.gpuq("run", code=1)


def test_on_a_terminal_prune_shows_the_jobs_and_asks(lab):
    make_finished(lab)
    terminal = prune_on_terminal(lab)
    terminal.shows("[y/N]")
    shown = terminal.screen.everything()
    assert "2 jobs: 1 completed, 1 failed; 1 kept" in shown and "exit 3" in shown
    terminal.type("n\n")
    assert terminal.wait() == 1
    assert "no jobs were pruned" in terminal.screen.everything()
    terminal.end()
    assert len(lab.jobs()) == 3


def test_what_ends_while_prune_asks_is_not_pruned(lab):
    make_finished(lab)
    terminal = prune_on_terminal(lab)
    terminal.shows("[y/N]")
    lab.gpuq("cancel", 2)
    terminal.type("y\n")
    assert terminal.wait() == 0
    assert "2 pruned, 1 kept" in terminal.screen.everything()
    terminal.end()
    assert list(lab.jobs()) == [2]


def test_the_end_of_the_terminals_input_means_no(lab):
    make_finished(lab)
    terminal = prune_on_terminal(lab)
    terminal.shows("[y/N]")
    terminal.type("\x04")
    assert terminal.wait() == 1
    terminal.end()
    assert len(lab.jobs()) == 3


def test_on_a_terminal_prune_does_not_ask_with_yes_or_without_jobs(lab):
    make_finished(lab)
    for words, line in ((["--yes"], "2 pruned, 1 kept"), ([], "0 pruned, 1 kept")):
        terminal = prune_on_terminal(lab, *words)
        assert terminal.wait() == 0
        assert terminal.screen.everything() == line + "\n"
        terminal.end()


def test_a_dry_run_of_prune_shows_the_jobs_and_keeps_them(lab):
    make_finished(lab)
    out = lab.gpuq("prune", "--dry-run")
    assert out.startswith("2 jobs: 1 completed, 1 failed; 1 kept\n")
    assert out.endswith("2 would be pruned, 1 kept\n") and "Failed (exit 3)" in out
    dry = json.loads(lab.gpuq("prune", "--dry-run", "--json"))
    assert len(lab.jobs()) == 3
    archive = str(lab.directory / "jobs.jsonl.archive")
    assert dry == {"dry_run": True, "pruned": 2, "kept": 1, "ids": [1, 3], "archive": archive}
    assert json.loads(lab.gpuq("prune", "--json")) == {**dry, "dry_run": False}
    assert list(lab.jobs()) == [2]
