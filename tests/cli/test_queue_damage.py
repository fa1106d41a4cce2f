# SPDX-License-Identifier: MIT
"""Journals that lost records: reports, jobs that are not started, and repair."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest
import sealing
from lab import LIMIT


def lines_of(lab):
    return lab.journal.read_bytes().splitlines(keepends=True)


def damage(lab, *chosen):
    """Flips a bit in the lines of these events, in place."""
    data = bytearray(lab.journal.read_bytes())
    at = 0
    for line in bytes(data).splitlines(keepends=True):
        event = json.loads(line)
        if (event["event"], event.get("id")) in chosen:
            data[at + len(line) // 2] ^= 1
        at += len(line)
    with open(lab.journal, "r+b") as file:
        file.write(data)


def counters(lab):
    return (lab.directory / "jobs.jsonl.d/append.lock").read_bytes().split(b"\n")[0].split()


def write_counters(lab, fields):
    line = b" ".join(fields[:-1])
    (lab.directory / "jobs.jsonl.d/append.lock").write_bytes(line + b" %08x\n" % sealing.crc32c(line))


def test_lines_are_numbered_and_sealed(lab):
    lab.add("true")
    lab.gpuq("run")
    assert all(sealing.is_sealed(line) for line in lines_of(lab))
    assert [json.loads(line)["n"] for line in lines_of(lab)] == list(range(1, len(lines_of(lab)) + 1))
    assert lab.gpuq("verify").endswith("The journal is intact\n")
    counts = (lab.directory / "jobs.jsonl.d/counts").read_bytes()
    assert counts == bytes([0, 3])


@pytest.mark.parametrize("how", ["flipped", "zeroed", "cut", "truncated"])
def test_job_that_ended_does_not_run_again_and_one_that_lost_a_record_is_unknown(lab, how):
    for n in (1, 2):
        lab.add(f"echo {n} >> ran")
    lab.gpuq("run")
    lab.add("echo 3 >> ran")
    lab.add("--hold", "echo 4 >> ran")
    lab.gpuq("hold", 3)  # the last record
    whole = lab.journal.read_bytes()
    last = len(whole) - len(lines_of(lab)[-1])
    if how == "flipped":
        damage(lab, ("hold", 3))
    else:
        with open(lab.journal, "r+b") as file:
            file.seek(last)
            if how == "zeroed":
                file.write(bytes(len(whole) - last))
            elif how == "cut":
                file.write(whole[last + 7:])
            file.truncate(last if how == "truncated" else len(whole) - 7 * (how == "cut"))
    result = lab.result("verify")
    assert result.returncode == 1
    assert "Missing records: 1 (" in result.stdout and "Unknown jobs: 1 (3)" in result.stdout, result
    states = {number: job["status"] for number, job in lab.jobs().items()}
    assert states == {1: "completed", 2: "completed", 3: "unknown", 4: "held"}
    lab.add("--after", 3, "echo 5 >> ran")
    result = lab.result("run")
    assert result.returncode == 1 and "job 3 may or may not have run" in result.stdout, result
    assert "'gpuq retry 3'" in lab.gpuq("why", 3)
    assert sorted(lab.ran()) == ["1", "2"]
    assert lab.result("wait", 3).returncode == 125
    assert "is damaged" in lab.result("status").stderr
    # The gap remains, no matter how often the journal is read and appended to.
    assert lab.job(3)["status"] == "unknown" and lab.job(5)["status"] == "pending"
    lab.gpuq("retry", 3)
    assert lab.gpuq("wait", 3) == "" and lab.job(3)["status"] == "completed"
    lab.gpuq("wait", 5)
    assert sorted(lab.ran()) == ["1", "2", "3", "5"]


def test_ids_of_jobs_whose_add_was_lost_are_reported_and_not_given_again(lab):
    for n in range(4):
        lab.add(f"echo {n} >> ran")
    damage(lab, ("add", 2), ("add", 3))
    assert "Jobs whose 'add' record was lost: 2 (2-3)" in lab.result("verify").stdout
    assert lab.add("true") == 5
    result = lab.result("run")
    assert result.returncode == 1 and "is damaged" in result.stderr, result
    assert lab.ran().count("1") == lab.ran().count("2") == 0
    for words in (["wait", 2], ["wait"]):
        result = lab.result(*words)
        assert result.returncode == 125 and "gpuq verify" in result.stderr, result
    assert "is damaged" in result.stderr
    for word in ("why", "logs", "retry", "status"):
        result = lab.result(word, 2)
        assert result.returncode in (1, 2) and "its record was lost" in result.stderr, result
    lab.gpuq("verify", "--repair")
    assert "its record was lost" in lab.result("retry", 2).stderr
    lab.gpuq("run")
    lab.gpuq("wait")


def test_jobs_after_one_whose_add_was_lost_are_not_started(lab):
    lab.add("echo 1 >> ran")
    lab.add("--after", 1, "echo 2 >> ran")
    lab.add("--after-any", 1, "echo 3 >> ran")
    damage(lab, ("add", 1))
    lab.gpuq("run", code=1)
    assert lab.ran() == []
    for number in (2, 3):
        assert lab.job(number)["reason"] == "job 1, which it waits for, was lost from the journal; see 'gpuq verify'"


def test_emptied_journal_does_not_look_like_a_queue_that_is_done(lab):
    lab.commands("echo 1 >> ran")
    lab.gpuq("run")
    os.truncate(lab.journal, 0)
    result = lab.result("wait")
    assert result.returncode == 125 and "is damaged" in result.stderr, result
    result = lab.result("run")
    assert result.returncode == 1 and "is damaged" in result.stderr, result
    assert lab.ran() == ["1"]


def test_prune_refuses_a_damaged_journal_until_it_is_repaired(lab):
    lab.add("true")
    lab.gpuq("run")
    lab.add("echo 2 >> ran")
    lab.gpuq("hold", 2)
    damage(lab, ("hold", 2))
    damaged = lab.journal.read_bytes()
    result = lab.result("prune")
    assert result.returncode == 1 and "damaged" in result.stderr
    assert lab.journal.read_bytes() == damaged
    out = lab.gpuq("verify", "--repair")
    kept, = lab.directory.glob("jobs.jsonl.damaged-*")
    assert kept.name in out and kept.read_bytes() == damaged
    assert lab.gpuq("verify").endswith("The journal is intact\n")
    assert [json.loads(line)["n"] for line in lines_of(lab)] == list(range(1, len(lines_of(lab)) + 1))
    assert lab.events()[0]["generation"] == 2
    assert lab.job(2)["status"] == "unknown"
    assert lab.gpuq("prune") == "1 pruned, 1 kept\n"
    lab.gpuq("run", code=1)
    assert lab.ran() == []
    lab.gpuq("cancel", 2)
    assert lab.job(2)["status"] == "cancelled"


def test_repair_next_to_a_runner_keeps_its_jobs(lab):
    lab.add("echo a >> ran; until [ -e go ]; do sleep 0.01; done; exit 6")
    lab.add("--hold", "true")
    runner = lab.start("run", "--keep")
    lab.until(lab.ran)
    lab.gpuq("urgent", 2)
    damage(lab, ("urgent", 2))
    lab.gpuq("verify", "--repair")
    assert (lab.job(1)["status"], lab.job(2)["status"]) == ("running", "unknown")
    (lab.directory / "go").touch()
    assert lab.result("wait", 1).returncode == 6
    lab.add("echo b >> ran")
    lab.gpuq("wait", 3)
    os.kill(runner.pid, signal.SIGINT)
    runner.wait(timeout=LIMIT)
    assert lab.ran() == ["a", "b"]


def test_run_next_to_a_runner_reports_damage_and_exits_with_1(lab):
    lab.add("true")
    lab.add("true")
    lab.add("--hold", "true")
    lab.gpuq("urgent", 3)
    damage(lab, ("add", 1), ("urgent", 3))
    lab.gpuq("pause")
    runner = lab.start("run", "--keep", stdout=None)
    lab.until(lambda: (lab.directory / "jobs.jsonl.d/runner.lock").exists() and lab.runner() == runner.pid)
    lab.gpuq("resume")
    lab.gpuq("wait", 2)
    result = lab.result("run")
    assert result.returncode == 1, result
    assert "gpuq: job 3 may or may not have run: its record was lost; use 'gpuq retry 3' or 'gpuq cancel 3'\n" in result.stderr
    assert "is damaged: the 'add' record of 1 job was lost; run 'gpuq verify' for details\n" in result.stderr
    lab.gpuq("cancel", 3)
    result = lab.result("run")
    assert result.returncode == 1 and "is damaged: the 'add' record of 1 job was lost" in result.stderr, result
    lab.gpuq("verify", "--repair")
    lab.gpuq("run")
    runner.send_signal(signal.SIGTERM)
    runner.wait(timeout=LIMIT)


def test_retry_of_an_unknown_job_is_refused_while_its_keeper_lives(lab):
    lab.add("echo a >> ran; until [ -e go ]; do sleep 0.01; done; exit 6")
    runner = lab.start("run")
    lab.until(lab.ran)
    runner.kill()
    runner.wait()
    damage(lab, ("start", 1))
    assert lab.job(1)["status"] == "unknown"
    result = lab.result("retry", 1)
    assert result.returncode == 1 and "may still be running it" in result.stderr
    assert "may still be running it" in lab.result("cancel", 1).stderr
    lab.gpuq("run", code=1)
    assert lab.ran() == ["a"]
    (lab.directory / "go").touch()
    lab.until(lambda: lab.job(1)["status"] == "failed", "the end, which counts without its start")
    assert lab.job(1)["exit_code"] == 6
    lab.gpuq("retry", 1)
    assert lab.result("wait", 1).returncode == 6
    assert lab.ran() == ["a", "a"]


@pytest.mark.parametrize("how", ["taken over", "repaired beside its runner"])
@pytest.mark.parametrize("lost", ["start", "add"])
def test_gpu_of_an_unknown_job_takes_no_other_while_its_keeper_lives(lab, how, lost):
    lab.environment["GPUQ_GPUS"] = "sim:1"
    lab.add("echo a >> ran; until [ -e go ]; do sleep 0.01; done; echo z >> ran")
    runner = lab.start("run", "--keep")
    lab.until(lab.ran)
    if how == "taken over":
        runner.kill()
        runner.wait()
        damage(lab, (lost, 1))
        runner = lab.start("run", "--keep")
    else:
        damage(lab, (lost, 1))
        lab.gpuq("verify", "--repair", code=None)
    lab.add("--mem", "1G", "echo b >> ran")

    def decided():
        job = lab.job(2)
        return job["status"] != "pending" or "job 1" in lab.gpuq("why", 2)

    lab.until(decided, "a decision about job 2")
    (lab.directory / "go").touch()
    lab.gpuq("wait", 2)
    assert lab.ran() == ["a", "z", "b"]
    runner.send_signal(signal.SIGINT)
    runner.wait(timeout=LIMIT)


def test_new_lines_of_a_commands_file_are_held_while_records_are_missing(lab):
    lab.commands("echo 1 >> ran", "echo 2 >> ran")
    lab.gpuq("run")
    damage(lab, ("add", 2))
    result = lab.result("run")
    assert "are held" in result.stderr, result
    assert [job["status"] for job in lab.jobs().values()] == ["completed", "held"]
    assert sorted(lab.ran()) == ["1", "2"]
    lab.gpuq("verify", "--repair")
    lab.gpuq("run")
    assert lab.jobs()[3]["status"] == "held"


def test_lines_whose_jobs_were_lost_stay_held_after_a_repair(lab):
    lab.commands(*(f"echo {n} >> ran" for n in range(1, 5)))
    lab.gpuq("run")
    damage(lab, ("add", 3))
    assert "Bad lines: 1, the first is line 4\n" in lab.result("verify").stdout
    out = lab.gpuq("verify", "--repair")
    assert "Jobs whose 'add' record was lost: 1 (3)" in out and "are held" in out, out
    out = lab.gpuq("verify")
    assert "Jobs whose 'add' record was lost: 1 (3)" in out and out.endswith("The journal is intact\n"), out
    lab.commands(*(f"echo {n} >> ran" for n in range(1, 6)))
    result = lab.result("run")
    assert result.returncode == 0 and "new lines of" in result.stderr and "are held" in result.stderr, result
    assert {number: job["status"] for number, job in lab.jobs().items() if number > 4} == {5: "held", 6: "held"}
    assert lab.gpuq("prune") == "3 pruned, 2 kept\n"
    lab.gpuq("release", 6)
    lab.gpuq("wait", 6)
    assert sorted(lab.ran()) == ["1", "2", "3", "4", "5"]


def test_emptied_journal_runs_no_line_again(lab):
    lab.commands("echo 1 >> ran", "echo 2 >> ran")
    lab.gpuq("run")
    os.truncate(lab.journal, 0)
    lab.add("--hold", "true")
    assert "Jobs whose 'add' record was lost: 2 (1-2)" in lab.result("verify").stdout
    lab.gpuq("verify", "--repair")
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["1", "2"]
    assert {job["status"] for job in lab.jobs().values()} == {"held"}


def test_repair_of_a_lost_end_does_not_hold_new_lines(lab):
    lab.commands("echo 1 >> ran", "echo 2 >> ran")
    lab.gpuq("run")
    damage(lab, ("end", 2))
    assert "held" not in lab.gpuq("verify", "--repair")
    lab.commands("echo 1 >> ran", "echo 2 >> ran", "echo 3 >> ran")
    lab.gpuq("run", code=1)
    assert sorted(lab.ran()) == ["1", "2", "3"]
    assert lab.job(2)["status"] == "unknown"


def test_damaged_counters_are_rebuilt(lab):
    for n in range(3):
        lab.add("true")
    path = lab.directory / "jobs.jsonl.d/append.lock"
    before = counters(lab)
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    assert lab.add("true") == 4
    after = counters(lab)
    assert (after[1], after[4]) == (before[1], before[4])  # queue and generation
    assert [json.loads(line)["n"] for line in lines_of(lab)] == [1, 2, 3, 4, 5]
    assert lab.gpuq("verify").endswith("The journal is intact\n")


def test_last_bytes_that_the_counters_cover_are_not_truncated(lab):
    lab.add("true")
    with open(lab.journal, "r+b") as file:
        file.seek(-30, os.SEEK_END)
        file.write(bytes(30))
    damaged = lab.journal.read_bytes()
    lab.add("true")
    assert lab.journal.read_bytes().startswith(damaged + b"\n")
    assert lab.result("verify").returncode == 1


def restart(lab, synced):
    """Sets the counters as left by another boot; all lines up to number `synced` count as synced."""
    fields = counters(lab)
    fields[2] = b"11111111-2222-3333-4444-555555555555"
    fields[12] = b"%d" % synced
    write_counters(lab, fields)


def test_lines_that_a_power_cut_took_before_they_were_synced_are_permitted_to_be_missing(lab):
    for _ in range(3):
        lab.add("true")
    lab.gpuq("hold", 1)
    lab.gpuq("hold", 2)
    lines = lines_of(lab)
    # The last line and one in the middle are missing.
    lab.journal.write_bytes(b"".join(lines[:3]) + bytes(len(lines[3]) - 1) + b"\n" + lines[4])
    restart(lab, 3)
    assert {number: job["status"] for number, job in lab.jobs().items()} == {1: "held", 2: "pending"}
    assert lab.add("true") == 4
    result = lab.result("verify")
    assert "Missing records" not in result.stdout and "synced (no error)" in result.stdout, result
    assert not any(job["status"] == "unknown" for job in lab.jobs().values())


def test_missing_synced_lines_are_reported_even_after_a_restart(lab):
    lab.add("true")
    lab.gpuq("hold", 1)
    lines = lines_of(lab)
    lab.journal.write_bytes(b"".join(lines[:-1]))
    restart(lab, 3)
    assert lab.job(1)["status"] == "unknown"
    lab.add("true")
    assert lab.job(1)["status"] == "unknown"
    assert "Missing records: 1 (3)" in lab.result("verify").stdout


def test_folder_of_another_journal_is_not_used(lab):
    lab.add("echo 1 >> ran")
    planted = sealing.journal({"event": "add", "id": 1, "command": "echo other >> ran"})
    lab.journal.write_bytes(planted)
    for words in (["add", "--no-start", "true"], ["run"], ["prune"]):
        result = lab.result(*words)
        assert result.returncode in (1, 2) and "belongs to another journal" in result.stderr, result
    assert lab.journal.read_bytes() == planted and lab.ran() == []
    lab.gpuq("status")
    lab.gpuq("run", "--trust")
    assert lab.ran() == ["other"]


def test_older_generation_that_is_put_back_is_found(lab):
    lab.add("true")
    lab.gpuq("run")
    lab.add("echo 2 >> ran")
    old = lab.journal.read_bytes()
    lab.gpuq("prune")
    lab.gpuq("run")
    assert lab.ran() == ["2"]
    lab.journal.write_bytes(old)
    assert "an earlier copy" in lab.result("verify").stdout
    assert "is damaged: it was replaced with an earlier copy; run 'gpuq verify' for details\n" in lab.result("status").stderr
    lab.gpuq("run", code=1)
    assert lab.ran() == ["2"]


def test_other_file_in_place_of_the_journal_is_not_changed_and_verify_says_what_to_do(lab):
    lab.commands("echo 1 >> ran")
    lab.gpuq("run")
    lab.journal.write_bytes(b"something else\n" * 9)
    result = lab.result("verify")
    assert result.returncode == 1 and "first replace it with a backup of the journal or an empty file" in result.stdout
    assert "9 bad lines skipped, the first is line 1; run 'gpuq verify' for details\n" in lab.result("status").stderr
    for words in (["verify", "--repair"], ["run"], ["prune"]):
        assert "it is not a journal of gpuq" in lab.result(*words).stderr
    assert lab.journal.read_bytes() == b"something else\n" * 9
    lab.journal.rename(lab.directory / "away")
    lab.journal.touch(mode=0o600)
    assert "move it away" not in lab.result("verify").stdout
    lab.gpuq("verify", "--repair")
    lab.gpuq("run")
    assert lab.ran() == ["1"] and lab.job(2)["status"] == "held"


def test_unknown_event_is_ignored_unless_it_must_be_understood(lab):
    lab.add("echo 1 >> ran")
    sealing.append(lab.journal, {"event": "future", "id": 1}, {"event": "grant", "id": 1, "gpus": [0]})
    lab.gpuq("status")
    sealing.append(lab.journal, {"event": "future", "id": 1, "must": True})
    for words in (["status"], ["run"]):
        result = lab.result(*words)
        assert result.returncode == 1 and "a newer version of gpuq" in result.stderr, result
    assert lab.ran() == []


def test_swapped_and_repeated_lines_change_nothing_and_are_reported(lab):
    lab.add("echo 1 >> ran")
    lab.gpuq("run")
    lab.add("--hold", "echo 2 >> ran")
    before = {number: job["status"] for number, job in lab.jobs().items()}
    lines = lines_of(lab)
    start = next(i for i, line in enumerate(lines) if b'"start"' in line)
    lines[1], lines[-1] = lines[-1], lines[1]
    lab.journal.write_bytes(b"".join(lines + [lines[start]]))
    result = lab.result("verify")
    assert result.returncode == 1
    assert "out of order" in result.stdout and "Repeated lines: 1" in result.stdout, result
    assert {number: job["status"] for number, job in lab.jobs().items()} == before
    lab.gpuq("run")
    assert lab.ran() == ["1"]


def test_ids_beyond_the_limit_are_not_given(lab):
    for next_id in (10**9, 2**62, 2**63):
        lab.journal.write_bytes(sealing.sealed({**sealing.HEADER, "next_id": next_id}))
        result = lab.result("add", "--no-start", "true")
        assert result.returncode == 2 and "it is not a journal" in result.stderr, result


def test_append_lock_is_free_between_appends(lab):
    lab.add("true")
    with open(lab.directory / "jobs.jsonl.d/append.lock", "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---- docs/journal.md --------------------------------------------------------------------

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])


def test_example_that_reads_a_journal_finds_damage(lab):
    lab.add("true")
    lab.gpuq("run")
    command = [sys.executable, SOURCE / "examples/read_journal.py", lab.journal]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert result.stdout == "1 end completed\n"
    with open(lab.journal, "ab") as file:
        file.write(sealing.seal({"event": "end", "id": 1, "attempt": 1, "status": "failed"}, sealing.last_number(lab.journal)))
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert result.stdout == "1 end completed\n", "a line whose number was already read is ignored"
    number = next(event["n"] for event in lab.events() if event["event"] == "start")
    damage(lab, ("start", 1))
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 1 and f"1 bad lines; missing: [{number}]" in result.stderr, result


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
def test_examples_with_jq_work(lab):
    lab.add("exit 3")
    lab.add("true")
    lab.gpuq("run", code=1)
    text = (SOURCE / "docs/journal.md").read_text()
    grep, = re.findall("^grep .*jq .*$", text, re.MULTILINE)
    assert subprocess.run(grep, shell=True, cwd=lab.directory, capture_output=True, text=True, timeout=LIMIT).stdout == "1\n"
    tail, = re.findall("^tail .*jq .*$", text, re.MULTILINE)
    ends = subprocess.run(tail.replace("tail -F", "cat"), shell=True, cwd=lab.directory, capture_output=True, text=True, timeout=LIMIT)
    assert sorted(json.loads(line)["id"] for line in ends.stdout.splitlines()) == [1, 2]
