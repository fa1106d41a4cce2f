# SPDX-License-Identifier: MIT
"""Honest users in directories that a group shares: each refusal names a way out, and following it works."""
import json
import os
import re
import shutil
import subprocess

import pytest

from users import GROUP, MAPPER, plant, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

STICKY_GROUP = 0o3775


def follow_advice(user, result, cwd):
    """Runs the command that the message recommends."""
    advice = re.search(r"\brun ((chmod|setfacl) [^,;]*?)( to exclude| and keep|, |$)", result.stderr)
    assert advice, result.stderr
    user.sh(advice[1], cwd)
    return advice[1]


def own(owner, directory, name="mine"):
    owner.sh(f"mkdir {name}", directory)
    return directory / name


def use(owner, cwd, *words, umask=0o022):
    return owner.run("gpuq", *words, cwd=cwd, env={"GPUQ_JOBS_FILE": ""}, umask=umask)


def mapper(owner):
    plant(owner, owner.home / "mapper.py", MAPPER)
    return f"python3 {owner.home}/mapper.py"


def test_folder_of_a_queue_is_repaired_and_not_removed(machine, owner):
    """Its environments and scripts belong to pending jobs."""
    project = own(owner, machine.directory(STICKY_GROUP))
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=project).returncode == 0
    owner.sh("chmod -R g+rwX jobs.jsonl.d", project)
    result = owner.gpuq("run", cwd=project)
    assert result.returncode == 2 and "remove" not in result.stderr, result
    assert follow_advice(owner, result, project) == f"chmod -R go-w {project}/jobs.jsonl.d"
    assert owner.gpuq("run", cwd=project).returncode == 0
    assert (project / "ran").exists()


def follow_chown(owner, result, project, failure):
    advice = f"chown -R {owner.uid} {project}/jobs.jsonl.d"
    assert result.returncode != 0 and result.stderr.endswith(f"{failure}; it belongs to root: run sudo {advice}\n"), result
    subprocess.run(advice.split(), check=True)


@pytest.mark.parametrize("part", ["scripts", "keepers", "env", "append.lock", "runner.lock", "home", "."])
def test_part_of_the_folder_of_a_queue_that_belongs_to_root_is_reported(machine, owner, part):
    """gpuq was run with sudo."""
    project = own(owner, machine.project(owner))
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=project).returncode == 0
    owner.sh("mkdir -p jobs.jsonl.d/scripts; touch jobs.jsonl.d/runner.lock", project)
    place = project / "jobs.jsonl.d" / part
    os.chown(place, 0, 0)
    place.chmod(0o700)
    result = owner.gpuq("run", cwd=project)
    follow_chown(owner, result, project, f"'{place}': Permission denied")
    assert owner.gpuq("run", cwd=project).returncode == 0
    assert (project / "ran").exists()


def test_file_of_root_in_a_copied_queue_is_reported(machine, owner):
    project = own(owner, machine.project(owner))
    assert owner.gpuq("add", "--no-start", "true", cwd=project).returncode == 0
    owner.sh("echo 'inode 1;' > jobs.jsonl.d/home; touch jobs.jsonl.d/runner.log", project)
    os.chown(project / "jobs.jsonl.d/runner.log", 0, 0)
    result = owner.gpuq("run", "--trust", cwd=project)
    follow_chown(owner, result, project, f"'{project}/jobs.jsonl.d/runner.log': Operation not permitted")
    assert owner.gpuq("run", "--trust", cwd=project).returncode == 0


@pytest.mark.skipif(not shutil.which("setfacl"), reason="needs setfacl")
def test_access_list_of_the_folder_of_a_queue(machine, owner, other):
    project = own(owner, machine.directory(STICKY_GROUP))
    assert owner.gpuq("add", "--no-start", "touch ran", cwd=project).returncode == 0
    owner.sh(f"setfacl -R -m u:{other.name}:rwX -d -m u:{other.name}:rwX jobs.jsonl.d", project)
    result = owner.gpuq("run", cwd=project)
    assert result.returncode == 2, result
    follow_advice(owner, result, project)
    assert owner.gpuq("run", cwd=project).returncode == 0


def test_one_chmod_repairs_a_project_of_umask_002(machine, owner):
    project = machine.directory(STICKY_GROUP) / "mine"
    result = owner.run("sh", "-ec", f"mkdir {project}; cd {project}; echo 'touch ran' > commands.txt; echo 'gpus: sim:1' > gpuq.yaml",
                       cwd="/", umask=0o002)
    assert result.returncode == 0 and (project / "commands.txt").stat().st_mode & 0o020, result
    for name in ("gpuq.yaml", "commands.txt"):
        result = use(owner, project, "run")
        assert result.returncode == 2 and f"{name}': it can be written by its group" in result.stderr, result
        assert f"to exclude group '{machine.group}'" in result.stderr, result
        follow_advice(owner, result, project)
    assert not project.stat().st_mode & 0o020, "the directory was part of the first advice"
    assert use(owner, project, "run").returncode == 0
    assert (project / "ran").exists()


