# SPDX-License-Identifier: MIT
"""The list of a user's queues, and all of them together."""
import json
import shutil
import socket

import pytest


@pytest.fixture(name="places")
def make_places(lab):
    """Two queues with jobs, and a function that adds to one."""
    for name in ("one", "two"):
        (lab.directory / name).mkdir()

    def add(name, *words):
        return lab.gpuq("add", "--no-start", "--jobs-file", lab.directory / name / "jobs.jsonl", *words)
    add("one", "true first")
    add("two", "true second")
    add("two", "--hold", "true third")
    return add


def queues(lab):
    return {queue["queue"]: queue for queue in json.loads(lab.gpuq("queues", "--json"))}


def test_queues_lists_queues_that_were_used_with_counts(lab, places):
    one, two = (str(lab.directory / name / "jobs.jsonl") for name in ("one", "two"))
    found = queues(lab)
    assert list(found) == [one, two]
    assert found[two]["jobs"]["pending"] == found[two]["jobs"]["held"] == 1
    assert (found[one]["directory"], found[one]["personal"], found[one]["has_runner"], found[one]["runner_pid"]) == (
        str(lab.directory / "one"), False, False, None)
    header, *rows = lab.gpuq("queues").splitlines()
    assert header.split() == ["RUNNER", "RUNNING", "PENDING", "HELD", "COMPLETED", "FAILED", "QUEUE"]
    assert [row.split() for row in rows] == [["none", "0", "1", "-", "0", "0", one], ["none", "0", "1", "1", "0", "0", two]]


def test_queues_names_the_runner(lab):
    runner = lab.start("run", "--keep")
    lab.until(lambda: lab.journal.exists() and lab.runner() == runner.pid)
    assert queues(lab)[str(lab.journal)]["runner_pid"] == runner.pid
    assert f"PID {runner.pid}" in lab.gpuq("queues")


def test_personal_queue_is_marked(lab):
    lab.gpuq("add", "--no-start", "true", env={"GPUQ_JOBS_FILE": ""})
    path = str(lab.directory / "state/gpuq" / socket.gethostname() / "jobs.jsonl")
    assert queues(lab)[path]["personal"] is True
    assert f"{path} (personal)" in lab.gpuq("queues")


def test_queue_that_is_gone_drops_out(lab, places):
    shutil.rmtree(lab.directory / "one")
    assert list(queues(lab)) == [str(lab.directory / "two/jobs.jsonl")]
    links = lab.directory / "state/gpuq" / socket.gethostname() / "queues"
    assert len(list(links.iterdir())) == 1
    assert links.stat().st_mode & 0o777 == 0o700


def test_list_is_empty_for_a_new_user(lab):
    result = lab.result("queues")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "gpuq: no queues yet; 'gpuq add' creates one\n")
    assert lab.gpuq("queues", "--json") == "[]\n"


def test_entry_that_is_not_a_queue_of_ours_is_ignored(lab, places):
    links = lab.directory / "state/gpuq" / socket.gethostname() / "queues"
    (links / "0123").symlink_to("/etc/passwd")
    (links / "file").write_text("x")
    assert len(queues(lab)) == 2


def test_queues_work_where_the_list_cannot_be_written(lab):
    (lab.directory / "state").write_text("a file")
    assert lab.add("true") == 1
    assert lab.gpuq("queues", code=2) == ""


@pytest.mark.parametrize("words", [["queues"], ["status", "--all"]])
def test_refused_state_directory_is_explained(lab, places, words):
    (lab.directory / "state").chmod(0o777)
    result = lab.result(*words)
    assert result.returncode == 2 and "can be written by others; run 'gpuq doctor' for details" in result.stderr, result
    assert f"problem  state           '{lab.directory}/state" in lab.result("doctor").stdout


def test_status_of_all_queues(lab, places):
    lines = lab.gpuq("status", "--all").splitlines()
    assert [line.split(" → ")[0].split()[-1] for line in lines if " → " in line] == ["first", "second", "third"]
    assert lines[1] == f"1 job: 1 pending; queue {lab.directory}/one/jobs.jsonl"
    jobs = json.loads(lab.gpuq("status", "--all", "--json", "--state", "pending"))
    assert [(job["command"], job["queue"]) for job in jobs] == [
        ("true first", f"{lab.directory}/one/jobs.jsonl"), ("true second", f"{lab.directory}/two/jobs.jsonl")]


@pytest.mark.parametrize("words, complaint", [(["3"], "--all cannot be used with job ids"), (["--jobs-file", "x"], "--all cannot be used with --jobs-file")])
def test_status_of_all_queues_takes_no_ids_and_no_file(lab, words, complaint):
    result = lab.result("status", "--all", *words)
    assert result.returncode == 2 and complaint in result.stderr


def test_status_of_all_queues_shows_those_that_can_be_read(lab, places):
    (lab.directory / "one/jobs.jsonl").unlink()
    (lab.directory / "one/jobs.jsonl").mkdir()
    result = lab.result("status", "--all")
    assert "second" in result.stdout and "one/jobs.jsonl" in result.stderr
