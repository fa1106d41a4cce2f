# SPDX-License-Identifier: MIT
"""Another user replaces the directory of a waiting or running job of the victim. The queue is private."""
import json
import time

import pytest

import sealing
from users import GROUP, LIMIT, STICKY, WAIT_FOR, until, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users


# ---- A directory that only the victim could write -------------------------------------------


@pytest.mark.parametrize("plan", ["mkdir proj", "ln -s /tmp proj", "mv open proj", "mkdir new; ln -s new proj"])
def test_waiting_job_does_not_enter_a_directory_that_another_user_put_in_place(machine, owner, other, plan):
    """The queue is private; the project folder is in a directory of the group, next to a group-writable one."""
    shared = machine.directory(GROUP)
    owner.sh(f"mkdir open; chgrp {machine.group} open; chmod 2775 open", shared)
    place = owner.home / f"queue-{shared.name}"  # keepers of an earlier queue may still be there
    owner.sh(f"mkdir '{place}'; rm -f where1 where2", owner.home)
    owner.sh("mkdir proj; echo 'echo mine' > proj/run.sh", shared)
    queue = ("--jobs-file", place / "jobs.jsonl")
    for number in (1, 2):
        assert owner.gpuq("add", *queue, "--no-start", "--on-finish", f"pwd > '{owner.home}/where{number}'", "sh run.sh",
                          cwd=shared / "proj").returncode == 0
    other.sh(f"mv proj proj.x; {plan}; [ -L proj ] || echo 'echo EVIL' > proj/run.sh", shared)
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 1
    status = owner.gpuq("status", *queue, cwd=owner.home).stdout
    assert f"cannot enter directory '{shared}/proj': others can write to it, or it was replaced since the job was added; look at what is there, then add the job again, or remove their write permission (chmod go-w) and retry it" in status
    assert "EVIL" not in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout
    assert (owner.home / "where1").read_text() == "/\n"
    other.sh("mv proj proj.y; mv proj.x proj", shared)
    assert owner.gpuq("retry", *queue, "1", cwd=owner.home).returncode == 0
    assert owner.gpuq("wait", *queue, "1", cwd=owner.home).returncode == 0
    assert "mine" in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout


def add_in_project(owner, shared, place):
    """A waiting job in shared/proj, and next to it a directory of the owner with another user's files."""
    owner.sh(f"mkdir -p '{place}'", owner.home)
    owner.sh("mkdir proj clone; echo 'echo mine' > proj/run.sh; echo 'echo EVIL' > clone/run.sh", shared)
    queue = ("--jobs-file", place / "jobs.jsonl")
    hook = f"pwd > '{place}/where'"
    assert owner.gpuq("add", *queue, "--no-start", "--on-finish", hook, "sh run.sh", cwd=shared / "proj").returncode == 0
    return queue


def test_waiting_job_does_not_enter_another_directory_of_its_owner(machine, owner, other):
    """A clone that was never run gets the name of the project."""
    shared = machine.directory(GROUP)
    place = owner.home / f"queue-{shared.name}"
    queue = add_in_project(owner, shared, place)
    other.sh("mv proj proj.x; mv clone proj", shared)
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 1
    status = owner.gpuq("status", *queue, cwd=owner.home).stdout
    assert f"cannot enter directory '{shared}/proj': others can write to it, or it was replaced" in status
    assert "EVIL" not in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout
    assert (place / "where").read_text() == "/\n"
    other.sh("mv proj clone; mv proj.x proj", shared)
    # The file system got another device number when it was remounted.
    events = [json.loads(line) for line in (place / "jobs.jsonl").read_text().splitlines()]
    for event in events:
        if event["event"] == "add":
            event["cwd_dev"] += 1
    (place / "jobs.jsonl").write_bytes(sealing.again(events))
    assert owner.gpuq("retry", *queue, "1", cwd=owner.home).returncode == 0
    assert owner.gpuq("wait", *queue, "1", cwd=owner.home).returncode == 0
    assert "mine" in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout


def test_owner_can_exchange_the_directory_of_a_job_where_nobody_else_can(machine, owner):
    shared = machine.directory(STICKY)
    queue = add_in_project(owner, shared, owner.home / f"queue-{shared.name}")
    owner.sh("mv proj proj.x; mv clone proj", shared)
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 0
    assert "EVIL" in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout


