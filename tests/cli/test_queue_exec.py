# SPDX-License-Identifier: MIT
"""gpuq exec: a command of this shell that waits for a GPU in the queue."""
import json
import os
import signal
import subprocess
import time

import pytest

import processes
import sealing
from lab import LIMIT

BLOCKER = "echo blocker >> ran; while [ ! -e go ]; do sleep 0.01; done"


@pytest.fixture(name="one")
def one_gpu(lab):
    lab.environment["GPUQ_GPUS"] = "sim:1"
    return lab


def block(lab):
    """Keeps the only GPU busy until the file `go` exists."""
    lab.gpuq("add", BLOCKER)
    lab.until(lab.ran, "the job that keeps the GPU busy")


def unblock(lab):
    (lab.directory / "go").touch()


def waits(lab, number):
    return lab.journal.exists() and any(e["event"] == "add" and e["id"] == number for e in lab.events())


def lines_of(process):
    """Standard error, line by line."""
    return iter(lambda: process.stderr.readline().decode(), "")


# ---- A command as it would run without gpuq ----------------------------------------------------


def test_command_has_this_stdin_directory_and_environment_and_its_gpu(lab):
    result = lab.result("exec", "--", "sh", "-c", 'cat; pwd; echo "$OWN $CUDA_VISIBLE_DEVICES $GPUQ_GPU $GPUQ_JOB_ID $GPUQ_ATTEMPT"',
                        input="from stdin\n", env={"OWN": "mine"})
    gpu = lab.job(1)["gpu_id"]
    assert result.stdout == f"from stdin\n{lab.directory}\nmine {gpu} {gpu} 1 1\n"
    assert (result.returncode, result.stderr) == (0, "")


def test_words_are_the_arguments_of_the_command(lab):
    assert lab.gpuq("exec", "--", "printf", "%s|", "a b", "$HOME", "", "-n", "--", "*") == "a b|$HOME||-n|--|*|"
    assert lab.job(1)["command"] == "printf '%s|' 'a b' '$HOME' '' -n -- '*'"


@pytest.mark.parametrize("command, code", [("exit 7", 7), ("kill -9 $$", 137), ("kill -INT $$", 130), ("true", 0)])
def test_exit_code_is_that_of_the_command(lab, command, code):
    assert lab.result("exec", "--", "sh", "-c", command).returncode == code
    job = lab.job(1)
    assert job["status"] == ("failed" if code else "completed")
    assert (job["exit_code"], job["signal"]) == ((None, code - 128) if code > 128 else (code, None))
    assert (job["lease"], job["log_file"], job["attempts"]) == (True, None, 1)


def test_missing_command_is_not_queued(lab):
    result = lab.result("exec", "no-such-program")
    assert (result.returncode, result.stderr) == (127, "gpuq: cannot execute 'no-such-program': No such file or directory\n")
    result = lab.result("exec", "echo a | cat")
    assert result.returncode == 127 and "gpuq exec -- sh -c" in result.stderr
    assert not lab.journal.exists()


def test_command_that_cannot_be_executed_ends_with_126(lab):
    (lab.directory / "data").write_text("text")
    result = lab.result("exec", "./data")
    assert (result.returncode, result.stderr) == (126, "gpuq: cannot execute './data': Permission denied\n")
    assert (lab.job(1)["status"], lab.job(1)["reason"]) == ("failed", "cannot execute './data': Permission denied")


@pytest.mark.parametrize("words, message", [
    (["exec"], "no command given"), (["exec", "--mem", "12", "true"], "--mem: "),
    (["exec", "true", "--mem", "1G"], "is an option of gpuq, but comes after the command"), (["shell", "ls"], "unexpected command; use 'gpuq exec'"),
    (["exec", "--num-gpus", "0", "--exclusive", "true"], "requests no GPU")])
def test_mistakes_end_with_125_and_queue_nothing(lab, words, message):
    result = lab.result(*words)
    assert result.returncode == 125 and message in result.stderr, result.stderr
    assert not lab.journal.exists()


def test_descriptors_are_inherited(lab):
    """For example, make passes its jobserver in this way."""
    read, write = os.pipe()
    process = lab.start("exec", "--", "bash", "-c", f"echo token >&{write}", pass_fds=[write])
    os.close(write)
    assert os.read(read, 100) == b"token\n"
    assert process.wait(timeout=LIMIT) == 0
    os.close(read)


