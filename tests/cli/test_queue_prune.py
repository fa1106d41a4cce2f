# SPDX-License-Identifier: MIT
"""Finished jobs leave the journal while everybody goes on."""
import json
import os
import signal
import threading

from lab import LIMIT


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


def test_prune_by_age_leaves_what_is_young(lab):
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


def test_job_that_an_open_one_waits_for_stays(lab):
    lab.add("true")
    lab.add("--after", "1", "--hold", "echo 2 >> ran")
    lab.gpuq("run")
    assert lab.gpuq("prune") == "0 pruned, 2 kept\n"
    lab.gpuq("release", 2)
    lab.gpuq("wait", 2)
    assert lab.ran() == ["2"]
    os.kill(lab.runner(), signal.SIGTERM)


def test_journal_of_the_original_keeps_its_ids(lab):
    lab.journal.write_text('{"command":"a","status":"completed"}\n{"command":"echo b >> ran","status":"pending"}\n'
                           '{"command":"c","status":"running","gpu_id":1,"log_file":"x.log","pid":7}\n')
    lab.add("true")
    before = lab.jobs()
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
