# SPDX-License-Identifier: MIT
"""gpuq add, and what a job inherits from it."""
import os
import pathlib
import signal
import subprocess

from lab import GPUQ, LIMIT
from processes import ignore_signals


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


def test_add_warns_about_a_missing_program(lab):
    (lab.directory / "plain.sh").write_text("echo a\n")
    (lab.directory / "tool").write_text("#!/bin/sh\n")
    (lab.directory / "tool").chmod(0o755)
    missing = "' is neither a file nor a program in PATH; the job will fail unless it exists when the job starts\n"
    for words in (["trian.sh"], ["./trian.sh"], ["trian.sh", "--lr", "1"], ["trian.sh --lr 1 | tee log"], ["--array", "1-2", "trian.sh"]):
        result = lab.result("add", "--no-start", *words)
        assert result.returncode == 0 and result.stdout != ""
        assert result.stderr.splitlines(keepends=True)[-1] in ("gpuq: 'trian.sh" + missing, "gpuq: './trian.sh" + missing), words
    result = lab.result("add", "--no-start", "plain.sh")
    assert result.stderr == "gpuq: 'plain.sh' is a file here, but the shell searches only PATH; write './plain.sh' or 'sh plain.sh'\n"
    for words in (["sh -c trian"], ["./tool"], ["X=1 trian"], ["cd /tmp && ls"], ["$TOOL a"], ["'trian'"], ["(trian)"], ["for i in 1 2; do :; done"],
                  ["--param", "x=1,2", "{x}"], ["tool"], ["tool", "a"], ["sh plain.sh"]):
        result = lab.result("add", "--no-start", *words)
        assert result.returncode == 0 and "PATH" not in result.stderr, words


def test_job_has_the_environment_and_directory_of_add(lab):
    (lab.directory / "sub").mkdir()
    result = subprocess.run([GPUQ, "add", "--no-start", "--jobs-file", "../jobs.jsonl", 'echo "$COLOR $GPUQ_JOB_ID $GPUQ_ATTEMPT"; pwd'],
                            cwd=lab.directory / "sub", env={**lab.environment, "COLOR": "blue"}, capture_output=True,
                            text=True, timeout=LIMIT, check=True)
    assert result.stdout == "1\n"
    lab.gpuq("run")
    assert lab.gpuq("logs", 1) == f"blue 1 1\n{lab.directory}/sub\n"


def test_job_inherits_no_descriptors_and_no_signal_settings(lab):
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