def test_ignored_and_blocked_signals_stay_so(lab):
    def prepare():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    process = lab.start("exec", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", preexec_fn=prepare)
    out = process.communicate(timeout=LIMIT)[0].decode().split()
    assert int(out[1], 16) == 1 << signal.SIGUSR2 - 1
    assert int(out[3], 16) & 1 << signal.SIGHUP - 1


def test_shell_is_that_of_the_user(lab):
    (lab.directory / "fancysh").write_text('#!/bin/sh\necho "$@" $GPUQ_JOB_ID\nexit 3\n')
    (lab.directory / "fancysh").chmod(0o755)
    result = lab.result("shell", env={"SHELL": str(lab.directory / "fancysh")})
    assert (result.stdout, result.returncode, result.stderr) == ("-i 1\n", 3, "")


# ---- An ordinary job ---------------------------------------------------------------------------


def test_waits_for_its_turn_and_says_why(one):
    block(one)
    one.gpuq("add", "--mem", "1G", "echo second >> ran")
    process = one.start("exec", "--mem", "1G", "--", "sh", "-c", "echo leased >> ran")
    lines = lines_of(process)
    assert next(lines) == "gpuq: job 3 waits, #2 in the queue: GPUs busy\n"
    assert "#2 GPUs busy" in one.gpuq("status", 3)
    assert "position 2 of 2" in one.gpuq("why", 3)
    unblock(one)
    assert process.wait(timeout=LIMIT) == 0
    assert list(lines) == ["gpuq: job 3 runs on GPU 0\n"]
    one.gpuq("wait", 2)
    assert one.ran()[0] == "blocker" and sorted(one.ran()[1:]) == ["leased", "second"]


def test_quiet_says_nothing(one):
    block(one)
    process = one.start("exec", "--quiet", "echo", "x")
    one.until(lambda: waits(one, 2))
    unblock(one)
    assert process.communicate(timeout=LIMIT) == (b"x\n", b"")


def test_runner_gives_the_gpus_before_the_start(lab):
    lab.gpuq("exec", "--num-gpus", "2", "true")
    events = [e for e in lab.events() if e.get("id") == 1]
    assert [e["event"] for e in events] == ["add", "grant", "start", "end"]
    add, grant, start, _ = events
    assert grant["gpus"] == start["gpus"] == [0, 1]
    assert add["keeper"] == grant["keeper"] == start["keeper"]
    assert add["held"] is True, "a gpuq without support for leases must not start it"


def test_holds_its_memory_against_other_jobs(one):
    process = one.start("exec", "--mem", "10G", "--", "sh", "-c", BLOCKER)
    one.until(one.ran)
    one.gpuq("add", "--mem", "10G", "true")
    assert "6.0 GiB free" in one.gpuq("why", 2)
    unblock(one)
    assert process.wait(timeout=LIMIT) == 0
    one.gpuq("wait", 2)


def test_two_leases_share_a_gpu_as_their_memory_allows(one):
    processes_ = [one.start("exec", "--mem", "7G", "--", "sh", "-c", f"touch {n}; while [ ! -e {1 - n} ]; do sleep 0.01; done")
                  for n in (0, 1)]
    assert [p.wait(timeout=LIMIT) for p in processes_] == [0, 0]


def test_hold_release_and_urgent_apply(one):
    block(one)
    process = one.start("exec", "--", "sh", "-c", "echo 2 >> ran")
    one.until(lambda: waits(one, 2))
    one.gpuq("hold", 2)
    one.gpuq("add", "echo 3 >> ran")
    unblock(one)
    one.gpuq("wait", 3)
    assert (one.job(2)["status"], process.poll()) == ("held", None)
    one.gpuq("release", 2)
    assert process.wait(timeout=LIMIT) == 0
    assert one.ran() == ["blocker", "3", "2"]


def test_edit_changes_its_needs_but_not_its_command(one):
    block(one)
    process = one.start("exec", "--quiet", "--mem", "1G", "echo", "x")
    one.until(lambda: waits(one, 2))
    result = one.result("edit", 2, "--command", "echo y")
    assert result.returncode != 0 and "belongs to a 'gpuq exec'" in result.stderr
    one.gpuq("edit", 2, "--mem", "2G", "--priority", "3")
    unblock(one)
    assert process.communicate(timeout=LIMIT)[0] == b"x\n"
    assert (one.job(2)["mem_mb"], one.job(2)["priority"], one.job(2)["lease"]) == (2048, 3, True)


def test_hold_of_a_lease_whose_exec_was_killed_ends(one):
    block(one)
    process = one.start("exec", "true")
    one.until(lambda: waits(one, 2))
    one.gpuq("hold", 2)
    process.kill()
    one.until(lambda: one.job(2)["status"] == "cancelled")
    unblock(one)


def test_prune_keeps_a_lease_that_waits(one):
    one.gpuq("exec", "true")
    block(one)
    process = one.start("exec", "echo", "x")
    one.until(lambda: waits(one, 3))
    one.gpuq("prune")
    assert 1 not in one.jobs()
    unblock(one)
    assert process.wait(timeout=LIMIT) == 0
    assert one.job(3)["status"] == "completed"


def test_cancel_while_it_waits_ends_it_with_a_message(one):
    block(one)
    process = one.start("exec", "--quiet", "true")
    one.until(lambda: waits(one, 2))
    one.gpuq("cancel", 2)
    assert process.communicate(timeout=LIMIT)[1] == b"gpuq: job 2 was cancelled before it started\n"
    assert process.returncode == 125
    unblock(one)


def test_cancel_ends_the_command_with_all_that_it_started(lab):
    process = lab.start("exec", "--", "sh", "-c", "setsid sleep 1000 & env -i sleep 1001 & echo 1 >> ran; sleep 1002")
    lab.until(lab.ran)
    pids = [pid for pid in lab.processes() if processes.name_of(pid) == "sleep"]
    lab.gpuq("cancel", 1)
    assert process.communicate(timeout=LIMIT)[1] == b"gpuq: job 1: cancelled\n"
    assert process.returncode == 143
    assert lab.job(1)["status"] == "cancelled"
    assert not any(processes.alive(pid) for pid in pids)


def test_time_limit_ends_the_command(lab):
    result = lab.result("exec", "--timeout", "0.3s", "sleep", "1000")
    assert (result.returncode, result.stderr) == (143, "gpuq: job 1: timeout\n")
    assert (lab.job(1)["status"], lab.job(1)["reason"]) == ("failed", "timeout")


def test_processes_that_the_command_leaves_end_with_it(lab):
    lab.gpuq("exec", "--", "sh", "-c", "setsid sleep 1000 & echo $! > pid")
    assert not processes.alive(int((lab.directory / "pid").read_text()))


def test_lease_is_never_tried_again(lab):
    lab.add("true")
    runner = lab.start("run", "--retries", "3", "--keep")
    lab.until(lambda: lab.runner() == runner.pid)
    lab.gpuq("exec", "false", code=1)
    assert (lab.job(2)["status"], lab.job(2)["attempts"]) == ("failed", 1)
    result = lab.result("retry", 2)
    assert result.returncode == 1 and "run that command again" in result.stderr
    assert lab.job(2)["status"] == "failed"
    assert "has no log" in lab.result("logs", 2).stderr


def test_hook_runs_after_exec_has_returned(lab):
    """A caller that waits for the exit code does not wait for the hook."""
    (lab.directory / "gpuq.yaml").write_text("on_finish: 'while [ ! -e go ]; do sleep 0.01; done; cat > hook'\n")
    result = lab.result("exec", "--", "sh", "-c", "exit 5")
    assert result.returncode == 5
    unblock(lab)
    lab.until(lambda: (lab.directory / "hook").exists() and (lab.directory / "hook").read_text().endswith("\n"))
    told = json.loads((lab.directory / "hook").read_text())
    assert (told["id"], told["exit_code"], told["lease"]) == (1, 5, True)


# ---- Giving up ---------------------------------------------------------------------------------


def test_no_wait_fails_if_no_gpu_is_free(one):
    assert one.gpuq("exec", "--no-wait", "echo", "x") == "x\n"
    block(one)
    result = one.result("exec", "--no-wait", "echo", "x")
    assert (result.returncode, result.stdout, result.stderr) == (125, "", "gpuq: no GPU is free now: GPUs busy\n")
    assert one.job(3)["status"] == "cancelled"
    unblock(one)


def test_no_wait_fails_at_once_if_the_queue_is_paused(one):
    assert one.gpuq("exec", "--no-wait", "echo", "x") == "x\n"
    one.gpuq("pause")
    begin = time.monotonic()
    result = one.result("exec", "--no-wait", "echo", "x")
    assert (result.returncode, result.stdout, result.stderr) == (125, "", "gpuq: the job cannot start now: the queue is paused\n")
    assert time.monotonic() - begin < 25  # a job that is about to start is given 30 seconds
    assert one.job(2)["status"] == "cancelled"


def test_wait_timeout_gives_up(one):
    block(one)
    result = one.result("exec", "--quiet", "--wait-timeout", "0.2s", "echo", "x")
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr == "gpuq: job 2 did not start in time: GPUs busy\n"
    assert one.job(2)["status"] == "cancelled"
    unblock(one)


def test_need_that_no_gpu_can_meet_is_an_error(one):
    result = one.result("exec", "--mem", "70G", "true")
    assert result.returncode == 125 and "job 1 cannot start: needs 70.0 GiB" in result.stderr
    assert one.job(1)["status"] == "cancelled"


def test_exec_reports_that_no_runner_can_start(lab):
    lab.environment["GPUQ_GPUS"] = "7"
    result = lab.result("exec", "true")
    assert result.returncode == 125 and "cannot start a runner" in result.stderr
    assert lab.job(1)["status"] == "cancelled"


def test_interrupt_while_it_waits_gives_its_place_up(one):
    block(one)
    process = one.start("exec", "--quiet", "true")
    one.until(lambda: waits(one, 2))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=LIMIT) == (b"", b"")
    assert process.returncode == 130
    assert (one.job(2)["status"], one.job(2)["reason"]) == ("cancelled", "interrupted while it waited")
    unblock(one)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signal_to_exec_reaches_the_command_once(lab, number):
    script = ("trap 'echo got >> ran' USR1 TERM INT HUP; echo 1 >> ran; while [ ! -e go ]; do sleep 0.01; done; exit 9")
    process = lab.start("exec", "--", "sh", "-c", script)
    lab.until(lab.ran)
    process.send_signal(number)
    lab.until(lambda: "got" in lab.ran())
    unblock(lab)
    assert process.wait(timeout=LIMIT) == 9
    assert lab.ran() == ["1", "got"]