def test_job_runs_in_a_directory_that_always_was_another_users(machine, owner, other):
    shared = machine.directory(STICKY)
    other.sh("mkdir -m 755 theirs; echo 'echo fine' > theirs/run.sh", shared)
    queue = ("--jobs-file", owner.home / "theirs.jsonl")
    assert owner.gpuq("add", *queue, "--no-start", "sh run.sh", cwd=shared / "theirs").returncode == 0
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 0


# ---- A directory of a group -----------------------------------------------------------------

REPLACED = "another user may have replaced it since the job was added"


@pytest.mark.parametrize("whose", ["of the other user", "of the owner, for the group"])
def test_job_of_a_removed_group_directory_does_not_start_in_a_new_one(machine, owner, other, whose):
    """In a sticky directory, everybody can create the name again."""
    shared = machine.directory(STICKY)
    queue = ("--jobs-file", owner.home / f"removed-{shared.name}.jsonl")
    owner.sh(f"mkdir -m 2775 proj; chgrp {machine.group} proj; chmod 2775 proj; echo 'echo mine' > proj/run.sh", shared)
    assert owner.gpuq("add", *queue, "--no-start", "sh run.sh", cwd=shared / "proj").returncode == 0
    owner.sh("mv proj gone", shared)  # keeps the number of the inode in use
    (owner if whose.startswith("of the owner") else other).sh(f"mkdir proj; echo 'echo EVIL' > proj/run.sh; chgrp {machine.group} proj; chmod 2775 proj", shared)
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 1
    assert REPLACED in owner.gpuq("status", *queue, cwd=owner.home).stdout
    assert "EVIL" not in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout


def test_job_of_a_removed_directory_does_not_start_where_a_moved_link_of_its_owner_leads(machine, owner, other):
    """Other users can rename a link of the owner, as any file in a directory that they can write to."""
    sticky, group = machine.directory(STICKY), machine.directory(GROUP)
    queue = ("--jobs-file", owner.home / f"moved-{sticky.name}.jsonl")
    owner.sh("rm -rf thesis; mkdir thesis; touch thesis/text", owner.home)
    owner.sh("mkdir run", sticky)
    assert owner.gpuq("add", *queue, "--no-start", "rm -f text", cwd=sticky / "run").returncode == 0
    owner.sh("rm -r run", sticky)
    owner.sh(f"ln -s '{owner.home}/thesis' thesis", group)
    other.sh(f"mv '{group}/thesis' run", sticky)
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 1
    assert (owner.home / "thesis/text").exists()


def test_new_directory_with_the_number_of_a_removed_one_is_another_directory(machine, owner, other):
    shared = machine.directory(STICKY)
    path = owner.home / f"reused-{shared.name}.jsonl"
    queue = ("--jobs-file", path)
    owner.sh(f"mkdir proj; chgrp {machine.group} proj; chmod 2775 proj", shared)
    assert owner.gpuq("add", *queue, "--no-start", "sh run.sh", cwd=shared / "proj").returncode == 0
    owner.sh("mv proj gone", shared)
    until(lambda: shared.stat().st_mtime + 2 < time.time(), "the clock")
    other.sh("mkdir proj; echo 'echo EVIL' > proj/run.sh", shared)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        if event["event"] == "add":
            event["cwd_ino"] = (shared / "proj").stat().st_ino
    path.write_bytes(sealing.again(events))
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 1
    assert "EVIL" not in owner.gpuq("logs", *queue, "1", cwd=owner.home).stdout


