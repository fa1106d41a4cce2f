# SPDX-License-Identifier: MIT
"""When jobs may start: after others, at a time; and the tags by which they are found."""
import datetime
import json
import re
import signal

import pytest


def later(**delta):
    return (datetime.datetime.now() + datetime.timedelta(**delta)).strftime("%Y-%m-%d %H:%M:%S")


def test_after_takes_ranges_and_groups(lab):
    lab.gpuq("add", "--no-start", "--param", "n=1-3", "echo {n} >> ran")
    lab.add("true")
    assert lab.add("--after", "1-2,4", "echo range >> ran") == 5
    assert lab.add("--after", "g1,4", "--after-any", "5", "echo group >> ran") == 6
    assert (lab.job(5)["after"], lab.job(6)["after"], lab.job(6)["after_any"]) == ([1, 2, 4], [1, 2, 3, 4], [5])
    lab.gpuq("run", "--quiet")
    assert lab.ran()[-1] == "group" and sorted(lab.ran()[:-1]) == ["1", "2", "3", "range"]


def test_after_any_starts_when_the_others_are_over_whatever_they_did(lab):
    lab.add("false")
    lab.add("--hold", "true")
    lab.gpuq("cancel", "2")
    lab.add("true")
    lab.add("--after-any", "1-3", "echo any >> ran")
    lab.add("--after", "1", "--after-any", "3", "echo never >> ran")
    lab.gpuq("run", "--quiet", code=1)
    assert lab.ran() == ["any"]
    assert "job 1, which it waits for, failed" in lab.job(5)["reason"]
    assert [event.get("must") for event in lab.events() if event["event"] == "add"] == [None, None, None, True, True]


def test_after_any_waits_again_for_a_job_that_is_retried(lab):
    lab.add("false")
    lab.gpuq("run", "--quiet", code=1)
    lab.add("--hold", "--after-any", "1", "echo any >> ran")
    assert "is held" in lab.gpuq("why", "2")
    lab.gpuq("release", "2")
    lab.gpuq("wait", "2")
    assert lab.ran() == ["any"]


def test_why_names_the_job_that_after_any_waits_for(lab):
    lab.add("--hold", "true")
    lab.add("--after-any", "1", "true")
    assert "waits for job 1, which is held" in lab.gpuq("why", "2")
    assert lab.job(2)["waits"] == "after job 1"


@pytest.mark.parametrize("option", ["--after", "--after-any"])
def test_jobs_that_do_not_exist_cannot_be_waited_for(lab, option):
    lab.add("true")
    for ids, message in (("7", "cannot add the job after job 7: no such job"), ("1-3", "after job 2: no such job"),
                         ("g1", "cannot add the job after group g1: no such group"), ("3-1", f"{option}: '3-1' is not a job"),
                         ("x", "job 'x': no job has this id or name")):
        result = lab.result("add", "--no-start", option, ids, "true")
        assert result.returncode == 2 and message in result.stderr, result.stderr
    assert len(lab.jobs()) == 1


def test_options_of_lines(lab):
    lab.add("false")
    lab.commands("# gpuq: after_any=1 tag=night,exp:7 begin=2020-06-01", "echo line >> ran")
    lab.gpuq("run", "--quiet", code=1)
    job = lab.job(2)
    assert (job["after_any"], job["tags"], job["begin"][:4]) == ([1], ["night", "exp:7"], "2020")
    assert lab.ran() == ["line"]
    lab.commands("# gpuq: after_any=7", "true")
    assert "commands.txt:2: after job 7: no such job" in lab.result("run").stderr


def test_tags_name_jobs_wherever_an_id_is_accepted(lab):
    lab.add("--hold", "--tag", "night", "--tag", "exp:7,x", "true")
    lab.add("--hold", "--tag", "night", "true")
    lab.add("--hold", "--tag", "nigh", "true")
    assert [job["tags"] for job in lab.jobs().values()] == [["night", "exp:7", "x"], ["night"], ["nigh"]]
    assert [job["id"] for job in json.loads(lab.gpuq("status", "--json", "tag:night"))] == [1, 2]
    assert lab.add("--after", "tag:night", "--hold", "true") == 4 and lab.job(4)["after"] == [1, 2]
    lab.gpuq("cancel", "tag:exp:7,tag:nigh")
    assert [job["status"] for job in lab.jobs().values()] == ["cancelled", "held", "cancelled", "held"]
    result = lab.result("wait", "tag:other")
    assert result.returncode == 125 and "tag:other: no job has this tag" in result.stderr
    result = lab.result("add", "--tag", "a b", "true")
    assert result.returncode == 2 and "--tag: 'a b': a tag can contain only letters" in result.stderr


def test_a_job_begins_at_its_time_and_the_run_waits_and_says_so(lab):
    lab.add("--begin", "+3s", "echo late >> ran")
    lab.add("echo now >> ran")
    begin = lab.job(1)["begin"]
    assert re.match(r"\d{4}-\d\d-\d\dT", begin)
    result = lab.result("run")
    assert result.returncode == 0 and lab.ran() == ["now", "late"]
    assert re.search(r"gpuq: waiting until .*, when the job begins; Ctrl-C leaves it in the queue", result.stdout + result.stderr)
    start = next(event["time"] for event in lab.events() if event["event"] == "start" and event["id"] == 1)
    assert start >= begin


def test_a_runner_in_the_background_stays_for_a_job_that_begins_later(lab):
    lab.gpuq("add", "--begin", "+1h", "echo late >> ran")
    lab.until(lambda: "begins at" in (lab.job(1)["waits"] or ""), "the verdict of the runner")
    assert re.search(r"^begins at \S+", lab.gpuq("why", "1"), re.MULTILINE)
    lab.gpuq("add", "echo now >> ran")
    lab.gpuq("wait", "2")
    assert lab.ran() == ["now"] and lab.runner() in lab.processes()
    lab.gpuq("cancel", "1")


def test_ctrl_c_leaves_a_job_that_begins_later_in_the_queue(lab):
    lab.add("--begin", "+1h", "true")
    run = lab.start("run", stdout=-1, stderr=-2)
    assert b"waiting until" in run.stdout.readline()
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 130
    assert lab.job(1)["status"] == "pending"


@pytest.mark.parametrize("text, message", [
    ("tomorrow", "--begin: 'tomorrow' is not a time; expected one like 22:00, +2h"),
    ("2020-01-01", "--begin: '2020-01-01' is in the past"),
    ("+x", "--begin: 'x' is not a duration"),
])
def test_times_that_make_no_sense_are_refused(lab, text, message):
    result = lab.result("add", "--no-start", "--begin", text, "true")
    assert result.returncode == 2 and message in result.stderr
    assert not lab.journal.exists()


def test_order_and_tags_survive_a_prune(lab):
    lab.add("true")
    lab.gpuq("run", "--quiet")
    lab.add("--hold", "--tag", "t", "--begin", later(hours=2), "--after-any", "1", "true")
    before = lab.job(2)
    lab.gpuq("prune")
    assert lab.job(2) == before