# ---- Deaths ------------------------------------------------------------------------------------


def test_waiting_exec_that_is_killed_blocks_no_job(one):
    block(one)
    process = one.start("exec", "--mem", "1G", "--", "sh", "-c", "echo leased >> ran")
    one.until(lambda: waits(one, 2))
    one.gpuq("add", "echo 3 >> ran")
    process.kill()
    process.wait()
    unblock(one)
    one.gpuq("wait", 3)
    assert one.ran() == ["blocker", "3"]
    assert (one.job(2)["status"], one.job(2)["reason"]) == ("cancelled", "'gpuq exec' ended before the job started")


def test_exec_that_was_killed_without_a_runner_is_cancelled_by_the_next(one):
    block(one)
    process = one.start("exec", "true")
    one.until(lambda: waits(one, 2))
    os.kill(one.runner(), signal.SIGSTOP)
    stopped = one.runner()
    process.kill()
    process.wait()
    os.kill(stopped, signal.SIGKILL)
    unblock(one)
    one.until(lambda: one.job(2)["status"] == "cancelled", "status, which knows it without a runner")
    assert one.result("wait", 2).returncode == 1
    one.until(lambda: one.job(1)["status"] == "completed")
    one.gpuq("run", code=1)
    assert [e["event"] for e in one.events() if e.get("id") == 2] == ["add", "cancel"]


