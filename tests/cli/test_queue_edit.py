# SPDX-License-Identifier: MIT
"""Jobs that are changed before they start."""
import json

import pytest


def test_edit_changes_only_the_given_options(lab):
    lab.add("true")
    lab.add("--hold", "--mem", "4G", "--name", "old", "--timeout", "1h", "--retries", "2", "--tag", "a,b", "--cpus", "1", "--priority", "1",
            "--after", "1", "--on-finish", "cat >> hook", "echo old >> ran")
    before = lab.job(2)
    lab.gpuq("edit", "2", "--mem", "20G", "--priority", "5", "--command", "echo new >> ran", "--timeout", "2h")
    after = lab.job(2)
    assert after == {**before, "mem_mb": 20480, "priority": 5, "command": "echo new >> ran", "timeout": 7200}
    lab.gpuq("edit", "2", "--tag", "c", "--after-any", "1", "--name", "new", "--exclusive", "--num-gpus", "2", "--mem", "1G")
    after = lab.job(2)
    assert (after["tags"], after["after"], after["after_any"], after["name"]) == (["c"], [1], [1], "new")
    assert (after["exclusive"], after["num_gpus"], after["status"]) == (True, 2, "held")
    lab.gpuq("edit", "--no-start", "2", "--priority", "0")
    assert lab.job(2)["priority"] == 0
    edits = [event for event in lab.events() if event["event"] == "edit"]
    assert edits[-1]["timeout"] == 7200 and edits[-1]["retries"] == 2 and all(event["must"] for event in edits)
    lab.gpuq("release", "2")
    lab.gpuq("wait", "2")
    assert lab.ran() == ["new"]
    lab.until((lab.directory / "hook").exists, "the hook")


def test_an_empty_value_takes_an_option_away(lab):
    lab.add("--hold", "true")
    plain = lab.add("--hold", "--no-start", "echo plain >> ran")
    without = lab.job(plain)
    full = lab.add("--hold", "--after", "1", "--after-any", "1", "--tag", "a,b", "--name", "n", "--begin", "+1h", "--mem", "1G", "--timeout", "2h",
                   "--signal", "USR1@60", "--requeue-on", "85", "--host-mem", "1M", "--cpus", "1", "echo plain >> ran")
    lab.gpuq("edit", full, "--after", "", "--after-any", "", "--tag", "", "--name", "", "--begin", "", "--mem", "", "--timeout", "", "--signal", "",
             "--requeue-on", "", "--host-mem", "", "--cpus", "")
    changing = {"id", "submitted", "submit_time", "log"}
    after = lab.job(full)
    assert {key: value for key, value in after.items() if value != without[key]}.keys() <= changing
    lab.gpuq("edit", full, "--gpu", "1", "--tag", "", "--tag", "c")
    assert (lab.job(full)["gpu"], lab.job(full)["tags"]) == ("1", ["c"])
    lab.gpuq("edit", full, "--tag", "c", "--gpu", "0", "--gpu=")
    assert lab.job(full)["gpu"] is None
    lab.gpuq("release", full)
    lab.gpuq("wait", full)
    assert lab.ran() == ["plain"]


@pytest.mark.parametrize("option", ["priority", "retries", "num-gpus", "idle-warn"])
def test_mandatory_options_cannot_be_removed(lab, option):
    lab.add("--hold", "true")
    result = lab.result("edit", "1", f"--{option}", "")
    assert result.returncode == 2 and f"--{option}: empty value; this option always needs one" in result.stderr
    result = lab.result("add", "--after", "", "true")
    assert result.returncode == 2


def test_a_runner_places_an_edited_job_anew(lab):
    lab.add("--mem", "900G", "echo too large >> ran")
    lab.add("--begin", "+1h", "--mem", "1G", "echo late >> ran")
    run = lab.start("run", "--keep")
    lab.until(lambda: "cannot start" in (lab.job(1)["waits"] or ""), "the verdict")
    lab.gpuq("edit", "1", "--mem", "1G", "--command", "echo fits >> ran")
    lab.gpuq("wait", "1")
    lab.gpuq("edit", "2", "--begin", "+1s", "--command", "echo soon >> ran")
    lab.gpuq("wait", "2")
    assert lab.ran() == ["fits", "soon"]
    run.terminate()
    run.wait(60)


def test_a_job_that_could_not_start_starts_after_an_edit_without_a_runner(lab):
    lab.gpuq("add", "--mem", "900G", "echo fits >> ran")
    lab.until(lambda: "no runner" in lab.gpuq("why", "1"), "the runner leaves")
    lab.gpuq("edit", "1", "--mem", "1G")
    lab.gpuq("wait", "1")
    assert lab.ran() == ["fits"]


