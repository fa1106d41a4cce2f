# SPDX-License-Identifier: MIT
"""run --json: the jobs of this run, for programs."""
import json

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
