# SPDX-License-Identifier: MIT
"""Running launches and maps in gpuq top, gpuq web and its metrics."""
import fcntl
import json
import os
import re
import signal
import stat
import subprocess

import pytest

from launch_lab import LIMIT, PROGRAM
from map_lab import Map
from web_lab import Page


@pytest.fixture(name="home")
def make_home(lab, launch):
    """Queue, launches and maps of one user: the same state directory."""
    launch.environment["XDG_STATE_HOME"] = lab.environment["XDG_STATE_HOME"]
    launch.lab = lab
    return launch


def run_files(home, ending=""):
    return sorted(path for path in (home.lab.directory / "state").rglob(f"runs/*{ending}"))


def published(home):
    """The publication of the only run, once it exists."""
    home.until(lambda: run_files(home, ".json"), "a published run")
    return json.loads(run_files(home, ".json")[0].read_text())


def start(home, *names):
    home.put(*names)
    process = home.start("--watch", *PROGRAM)
    return process


def end(process):
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)


def state_with(page, condition):
    """The first state sent to the page for which this holds."""
    stream = page.stream()
    try:
        return stream.until("state", condition)
    finally:
        stream.close()


def test_a_running_launch_publishes_its_progress_for_its_owner_alone(home):
    process = start(home, "a.wav", "fail.wav", "wait.wav")
    home.until(lambda: published(home)["done"] + published(home)["failed"] == 2, "two ends")
    run = published(home)
    assert (run["kind"], run["name"], run["total"], run["failed"], run["watching"]) == ("launch", str(home.input), 3, 1, True)
    assert sum(gpu["done"] for gpu in run["gpus"]) == 1
    assert "worker.py" in run["worker"]
    for path in run_files(home):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(run_files(home)[0].parent.stat().st_mode) == 0o700
    (home.directory / "go").touch()
    end(process)
    assert run_files(home) == []


def test_page_and_metrics_show_running_launches_and_maps(home):
    process = start(home, "a.wav", "fail.wav", "wait.wav")
    home.until(lambda: published(home)["done"] + published(home)["failed"] == 2, "two ends")
    page = Page(home.lab)
    state = state_with(page, lambda state: state["runs"] and state["runs"][0]["running"] == 1)
    run = state["runs"][0]
    assert (run["pid"], run["kind"], run["name"], run["done"], run["failed"], run["total"]) == (
        process.pid, "launch", str(home.input), 1, 1, 3)
    assert [gpu["task"] for gpu in run["gpus"] if gpu["task"]] == ["wait.wav"]
    metrics = page.ask("/metrics").content.decode()
    label = f'pid="{process.pid}",kind="launch",name="{home.input}"'
    assert f"gpuq_run_tasks{{{label}}} 3\n" in metrics
    ends = re.findall(r"gpuq_run_tasks_total\{" + re.escape(label) + r',gpu="\d",state="(\w+)"\} 1\n', metrics)
    assert sorted(ends) == ["done", "failed"]
    assert f"gpuq_run_rtf{{{label}}} " in metrics
    (home.directory / "go").touch()
    end(process)
    assert state_with(page, lambda state: not state["runs"])["runs"] == []
    assert "gpuq_run_" not in page.ask("/metrics").content.decode()


def test_files_of_a_launch_that_was_killed_are_removed(home):
    process = start(home, "wait.wav")
    published(home)
    process.kill()
    process.communicate(timeout=LIMIT)
    assert len(run_files(home)) == 2
    page = Page(home.lab)
    assert state_with(page, lambda state: True)["runs"] == []
    home.until(lambda: run_files(home) == [], "the removal")