def test_own_directory_in_a_sticky_directory_of_a_group_needs_no_option(machine, owner):
    project = own(owner, machine.directory(STICKY_GROUP))
    owner.sh("echo 'touch ran' > commands.txt; echo 'gpus: sim:1' > gpuq.yaml; mkdir in; echo x > in/a; echo 1 > items", project)
    assert use(owner, project, "run").returncode == 0
    assert (project / "ran").exists()
    assert use(owner, project, "add", "--no-start", "true").returncode == 0
    for words in (("status",), ("cancel", "2"), ("wait", "1"), ("launch", "--input-dir", "in", "--output-dir", "out", "--", "cat", "{file}"),
                  ("map", "--input", "items", "--output", "out.jsonl", "--worker-command", mapper(owner))):
        result = use(owner, project, *words)
        assert result.returncode == 0, (words, result)
    found = json.loads(use(owner, project, "doctor", "--json").stdout)["findings"]
    assert [f["level"] for f in found if f["name"] in ("this directory", "trust")] == ["ok", "ok"], found


def test_directory_of_root_without_the_sticky_bit(machine, owner):
    shared = machine.directory(GROUP)
    project = own(owner, shared)
    owner.sh("echo 'touch ran' > commands.txt", project)
    result = use(owner, project, "run")
    reason = f"directory '{shared}' can be written by group '{machine.group}'"
    advice = f"ask the administrator to run chmod +t {shared}, or "
    assert result.returncode == 2 and f"{reason}, so other users could run commands as you; {advice}name it with --commands-file" in result.stderr, result
    result = use(owner, project, "add", "--jobs-file", "jobs.jsonl", "true")
    assert result.returncode == 2 and reason in result.stderr and f"{advice}use --jobs-file" in result.stderr, result
    finding = doctor_finding(owner, project, "this directory")
    assert finding["level"] == "note" and reason in finding["words"] and finding["advice"].startswith(advice), finding
    finding = doctor_finding(owner, project, "trust", "--jobs-file", "jobs.jsonl")
    assert finding["level"] == "problem" and advice in finding["words"], finding
    os.chmod(shared, STICKY_GROUP)
    assert use(owner, project, "run").returncode == 0
    assert (project / "ran").exists()


def test_named_commands_run_in_the_personal_queue_if_others_can_replace_a_queue_here(machine, owner):
    """Like jobs of gpuq add. The message of gpuq run without --commands-file recommends this option."""
    shared = machine.directory(GROUP)
    project = own(owner, shared)
    owner.sh("echo 'pwd > ran' > commands.txt", project)
    result = use(owner, project, "run", "--commands-file", "commands.txt")
    personal = owner.home / ".local/state/gpuq" / os.uname().nodename / "jobs.jsonl"
    assert result.returncode == 0, result
    assert (f"gpuq: using the personal queue, '{personal}', because other users can replace a queue in this directory: "
            f"directory '{shared}' can be written by group '{machine.group}'\n") in result.stderr, result
    assert (project / "ran").read_text() == f"{project}\n"
    assert sorted(p.name for p in project.iterdir()) == ["commands.txt", "ran"]
    assert "pwd > ran" in use(owner, project, "status").stdout
    assert use(owner, project, "run", "--trust").returncode == 0
    assert (project / "jobs.jsonl").exists()


SHOWS = [("status",), ("status", "--json"), ("info", "1"), ("logs", "1"), ("why", "1"), ("report", "-o", "-"), ("verify",), ("config",), ("wait", "1")]
CHANGES = [("add", "--no-start", "true"), ("run",), ("cancel", "1"), ("hold", "1"), ("retry", "1"), ("pause",), ("prune",), ("verify", "--repair"), ("exec", "true")]


