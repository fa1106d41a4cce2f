# SPDX-License-Identifier: MIT
"""Runners in the background: what they inherit, and what they do not."""
import os
import pathlib
import signal
import subprocess

import pytest

from lab import GPUQ, LIMIT
from processes import alive, ignore_signals


def words_of(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def runner_of(lab):
    """The PID of the runner, as soon as one is alive."""
    path = lab.directory / "jobs.jsonl.d/runner.lock"
    return lab.until(lambda: path.exists() and lab.runner() and alive(lab.runner()) and lab.runner(), "a runner")


def target_of(descriptor):
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:  # closed in the meantime
        return ""


def test_runner_in_the_background_obeys_the_options_of_run(lab):
    lab.commands("trap '' TERM; echo a >> ran; while :; do sleep 0.01; done", "echo b >> ran")
    lab.gpuq("run", "--background", "--gpus", "sim:1", "--jobs-per-gpu", "1", "--timeout", "100ms", "--grace", "50ms",
             "--max-failures", "1", "--log-dir", "elsewhere")
    lab.gpuq("wait", 1, code=137)
    job = lab.job(1)
    assert (job["status"], job["reason"], job["signal"], job["gpu_id"]) == ("failed", "timeout", 9, 0)
    assert job["log_file"].startswith(f"{lab.directory}/elsewhere/")
    log = lab.directory / "jobs.jsonl.d/runner.log"
    lab.until(lambda: "1 job left pending" in log.read_text(), "the runner to leave")
    assert lab.ran() == ["a"]


def test_detached_runner_gets_every_option_for_a_runner(lab):
    lab.commands("until [ -e go ]; do sleep 0.01; done")
    given = {"--gpus": "sim:1", "--min-free-mem-mb": "123", "--jobs-per-gpu": "3", "--poll-interval": "7",
             "--timeout": "1h", "--retries": "2", "--max-failures": "5", "--on-finish": "true; echo 'a b'",
             "--grace": "5s"}
    lab.gpuq("run", "--background", "--keep", "--quiet", *(word for pair in given.items() for word in pair))
    words = words_of(runner_of(lab))
    assert {f"{name}={value}" for name, value in given.items()} | {"--keep", "--quiet"} <= set(words)
    assert not any("background" in word or "commands" in word for word in words)
    (lab.directory / "go").touch()
    lab.gpuq("wait")
    os.kill(lab.runner(), signal.SIGTERM)


def test_runner_in_the_background_inherits_no_ignored_signals(lab):
    subprocess.run([GPUQ, "add", "true"], cwd=lab.directory, env=lab.environment, preexec_fn=ignore_signals,
                   stdout=subprocess.DEVNULL, check=True)
    pid = runner_of(lab)
    status = pathlib.Path(f"/proc/{pid}/status").read_text().split("\n")
    ignored = [int(line.split()[1], 16) for line in status if line.startswith("SigIgn")][0]
    # Except for signals that it ignores itself.
    assert ignored & ~(1 << (signal.SIGPIPE - 1)) == 0
    lab.gpuq("wait")
    os.kill(pid, signal.SIGTERM)


def test_background_in_the_configuration_starts_one_runner(lab):
    (lab.directory / "gpuq.yaml").write_text("background: true\n")
    lab.commands("echo a >> ran")
    lab.gpuq("run")
    lab.gpuq("wait")
    pid = runner_of(lab)
    assert lab.ran() == ["a"]
    os.kill(pid, signal.SIGTERM)


def test_runner_started_by_add_reads_no_commands_file(lab):
    (lab.directory / "gpuq.yaml").write_text("commands_file: list.txt\n")
    lab.commands("echo list >> ran", name="list.txt")
    lab.gpuq("add", "echo a >> ran")
    lab.gpuq("wait")
    pid = runner_of(lab)
    assert (lab.ran(), len(lab.jobs())) == (["a"], 1)
    os.kill(pid, signal.SIGTERM)


def test_runner_that_cannot_start_is_reported_with_the_reason(lab):
    lab.commands("echo a >> ran")
    result = lab.result("run", "--background", "--gpus", "97")
    assert result.returncode == 2
    assert "cannot start a runner: GPU specification '97': GPU 97 does not exist" in result.stderr
    result = lab.result("add", "echo b >> ran", env={"GPUQ_GPUS": "97"})
    assert (result.returncode, result.stdout) == (2, "2\n")
    assert "cannot start a runner: $GPUQ_GPUS '97': GPU 97 does not exist" in result.stderr
    assert "queued jobs wait for one" in result.stderr
    lab.gpuq("hold", 2)
    result = lab.result("release", 2, env={"GPUQ_GPUS": "97"})
    assert result.returncode == 2 and "GPU 97 does not exist" in result.stderr
    lab.gpuq("add", "echo c >> ran")
    lab.gpuq("wait")
    assert sorted(lab.ran()) == ["a", "b", "c"]
    os.kill(runner_of(lab), signal.SIGTERM)


def test_runner_in_the_background_keeps_no_descriptor_of_its_starter(lab):
    """`id=$(gpuq add …)` ends when the last copy of the pipe is closed."""
    number = subprocess.run(["sh", "-c", 'exec 7>held; id=$("$GPUQ" add "until [ -e go ]; do sleep 0.01; done"); echo $id'],
                            cwd=lab.directory, env={**lab.environment, "GPUQ": os.environ["GPUQ"]}, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=LIMIT, check=True).stdout
    assert number == "1\n"
    pid = runner_of(lab)
    targets = {target_of(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    assert not any(target.startswith("pipe:") or target.endswith("/held") for target in targets), targets
    (lab.directory / "go").touch()
    lab.gpuq("wait")
    os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize("words", [["add"], ["run", "--background", "--commands-file", "commands.txt"]])
def test_no_runner_is_started_with_a_configuration_that_only_the_command_can_read(lab, words):
    (lab.directory / "commands.txt").write_text("true\n")
    result = lab.result(*words, "--config", "/dev/stdin", *(["true"] if words == ["add"] else []), input="retries: 1\n")
    assert result.returncode == 2 and "cannot start a runner with --config '/dev/stdin'" in result.stderr, result
    assert not lab.journal.exists()


def test_no_runner_is_started_inside_a_worker(lab):
    """A pool kills everything that a worker leaves behind, so a runner would be killed with its jobs."""
    words = ["launch", "--input-dir", "in", "--pattern", "*.txt", "--output-dir", "out", "--"]
    add = ["setsid", "-w", GPUQ, "add", "echo a >> ran"]
    refused = "nothing was changed: cannot start a runner inside a worker of a pool, of 'gpuq launch' or of 'gpuq map'"
    remedy = "start one outside, with 'gpuq run --keep --background'"
    (lab.directory / "in").mkdir()
    (lab.directory / "in/a.txt").touch()
    (lab.directory / "commands").write_text("true\n")
    run = [GPUQ, "run", "--background", "--commands-file", "commands"]
    for command in (add, run, [GPUQ, "exec", "true"]):
        out = lab.gpuq(*words, *command, code=1)
        assert f": gpuq: {refused}" in out and remedy in out and (command is not add or f"{remedy}, or use --no-start" in out)
        assert not lab.journal.exists() and not (lab.directory / "jobs.jsonl.d").exists(), command

    lab.add("echo b >> ran")
    lab.add("--hold", "true")
    lab.add("true")
    lab.gpuq("cancel", 3)
    lab.gpuq("pause")
    before = lab.journal.read_bytes()
    for command in (["edit", "1", "--tag", "x"], ["exec", "true"], run[1:], ["release", "2"], ["retry", "3"], ["resume"]):
        out = lab.gpuq(*words, GPUQ, *command, code=1)
        assert refused in out and remedy in out, command
        assert lab.journal.read_bytes() == before, command

    # Outside, as the message says. The launch runs the failed file again, and its job outlives the worker.
    lab.gpuq("run", "--keep", "--background")
    lab.gpuq(*words, "sh", "-c", f"{GPUQ} release 2 && {GPUQ} resume && setsid -w {GPUQ} add 'echo a >> ran'")
    lab.gpuq("wait", 1, 2, 4)
    assert sorted(lab.ran()) == ["a", "b"]
    os.kill(runner_of(lab), signal.SIGTERM)


def test_a_runner_can_be_started_inside_a_job(lab):
    lab.gpuq("add", f"{GPUQ} add --jobs-file other.jsonl 'echo a >> ran'; {GPUQ} wait --jobs-file other.jsonl")
    lab.gpuq("wait")
    lab.gpuq("exec", "--", "sh", "-c",
             f"{GPUQ} add --jobs-file third.jsonl 'echo b >> ran'; {GPUQ} wait --jobs-file third.jsonl")
    assert lab.ran() == ["a", "b"]
    os.kill(runner_of(lab), signal.SIGTERM)