def test_a_lock_of_another_process_with_the_same_pid_delays_nothing(home):
    """Containers with the same host name share the folder of runs, but each has its own PIDs."""
    process = start(home, "wait.wav")
    published(home)
    runs = run_files(home)[0].parent
    (home.directory / "go").touch()
    end(process)
    home.put("a.wav")
    words = ["sh", "-c", 'read go && exec "$@"', "sh", *home.words(*PROGRAM)]
    with subprocess.Popen(words, cwd=home.directory, env=home.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        home.started.append(process)
        with open(runs / f"{process.pid}.lock", "w", encoding="utf-8") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            process.stdin.write(b"go\n")
            process.stdin.close()
            assert process.wait(LIMIT) == 0
            assert [path.name for path in run_files(home)] == [f"{process.pid}.lock"]


def test_a_damaged_file_is_not_shown_and_harms_nothing(home):
    process = start(home, "wait.wav")
    published(home)
    page = Page(home.lab)
    state_with(page, lambda state: state["runs"])
    process.send_signal(signal.SIGSTOP)
    run_files(home, ".json")[0].write_bytes(b'{"version":1,"kind":')
    assert state_with(page, lambda state: not state["runs"])["runs"] == []
    process.send_signal(signal.SIGCONT)
    (home.directory / "go").touch()
    end(process)


def test_a_map_is_shown_with_its_items(home, tmp_path_factory):
    items = Map(tmp_path_factory.mktemp("map"))
    items.environment["XDG_STATE_HOME"] = home.lab.environment["XDG_STATE_HOME"]
    try:
        items.put(1, 2, "fail", "wait")
        items.start("--batch", "1")
        home.until(lambda: published(home)["done"] + published(home)["failed"] == 3, "three ends")
        run = published(home)
        assert (run["kind"], run["total"], run["done"], run["failed"]) == ("map", 4, 2, 1)
        assert os.path.basename(run["name"]) == "in.jsonl" and "rtf" not in run
    finally:
        items.end()


def test_without_a_queue_the_page_shows_launches_and_later_the_queue(home):
    process = start(home, "wait.wav")
    published(home)
    page = Page(home.lab, queue=False)
    assert state_with(page, lambda state: state["runs"])["journal"] is None
    home.lab.add("true")
    assert state_with(page, lambda state: state["jobs"] == 1)["runs"]
    (home.directory / "go").touch()
    end(process)


def rows(home):
    """The queue's report about launches and maps: state, done, failed, input and worker."""
    text = home.lab.gpuq("report", "-o", "-")
    section = text.partition("<h2>Launches and maps</h2>")[2].partition("</section>")[0]
    cells = [[re.sub("<[^>]*>", "", cell).strip() for cell in re.findall("<td.*?</td>", row)] for row in section.split("<tr>")]
    return [(row[1], row[3], row[4], row[5], row[8]) for row in cells if row]


def test_report_of_a_queue_has_launches_that_run_ended_or_were_killed(home):
    home.lab.add("true")
    process = start(home, "a.wav", "fail.wav", "wait.wav")
    home.until(lambda: published(home)["done"] + published(home)["failed"] == 2, "two ends")
    (row,) = rows(home)
    assert row[:4] == ("launch", "watching", "1 of 3", "1") and row[4].startswith(str(home.input))
    process.kill()
    process.communicate(timeout=LIMIT)
    assert [row[:2] for row in rows(home)] == [("launch", "killed")]
    (home.directory / "go").touch()
    process = home.start(*PROGRAM)
    process.communicate(timeout=LIMIT)
    # The newest first; the newest is exact, however short it was.
    newest, killed = rows(home)
    assert newest[:4] == ("launch", "ended", "1 of 2", "1") and killed[1] == "killed"


def test_history_of_runs_is_bounded_and_damage_is_skipped(home):
    home.lab.add("true")
    home.put("a.wav")
    assert home.start(*PROGRAM).wait(LIMIT) == 0
    (ended,) = (home.lab.directory / "state").rglob("run_history/ended.jsonl")
    assert stat.S_IMODE(ended.stat().st_mode) == 0o600
    line = ended.read_text()
    ended.write_text("{\n" + line * (600_000 // len(line)) + line[:20])
    home.put("b.wav")
    assert home.start(*PROGRAM).wait(LIMIT) == 0
    assert ended.read_text().count("\n") == 1
    assert ended.with_name("older.jsonl").stat().st_size > 500_000
    assert len(rows(home)) == 50
    assert "The last 50 of" in home.lab.gpuq("report", "-o", "-")


def test_report_about_a_queue_that_others_can_write_has_no_launches(home):
    """They could choose the times of its jobs, and so which private paths and commands the report publishes."""
    home.lab.add("true")
    home.put("a.wav")
    assert home.start(*PROGRAM).wait(LIMIT) == 0
    assert len(rows(home)) == 1
    (home.lab.directory / "jobs.jsonl").chmod(0o666)
    text = home.lab.gpuq("report", "-o", "-")
    assert text.startswith("<!DOCTYPE html>") and str(home.input) not in text
