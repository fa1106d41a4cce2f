# SPDX-License-Identifier: MIT
"""The commands of the queue as a user types them; on simulated GPUs."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from lab import GPUQ, LIMIT
from processes import alive, ignore_signals, naps

# ---- run ------------------------------------------------------------------------


def test_run_drains_the_file_and_exits_0(lab):
    lab.commands("echo a >> ran", "# a comment", "", "echo b \\", "  >> ran", "# gpuq: name=third", "echo c >> ran")
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["a", "b", "c"]
    assert lab.job(3)["name"] == "third"


def test_run_exits_1_when_a_job_failed(lab):
    lab.commands("true", "exit 3")
    out = lab.gpuq("run", code=1)
    assert re.search(r"\[!\] 2 exit 3 → GPU \d → Failed \(exit 3\)", out)


def test_run_again_adds_only_new_lines(lab):
    lab.commands("echo x >> ran", "echo x >> ran")
    lab.gpuq("run")
    assert lab.ran() == ["x", "x"]
    lab.gpuq("run")
    assert lab.ran() == ["x", "x"]
    lab.commands("echo x >> ran", "echo y >> ran", "echo x >> ran", "echo x >> ran")
    lab.gpuq("run")
    assert sorted(lab.ran()) == ["x", "x", "x", "y"]


def test_commands_are_read_from_standard_input(lab):
    lab.gpuq("run", "--commands-file", "-", input="echo a >> ran\necho b >> ran\n")
    assert sorted(lab.ran()) == ["a", "b"]


def test_run_with_nothing_to_run_says_so(lab):
    result = lab.result("run")
    assert result.returncode == 2
    assert "commands.txt" in result.stderr
    assert not lab.journal.exists()


@pytest.mark.parametrize("words, part", [
    (["run", "--commands-file", "missing.txt"], "missing.txt"),
    (["run", "--gpus", "97"], "97"),
    (["run", "--timeout", "soon"], "soon"),
    (["run", "--config", "missing.yaml"], "missing.yaml"),
    (["add"], "what is to be run"),
    (["add", "--after", "99", "true"], "99"),
    (["cancel", "x"], "not an id"),
    (["cancel"], "which job"),
    (["nonsense"], "nonsense"),
    (["logs", "1"], "jobs.jsonl"),
])
def test_wrong_usage_exits_2_and_names_it(lab, words, part):
    if words[0] == "run":
        lab.commands("true")
        if "missing.txt" in words:
            (lab.directory / "commands.txt").unlink()
    result = lab.result(*words)
    assert result.returncode == 2, result
    assert part in result.stderr
    assert result.stdout == ""
    assert not lab.journal.exists() or lab.jobs() == {}


def test_a_mistake_in_the_file_adds_nothing(lab):
    lab.commands("echo a >> ran", "# gpuq: mem=much", "echo b >> ran")
    result = lab.result("run")
    assert result.returncode == 2
    assert "commands.txt:2" in result.stderr
    assert lab.ran() == []


def test_two_at_once_on_two_gpus_and_each_sees_its_own(lab):
    lab.commands(*("echo $CUDA_VISIBLE_DEVICES $GPUQ_GPU > gpu.$GPUQ_JOB_ID; until [ -e gpu.1 -a -e gpu.2 ]; do sleep 0.01; done",) * 2)
    lab.gpuq("run")
    seen = {(lab.directory / f"gpu.{n}").read_text().split()[1] for n in (1, 2)}
    assert seen == {"0", "1"}
    assert {tuple(job["gpu_ids"]) for job in lab.jobs().values()} == {(0,), (1,)}


def test_jobs_per_gpu_and_memory_limit_what_runs_at_once(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1x16G"
    for _ in range(4):
        lab.add("--mem", "5G", "echo + >> ran; until [ -e go ]; do sleep 0.01; done; echo - >> ran")
    runner = lab.start("run")
    lab.until(lambda: lab.ran() == ["+"] * 3)
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 0
    depth = most = 0
    for sign in lab.ran():
        depth += 1 if sign == "+" else -1
        most = max(most, depth)
    assert most == 3


def test_job_that_no_gpu_can_take_is_left_and_said(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1x8G"
    lab.add("--mem", "12G", "true")
    lab.add("echo ok >> ran")
    out = lab.gpuq("run", code=1)
    assert "1 left pending" in out
    assert lab.ran() == ["ok"]
    assert lab.job(1)["status"] == "pending"


def test_runner_in_the_background_leaves_when_no_job_can_run(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1x1G"
    lab.gpuq("add", "--mem", "2G", "echo ran >> ran")
    log = lab.directory / "jobs.jsonl.d/runner.log"
    lab.until(lambda: log.exists() and "left pending" in log.read_text(), "it to leave")
    lab.gpuq("run", env={"GPUQ_GPUS": "sim:1x4G"})
    assert lab.ran() == ["ran"]


def test_job_that_needs_two_gpus_gets_two_and_is_not_starved(lab):
    lab.add("sleep 0.05")
    lab.add("--num-gpus", "2", "echo two $CUDA_VISIBLE_DEVICES $GPUQ_GPU >> ran; echo $GPUQ_GPU > both")
    for _ in range(6):
        lab.add("sleep 0.02; echo small >> ran")
    lab.gpuq("run")
    assert lab.job(2)["gpu_ids"] == [0, 1]
    order = [event["id"] for event in lab.events() if event["event"] == "start"]
    assert order.index(2) <= 3


def test_cpu_job_does_not_wait_for_a_gpu(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1"
    lab.add("until [ -e cpu ]; do sleep 0.01; done")
    lab.add("--num-gpus", "0", "touch cpu; echo \"[$CUDA_VISIBLE_DEVICES]\" > seen")
    lab.gpuq("run")
    assert lab.job(2)["gpu_ids"] == []


def test_runner_with_keep_waits_for_more_jobs(lab):
    runner = lab.start("run", "--keep")
    lab.until(lambda: lab.journal.exists())
    lab.add("echo a >> ran")
    lab.until(lambda: lab.ran() == ["a"], "the first")
    lab.add("echo b >> ran")
    lab.until(lambda: lab.ran() == ["a", "b"], "the second")
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=LIMIT) == 130


def test_second_run_hands_over_and_exits_with_its_own_result(lab):
    lab.commands("echo first >> ran; until [ -e go ]; do sleep 0.01; done")
    first = lab.start("run")
    lab.until(lab.ran)
    lab.commands("exit 4", name="second.txt")
    result = lab.result("run", "--commands-file", "second.txt")
    assert result.returncode == 1
    assert f"run by PID {first.pid}" in result.stderr
    assert lab.job(1)["status"] == "running"
    (lab.directory / "go").touch()
    assert first.wait(timeout=LIMIT) == 1


def test_second_run_takes_over_when_the_first_is_killed(lab):
    lab.commands("echo first >> ran; until [ -e go ]; do sleep 0.01; done")
    first = lab.start("run", "--jobs-per-gpu", "1", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran)
    lab.commands("echo second >> ran", name="second.txt")
    second = lab.start("run", "--commands-file", "second.txt", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lambda: len(lab.jobs()) == 2)
    first.kill()
    (lab.directory / "go").touch()
    out, err = second.communicate(timeout=LIMIT)
    assert second.returncode == 0, (out, err)
    assert lab.ran() == ["first", "second"]


# ---- Signals ----------------------------------------------------------------------


def test_first_interrupt_lets_running_jobs_finish(lab):
    lab.commands("echo a >> ran; until [ -e go ]; do sleep 0.01; done; echo end >> ran", "echo b >> ran")
    runner = lab.start("run", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran)
    runner.send_signal(signal.SIGINT)
    assert "nothing new starts" in read_until(runner, "nothing new starts")
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 130
    assert lab.ran() == ["a", "end"]
    assert (lab.job(1)["status"], lab.job(2)["status"]) == ("completed", "pending")


def read_until(process, words):
    text = ""
    while words not in text:
        line = process.stdout.readline().decode()
        assert line, text
        text += line
    return text


def test_second_interrupt_ends_the_jobs(lab):
    lab.commands("trap 'echo term >> ran; exit 9' TERM; echo a >> ran; while :; do sleep 0.01; done")
    runner = lab.start("run")
    lab.until(lab.ran)
    runner.send_signal(signal.SIGINT)
    read_until(runner, "nothing new starts")
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=LIMIT) == 130
    assert lab.ran() == ["a", "term"]
    assert lab.job(1)["status"] == "cancelled"


def test_third_interrupt_kills_the_jobs(lab):
    lab.commands("trap '' TERM INT; echo a >> ran; while :; do sleep 0.01; done")
    runner = lab.start("run")
    lab.until(lab.ran)
    for words in ("nothing new starts", "ending 1 running"):
        runner.send_signal(signal.SIGINT)
        read_until(runner, words)
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=LIMIT) == 130
    assert (lab.job(1)["status"], lab.job(1)["signal"]) == ("cancelled", 9)


def test_sigterm_leaves_jobs_for_the_next_run(lab):
    lab.commands("echo a >> ran; until [ -e go ]; do sleep 0.01; done; exit 2")
    runner = lab.start("run")
    lab.until(lab.ran)
    runner.terminate()
    assert runner.wait(timeout=LIMIT) == 130
    assert lab.job(1)["status"] == "running"
    second = lab.start("run")
    lab.until(lambda: lab.runner() == second.pid)
    # Whoever starts something has read what there was before.
    lab.add("--num-gpus", "0", "echo b >> ran")
    lab.until(lambda: lab.ran() == ["a", "b"])
    (lab.directory / "go").touch()
    assert second.wait(timeout=LIMIT) == 1
    assert (lab.ran(), lab.job(1)["exit_code"]) == (["a", "b"], 2)


def test_sighup_goes_on_detached(lab):
    lab.commands("echo a >> ran; until [ -e go ]; do sleep 0.01; done", "echo b >> ran")
    runner = lab.start("run", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran)
    runner.send_signal(signal.SIGHUP)
    assert runner.stdout.read() is not None
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 0
    assert lab.ran() == ["a", "b"]


# ---- add --------------------------------------------------------------------------


def test_add_prints_the_id_alone_and_starts_a_runner(lab):
    out = lab.gpuq("add", "echo a >> ran")
    assert out == "1\n"
    lab.until(lambda: lab.ran() == ["a"], "the background runner")
    assert lab.gpuq("add", "echo b >> ran") == "2\n"
    lab.gpuq("wait", 2)
    os.kill(lab.runner(), signal.SIGTERM)


def test_add_returns_at_once_in_a_command_substitution(lab):
    result = subprocess.run(["sh", "-c", f'id=$({GPUQ} add "sleep 1000"); echo "<$id>"'], cwd=lab.directory,
                            env=lab.environment, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert result.stdout == "<1>\n"
    lab.until(lambda: lab.job(1)["status"] == "running")
    lab.gpuq("cancel", 1)
    os.kill(lab.runner(), signal.SIGTERM)


def test_add_quotes_several_words_and_takes_one_as_shell_text(lab):
    lab.add("--", "printf", "%s,", "a b", "c'd", "$HOME", "")
    lab.add("echo $((1+1)) > two")
    lab.gpuq("run")
    assert pathlib.Path(lab.job(1)["log_file"]).read_text() == "a b,c'd,$HOME,,"
    assert (lab.directory / "two").read_text() == "2\n"


def test_job_has_the_environment_and_directory_of_add(lab):
    (lab.directory / "sub").mkdir()
    result = subprocess.run([GPUQ, "add", "--no-start", "--jobs-file", "../jobs.jsonl", 'echo "$COLOUR $GPUQ_JOB_ID $GPUQ_ATTEMPT"; pwd'],
                            cwd=lab.directory / "sub", env={**lab.environment, "COLOUR": "blue"}, capture_output=True,
                            text=True, timeout=LIMIT, check=True)
    assert result.stdout == "1\n"
    lab.gpuq("run")
    assert lab.gpuq("logs", 1) == f"blue 1 1\n{lab.directory}/sub\n"


def test_job_starts_with_a_clean_slate(lab):
    """No inherited descriptor, no blocked or ignored signal, standard input empty."""
    lab.add("ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status; cat; echo eof")
    held = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(held, True)
    runner = lab.start("run", pass_fds=[held], preexec_fn=ignore_signals)
    assert runner.wait(timeout=LIMIT) == 0
    os.close(held)
    lines = lab.gpuq("logs", 1).split("\n")
    assert lines[0] == "4"
    assert [line.split()[1] for line in lines[1:3]] == ["0" * 16] * 2
    assert lines[3] == "eof"


def test_add_from_standard_input_prints_an_id_per_line(lab):
    assert lab.gpuq("add", "--no-start", "-", input="echo a\n# no\necho b\n") == "1\n2\n"


def test_job_gets_an_environment_of_five_megabytes(lab):
    import resource
    big = {f"BIG{n}": "x" * 100_000 for n in range(50)}
    resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    lab.add("echo ${#BIG49}", env=big)
    lab.gpuq("run")
    assert lab.gpuq("logs", 1) == "100000\n"


# ---- after, hold, urgent, retry, cancel ------------------------------------------------


def test_after_waits_and_failure_fails_the_dependents(lab):
    lab.add("sleep 0.05; echo a >> ran")
    lab.add("--after", "1", "echo b >> ran")
    lab.add("exit 1")
    lab.add("--after", "3", "echo never >> ran")
    lab.add("--after", "4", "echo never >> ran")
    lab.gpuq("run", code=1)
    assert lab.ran() == ["a", "b"]
    jobs = lab.jobs()
    assert jobs[4]["reason"] == "job 3, which it waits for, failed"
    assert (jobs[5]["status"], jobs[5]["reason"]) == ("failed", "job 4, which it waits for, failed")


def test_priority_and_urgent_go_first(lab):
    for n in range(1, 5):
        lab.add("--priority", "5" if n == 3 else "0", f"echo {n} >> ran")
    lab.gpuq("urgent", 4)
    lab.gpuq("run", env={"GPUQ_GPUS": "sim:1"})
    assert lab.ran() == ["4", "3", "1", "2"]


def test_held_job_does_not_run_until_released(lab):
    lab.add("echo 1 >> ran")
    lab.add("--hold", "echo 2 >> ran")
    lab.add("echo 3 >> ran")
    lab.gpuq("hold", 1)
    assert lab.job(1)["status"] == "held"
    lab.gpuq("run")
    assert lab.ran() == ["3"]
    assert "not held" in lab.result("release", 3).stderr
    runner = lab.start("run", "--keep")
    lab.until(lambda: (lab.directory / "jobs.jsonl.d/runner.lock").exists() and lab.runner() == runner.pid)
    lab.gpuq("release", "1", "2")
    lab.until(lambda: len(lab.ran()) == 3)


def test_cancel_ends_pending_and_running_jobs(lab):
    lab.add("echo $$ >> ran; sleep 1000 & wait")
    lab.add("echo never >> ran")
    runner = lab.start("run", env={"GPUQ_GPUS": "sim:1"})
    lab.until(lab.ran)
    lab.gpuq("cancel", 1, 2)
    assert runner.wait(timeout=LIMIT) == 1
    jobs = lab.jobs()
    assert (jobs[1]["status"], jobs[2]["status"]) == ("cancelled", "cancelled")
    assert len(lab.ran()) == 1
    result = lab.result("cancel", 1)
    assert result.returncode == 1
    assert "cancelled already" in result.stderr


@pytest.mark.parametrize("word, before, after", [
    ("cancel", "pending", "cancelled"), ("hold", "pending", "held"), ("release", "held", "pending"),
    ("urgent", "pending", "pending"), ("retry", "completed", "pending")])
def test_command_on_several_ids_skips_unknown_ones_and_exits_1(lab, word, before, after):
    if before == "completed":
        lab.add("true")
        lab.gpuq("run")
    else:
        lab.add(*(["--hold"] if before == "held" else []), "true")
    # Of what was started here, nothing is to run: retry and release start a runner.
    result = lab.result(word, 9, 1, "8", env={"GPUQ_GPUS": "sim:1x1M"})
    assert result.returncode == 1
    assert [line.split(":")[1].split()[-1] for line in result.stderr.splitlines()] == ["9", "8"]
    assert lab.job(1)["status"] == after
    assert lab.events()[-1]["event"] in (word, "runner")


def test_cancel_skips_a_finished_job_and_cancels_the_other(lab):
    lab.add("true")
    lab.gpuq("run")
    lab.add("true")
    result = lab.result("cancel", 1, 2)
    assert (result.returncode, result.stderr) == (1, "gpuq: cancelling job 1: it is completed already\n")
    assert (lab.job(1)["status"], lab.job(2)["status"]) == ("completed", "cancelled")


def test_cancel_all_leaves_only_completed_and_cancelled_jobs(lab):
    lab.commands(*["true"] * 2000)
    runner = lab.start("run", "--quiet", "--jobs-per-gpu", "2")
    lab.until(lambda: lab.journal.exists() and b'"end"' in lab.journal.read_bytes())
    lab.gpuq("cancel", "--all")
    assert runner.wait(timeout=LIMIT) == 1
    states = {job["status"] for job in lab.jobs().values()}
    assert "cancelled" in states and states <= {"completed", "cancelled"}


def test_command_that_applies_to_no_job_changes_nothing(lab):
    lab.add("true")
    before = lab.journal.read_bytes()
    result = lab.result("cancel", 9)
    assert result.returncode == 1
    assert "job 9" in result.stderr
    assert lab.journal.read_bytes() == before


def test_cancel_without_a_queue_creates_none(lab):
    result = lab.result("cancel", 1)
    assert result.returncode == 2
    assert "there is none" in result.stderr
    assert list(lab.directory.iterdir()) == []


def test_retry_failed_runs_failed_jobs_again(lab):
    lab.add("[ -e fixed ] && echo ok >> ran")
    lab.add("echo fine >> ran")
    lab.gpuq("run", code=1)
    (lab.directory / "fixed").touch()
    lab.gpuq("retry", "--failed")
    lab.gpuq("wait", 1)
    assert sorted(lab.ran()) == ["fine", "ok"]
    assert lab.job(1)["attempts"] == 2
    assert [attempt["status"] for attempt in lab.job(1)["history"]] == ["failed", "completed"]
    lab.until(lambda: alive(lab.runner()))
    os.kill(lab.runner(), signal.SIGTERM)


def test_failed_job_is_tried_again_as_often_as_retries_says(lab):
    lab.commands("echo x >> ran; exit 1")
    lab.gpuq("run", "--retries", "2", code=1)
    assert lab.ran() == ["x"] * 3
    assert lab.job(1)["attempts"] == 3
    assert len({attempt["log_file"] for attempt in lab.job(1)["history"]}) == 3


def test_max_failures_starts_nothing_new(lab):
    lab.commands(*["echo x >> ran; exit 1"] * 5)
    lab.gpuq("run", "--max-failures", "2", code=1, env={"GPUQ_GPUS": "sim:1"})
    assert lab.ran() == ["x"] * 2


# ---- Jobs that misbehave ------------------------------------------------------------------


def test_timeout_ends_a_job_that_ignores_sigterm(lab):
    lab.add("--timeout", "0.1", "trap '' TERM; echo $$ >> ran; while :; do sleep 0.05; done")
    lab.gpuq("run", "--grace", "100ms", code=1)
    job = lab.job(1)
    assert (job["status"], job["reason"], job["signal"]) == ("failed", "timeout", 9)


def test_daemons_of_a_job_end_with_it(lab):
    lab.add("setsid sleep 1000 & env -i setsid sleep 1000 & sh -c 'echo $$ >> ran; exec sleep 1000' & until [ -s ran ]; do sleep 0.01; done")
    lab.gpuq("run")
    assert not alive(int(lab.ran()[0]))
    assert lab.job(1)["status"] == "completed"


def test_job_that_closes_its_output_or_leaves_orphans_keeps_its_exit_code(lab):
    lab.add("exec >&- 2>&-; sleep 0.01; exit 4")
    lab.add("(sleep 0.01 & exec sleep 0.05) & exit 5")
    lab.gpuq("run", code=1)
    assert [lab.job(n)["exit_code"] for n in (1, 2)] == [4, 5]


def test_exit_codes_and_signals_are_told(lab):
    lab.add("exit 7")
    lab.add("kill -SEGV $$")
    lab.add("cd /nowhere")
    out = lab.gpuq("run", code=1)
    assert "Failed (exit 7)" in out
    assert "Failed (SIGSEGV)" in out
    assert lab.result("wait", 1).returncode == 7
    assert lab.result("wait", 2).returncode == 139
    assert lab.result("wait", 1, 2).returncode == 1
    assert lab.result("wait", 99).returncode == 125


def test_job_whose_directory_is_gone_fails_with_the_reason(lab):
    (lab.directory / "sub").mkdir()
    subprocess.run([GPUQ, "add", "--no-start", "--jobs-file", "../jobs.jsonl", "true"], cwd=lab.directory / "sub",
                   env=lab.environment, check=True, timeout=LIMIT, capture_output=True)
    (lab.directory / "sub").rmdir()
    lab.gpuq("run", code=1)
    assert lab.job(1)["reason"] == f"entering directory '{lab.directory}/sub': No such file or directory"


def test_out_of_gpu_memory_is_recognised(lab):
    lab.add("echo 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'; exit 1")
    lab.gpuq("run", code=1)
    assert lab.job(1)["reason"] == "GPU out of memory"


def test_hook_gets_the_job_as_status_shows_it(lab):
    lab.commands('echo \'"id":1,\' # "id":2,', "exit 3 # é")
    lab.gpuq("run", "--on-finish", "cat > hook-$GPUQ_JOB_ID.json", code=1)
    for number in (1, 2):
        told = json.loads((lab.directory / f"hook-{number}.json").read_text())
        assert told == lab.job(number)
        assert {"id", "name", "command", "status", "exit_code", "log_file"} <= set(told)


def test_hook_after_an_attempt_that_will_be_tried_again_is_told_that_it_failed(lab):
    lab.add("--retries", "1", "--name", "twice", "exit $((GPUQ_ATTEMPT + 3))")
    lab.gpuq("run", "--on-finish", "cat >> hook.json", code=1)
    told = [json.loads(line) for line in (lab.directory / "hook.json").read_text().splitlines()]
    assert sorted((one["name"], one["status"], one["exit_code"], one["attempts"], len(one["history"])) for one in told) == [
        ("twice", "failed", 4, 1, 1), ("twice", "failed", 5, 2, 2)]


def test_hook_of_a_job_in_a_journal_with_spaces_is_told_the_same(lab):
    lab.journal.write_text('{ "event": "add", "id": 1, "command": "exit 3" }\n')
    lab.gpuq("run", "--on-finish", f"cat > {lab.directory}/hook.json", code=1)
    assert json.loads((lab.directory / "hook.json").read_text()) == lab.job(1)


def test_hook_need_not_read_all_of_a_long_job(lab):
    lab.gpuq("add", "--no-start", "-", input=f"true {'x' * 1_000_000}\n")
    os.mkfifo(lab.directory / "go")
    runner = lab.start("run", "--on-finish", "cat go > /dev/null; head -c 8 > told")
    with (lab.directory / "go").open("w"):
        assert lab.job(1)["status"] == "completed"
    assert runner.wait(timeout=LIMIT) == 0
    assert (lab.directory / "told").read_text() == '{"id":1,'


def test_runner_that_dies_during_a_hook_takes_no_keeper_with_it(lab):
    """The note that the hook is over has nobody to read it; the keeper still leaves in order."""
    lab.commands("true")
    runner = lab.start("run", "--on-finish", "touch begun; until [ -e go ]; do sleep 0.01; done; touch over")
    lab.until(lambda: (lab.directory / "begun").exists())
    runner.kill()
    runner.wait()
    (lab.directory / "go").touch()
    lab.until(lambda: not lab.keepers(), "the keeper to leave")
    assert (lab.directory / "over").exists()
    assert list((lab.directory / "jobs.jsonl.d/keepers").iterdir()) == []


# ---- Looking ------------------------------------------------------------------------------


def test_status_as_the_original_printed_it(lab):
    lab.add("true")
    lab.add("exit 3")
    lab.add("--hold", "--name", "later", "true later")
    lab.add("--after", "3", "true after")
    lab.gpuq("run", code=1, env={"GPUQ_GPUS": "sim:1"})
    out = re.sub(r"  \d+ms", "", lab.gpuq("status"))
    assert out == ("[✓] 1 true       → GPU 0 → Completed\n"
                   "[!] 2 exit 3     → GPU 0 → Failed (exit 3)\n"
                   "[‖] 3 true later → GPU N/A → Held  later\n"
                   "[ ] 4 true after → GPU N/A → Pending\n"
                   "4 jobs: 1 pending, 1 held, 1 completed, 1 failed\n")
    assert "exit 3" in lab.gpuq("status", "--state", "failed")
    assert "true later" not in lab.gpuq("status", "--state", "failed,completed")
    assert "true later" in lab.gpuq("status", "--name", "later")


def test_status_json_has_what_was_promised(lab):
    lab.add("--name", "n", "exit 3")
    lab.gpuq("run", code=1)
    job = lab.job(1)
    assert set(job) >= {"id", "name", "command", "status", "gpu_id", "gpu_ids", "pid", "cwd", "submit_time", "start_time",
                        "end_time", "duration", "exit_code", "signal", "reason", "attempts", "log_file", "peak_mem_mb",
                        "history"}
    assert (job["id"], job["name"], job["command"], job["status"], job["exit_code"]) == (1, "n", "exit 3", "failed", 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", job["end_time"])
    assert 0 <= job["duration"] < LIMIT
    assert re.fullmatch(rf"{lab.directory}/logs/job_\d{{8}}_\d{{6}}_1\.log", job["log_file"])
    assert os.readlink(lab.directory / "logs/latest") == pathlib.Path(job["log_file"]).name


def test_status_needs_no_write_permission(lab):
    lab.add("true")
    for name in ("jobs.jsonl.d", "."):
        (lab.directory / name).chmod(0o555)
    try:
        assert "Pending" in lab.gpuq("status")
    finally:
        lab.directory.chmod(0o755)
        (lab.directory / "jobs.jsonl.d").chmod(0o755)


def test_logs_follow_to_the_end_and_carry_ids(lab):
    lab.commands("for i in 1 2 3; do echo line $i; sleep 0.02; done", "echo other; printf 'no newline'")
    runner = lab.start("run")
    lab.until(lambda: lab.journal.exists() and len(lab.events()) > 2)
    assert lab.gpuq("logs", "-f", 1) == "line 1\nline 2\nline 3\n"
    out = lab.gpuq("logs", "-f", 1, 2)
    assert sorted(out.splitlines()) == ["1: line 1", "1: line 2", "1: line 3", "2: no newline", "2: other"]
    assert runner.wait(timeout=LIMIT) == 0


def test_wait_returns_when_the_job_is_over(lab):
    lab.commands("until [ -e go ]; do sleep 0.01; done; exit 9")
    lab.start("run")
    lab.until(lambda: lab.journal.exists() and lab.jobs().get(1, {}).get("status") == "running")
    waiting = lab.start("wait", 1)
    (lab.directory / "go").touch()
    assert waiting.wait(timeout=LIMIT) == 9


def test_next_job_starts_after_the_one_before_has_ended(lab):
    lab.commands("true", "true")
    lab.gpuq("run", env={"GPUQ_GPUS": "sim:1"}, prefix=())
    times = {(event["event"], event["id"]): event["time"] for event in lab.events() if event["event"] in ("start", "end")}
    assert times["end", 1] <= times["start", 2]


def test_run_takes_its_defaults_from_the_configuration_file(lab):
    (lab.directory / "gpuq.yaml").write_text("commands_file: list.txt\nlog_dir: out\ngpu_ids: [0]\n")
    (lab.directory / "gpuq.yaml").chmod(0o644)
    lab.commands("echo a >> ran", name="list.txt")
    del lab.environment["GPUQ_GPUS"]
    result = lab.result("run")
    if result.returncode == 0:
        return  # a machine with a GPU 0
    assert result.returncode == 2
    lab.environment["GPUQ_GPUS"] = "sim:2"
    (lab.directory / "gpuq.yaml").write_text("commands_file: list.txt\nlog_dir: out\ngpus: sim:2\n")
    lab.gpuq("run")
    assert lab.ran() == ["a"]
    assert lab.job(1)["log_file"].startswith(f"{lab.directory}/out/job_")


def test_idle_runner_uses_no_cpu(lab):
    lab.journal.touch()
    lab.journal.chmod(0o600)
    runner = lab.start("run", "--keep")
    lab.until(lambda: (lab.directory / "jobs.jsonl.d/runner.lock").exists() and lab.runner() == runner.pid)

    def ticks():
        fields = pathlib.Path(f"/proc/{runner.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    # Once a second it looks whether anything has changed.
    begun = naps(runner.pid)
    lab.until(lambda: naps(runner.pid) > begun, "a look")
    before, begun = ticks(), naps(runner.pid)
    lab.until(lambda: naps(runner.pid) >= begun + 2, "two more")
    assert ticks() - before <= 1