class GroupProject:
    """shared/proj, which the group can write and rename, and a private directory of the victim with a file of the same name."""

    def __init__(self, machine, owner):
        self.owner = owner
        self.shared = machine.directory(GROUP)
        self.queue_dir = owner.home / f"queue-{self.shared.name}"
        self.private = owner.home / f"private-{self.shared.name}"
        self.where = self.queue_dir / "where"
        self.queue = ("--jobs-file", self.queue_dir / "jobs.jsonl")
        owner.sh(f"mkdir -m 700 '{self.private}' '{self.queue_dir}'; touch '{self.private}/state'", owner.home)
        owner.sh(f"for d in proj clone; do mkdir -m 2775 $d; chgrp {machine.group} $d; touch $d/state; done; ln -s '{self.private}' link", self.shared)

    def gpuq(self, *words, cwd=None):
        return self.owner.gpuq(words[0], *self.queue, *words[1:], cwd=cwd or self.owner.home)

    def add(self, *words):
        assert self.gpuq("add", "--no-start", *words, cwd=self.shared / "proj").returncode == 0

    def plan(self, text):
        """Commands with which the other user replaces the directory."""
        return f"mv proj proj.old; {text.format(private=self.private)}"

    def run(self):
        return self.gpuq("run").returncode

    def is_refused(self, number=1):
        return f"cannot enter directory '{self.shared}/proj': {REPLACED}" in self.gpuq("info", str(number)).stdout

    def is_untouched(self):
        return (self.private / "state").exists() and (self.shared / "clone/state").exists() | (self.shared / "proj/state").exists()


@pytest.fixture(name="project")
def make_project(machine, owner):
    return GroupProject(machine, owner)


PLANS = ["ln -s '{private}' proj", "mv link proj", "mv clone proj", "mkdir proj", "ln -s clone proj"]


@pytest.mark.parametrize("plan", PLANS)
def test_waiting_job_in_a_directory_of_a_group_enters_no_other_directory(project, other, plan):
    project.add("--on-finish", f"pwd -P > '{project.where}'; rm -f state", "rm -f state")
    other.sh(project.plan(plan), project.shared)
    assert project.run() == 1
    assert project.is_untouched() and project.is_refused()
    assert project.where.read_text() == "/\n"
    other.sh("mv proj proj.y; mv proj.old proj", project.shared)
    assert project.gpuq("retry", "1").returncode == 0
    assert project.gpuq("wait", "1").returncode == 0
    assert not (project.shared / "proj/state").exists()


@pytest.mark.parametrize("words", [("--param", "n=1,2", "--", "rm -f state; : {n}"), ("--array", "1-2", "rm -f state")])
def test_every_job_of_a_sweep_is_checked(project, other, words):
    project.add(*words)
    other.sh(project.plan(PLANS[0]), project.shared)
    assert project.run() == 1
    assert project.is_untouched() and project.is_refused(1) and project.is_refused(2)


def test_edited_job_is_checked(project, other):
    project.add("true")
    assert project.gpuq("edit", "--no-start", "--command", "rm -f state", "1").returncode == 0
    other.sh(project.plan(PLANS[0]), project.shared)
    assert project.run() == 1
    assert project.is_untouched() and project.is_refused()


def test_line_of_a_commands_file_is_checked(project, other):
    began, go = project.queue_dir / "began", project.queue_dir / "go"
    lines = project.queue_dir / "lines"
    lines.write_text(f"# gpuq: name=first\ntouch '{began}'; {WAIT_FOR.format(go)}\n# gpuq: after=first\nrm -f state\n")
    runner = project.owner.start("gpuq", "run", *project.queue, "--commands-file", lines, cwd=project.shared / "proj")
    until(began.exists, "the first job")
    other.sh(project.plan(PLANS[0]), project.shared)
    go.touch()
    assert runner.wait(LIMIT) == 1
    assert project.is_untouched() and project.is_refused(2)


def test_second_job_of_a_keeper_does_not_enter_the_same_directory_through_a_link_of_another_user(project, other):
    """The keeper knows the directory from the first job."""
    began, go = project.queue_dir / "began", project.queue_dir / "go"
    project.add(f"touch '{began}'; {WAIT_FOR.format(go)}")
    project.add("rm -f state")
    runner = project.owner.start("gpuq", "run", "--gpus", "sim:1", *project.queue, cwd=project.owner.home)
    until(began.exists, "the first job")
    other.sh("mv proj proj.old; ln -s proj.old proj", project.shared)
    go.touch()
    assert runner.wait(LIMIT) == 1
    assert project.is_refused(2) and (project.shared / "proj.old/state").exists()