@pytest.mark.parametrize("plan", ["echo 'on_finish: touch stolen' > gpuq.yaml", "touch gpuq.yaml; chmod 600 gpuq.yaml", "mkdir gpuq.yaml", "mkfifo gpuq.yaml"])
def test_refused_configuration_stops_only_commands_that_run_or_change_something(machine, owner, other, plan):
    shared = machine.directory(STICKY_GROUP)
    queue = own(owner, machine.directory(STICKY_GROUP)) / "jobs.jsonl"
    assert owner.gpuq("add", "--jobs-file", queue, "true", cwd=queue.parent).returncode == 0
    assert owner.gpuq("wait", "--jobs-file", queue, "1", cwd=queue.parent).returncode == 0
    other.sh(plan, shared)
    note = "gpuq: not using './gpuq.yaml', which other users could have written; name it with --config to use it\n"
    for words in SHOWS:
        result = owner.gpuq(words[0], "--jobs-file", queue, *words[1:], cwd=shared)
        assert result.returncode == 0 and result.stderr == note, (words, result)
    for words in CHANGES:
        result = owner.gpuq(words[0], "--jobs-file", queue, *words[1:], cwd=shared)
        assert result.returncode == (125 if words[0] == "exec" else 2), (words, result)
        assert "refusing to use './gpuq.yaml': " in result.stderr and "; name a file with --config (/dev/null for no settings), or use --trust" in result.stderr, result
    assert owner.gpuq("hold", "--config", "/dev/null", "--jobs-file", queue, "1", cwd=shared).returncode != 2
    assert owner.gpuq("add", "--config", "/dev/null", "--no-start", "--jobs-file", queue, "true", cwd=shared).returncode == 0


def test_ignored_configuration_is_replaced_by_the_personal_one(machine, owner, other):
    shared = machine.directory(STICKY_GROUP)
    other.sh("echo 'retries: 9' > gpuq.yaml", shared)
    owner.sh("mkdir -p config/gpuq; echo 'retries: 3' > config/gpuq/config.yaml", owner.home)
    env = {"XDG_CONFIG_HOME": str(owner.home / "config")}
    assert re.search(r"(?m)^retries: 3 ", owner.gpuq("config", cwd=shared, env=env).stdout)
    (owner.home / "config/gpuq/config.yaml").chmod(0o666)
    result = owner.gpuq("config", cwd=shared, env=env)
    assert re.search(r"(?m)^retries: 0 ", result.stdout) and result.stderr.count("not using") == 2, result


def test_wait_does_not_choose_another_queue_than_a_refused_configuration(machine, owner, other):
    shared = machine.directory(STICKY_GROUP)
    other.sh("echo 'jobs_file: x.jsonl' > gpuq.yaml", shared)
    result = use(owner, shared, "wait", "1")
    assert result.returncode == 125 and "refusing to use './gpuq.yaml'" in result.stderr, result


def test_sticky_directory_itself_cannot_hold_a_queue(machine, owner):
    shared = machine.directory(STICKY_GROUP)
    result = use(owner, shared, "add", "--jobs-file", "jobs.jsonl", "true")
    assert result.returncode == 2 and f"; use a directory of your own in {shared}, or use --jobs-file" in result.stderr, result


def test_directory_of_another_user_has_no_remedy(machine, owner, other):
    shared = machine.project(other)
    other.sh("chmod 2775 .", shared)
    result = use(owner, own(owner, shared), "add", "--jobs-file", "jobs.jsonl", "true")
    assert result.returncode == 2 and f"belongs to user '{other.name}', so other users could run commands as you; use --jobs-file" in result.stderr, result


def doctor_finding(owner, cwd, name, *words):
    found = json.loads(use(owner, cwd, "doctor", "--json", *words).stdout)["findings"]
    return next(f for f in found if f["name"] == name)


def test_group_writable_home_is_named_with_its_chmod(machine, owner):
    shutil.chown(owner.home, owner.uid, machine.group)
    owner.home.chmod(0o770)
    try:
        result = use(owner, owner.home, "add", "true")
        assert result.returncode == 2 and f"'{owner.home}' can be written by its group" in result.stderr, result
        finding = doctor_finding(owner, owner.home, "state")
        assert finding["level"] == "problem" and finding["advice"].startswith(f"check its content, then run chmod g-w ~ to exclude group '{machine.group}', or "), finding
        assert follow_advice(owner, result, "/") == f"chmod g-w {owner.home}"
        assert use(owner, owner.home, "add", "--no-start", "true").returncode == 0
    finally:
        shutil.chown(owner.home, owner.uid, owner.gid)
        owner.home.chmod(0o700)


