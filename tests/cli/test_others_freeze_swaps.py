# SPDX-License-Identifier: MIT
"""Another user replaces the directory of a frozen job while git runs: it is in an ignored folder of a group."""
import json
import shutil

import pytest

from freeze_lab import COMMIT, freeze, queue, wrap_git
from users import GROUP, LIMIT, WAIT_FOR, plant, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = [needs_users, pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")]

REPLACED = "is no longer the current directory"
NOT_FROZEN = "is not part of the frozen tree, because git ignores it or has no file in it"


class Project:
    """A private repository with the folder `results` of the group, and in it `exp1`, which only the owner can write."""

    def __init__(self, machine, owner, other):
        self.owner, self.other = owner, other
        self.path = machine.project(owner)
        self.results = self.path / "results"
        self.signs = machine.project(owner)  # for files that show how far the owner is
        self.private = owner.home / f"private-{self.path.name}"
        owner.sh(f"git init -q .; echo results/ > .gitignore; mkdir code; echo x | tee code/file > file; git add -A; {COMMIT}; mkdir results; "
                 f"chgrp {machine.group} results; chmod {GROUP:o} results; mkdir -m 755 results/exp1 results/clone; "
                 f"mkdir -m 700 '{self.private}'; ln -s '{self.private}' results/link; cp -r results/clone results/open; chgrp {machine.group} results/open; "
                 f"chmod {GROUP:o} results/open", self.path)
        for path, word in ((self.results / "exp1", "mine"), (self.results / "clone", "EVIL"), (self.private, "EVIL"), (self.results / "open", "EVIL")):
            owner.sh(f"echo 'echo {word}' > '{path}/run.sh'", "/")
        other.sh("mkdir theirs; echo 'echo EVIL' > theirs/run.sh", self.results)

    def during(self, moment, attack):
        """Environment in which the other user runs `attack` in results after the first git command that contains `moment`."""
        begun, done = self.signs / "begun", self.results / "done"
        self.other.start("sh", "-ec", f"{WAIT_FOR.format(begun)}; {attack}; touch '{done}'", cwd=self.results)
        return wrap_git(self.owner, "\"$REAL\" \"$@\"; code=$?\n"
                        f"case $* in *{moment}*) touch '{begun}'; {WAIT_FOR.format(done)};; esac; exit $code")

    def add(self, directory, env=None, *words):
        return self.owner.gpuq("add", "--freeze", "--no-start", *words, "sh ./run.sh", cwd=directory, env={**queue(self.owner), **(env or {})})

    def gpuq(self, *words):
        return self.owner.gpuq(*words, cwd="/", env={"GPUQ_JOBS_FILE": str(self.owner.home / "jobs.jsonl")})

    def jobs(self):
        path = self.owner.home / "jobs.jsonl"
        events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [event for event in events if event["event"] == "add"]

    def trees(self):
        return [path for path in (self.owner.home / "jobs.jsonl.d").glob("trees/*") if path.is_dir()]


@pytest.fixture(name="project")
def make_project(machine, owner, other):
    return Project(machine, owner, other)


PUT = {"directory of the other user": "mv exp1 old; mv theirs exp1", "directory of the owner": "mv exp1 old; mv clone exp1",
       "directory of the group": "mv exp1 old; mv open exp1", "link of the other user": "mv exp1 old; ln -s clone exp1",
       "link of the owner": "mv exp1 old; mv link exp1", "nothing": "mv exp1 old"}


@pytest.mark.parametrize("plan", PUT.values(), ids=PUT.keys())
def test_job_is_not_added_for_a_directory_that_another_user_put_in_place(project, plan):
    result = project.add(project.results / "exp1", project.during("write-tree", plan))
    assert (project.results / "done").exists() and result.returncode == 2, result
    assert f"--freeze: '{project.results}/exp1' {REPLACED}" in result.stderr, result
    assert project.jobs() == [] and project.trees() == []


@pytest.mark.parametrize("moment", ["--show-toplevel", "--git-common-dir", "check-ignore", "worktree"])
def test_directory_renamed_at_another_moment_is_refused(project, moment):
    environment = project.during(moment, PUT["directory of the other user"])
    result = project.add(project.results / "exp1", environment)
    assert (project.results / "done").exists() and result.returncode == 2, result
    assert REPLACED in result.stderr or NOT_FROZEN in result.stderr, result
    assert project.jobs() == [] and project.trees() == []


def test_directory_of_the_commit_is_the_copy(project):
    assert freeze(project.owner, project.path / "code").returncode == 0
    job = project.jobs()[0]
    assert job["cwd"] == f"{project.trees()[0]}/code" and job["cwd_own"] and job["cwd_ino"] == (project.trees()[0] / "code").stat().st_ino


@pytest.mark.parametrize("name", ["code/cache", "empty", "results"])
def test_directory_that_is_not_frozen_is_refused(machine, project, name):
    project.owner.sh(f"echo cache >> .gitignore; mkdir -p {name}; chgrp {machine.group} {name}; [ {name} = empty ] || chmod {GROUP:o} {name}", project.path)
    result = freeze(project.owner, project.path / name)
    assert result.returncode == 2 and f"--freeze: the current directory '{project.path}/{name}' {NOT_FROZEN}" in result.stderr, result
    assert project.jobs() == [] and project.trees() == []


def test_directory_above_that_becomes_a_link_is_not_searched_for_a_repository(machine, project):
    """The repository of a directory is the one above it, not the one that its path leads to."""
    inner = project.results / "exp1/deep"
    elsewhere = machine.project(project.owner)
    project.owner.sh(f"git init -q .; mkdir deep; echo x > deep/file; {COMMIT}; rm -f '{project.results}/link'; ln -s '{elsewhere}' '{project.results}/link'; mkdir '{inner}'", elsewhere)
    result = project.add(inner, project.during("--show-toplevel", PUT["link of the owner"]))
    assert result.returncode == 2 or project.jobs()[0]["commit"] == project.owner.sh("git rev-parse HEAD", project.path).strip(), result


def test_directory_that_cannot_be_entered_is_refused(machine, owner, other):
    """Its inode cannot be recorded, so the job would start in any directory that gets its name."""
    shared = machine.directory(GROUP)
    other.sh("mkdir proj", shared)
    sign, config = machine.project(owner) / "inside", owner.home / "empty.yaml"
    config.touch()
    for number, command in enumerate(("add --config {} --no-start true", "run --config {} --commands-file ~/lines")):
        plant(owner, owner.home / "lines", "true\n")
        process = owner.start("sh", "-c", f"touch '{sign}{number}'; {WAIT_FOR.format(shared / f'closed{number}')}; gpuq {command.format(config)}; echo $?",
                              cwd=shared / "proj", env=queue(owner))
        other.sh(f"{WAIT_FOR.format(f'{sign}{number}')}; chmod 700 proj; touch closed{number}", shared)
        out, err = process.communicate(timeout=LIMIT)
        other.sh("chmod 755 proj", shared)
        assert out == "1\n" and "current directory" in err and "Permission denied" in err, (out, err)


# ---- The worktree -----------------------------------------------------------------------------


def finish(project, command):
    """A frozen job that has ended; returns its worktree."""
    assert project.owner.gpuq("add", "--freeze", "--no-start", command, cwd=project.path, env=queue(project.owner)).returncode == 0
    assert project.gpuq("run").returncode == 0
    return project.trees()[0]


def test_prune_does_not_remove_a_tree_in_which_others_can_exchange_directories(project):
    """Git removes files by their paths. Caches do not count as changes."""
    tree = finish(project, "umask 0; mkdir -p code/__pycache__/deep; touch code/__pycache__/deep/x.pyc")
    project.owner.sh("chmod a+x . jobs.jsonl.d; chmod -R a+rX jobs.jsonl.d/trees", project.owner.home)
    result = project.gpuq("prune")
    project.owner.home.chmod(0o700)
    assert f"cannot remove '{tree}': '{tree}/code/__pycache__" in result.stderr and "can be written by everybody" in result.stderr, result
    assert tree.exists()


def test_prune_removes_a_tree_that_others_cannot_enter(project):
    tree = finish(project, "umask 0; mkdir code/__pycache__; touch code/__pycache__/x.pyc")
    result = project.gpuq("prune")
    assert result.returncode == 0 and not tree.exists(), result


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_folder_of_worktrees_that_others_can_write_is_refused(project, mode):
    """They could exchange the tree between the checks and git."""
    assert freeze(project.owner, project.path).returncode == 0
    trees = project.owner.home / "jobs.jsonl.d/trees"
    trees.chmod(mode)
    result = project.owner.gpuq("add", "--freeze", "--no-start", "true", cwd=project.path, env={"GPUQ_JOBS_FILE": str(project.owner.home / "jobs.jsonl")})
    assert result.returncode == 2 and f"--freeze: '{trees}' can be written by everybody" in result.stderr, result


def test_path_of_a_queue_is_not_used_if_it_leads_elsewhere_after_it_was_found(machine, project):
    """Another user exchanges the directory of the queue for a link of the owner to a private one, and later for one of their own: git, jobs and the runner use the path."""
    owner, other = project.owner, project.other
    shared = machine.directory(GROUP)
    real = owner.home / f"real-{shared.name}"
    owner.sh(f"mkdir '{real}' q; ln -s '{real}' link", shared)
    other.sh("umask 0; mkdir -p theirs/jobs.jsonl.d/trees", shared)
    begun, done = project.signs / "begun", shared / "done"
    environment = wrap_git(owner, f"[ -e '{done}' ] || {{ touch '{begun}'; {WAIT_FOR.format(done)}; }}; exec \"$REAL\" \"$@\"")
    process = owner.start("sh", "-c", f"{{ {WAIT_FOR.format(shared / 'linked')}; echo true; }} 2>&- | gpuq add --freeze --hold --no-start --jobs-file '{shared}/q/jobs.jsonl' -",
                          cwd=project.path, env={**environment, "GPUQ_DEBUG": "1"})
    line = process.stderr.readline()
    while "queue: " not in line:  # it knows the path
        assert line
        line = process.stderr.readline()
    other.start("sh", "-ec", f"mv q old; mv link q; touch linked; {WAIT_FOR.format(begun)}; mv q link; mv theirs q; touch done", cwd=shared)
    err = process.communicate(timeout=LIMIT)[1]
    assert list(shared.glob("*/jobs.jsonl.d/trees/*")) == [], err
    assert process.returncode == 2 and f"refusing to use '{shared}/q/jobs.jsonl': it has just been replaced" in err, err
    assert not any(line.startswith('{"event":"add"') for path in real.glob("jobs.jsonl") for line in path.read_text().splitlines())
