# SPDX-License-Identifier: MIT
"""Jobs that are warned before their time limit, and jobs that ask to be run again."""
import pytest

# The shell above this one does not handle the signal.
TRAINING = """
trap 'echo USR1 >> signals; exit ${CODE-85}' USR1
[ -e again ] && exit 0
touch again
sleep 600 &
wait
"""


def training(lab):
    (lab.directory / "training.sh").write_text(TRAINING)
    return "cd . && sh training.sh; exit $?"


def ends(lab):
    return [(event["event"], event.get("exit_code"), event.get("reason")) for event in lab.events()
            if event["event"] in ("end", "interrupted")]


def test_the_signal_comes_before_the_time_limit_to_processes_that_handle_it(lab):
    lab.add("--timeout", "300", "--signal", "USR1@295", "--requeue-on", "85", training(lab))
    lab.gpuq("run", "--quiet")
    assert (lab.directory / "signals").read_text() == "USR1\n"
    assert ends(lab) == [("interrupted", 85, "checkpointed"), ("end", 0, None)]
    job = lab.job(1)
    assert (job["warn_signal"], job["warn_before"], job["requeue_on"], job["timeout"]) == (10, 295, 85, 300)
    assert [(attempt["status"], attempt["reason"]) for attempt in job["history"]] == [("interrupted", "checkpointed"), ("completed", None)]


def test_another_exit_code_after_the_signal_is_a_failure(lab):
    lab.add("--timeout", "300", "--signal", "SIGUSR1@295", "--requeue-on", "85", training(lab), env={"CODE": "3"})
    lab.gpuq("run", "--quiet", code=1)
    assert ends(lab) == [("end", 3, None)]


def test_a_job_that_does_not_handle_the_signal_is_not_ended_by_it(lab):
    lab.add("--timeout", "3", "--signal", "USR1@2", "sleep 600")
    lab.gpuq("run", "--quiet", code=1)
    assert ends(lab)[0][2] == "timeout"


def test_a_quick_checkpoint_spends_a_retry(lab):
    lab.add("--requeue-on", "85", "--retries", "2", "echo $GPUQ_ATTEMPT >> ran; exit 85")
    lab.add("--requeue-on", "85", "exit 85")
    lab.gpuq("run", "--quiet", code=1)
    assert lab.ran() == ["1", "2", "3"]
    assert ends(lab).count(("end", 85, "checkpointed")) == 4
    assert lab.job(1)["status"] == "failed" and lab.job(1)["reason"] == "checkpointed"


def test_a_checkpoint_at_the_time_limit_spends_no_retry(lab):
    lab.add("--timeout", "1", "--requeue-on", "85",
            "[ -e again ] && exit 0; touch again; trap 'exit 85' TERM; sleep 600 & wait")
    lab.gpuq("run", "--quiet")
    assert ends(lab) == [("interrupted", 85, "checkpointed"), ("end", 0, None)]


def test_a_cancelled_job_is_not_run_again(lab):
    lab.gpuq("add", "--requeue-on", "85", "trap 'exit 85' TERM; touch ready; sleep 600 & wait")
    lab.until((lab.directory / "ready").exists, "the start")
    lab.gpuq("cancel", "1")
    lab.gpuq("wait", "1", code=None)
    assert lab.job(1)["status"] == "cancelled"


@pytest.mark.parametrize("options, message", [
    (["--signal", "USR1@60"], "--signal needs a time limit; give --timeout"),
    (["--signal", "USR1@60", "--timeout", "60"], "the signal cannot be sent 1m 00s before the time limit, which is only 1m 00s"),
    (["--signal", "FOO", "--timeout", "60"], "--signal: 'FOO': expected a signal"),
    (["--signal", "KILL@5", "--timeout", "60"], "--signal: no process can handle SIGKILL"),
    (["--signal", "USR1@x", "--timeout", "60"], "--signal: 'x' is not a duration"),
    (["--requeue-on", "0"], "--requeue-on: '0' is out of range"),
    (["--requeue-on", "256"], "--requeue-on: '256' is out of range"),
])
def test_signals_and_codes_that_make_no_sense_are_refused(lab, options, message):
    result = lab.result("add", "--no-start", *options, "true")
    assert result.returncode == 2 and message in result.stderr, result.stderr


def test_options_of_lines(lab):
    lab.commands("# gpuq: signal=INT@5 requeue_on=85 timeout=1h", "true")
    lab.gpuq("run", "--quiet")
    job = lab.job(1)
    assert (job["warn_signal"], job["warn_before"], job["requeue_on"]) == (2, 5, 85)


def test_info_shows_what_was_asked_for(lab):
    lab.add("true")
    lab.add("--after", "1", "--after-any", "1", "--begin", "+1h", "--timeout", "1h", "--signal", "USR1@90", "--requeue-on", "85", "true")
    lines = [line.split(None, 1) for line in lab.gpuq("info", "2").splitlines()]
    assert ["signal", "SIGUSR1, 1m 30s before the time limit"] in lines
    text = lab.gpuq("info", "2")
    assert "\n  requeue on     85\n" in text and "\n  begins         2" in text
    assert "\n  after          1\n" in text and "\n  after any end  1\n" in text