def test_output_of_a_launch_and_of_a_map(machine, owner):
    shared = machine.directory(GROUP)
    project = own(owner, machine.directory(STICKY_GROUP))
    owner.sh("mkdir in; echo x > in/a; mkdir -m 775 out", project)
    shutil.chown(project / "out", owner.uid, machine.group)
    advice = f"ask the administrator to run chmod +t {shared}, or choose another"
    for words in (("launch", "--input-dir", "in", "--output-dir", shared / "out", "--", "cat", "{file}"),
                  ("map", "--input", "in/a", "--output", shared / "out.jsonl", "--worker-command", mapper(owner))):
        result = use(owner, project, *words)
        assert result.returncode == 2 and f"'{shared}' can be written by its group" in result.stderr and advice in result.stderr, result
    launch = ("launch", "--input-dir", "in", "--output-dir", "out", "--", "cat", "{file}")
    follow_advice(owner, use(owner, project, *launch), project)
    assert use(owner, project, *launch).returncode == 0


def test_report_without_the_samples_of_another_user(machine, owner, other):
    project = machine.project(other)
    assert other.gpuq("run", "--commands-file", "/dev/null", cwd=project).returncode == 0
    assert other.gpuq("add", "--no-start", "true", cwd=project).returncode == 0
    other.sh("chmod a+r jobs.jsonl", project)
    result = owner.gpuq("report", "--jobs-file", project / "jobs.jsonl", "-o", "r.html", cwd=owner.home)
    assert result.returncode == 0, result
    assert f"gpuq: samples of the GPUs are missing: '{project}/jobs.jsonl.d' cannot be read: Permission denied\n" in result.stderr, result
    assert (owner.home / "r.html").stat().st_size > 0


def test_log_folder_that_keeps_its_mode_is_mentioned(machine, owner, other):
    project = own(owner, machine.directory(STICKY_GROUP))
    assert owner.gpuq("add", "echo one", cwd=project).returncode == 0
    assert owner.gpuq("wait", "1", cwd=project).returncode == 0
    for words in (("run", "--log-access", "all", "--commands-file", "/dev/null"), ("add", "--no-start", "--config", "access.yaml", "echo two")):
        owner.sh("chmod 700 logs; echo 'log_access: all' > access.yaml", project)
        result = owner.gpuq(*words, cwd=project)
        advice = re.search(r"log_access has no effect, because others cannot open the log folder, which keeps its mode: run (chmod .*)\n", result.stderr)
        assert result.returncode == 0 and advice, result
        owner.sh(advice[1], project)
        assert "log_access" not in owner.gpuq(*words, cwd=project).stderr


def test_no_chmod_is_advised_for_a_log_folder_that_others_can_replace(machine, owner):
    """Another user could put a link to a private directory there before the command runs."""
    project = own(owner, machine.directory(GROUP))
    owner.sh("mkdir -m 700 logs", project)
    result = owner.gpuq("run", "--log-dir", project / "logs", "--log-access", "all", "--commands-file", "/dev/null", cwd=owner.home)
    assert result.returncode == 0 and "log_access" not in result.stderr, result


def test_output_of_a_map_from_a_shared_input_is_private_with_a_warning(machine, owner):
    shared = machine.directory(GROUP)
    owner.sh("echo 1 > items", shared)
    words = ("map", "--input", shared / "items", "--output", "shared.jsonl", "--worker-command", mapper(owner))
    result = use(owner, owner.home, *words)
    warning = (f"created 'shared.jsonl' with mode 0600, because other users can choose what input '{shared}/items' contains; "
               "to let others read it: chmod 644 'shared.jsonl'\n")
    assert result.returncode == 0 and warning in result.stderr, result
    assert "0600" not in use(owner, owner.home, *words).stderr


def test_wait_names_the_option_for_the_queue_of_another_user(machine, owner, other):
    project = machine.project(other)
    assert other.gpuq("add", "true", cwd=project).returncode == 0
    assert other.gpuq("wait", "1", cwd=project).returncode == 0
    other.sh("chmod a+r jobs.jsonl", project)
    env = {"GPUQ_JOBS_FILE": str(project / "jobs.jsonl")}
    result = owner.gpuq("wait", "1", cwd=owner.home, env=env)
    assert result.returncode == 125 and "; name it with --jobs-file to wait for its jobs, or use --trust" in result.stderr, result
    assert owner.gpuq("wait", "--jobs-file", env["GPUQ_JOBS_FILE"], "1", cwd=owner.home).returncode == 0


def test_root_in_the_directory_of_a_user(machine, owner):
    """As in a container that mounts the directory of a user."""
    project = machine.project(owner)
    owner.sh("echo true > commands.txt", project)
    env = {**os.environ, "GPUQ_GPUS": "sim:1", "GPUQ_JOBS_FILE": ""}
    result = subprocess.run([machine.place / "bin/gpuq", "run"], cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2 and f"; run this as user '{owner.name}', or name it" in result.stderr, result