def test_running_exec_that_is_killed_ends_the_command(lab):
    process = lab.start("exec", "--", "sh", "-c", "setsid sleep 1000 & echo 1 >> ran; sleep 1001")
    lab.until(lab.ran)
    pids = [pid for pid in lab.processes() if processes.name_of(pid) == "sleep"]
    process.kill()
    process.wait()
    lab.until(lambda: lab.job(1)["status"] == "failed")
    assert lab.job(1)["reason"] == "'gpuq exec' was killed"
    assert not any(processes.alive(pid) for pid in pids)


def test_keeper_that_is_killed_ends_the_command_and_exec(lab):
    process = lab.start("exec", "--", "sh", "-c", "setsid sleep 1000 & env -i setsid sleep 1001 & echo 1 >> ran; sleep 1002")
    lab.until(lab.ran)
    keeper, = lab.keepers()
    os.kill(keeper, signal.SIGKILL)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 125 and b"was killed, and the command with it" in err
    lab.until(lambda: lab.job(1)["status"] == "failed")
    assert lab.job(1)["reason"] == "keeper lost"
    lab.until(lambda: not [pid for pid in lab.processes() if processes.name_of(pid) == "sleep"])


def test_runner_that_is_killed_while_exec_waits_is_replaced(one):
    block(one)
    process = one.start("exec", "--", "sh", "-c", "echo leased >> ran")
    one.until(lambda: waits(one, 2))
    first = one.runner()
    os.kill(first, signal.SIGKILL)
    one.until(lambda: one.runner() not in (0, first), "another runner")
    unblock(one)
    assert process.wait(timeout=LIMIT) == 0
    assert one.ran() == ["blocker", "leased"]


