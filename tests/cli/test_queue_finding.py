# SPDX-License-Identifier: MIT
"""Which queue a command uses when none is named."""
import json
import os
import pathlib
import socket
import subprocess

import pytest
from lab import GPUQ, LIMIT

HOST = socket.gethostname()


class Home:
    """A user's home directory, in which gpuq is run."""

    def __init__(self, lab):
        self.path = lab.directory / "home"
        self.personal = self.path / ".local/state/gpuq" / HOST / "jobs.jsonl"
        self.environment = {**lab.environment, "HOME": str(self.path)}
        for name in ("GPUQ_JOBS_FILE", "XDG_STATE_HOME"):
            del self.environment[name]
        self.path.mkdir()

    def result(self, *words, cwd=".", **env):
        directory = self.path / cwd
        directory.mkdir(parents=True, exist_ok=True)
        return subprocess.run([GPUQ, *map(str, words)], cwd=directory, env={**self.environment, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, check=False)

    def gpuq(self, *words, cwd=".", code=0, **env):
        result = self.result(*words, cwd=cwd, **env)
        assert result.returncode == code, result
        return result

    def add(self, *words, cwd=".", **env):
        return self.gpuq("add", "--no-start", *words, cwd=cwd, **env)

    def queue(self, path):
        """Creates an empty queue there."""
        path = self.path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def commands(self, path="."):
        """The commands of the jobs that a command in that directory sees."""
        return [job["command"] for job in json.loads(self.gpuq("status", "--json", cwd=path).stdout)]


@pytest.fixture(name="home")
def make_home(lab):
    return Home(lab)


def test_add_without_a_queue_uses_the_personal_one_from_every_directory(home):
    assert home.add("true a", cwd="x").stderr == f"gpuq: added to the personal queue, '{home.personal}'\n"
    home.add("true b", cwd="y/z")
    assert home.commands() == ["true a", "true b"]
    assert home.personal.stat().st_mode & 0o777 == 0o600 and home.personal.parent.stat().st_mode & 0o777 == 0o700
    assert not (home.path / "x/jobs.jsonl").exists()
    assert home.gpuq("status").stdout.splitlines()[-1] == f"2 jobs: 2 pending; personal queue {home.personal}"


def test_jobs_of_the_personal_queue_have_their_logs_next_to_it(home):
    home.gpuq("add", "echo written; pwd", cwd="x")
    assert home.gpuq("wait", 1).returncode == 0
    job, = json.loads(home.gpuq("status", "--json").stdout)
    assert pathlib.Path(job["log_file"]).parent == home.personal.parent / "logs"
    assert home.gpuq("logs", 1).stdout == f"written\n{home.path / 'x'}\n"
    assert list((home.path / "x").iterdir()) == []


def test_settings_of_one_directory_do_not_apply_to_jobs_of_another(home):
    """The runner in the background is started in a/, but runs jobs of all directories."""
    for name in ("a", "b"):
        (home.path / name).mkdir()
    (home.path / "a/gpuq.yaml").write_text("log_access: all\nmax_failures: 1\nretries: 1\nlog_dir: logs-of-a\non_finish: echo finished >> finished\n")
    note = home.gpuq("add", "exit 3", cwd="a").stderr.splitlines()[-1]
    assert note == ("gpuq: the runner does not use these settings of './gpuq.yaml', because its queue is in another directory: log_access, max_failures;"
                    f" set them in gpuq.yaml next to '{home.personal}', or in ~/.config/gpuq/config.yaml")
    assert home.gpuq("add", "exit 4", cwd="b").stderr.count("\n") == 1
    home.gpuq("wait", 1, code=3)
    home.gpuq("wait", 2, code=4)
    first, second = json.loads(home.gpuq("status", "--json").stdout)
    assert (first["attempts"], second["attempts"]) == (2, 1)
    assert pathlib.Path(first["log_file"]).parent == home.path / "a/logs-of-a"
    assert pathlib.Path(second["log_file"]).parent == home.personal.parent / "logs"
    assert all(pathlib.Path(job["log_file"]).stat().st_mode & 0o777 == 0o600 for job in (first, second))
    assert (home.path / "a/finished").exists() and not (home.path / "b/finished").exists()


def test_runner_in_the_background_reads_the_settings_next_to_its_journal(home):
    home.queue("project/jobs.jsonl")
    (home.path / "project/gpuq.yaml").write_text("log_access: all\n")
    assert "does not use" not in home.gpuq("add", "true", cwd="project/sub").stderr
    home.gpuq("wait", 1, cwd="project")
    job, = json.loads(home.gpuq("status", "--json", cwd="project").stdout)
    assert pathlib.Path(job["log_file"]).stat().st_mode & 0o777 == 0o644


def test_state_home_has_the_personal_queue(home, tmp_path):
    home.add("true", XDG_STATE_HOME=str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere/gpuq" / HOST / "jobs.jsonl").exists()


def test_queue_of_this_directory_is_used_without_a_message(home):
    home.queue("x/jobs.jsonl")
    assert home.add("true", cwd="x").stderr == ""
    assert home.gpuq("status", cwd="x").stdout.splitlines()[-1] == "1 job: 1 pending"
    assert not home.personal.exists()


def test_queue_of_a_parent_directory_is_used_and_named(home):
    queue = home.queue("project/jobs.jsonl")
    assert home.add("true", cwd="project/a/b").stderr == f"gpuq: added to the queue of a parent directory, '{queue}'\n"
    assert home.commands("project") == ["true"]
    assert home.gpuq("status", cwd="project/a").stdout.splitlines()[-1] == f"1 job: 1 pending; queue of a parent directory {queue}"
    nearer = home.queue("project/a/jobs.jsonl")
    assert str(nearer) in home.add("true near", cwd="project/a/b").stderr


def test_home_itself_and_what_is_outside_is_not_searched(home, tmp_path):
    home.queue("jobs.jsonl")
    home.add("true", cwd="x")
    assert home.commands("x") == ["true"] and home.personal.exists()
    (tmp_path / "outside/below").mkdir(parents=True)
    (tmp_path / "outside/jobs.jsonl").touch()
    home.add("true out", cwd=tmp_path / "outside/below")
    assert home.commands("x") == ["true", "true out"]


@pytest.mark.skipif(os.geteuid() != 0, reason="creates files of another user: run it as root")
def test_queue_of_another_user_above_is_skipped_and_named(home):
    mine = home.queue("project/jobs.jsonl")
    theirs = home.queue("project/a/jobs.jsonl")
    os.chown(theirs, 12345, 12345)
    result = home.add("true", cwd="project/a/b")
    assert result.stderr == (f"gpuq: not using '{theirs}', which belongs to another user\n"
                             f"gpuq: added to the queue of a parent directory, '{mine}'\n")
    assert theirs.stat().st_size == 0
    link = home.path / "project/a/b/jobs.jsonl"
    link.symlink_to(mine)
    os.lchown(link, 12345, 12345)
    assert str(link) in home.add("true", cwd="project/a/b/c").stderr
    assert home.commands("project") == ["true", "true"]


def test_queue_above_that_others_can_replace_is_skipped_and_named(home):
    """They may have given this name to another file of the user. With --trust, the queue is used."""
    queue = home.queue("project/jobs.jsonl")
    home.add("true mine", cwd="project/a")
    (home.path / "project").chmod(0o777)
    note = (f"gpuq: not using '{queue}': directory '{queue.parent}' can be written by everybody, so other users could run commands as you; "
            f"check its content, then run chmod go-w {queue.parent}, or use --trust if you trust these users\n")
    assert home.add("true here", cwd="project/a").stderr == note + f"gpuq: added to the personal queue, '{home.personal}'\n"
    result = home.gpuq("status", "--json", cwd="project/a/b")
    assert [job["command"] for job in json.loads(result.stdout)] == ["true here"] and result.stderr == note, result
    for words, env in ((("--trust",), {}), ((), {"GPUQ_TRUST": "1"})):
        assert home.add(*words, "true trusted", cwd="project/a", **env).stderr == f"gpuq: added to the queue of a parent directory, '{queue}'\n"
        result = home.gpuq("status", "--json", *words, cwd="project/a", **env)
        assert "true mine" in [job["command"] for job in json.loads(result.stdout)] and result.stderr == "", result
    # A queue farther up is still found.
    outer = home.queue("outer/jobs.jsonl")
    (home.path / "project").rename(home.path / "outer/project")
    result = home.add("true outer", cwd="outer/project/a")
    assert result.stderr.endswith(f"gpuq: added to the queue of a parent directory, '{outer}'\n"), result
    assert home.gpuq("complete", "--", "cancel", "", cwd="outer/project/a").stderr == ""


def test_order_of_precedence(home):
    for name in ("option", "variable", "configured"):
        home.queue(f"{name}.jsonl")
    home.queue("p/jobs.jsonl")
    home.queue("p/x/jobs.jsonl")
    (home.path / "p/x/gpuq.yaml").write_text("jobs_file: ~/configured.jsonl\n")
    variable = {"GPUQ_JOBS_FILE": str(home.path / "variable.jsonl")}
    assert home.add("--jobs-file", home.path / "option.jsonl", "true", cwd="p/x", **variable).stderr == ""
    words = home.add("true", cwd="p/x", **variable).stderr
    assert words == f"gpuq: added to the queue of $GPUQ_JOBS_FILE, '{home.path}/variable.jsonl'\n"
    words = home.add("true", cwd="p/x").stderr
    assert words == f"gpuq: added to the configured queue, '{home.path}/configured.jsonl'\n"
    (home.path / "p/x/gpuq.yaml").unlink()
    home.add("true", cwd="p/x")
    (home.path / "p/x/jobs.jsonl").rename(home.path / "p/x/moved")
    home.add("true", cwd="p/x")
    (home.path / "p/jobs.jsonl").rename(home.path / "p/moved")
    home.add("true", cwd="p/x")
    for path in ("option.jsonl", "variable.jsonl", "configured.jsonl", "p/x/moved", "p/moved", home.personal):
        assert (home.path / path).read_text().count('"event":"add"') == 1, path


def test_run_with_commands_makes_a_queue_here_even_below_another(home):
    home.queue("project/jobs.jsonl")
    (home.path / "project/a").mkdir()
    (home.path / "project/a/commands.txt").write_text("true\n")
    home.gpuq("run", "--commands-file", "commands.txt", cwd="project/a")
    assert home.commands("project/a") == ["true"] and home.commands("project") == []
    assert (home.path / "project/a/jobs.jsonl").exists()


def test_run_without_commands_runs_the_personal_queue(home):
    result = home.gpuq("run", cwd="x", code=2)
    assert "nothing to run" in result.stderr
    assert not home.personal.parent.exists()
    home.add("true", cwd="x")
    result = home.gpuq("run", cwd="y")
    assert result.stderr == f"gpuq: running the personal queue '{home.personal}'\n"
    assert "Completed" in home.gpuq("status").stdout


@pytest.mark.parametrize("command", [["status"], ["why", 1], ["logs", 1], ["cancel", 1], ["prune"], ["verify"], ["report"]])
def test_commands_that_need_jobs_make_no_queue(home, command):
    result = home.gpuq(*command, cwd="x", code=2)
    assert result.stderr.startswith("gpuq: no jobs yet: "), result
    assert "gpuq add" in result.stderr
    assert not (home.path / ".local").exists() and list((home.path / "x").iterdir()) == []


def test_without_a_home_the_error_says_what_to_do(home):
    result = home.gpuq("add", "true", cwd="x", code=2, HOME="")
    assert result.stderr == "gpuq: cannot find the personal queue: HOME is not set; name a queue with --jobs-file\n"


def test_personal_queue_is_not_made_in_a_directory_that_others_can_write(home):
    (home.path / ".local").mkdir()
    (home.path / ".local").chmod(0o777)
    result = home.gpuq("add", "true", cwd="x", code=2)
    assert "personal queue" in result.stderr and "--jobs-file" in result.stderr