def test_retry_of_a_job_enters_no_other_directory(project, other):
    began, go = project.queue_dir / "began", project.queue_dir / "go"
    project.add("--retries", "1", f"touch '{began}'; {WAIT_FOR.format(go)}; rm -f state; exit 1")
    runner = project.owner.start("gpuq", "run", *project.queue, cwd=project.owner.home)
    until(began.exists, "the first attempt")
    other.sh(project.plan(PLANS[0]), project.shared)
    go.touch()
    assert runner.wait(LIMIT) == 1
    assert project.is_untouched() and project.is_refused()
    assert not (project.shared / "proj.old/state").exists()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("command", ["add", "exec"])
def test_hook_runs_in_the_directory_in_which_the_job_began(project, other, command, plan):
    began, go = project.queue_dir / "began", project.queue_dir / "go"
    hook, waiting = f"pwd -P > '{project.where}.new'; rm -f state; mv '{project.where}.new' '{project.where}'", f"touch '{began}'; {WAIT_FOR.format(go)}"
    runner = project.owner.start("gpuq", "run", "--keep", "--on-finish", hook, *project.queue, cwd=project.owner.home)
    until((project.queue_dir / "jobs.jsonl.d/schedule").exists, "the runner")  # otherwise exec starts another one
    if command == "add":
        project.add(waiting)
    else:
        project.owner.start("gpuq", "exec", *project.queue, "--", "sh", "-c", waiting, cwd=project.shared / "proj")
    until(began.exists, "the job")
    other.sh(project.plan(plan), project.shared)
    go.touch()
    until(project.where.exists, "the hook")
    assert project.where.read_text() == f"{project.shared}/proj.old\n"
    assert project.is_untouched() and not (project.shared / "proj.old/state").exists()
    runner.terminate()


def test_hook_of_a_cancelled_job_enters_no_other_directory(project, other):
    """The job was never started, so no keeper has its directory open."""
    project.add("--on-finish", f"pwd -P > '{project.where}'; rm -f state", "true")
    other.sh(project.plan(PLANS[0]), project.shared)
    assert project.gpuq("cancel", "1").returncode == 0
    project.run()
    assert project.where.read_text() == "/\n" and project.is_untouched()


def test_hook_runs_although_a_file_has_replaced_the_directory(project, other):
    project.add("--on-finish", f"pwd -P > '{project.where}'", "true")
    other.sh(project.plan("touch proj"), project.shared)
    assert project.run() == 1
    assert project.where.read_text() == "/\n"


# ---- Directories that are not an attack -----------------------------------------------------


def test_directory_of_a_group_is_the_same_after_a_remount(project):
    """The journal of a job of an older version has neither number."""
    for _ in range(2):
        project.add("rm state; touch state")
    journal = project.queue[1]
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    first, second = (event for event in events if event["event"] == "add")
    assert "cwd_own" not in first
    first["cwd_dev"] += 1
    del second["cwd_dev"], second["cwd_ino"]
    journal.write_bytes(sealing.again(events))
    assert project.run() == 0


@pytest.mark.parametrize("plan", ["cp -r proj copy; rm -r proj; mv copy proj", "mv proj elsewhere; ln -s elsewhere proj"])
def test_owner_can_replace_a_directory_of_a_group_where_nobody_else_can(machine, owner, plan):
    place = owner.home / f"own-{machine.directory(0o755).name}"
    queue = ("--jobs-file", place / "jobs.jsonl")
    owner.sh(f"mkdir '{place}'; cd '{place}'; mkdir -m 2775 proj; chgrp {machine.group} proj; touch proj/state", owner.home)
    assert owner.gpuq("add", *queue, "--no-start", "--on-finish", "pwd -P > where", "rm state", cwd=place / "proj").returncode == 0
    owner.sh(plan, place)
    assert owner.gpuq("run", *queue, cwd=owner.home).returncode == 0
    assert (place / "proj/where").read_text().startswith(str(place))


def test_owner_can_move_a_directory_of_a_group_and_link_to_it(project, owner):
    """It is still the same directory."""
    project.add("rm state")
    owner.sh("mkdir new; mv proj new/proj; ln -s new/proj proj", project.shared)
    assert project.run() == 0