def test_runner_that_is_killed_while_the_command_runs_changes_nothing(lab):
    process = lab.start("exec", "--", "sh", "-c", BLOCKER + "; exit 4")
    lab.until(lab.ran)
    os.kill(lab.runner(), signal.SIGKILL)
    unblock(lab)
    assert process.wait(timeout=LIMIT) == 4
    assert (lab.job(1)["status"], lab.job(1)["exit_code"]) == ("failed", 4)


def test_next_runner_adopts_a_lease_that_runs(one):
    process = one.start("exec", "--", "sh", "-c", BLOCKER)
    one.until(one.ran)
    os.kill(one.runner(), signal.SIGKILL)
    one.until(lambda: subprocess.run(["true"], check=True) and not processes.alive(one.runner()))
    one.gpuq("add", "echo 2 >> ran")
    assert one.job(2)["status"] == "pending"
    one.gpuq("cancel", 1)
    assert process.wait(timeout=LIMIT) == 143
    one.gpuq("wait", 2)
    assert one.ran() == ["blocker", "2"]


def test_lease_of_another_host_is_left_alone_and_blocks_no_job(one):
    one.gpuq("exec", "true")
    keeper = {"event": "keeper", "time": "2026-11-15T21:42:19.600Z", "keeper": "k1", "pid": 4711, "host": "another-host",
              "boot": "b", "pidns": "1"}
    add = {"event": "add", "id": 2, "time": "2026-11-15T21:42:19.600Z", "command": "echo leased >> ran", "held": True,
           "keeper": "k1"}
    sealing.append(one.journal, keeper, add)
    one.gpuq("add", "echo 3 >> ran")
    one.gpuq("wait", 3)
    assert one.ran() == ["3"]
    assert one.job(2)["status"] == "pending"


@pytest.mark.parametrize("command", [["exec", "--gpus", "sim:3", "sh", "-c", "echo $GPUQ_GPU; gpuq_gpus=$GPUQ_GPUS; echo $gpuq_gpus"]])
def test_simulated_gpus_can_be_named(lab, command):
    lab.environment["GPUQ_GPUS"] = ""
    result = lab.result(*command)
    assert (result.stdout, result.stderr.count("has no effect")) == ("0\nsim:3\n", 0)
    # The runner that was started keeps its GPUs; --gpus has no effect on it.
    result = lab.result("exec", "--gpus", "sim:1", "--gpu", "2", "sh", "-c", "echo $GPUQ_GPU")
    assert (result.returncode, result.stdout) == (0, "2\n")
    assert "a runner is already active with its own GPUs; --gpus sim:1 has no effect" in result.stderr
    assert "has no effect" in lab.result("add", "--gpus", "sim:1", "true").stderr


@pytest.mark.parametrize("command", ["exec", "shell", "add"])
@pytest.mark.parametrize("value, words", [("2", "for a number of GPUs use --num-gpus N, for specific ones --gpu 0,2"), ("all", "--num-gpus N"),
                                          ("sim:x", "--gpus: ")])
def test_gpus_are_passed_to_the_runner(lab, command, value, words):
    result = lab.result(command, "--gpus", value, *([] if command == "shell" else ["true"]))
    assert result.returncode in (2, 125) and words in result.stderr
    assert not lab.journal.exists()
