# SPDX-License-Identifier: MIT
"""--on-finish runs at least once for each end, no matter which process wrote the end or dies."""
import json
import os
import signal

import sealing
from lab import LIMIT

HOOK = "cat >> hooks"


def told(lab):
    """The input of the hooks so far: id, attempts, status and reason of each."""
    path = lab.directory / "hooks"
    jobs = [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []
    return [(job["id"], job["attempts"], job["status"], job["reason"]) for job in jobs]


def test_hook_runs_once_for_each_dependent_of_a_failed_job(lab):
    lab.add("exit 3")
    for number in range(2, 30):
        lab.add("--after", number - 1, "true")
    lab.gpuq("run", "--on-finish", HOOK, code=1)
    expected = [(1, 1, "failed", None)]
    expected += [(number, 0, "failed", f"job {number - 1}, which it waits for, failed") for number in range(2, 30)]
    assert sorted(told(lab)) == expected
    lab.gpuq("run", "--on-finish", HOOK)
    assert len(told(lab)) == 29


def test_hook_that_fails_is_reported(lab):
    lab.add("true")
    lab.add("true")
    result = lab.result("run", "--on-finish", '[ "$GPUQ_JOB_ID" = 1 ] || exit 7')
    assert result.returncode == 0
    assert result.stdout.count("on-finish hook") == 1
    assert f"gpuq: the --on-finish hook of job 2 failed with exit code 7; its output is in '{lab.journal}.d/hooks.log'\n" in result.stdout
    # Earlier ends in the journal are not reported again.
    assert "hook" not in lab.result("run").stdout


def test_what_hooks_print_is_in_a_log(lab):
    log = lab.directory / "jobs.jsonl.d/hooks.log"
    lab.add("true")
    lab.gpuq("run", "--on-finish", "echo out; echo err >&2")
    first, *rest = log.read_text().splitlines()
    assert first.startswith("--- 20") and first.endswith("job 1, attempt 1: finish hook") and rest == ["out", "err"]
    assert log.stat().st_mode & 0o777 == 0o600
    # Also the output of a hook that the runner has a keeper run.
    lab.add("--hold", "true")
    lab.gpuq("cancel", 2)
    lab.add("--on-finish", "echo second", "--hold", "true")
    lab.gpuq("cancel", 3)
    lab.gpuq("run")
    assert log.read_text().splitlines()[-1] == "second"
    log.write_text("x" * (1 << 20) + "\n")
    lab.add("--on-finish", "echo third", "true")
    lab.gpuq("run")
    assert log.read_text().splitlines()[1:] == ["third"]
    assert log.with_name("hooks.log.1").stat().st_size == (1 << 20) + 1
    # Neither a link nor a directory prevents the hook.
    log.unlink()
    log.symlink_to(lab.directory / "elsewhere")
    lab.add("--on-finish", "touch hooked; echo fourth", "true")
    lab.gpuq("run")
    assert (lab.directory / "hooked").exists() and not (lab.directory / "elsewhere").exists()


def test_hook_runs_for_a_job_cancelled_while_it_waits(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1"
    lab.add("echo 1 >> ran; until [ -e go ]; do sleep 0.01; done")
    lab.add("echo never >> ran")
    lab.add("--hold", "echo never >> ran")
    runner = lab.start("run", "--jobs-per-gpu", "1", "--on-finish", HOOK)
    lab.until(lab.ran, "the first")
    lab.gpuq("cancel", 2, 3)
    lab.until(lambda: sorted(told(lab)) == [(2, 0, "cancelled", None), (3, 0, "cancelled", None)], "the hooks")
    (lab.directory / "go").touch()
    assert runner.wait(LIMIT) == 1
    assert sorted(told(lab))[0] == (1, 1, "completed", None)
    assert len(told(lab)) == 3


def test_hook_of_a_job_cancelled_without_a_runner_is_run_by_the_next(lab):
    """Its own hook is run by the next runner, and only once; a runner's hook is only for jobs that end under it."""
    lab.add("--on-finish", HOOK, "true")
    lab.add("true")
    lab.gpuq("cancel", 1, 2)
    lab.gpuq("prune")
    assert list(lab.jobs()) == [1]
    assert told(lab) == []
    lab.gpuq("run", "--on-finish", HOOK)
    assert told(lab) == [(1, 0, "cancelled", None)]
    lab.gpuq("run", "--on-finish", HOOK)
    assert len(told(lab)) == 1
    lab.gpuq("prune")
    assert lab.jobs() == {}


def test_hook_runs_for_an_attempt_whose_keeper_was_killed(lab):
    lab.add("--retries", "1", "echo 1 >> ran; [ $GPUQ_ATTEMPT = 2 ] || exec sleep 1000")
    runner = lab.start("run", "--on-finish", HOOK)
    lab.until(lab.ran, "the job")
    os.kill(lab.keepers()[0], signal.SIGKILL)
    assert runner.wait(LIMIT) == 0
    # The second attempt does not wait for the hook of the first.
    assert sorted(told(lab)) == [(1, 1, "failed", "keeper lost"), (1, 2, "completed", None)]


def test_hook_of_a_job_whose_keeper_was_killed_without_a_runner_is_run_by_the_next(lab):
    lab.add("--on-finish", HOOK, "echo 1 >> ran; exec sleep 1000")
    runner = lab.start("run")
    lab.until(lab.ran, "the job")
    runner.kill()
    runner.wait()
    os.kill(lab.keepers()[0], signal.SIGKILL)
    lab.gpuq("run", code=1)
    assert told(lab) == [(1, 1, "failed", "keeper lost")]


def test_hook_runs_for_a_job_that_could_not_be_started(lab):
    lab.add("--on-finish", HOOK, "true")
    (lab.directory / "nodir").write_text("")
    lab.gpuq("run", "--log-dir", "nodir/logs", code=1)
    reason = f"could not be started: cannot create its log in '{lab.directory}/nodir/logs': Not a directory"
    assert told(lab) == [(1, 0, "failed", reason)]


def test_runner_that_is_killed_among_many_hooks_leaves_the_rest_to_the_next(lab):
    """None is lost, and none runs twice: the keepers that had one continued."""
    count = 40
    lab.add("--hold", "true")
    for _ in range(count):
        lab.add("--after", 1, "--on-finish", "touch begun; until [ -e go ]; do sleep 0.01; done; " + HOOK, "true")
    runner = lab.start("run", "--keep")
    lab.gpuq("cancel", 1)
    lab.until(lambda: (lab.directory / "begun").exists(), "the first hook")
    runner.kill()
    runner.wait()
    (lab.directory / "go").touch()
    lab.until(lambda: not lab.keepers(), "the keepers to finish their hooks")
    lab.gpuq("run", code=None)
    numbers = [job[0] for job in told(lab)]
    assert len(set(numbers)) == len(numbers)
    assert len(numbers) == count


def test_third_interrupt_waits_for_no_hook(lab):
    lab.add("--on-finish", "echo hook >> ran; until [ -e go ]; do sleep 0.02; done; echo done >> ran", "true")
    runner = lab.start("run")
    lab.until(lambda: lab.ran() == ["hook"])

    def interrupt():
        # The kernel may merge two pending signals: repeat until it is gone.
        if runner.poll() is None:
            runner.send_signal(signal.SIGINT)
        return runner.poll() is not None

    lab.until(interrupt, "the runner to leave")
    assert runner.returncode == 130
    (lab.directory / "go").touch()
    lab.until(lambda: lab.ran() == ["hook", "done"], "the hook to continue")


def test_hook_gets_the_job_as_status_shows_it(lab):
    lab.commands('echo \'"id":1,\' # "id":2,', "exit 3 # é")
    lab.gpuq("run", "--on-finish", "cat > hook-$GPUQ_JOB_ID.json", code=1)
    for number in (1, 2):
        told = json.loads((lab.directory / f"hook-{number}.json").read_text())
        assert told == lab.job(number)
        assert {"id", "name", "command", "status", "exit_code", "log_file"} <= set(told)


def test_hook_gets_the_state_failed_for_an_attempt_that_will_be_retried(lab):
    lab.add("--retries", "1", "--name", "twice", "exit $((GPUQ_ATTEMPT + 3))")
    lab.gpuq("run", "--on-finish", "cat >> hook.json", code=1)
    told = [json.loads(line) for line in (lab.directory / "hook.json").read_text().splitlines()]
    assert sorted((one["name"], one["status"], one["exit_code"], one["attempts"], len(one["history"])) for one in told) == [
        ("twice", "failed", 4, 1, 1), ("twice", "failed", 5, 2, 2)]


def test_hook_of_a_job_in_a_journal_with_spaces_gets_the_same_input(lab):
    lab.journal.write_bytes(sealing.journal(b'{ "event": "add", "id": 1, "command": "exit 3" }'))
    lab.gpuq("run", "--trust", "--on-finish", f"cat > {lab.directory}/hook.json", code=1)
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
    """No process reads the note that the hook has ended; the keeper still exits cleanly."""
    lab.commands("true")
    runner = lab.start("run", "--on-finish", "touch begun; until [ -e go ]; do sleep 0.01; done; touch over")
    lab.until(lambda: (lab.directory / "begun").exists())
    runner.kill()
    runner.wait()
    (lab.directory / "go").touch()
    lab.until(lambda: not lab.keepers(), "the keeper to leave")
    assert (lab.directory / "over").exists()
    assert list((lab.directory / "jobs.jsonl.d/keepers").iterdir()) == []


def test_hook_whose_keepers_die_is_tried_three_times(lab):
    """$PPID is the keeper. The hook of the next job still runs."""
    lab.add("--on-finish", "echo $GPUQ_HOOK_TRY >> ran; kill -9 $PPID; sleep 1000", "true")
    lab.add("--on-finish", "echo next >> other", "true")
    result = lab.result("run")
    assert result.returncode == 0, result
    assert lab.ran() == ["1", "2", "3"]
    assert "the hook of job 1 will not be retried" in result.stdout + result.stderr
    assert (lab.directory / "other").read_text() == "next\n"
    lab.gpuq("run")
    assert lab.ran() == ["1", "2", "3"]
    assert [event.get("status") for event in lab.events() if event["event"] == "hook" and event["id"] == 1] == [
        None, None, None, "failed"]
    lab.gpuq("prune")
    assert lab.jobs() == {}


def test_hook_that_fails_is_not_repeated_and_its_exit_code_is_recorded(lab):
    lab.add("--on-finish", "echo 1 >> ran; exit 5", "true")
    lab.gpuq("run")
    lab.gpuq("run")
    assert lab.ran() == ["1"]
    hooks = [event for event in lab.events() if event["event"] == "hook"]
    assert [(event["try"], event.get("status"), event.get("exit_code")) for event in hooks] == [
        (1, None, None), (1, "failed", 5)]


def test_hook_of_the_runner_is_known_to_the_next_runner(lab):
    lab.add("echo 1 >> ran; exec sleep 1000")
    runner = lab.start("run", "--on-finish", HOOK)
    lab.until(lab.ran, "the job")
    runner.kill()
    runner.wait()
    os.kill(lab.keepers()[0], signal.SIGKILL)
    lab.gpuq("run", code=1)
    assert told(lab) == [(1, 1, "failed", "keeper lost")]


def test_keeper_does_not_read_the_journal_for_a_hook(lab):
    """It has read far less than the journal of many earlier jobs."""
    lab.gpuq("add", "--no-start", "-", input="".join(f"true {number:0>1000}\n" for number in range(2000)))
    lab.gpuq("hold", "1-2000")
    lab.add("--on-finish", "cat /proc/$PPID/io > io", "true")
    lab.gpuq("run")
    fields = dict(line.split(": ") for line in (lab.directory / "io").read_text().splitlines())
    assert int(fields["rchar"]) < lab.journal.stat().st_size / 10
