# SPDX-License-Identifier: MIT
"""run --json: the jobs of this run, for programs."""
import json
import os

from lab import LIMIT


def test_jobs_of_this_run_and_nothing_else_on_standard_output(lab):
    lab.add("true")
    lab.gpuq("run")
    lab.add("exit 4")
    lab.add("--hold", "true")
    lab.commands("echo a >> ran")
    result = lab.result("run", "--json")
    assert result.returncode == 1
    jobs = json.loads(result.stdout)
    assert [(job["id"], job["status"], job["exit_code"]) for job in jobs] == [(2, "failed", 4), (4, "completed", 0)]
    assert jobs[0] == lab.job(2)
    assert "exit 4" in result.stderr


def test_second_run_reports_its_own_jobs(lab):
    lab.commands("echo first >> ran; until [ -e go ]; do sleep 0.01; done")
    first = lab.start("run", "--json")
    lab.until(lab.ran)
    lab.commands("exit 4", name="second.txt")
    result = lab.result("run", "--commands-file", "second.txt", "--json")
    assert result.returncode == 1
    assert [job["id"] for job in json.loads(result.stdout)] == [2]
    (lab.directory / "go").touch()
    out, _ = first.communicate(timeout=LIMIT)
    assert [job["id"] for job in json.loads(out)] == [1, 2]


def test_run_in_the_background_reports_the_added_jobs(lab):
    lab.commands("until [ -e go ]; do sleep 0.01; done")
    jobs = json.loads(lab.gpuq("run", "--json", "--background"))
    assert [(job["id"], job["status"] in ("pending", "running")) for job in jobs] == [(1, True)]
    (lab.directory / "go").touch()
    lab.gpuq("wait")


def test_nothing_to_do_is_an_empty_list(lab):
    lab.commands("true")
    lab.gpuq("run")
    assert json.loads(lab.gpuq("run", "--json")) == []


def test_configuration_can_ask_for_json(lab):
    (lab.directory / "gpuq.yaml").write_text("json: true\n")
    lab.commands("true")
    assert [job["status"] for job in json.loads(lab.gpuq("run"))] == ["completed"]


def test_why_explains_gpu_by_gpu(lab):
    os.mkfifo(lab.directory / "go")
    lab.add("--mem", "10G", "cat go")
    lab.add("--mem", "12G", "true")
    lab.add("--after", "2", "true")
    lab.add("--hold", "true")
    lab.add("--mem", "90G", "true")
    lab.start("run", "--gpus", "sim:1x16G")
    lab.until(lambda: lab.job(1)["status"] == "running", "job 1 runs")
    answers = json.loads(lab.gpuq("why", "--json", "1-5"))
    assert [a["id"] for a in answers] == [1, 2, 3, 4, 5]
    assert [a["status"] for a in answers] == ["running", "pending", "pending", "held", "pending"]
    assert [a["answer"] for a in answers] == [None, "waits", "blocked", None, "never"]
    assert [a["after"] for a in answers] == [None, None, 2, None, None]
    assert [a["position"] for a in answers] == [None, 1, 2, None, 3]
    assert answers[1]["gpus"] == [{"index": 0, "reason": "memory", "job": None}]
    assert answers[4]["gpus"] == [{"index": 0, "reason": "too_small", "job": None}]
    assert answers[0]["gpus"] == [] and answers[2]["waits"] == "after job 2"
    for answer in answers:
        assert "".join(line + "\n" for line in answer["lines"]) == lab.gpuq("why", answer["id"])
    lab.gpuq("cancel", 5)
    (lab.directory / "go").write_text("")


def test_why_prints_no_incomplete_array(lab):
    lab.add("--hold", "true")
    result = lab.result("why", "--json", "1", "7")
    assert result.returncode == 2 and result.stdout == "" and "job 7" in result.stderr


def test_wait_reports_each_exit_code(lab):
    lab.add("exit 3")
    lab.add("kill -9 $$")
    lab.add("true")
    lab.add("--hold", "true")
    lab.gpuq("run", code=1)
    over = [{"id": 1, "over": True, "exit_code": 3}, {"id": 2, "over": True, "exit_code": 137}, {"id": 3, "over": True, "exit_code": 0}]
    assert json.loads(lab.gpuq("wait", "--json", "1-3", code=1)) == {"exit_code": 1, "timed_out": False, "jobs": over}
    assert json.loads(lab.gpuq("wait", "--json", 1, code=3)) == {"exit_code": 3, "timed_out": False, "jobs": over[:1]}
    held = [{"id": 4, "over": False, "exit_code": None}]
    assert json.loads(lab.gpuq("wait", "--json", "--any", "3,4")) == {"exit_code": 0, "timed_out": False, "jobs": over[2:] + held}


def test_wait_reports_that_it_gave_up(lab):
    os.mkfifo(lab.directory / "go")
    lab.add("cat go")
    lab.start("run")
    lab.until(lambda: lab.job(1)["status"] == "running", "job 1 runs")
    answer = json.loads(lab.gpuq("wait", "--json", "--timeout", "100ms", 1, code=124))
    assert answer == {"exit_code": 124, "timed_out": True, "jobs": [{"id": 1, "over": False, "exit_code": None}]}
    (lab.directory / "go").write_text("")


def test_verify_reports_damage_and_repair(lab):
    lab.add("true")
    lab.add("--hold", "true")
    lab.add("--hold", "true")
    intact = json.loads(lab.gpuq("verify", "--json"))
    assert not intact["damaged"] and intact["jobs"] == 3 and intact["path"] == str(lab.journal)
    assert (intact["bad_lines"], intact["first_bad_line"], intact["kept_as"], intact["missing_records"]) == (0, None, None, [])
    lines = lab.journal.read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"id":2' in line)
    lab.journal.write_bytes(b"".join(lines[:at] + [b"x" * 20 + b"\n"] + lines[at + 1:]))
    damaged = json.loads(lab.gpuq("verify", "--json", code=1))
    assert damaged["damaged"] and damaged["bad_lines"] == 1 and damaged["first_bad_line"] == at + 1
    assert len(damaged["missing_records"]) == 1 and damaged["lost_jobs"] == [[2, 2]]
    repaired = json.loads(lab.gpuq("verify", "--repair", "--json"))
    assert not repaired["damaged"] and (lab.directory / repaired["kept_as"]).exists()
