# SPDX-License-Identifier: MIT
"""gpuq run --slurm on a real Slurm, as users run it."""
import json
import os
import pathlib
import re
import signal
import subprocess

import processes
import pytest
from terminal import Terminal

LIMIT = 240
SLURM = ("--slurm", "--partition=gpu --gres=gpu:1 --time=10")
WAITING = "echo $GPUQ_JOB_ID:$GPUQ_ATTEMPT >> ran; until [ -e go ]; do sleep 0.05; done; echo $GPUQ_JOB_ID >> done"


class Cli:
    """`gpuq run` and its output, in a lab."""

    def __init__(self, lab):
        self.lab, self.started = lab, []

    def start(self, *words, env=None):
        log = self.lab.directory / f"run{len(self.started)}.out"
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen(["gpuq", "run", *words], cwd=self.lab.directory, env={**self.lab.cluster.environment, **(env or {})},
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                       **self.lab.cluster.identity())
        process.log = log
        self.started.append(process)
        return process

    def run(self, *words, code=0, env=None):
        process = self.start(*words, env=env)
        assert process.wait(LIMIT) == code, process.log.read_text(encoding="utf-8")
        return process.log.read_text(encoding="utf-8")

    def until(self, condition, what):
        return self.lab.until(condition, f"{what}: {[one.log.read_text(encoding='utf-8') for one in self.started]}")

    def until_said(self, process, words):
        self.until(lambda: words in process.log.read_text(encoding="utf-8"), words)

    def until_ran(self, count):
        self.until(lambda: len(self.lab.ran()) == count, f"{count} jobs")

    def events(self, *kinds):
        rows = [json.loads(row) for row in self.lab.journal.read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if row["event"] in kinds]

    def squeue(self):
        return self.lab.slurm("squeue", "-h", "-o", "%i").split()

    def until_idle(self):
        processes.until(lambda: not self.squeue(), LIMIT, lambda: "an idle node")

    def program(self, name, text):
        """A program of the user that is found before Slurm's own."""
        place = self.lab.directory / "bin"
        place.mkdir(exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
        (place / name).chmod(0o755)
        return {"PATH": f"{place}:{self.lab.cluster.environment['PATH']}"}


@pytest.fixture(name="cli")
def make_cli(lab):
    made = Cli(lab)
    yield made
    lab.touch("go")
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.wait()
    lab.slurm("scancel", "-u", lab.cluster.user.pw_name, code=None)
    made.until_idle()


def test_commands_file_runs_on_nodes_and_is_not_run_twice(cli):
    cli.lab.commands(*(f"echo {number} on $GPUQ_NODE >> ran" for number in range(5)), "exit 3")
    text = cli.run("--commands-file", "commands.txt", *SLURM, "--max-nodes", "2", code=1)
    assert "node node joined with 1 GPU" in text and re.search("GPU [01] on node → Completed", text) and "Failed (exit 3)" in text
    assert sorted((cli.lab.directory / "ran").read_text(encoding="utf-8").splitlines()) == [f"{number} on node" for number in range(5)]
    assert cli.lab.states() == ["completed"] * 5 + ["failed"]
    again = cli.run("--commands-file", "commands.txt", *SLURM, code=1)
    assert "nothing new" in again and len(cli.lab.jobs()) == 6
    cli.until_idle()


def test_log_in_a_folder_that_others_can_write_is_not_confused_with_a_file_of_theirs(cli):
    folder = cli.lab.directory / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    following = int(re.search(r"NEXT_JOB_ID\s*= (\d+)", cli.lab.slurm("scontrol", "show", "config"))[1])
    for number in range(following, following + 20):
        (folder / f"job_1_attempt_1_slurm_{number}.log").write_text("of somebody else\n", encoding="ascii")
    cli.lab.commands("echo own")
    cli.run("--commands-file", "commands.txt", *SLURM, "--log-dir", "shared")
    (job,) = cli.lab.jobs()
    assert pathlib.Path(job["log_file"]).read_text(encoding="ascii") == "own\n" == cli.lab.gpuq("logs", "1")
    assert (folder / "latest").read_text(encoding="ascii") == "own\n"
    cli.until_idle()


def test_settings_of_the_configuration_apply_to_what_add_starts_too(cli):
    (cli.lab.directory / "gpuq.yaml").write_text(
        "slurm: --partition=gpu --gres=gpu:1 --time=10\nmax_nodes: 2\nslurm_silence: 5\nslurm_lease: 1m\n", encoding="utf-8")
    for _ in range(2):
        cli.lab.gpuq("add", "--jobs-file", "jobs.jsonl", "echo $GPUQ_NODE >> ran; until [ $(wc -l < ran) = 2 ]; do sleep 0.02; done")
    assert cli.lab.gpuq("wait", "--timeout", str(LIMIT), "1", "2") is not None
    assert cli.lab.ran() == ["node", "node"]
    (row, *_) = cli.events("coordinator")
    assert row["lease"] == 60
    settings = cli.lab.gpuq("config")
    assert "slurm_silence: 5 " in settings and "max_nodes: 2 " in settings
    os.kill(int(row["pid"]), signal.SIGINT)
    cli.until_idle()


def test_ctrl_c_stops_then_cancels_then_kills(cli):
    cli.lab.commands(WAITING, "trap '' TERM; " + WAITING, "echo never >> ran")
    boss = cli.start("--commands-file", "commands.txt", *SLURM, "--max-nodes", "2")
    cli.until_ran(2)
    boss.send_signal(signal.SIGINT)
    cli.until_said(boss, "no new jobs start; waiting for 2 running")
    boss.send_signal(signal.SIGINT)
    cli.until_said(boss, "Cancelled")
    assert boss.poll() is None and cli.lab.states() == ["cancelled", "running", "pending"]
    boss.send_signal(signal.SIGINT)
    assert boss.wait(LIMIT) == 130
    assert cli.lab.states() == ["cancelled", "cancelled", "pending"] and len(cli.lab.ran()) == 2
    cli.until_idle()


def test_sigterm_leaves_jobs_running_and_the_next_run_goes_on(cli):
    cli.lab.commands(WAITING)
    boss = cli.start("--commands-file", "commands.txt", *SLURM)
    cli.until_ran(1)
    boss.terminate()
    assert boss.wait(LIMIT) == 130 and cli.lab.states() == ["running"]
    cli.lab.touch("go")
    cli.run("--commands-file", "commands.txt", *SLURM)
    assert cli.lab.states() == ["completed"] and cli.lab.ran() == ["1:1"]


@pytest.mark.parametrize("words", [(), SLURM])
def test_second_run_hands_its_commands_over(cli, words):
    cli.lab.commands(WAITING)
    boss = cli.start("--commands-file", "commands.txt", *SLURM, "--max-nodes", "2")
    cli.until_ran(1)
    (cli.lab.directory / "more.txt").write_text("echo second on $GPUQ_NODE >> more\n", encoding="utf-8")
    text = cli.run("--commands-file", "more.txt", *words)
    assert f"a runner is already active (PID {boss.pid})" in text and ("--slurm: ignored" in text) == bool(words)
    assert (cli.lab.directory / "more").read_text(encoding="utf-8") == "second on node\n"
    cli.lab.touch("go")
    assert boss.wait(LIMIT) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_run_that_waits_can_be_interrupted(cli, number):
    cli.lab.commands(WAITING)
    boss = cli.start("--commands-file", "commands.txt", *SLURM)
    cli.until_ran(1)
    second = cli.start("--commands-file", "commands.txt", *SLURM)
    cli.until_said(second, "waiting for 1 job that was already in the queue")
    second.send_signal(number)
    assert second.wait(LIMIT) == 130
    assert "no longer waiting; the jobs continue" in second.log.read_text(encoding="utf-8")
    cli.lab.touch("go")
    assert boss.wait(LIMIT) == 0


def test_pending_pilot_with_other_options_makes_way(cli):
    """The user corrects --slurm after a run that was killed: its pilot would never start."""
    blocker = cli.lab.sbatch("--wrap", "sleep 1000")
    cli.lab.until(lambda: cli.lab.batch_state(blocker) == "RUNNING", "the blocker")
    cli.lab.commands("true")
    first = cli.start("--commands-file", "commands.txt", "--slurm", "--partition=gpu --gres=gpu:1 --time=9")
    cli.until(lambda: len(cli.squeue()) == 2, "a pending pilot")
    (old,) = [number for number in cli.squeue() if number != str(blocker)]
    first.kill()
    first.wait()
    second = cli.start("--commands-file", "commands.txt", *SLURM)
    cli.until_said(second, f"cancelling Slurm job {old}, a pending pilot of an earlier run with other options")
    cli.until(lambda: old not in cli.squeue() and len(cli.squeue()) == 2, "a pilot with the new options")
    cli.lab.slurm("scancel", str(blocker))
    assert second.wait(LIMIT) == 0 and cli.lab.states() == ["completed"]


def test_pilots_of_an_earlier_run_do_not_limit_new_ones(cli):
    """The user corrects --time after a run that was killed, whose pilot still runs a job."""
    cli.lab.commands(WAITING)
    first = cli.start("--commands-file", "commands.txt", "--slurm", "--partition=gpu --gres=gpu:1 --time=5")
    cli.until_ran(1)
    first.kill()
    first.wait()
    cli.lab.gpuq("add", "--jobs-file", "jobs.jsonl", "--no-start", "--timeout", "8m", "true")
    second = cli.start("--max-nodes", "2", *SLURM)
    cli.until(lambda: len(cli.squeue()) == 2, "a pilot with more time")
    cli.lab.touch("go")
    assert second.wait(LIMIT) == 0 and cli.lab.states() == ["completed"] * 2
    assert "no pilot can run" not in second.log.read_text(encoding="utf-8")


def test_slurm_that_does_not_answer_is_reported(cli):
    env = cli.program("squeue", "#!/bin/sh\n[ -e back ] && exec /usr/bin/squeue \"$@\"\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2\nexit 1\n")
    cli.lab.commands("true")
    cli.run("--commands-file", "commands.txt", *SLURM)
    cli.lab.gpuq("add", "--jobs-file", "jobs.jsonl", "--no-start", "true")
    run = cli.start(*SLURM, env=env)
    cli.until_said(run, "cannot ask Slurm for pilots (slurm_load_jobs error: Unable to contact slurm controller); trying again")
    cli.lab.touch("back")
    assert run.wait(LIMIT) == 0 and cli.lab.states() == ["completed"] * 2


def test_job_that_is_interrupted_again_and_again_is_named(cli):
    cli.lab.commands(WAITING)
    run = cli.start("--commands-file", "commands.txt", *SLURM)
    for count in (1, 2, 3):
        cli.until_ran(count)
        cli.lab.slurm("scancel", *cli.squeue())
    cli.until_said(run, "job 1 was interrupted 3 times in a row: the time limit of its pilots (--time) may be too short")
    cli.lab.touch("go")
    assert run.wait(LIMIT) == 0 and cli.lab.states() == ["completed"]


def test_cancellation_without_a_coordinator_says_that_the_job_continues(cli):
    cli.lab.commands(WAITING)
    first = cli.start("--commands-file", "commands.txt", *SLURM)
    cli.until_ran(1)
    first.kill()
    first.wait()
    said = cli.lab.slurm("sh", "-c", "gpuq cancel 1 2>&1")
    assert "cancelled job 1" in said and "jobs that run on nodes continue until it runs again" in said
    assert cli.start(*SLURM).wait(LIMIT) in (0, 1) and cli.lab.states() == ["cancelled"]


def test_job_that_is_added_while_pilots_leave_is_run(cli):
    """The second pilot is pending in Slurm, and the end waits until it is cancelled."""
    env = cli.program("scancel", "#!/bin/sh\ntouch cancelling\nuntil [ -e cancel ]; do sleep 0.05; done\nexec /usr/bin/scancel \"$@\"\n")
    cli.lab.commands(WAITING, WAITING, "true")
    boss = cli.start("--commands-file", "commands.txt", "--slurm", "--gres=gpu:2 --time=10", "--max-nodes", "2", env=env)
    cli.until(lambda: len(cli.lab.ran()) == 2 and len(cli.squeue()) == 2, "two jobs, and a pilot that waits")
    cli.lab.touch("go")
    cli.until((cli.lab.directory / "cancelling").exists, "the end")
    cli.lab.gpuq("add", "--jobs-file", "jobs.jsonl", "echo late >> late")
    cli.lab.touch("cancel")
    assert boss.wait(LIMIT) == 0
    assert cli.lab.states() == ["completed"] * 4 and (cli.lab.directory / "late").exists()


@pytest.mark.parametrize("options, reason, advice", [
    ("--partition=nowhere", "invalid partition specified: nowhere", "name a partition that 'sinfo' lists"),
    ("--gres=nosuch:1", "Invalid generic resource (gres) specification", "name GPUs that the nodes have"),
    ("--gres=gpu:1 --no-such-option", "unrecognized option '--no-such-option'", "'sbatch --help' explains them"),
    ("--time=soon", "Invalid --time specification", "--slurm"),
    # Slurm reports these two only later, or not with certainty.
    ("--partition=short --time=10", "PartitionTimeLimit", "request less time"),
    ("--gres=gpu:99", "Requested node configuration is not available", "no node has what the options request"),
])
def test_permanent_refusal_ends_the_run_with_advice(cli, options, reason, advice):
    cli.lab.commands("echo never >> ran")
    text = cli.run("--commands-file", "commands.txt", "--slurm", options, code=2)
    (said,) = [row for row in text.splitlines() if "Slurm refuses the options of --slurm" in row]
    assert reason in said and advice in said and "no job was started" in said
    assert cli.lab.states() == ["pending"] and not cli.lab.ran()
    cli.until_idle()


def test_permanent_refusal_also_ends_a_run_with_keep(cli):
    boss = cli.start("--keep", "--jobs-file", "jobs.jsonl", "--slurm", "--partition=nowhere")
    cli.until(cli.lab.journal.exists, "the queue")
    cli.lab.gpuq("add", "--no-start", "--jobs-file", "jobs.jsonl", "true")
    assert boss.wait(LIMIT) == 2 and cli.lab.states() == ["pending"]


def test_refused_kind_does_not_stop_the_others(cli):
    cli.lab.commands("echo one >> ran", "# gpuq: num_gpus=2", "echo two >> ran")
    text = cli.run("--commands-file", "commands.txt", "--slurm", "--gres=gpu:1 --time=10", "--slurm", "--gres=gpu:2 --partition=nowhere", code=1)
    assert "--slurm '--gres=gpu:2 --partition=nowhere': Slurm refuses the options" in text and "name a partition" in text
    assert "no pilot can run 1 job: Slurm refuses the options" in text
    assert cli.lab.ran() == ["one"] and cli.lab.states() == ["completed", "pending"]


@pytest.mark.parametrize("words", [
    ["QOSMaxSubmitJobPerUserLimit", "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"],
    ["Batch job submission failed: Unable to contact slurm controller (connect failure)"]])
def test_temporary_refusal_is_retried(cli, words):
    lines = "".join(f"echo 'sbatch: error: {line}' >&2\n" for line in [row.replace("'", "") for row in words])
    env = cli.program("sbatch", f"#!/bin/sh\n[ -e tried ] && exec /usr/bin/sbatch \"$@\"\ntouch tried\n{lines}exit 1\n")
    cli.lab.commands("true")
    text = cli.run("--commands-file", "commands.txt", *SLURM, env=env)
    assert words[0].rpartition(": ")[2] in text and cli.lab.states() == ["completed"]


def test_pilots_that_a_killed_run_left_pending_are_taken_over(cli):
    blocker = cli.lab.sbatch("--wrap", "sleep 1000")
    cli.lab.until(lambda: cli.lab.batch_state(blocker) == "RUNNING", "the blocker")
    cli.lab.commands("true", "true", "true")
    words = ("--commands-file", "commands.txt", *SLURM, "--max-nodes", "2")
    first = cli.start(*words)
    cli.until(lambda: len(cli.squeue()) == 3, "two pending pilots")
    pending = sorted(cli.squeue())
    first.kill()
    first.wait()
    second = cli.start(*words)
    cli.until_said(second, "2 pilots pending in Slurm")
    second.send_signal(signal.SIGINT)
    second.wait(LIMIT)
    cli.until(lambda: cli.squeue() == [str(blocker)], "the end of the pending pilots")
    rows = cli.lab.slurm("squeue", "-h", "-t", "all", "-o", "%i %j").splitlines()
    assert sorted(number for number, name in map(str.split, rows) if name.startswith("gpuq-") and int(number) > blocker) == [number for number in pending if int(number) != blocker]


def test_add_after_a_run_that_no_pilot_joined_starts_nothing_on_the_login_node(cli):
    cli.lab.commands("true")
    cli.run("--commands-file", "commands.txt", "--slurm", "--partition=nope", code=2)
    said = cli.lab.slurm("sh", "-c", "gpuq add --num-gpus 0 -- touch here 2>&1", code=1)
    assert "the queue was last run on a cluster" in said
    assert not cli.events("start")


def test_percent_sign_in_the_path_is_not_a_pattern_for_sbatch(cli):
    place = cli.lab.directory / "50%j"
    place.mkdir(mode=0o700)
    if cli.lab.cluster.owner():
        os.chown(place, *cli.lab.cluster.owner())
    cli.lab.commands("echo done")
    cli.run("--jobs-file", str(place / "jobs.jsonl"), "--commands-file", "commands.txt", *SLURM)
    (output,) = (place / "jobs.jsonl.d").glob("pilot-*.out")
    assert output.stem.removeprefix("pilot-").isdigit()


def test_max_failures_ends_the_run(cli):
    cli.lab.commands("exit 1", "true", "true")
    cli.run("--commands-file", "commands.txt", *SLURM, "--max-failures", "1", code=1)
    assert cli.lab.states() == ["failed", "pending", "pending"]


def test_without_slurm_commands_it_says_so(cli):
    cli.lab.commands("true")
    text = cli.run("--commands-file", "commands.txt", *SLURM, code=2, env={"PATH": str(cli.lab.cluster.place / "bin")})
    assert "'sinfo' was not found" in text and "login node" in text and not cli.lab.journal.exists()


def test_kinds_of_pilots_for_jobs_with_different_needs(cli):
    cli.lab.commands("echo one >> ran", "# gpuq: num_gpus=2", "echo $CUDA_VISIBLE_DEVICES >> ran")
    text = cli.run("--commands-file", "commands.txt", "--slurm", "--gres=gpu:1 --time=10", "--slurm", "--gres=gpu:2 --time=10", "--max-nodes", "2")
    assert sorted(cli.lab.ran()) == ["0,1", "one"] and "joined with 2 GPUs" in text


def test_panel_shows_nodes_on_a_terminal(cli):
    cli.lab.commands(WAITING, WAITING, "true")
    user = cli.lab.cluster.user
    prefix = ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"] if cli.lab.cluster.identity() else []
    terminal = Terminal([*prefix, str(cli.lab.cluster.place / "bin/gpuq"), "run", "--commands-file", "commands.txt", *SLURM, "--max-nodes", "2"],
                        columns=110, cwd=cli.lab.directory, env=cli.lab.cluster.environment)
    terminal.until(lambda screen: sum(WAITING[:20] in line for line in screen.text()) >= 2, "two jobs in the panel")
    cli.lab.touch("go")
    assert terminal.wait() == 0
    text = "\n".join(terminal.screen.text())
    assert "3/3" in text or "100%" in text, text