def test_jobs_that_have_started_or_are_over_are_refused(lab):
    (lab.directory / "fifo").touch()
    lab.gpuq("add", "touch started; while [ -e fifo ]; do sleep 0.05; done")
    lab.until((lab.directory / "started").exists, "the start")
    result = lab.result("edit", "1", "--mem", "1G")
    assert result.returncode == 2 and "cannot edit job 1: it has already started" in result.stderr
    (lab.directory / "fifo").unlink()
    lab.gpuq("wait", "1")
    result = lab.result("edit", "1", "--mem", "1G")
    assert result.returncode == 2 and "cannot edit job 1: its state is completed; only pending and held jobs can be edited" in result.stderr
    assert lab.job(1)["mem_mb"] is None


def test_an_edit_of_several_jobs_is_made_for_all_or_none(lab):
    lab.gpuq("add", "--no-start", "--hold", "--tag", "t", "--param", "n=1-3", "echo {n}")
    lab.gpuq("cancel", "2")
    result = lab.result("edit", "1-3", "--mem", "1G")
    assert result.returncode == 2 and "cannot edit job 2: its state is cancelled" in result.stderr
    assert [job["mem_mb"] for job in lab.jobs().values()] == [None, None, None]
    lab.gpuq("edit", "g1", "--mem", "1G")
    lab.gpuq("edit", "tag:t", "--name", "all")
    assert [job["mem_mb"] for job in lab.jobs().values()] == [1024, None, 1024]
    assert [job["group"] for job in lab.jobs().values()] == ["g1"] * 3
    lab.gpuq("cancel", "g1")
    result = lab.result("edit", "g1", "--mem", "1G")
    assert result.returncode == 1 and "no job was changed: none of these jobs is pending or held" in result.stderr


@pytest.mark.parametrize("words, message", [
    (["7", "--mem", "1G"], "job 7: no such job"),
    (["1"], "no change given"),
    (["--mem", "1G"], "no job given"),
    (["1", "--mem", "1"], "--mem: '1' has no unit"),
    (["1", "--command", ""], "--command: empty command"),
    (["1", "--gpu", "0,1", "--num-gpus", "1"], "cannot edit job 1: the job is pinned to 2 GPUs"),
    (["1", "--after", "2"], "cannot edit job 1: it cannot wait for job 2"),
    (["1", "--after-any", "1"], "cannot edit job 1: it cannot wait for job 1"),
    (["1", "--after", "9"], "cannot edit job 1: after job 9: no such job"),
])
def test_edits_that_make_no_sense_are_refused(lab, words, message):
    lab.add("--hold", "true")
    lab.add("--hold", "true")
    before = lab.journal.read_bytes()
    result = lab.result("edit", *words)
    assert result.returncode == 2 and message in result.stderr, result.stderr
    assert lab.journal.read_bytes() == before


def test_without_a_journal_none_is_made(lab):
    result = lab.result("edit", "--jobs-file", "jobs.jsonl", "1", "--mem", "1G")
    assert result.returncode == 2 and "No such file" in result.stderr
    assert not lab.journal.exists()


def test_an_edited_line_of_a_commands_file_is_not_new(lab):
    lab.commands("# gpuq: begin=+1h", "echo old >> ran")
    run = lab.start("run")
    lab.until(lambda: lab.journal.exists() and '"add"' in lab.journal.read_text(), "the job")
    run.terminate()
    run.wait(60)
    lab.gpuq("edit", "--no-start", "1", "--command", "echo new >> ran", "--begin", "+1s")
    lab.gpuq("run", "--quiet")
    lab.gpuq("run", "--quiet")
    lab.gpuq("prune")
    lab.gpuq("run", "--quiet")
    assert lab.ran() == ["new"] and lab.jobs() == {}


def test_an_edit_that_races_with_starts_never_lets_old_values_run(lab):
    """Each job either ran its old command and the edit was refused, or it ran the new one."""
    for number in range(1, 61):
        lab.add(f"echo old{number} >> ran")
    run = lab.start("run", "--quiet", "--gpus", "sim:1")
    refused = set()
    for number in range(60, 0, -1):
        result = lab.result("edit", "--no-start", number, "--command", f"echo new{number} >> ran")
        assert result.returncode in (0, 2), result.stderr
        if result.returncode == 2:
            assert "it has already started" in result.stderr or "its state is completed" in result.stderr
            refused.add(number)
    assert run.wait(120) == 0
    assert sorted(lab.ran()) == sorted(f"old{n}" if n in refused else f"new{n}" for n in range(1, 61))


def test_an_edit_survives_a_prune(lab):
    lab.add("true")
    lab.gpuq("run", "--quiet")
    lab.add("--hold", "true")
    lab.gpuq("edit", "2", "--mem", "3G")
    lab.gpuq("prune")
    assert lab.job(2)["mem_mb"] == 3072
    assert json.loads(lab.gpuq("status", "--json"))[0]["id"] == 2
