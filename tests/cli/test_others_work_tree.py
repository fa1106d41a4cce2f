# SPDX-License-Identifier: MIT
"""--freeze in a private repository whose working tree has a file or directory that other users can write."""
import os
import shutil
import stat

import pytest

from freeze_lab import COMMIT, freeze
from users import GROUP, STICKY, plant, refused, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = [needs_users, pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")]

PIPES = "mkfifo .gitignore .gitattributes; mkdir -p .git/refs .git/objects; mkfifo .git/HEAD .git/config"


@pytest.fixture(name="project")
def make_project(machine, owner):
    """A repository with a commit; the names of untracked files are the longer ones."""
    path = machine.project(owner)
    owner.sh(f"git init -q .; mkdir -p data/deep code; echo x | tee data/deep/file data/file code/file > file; git add .; {COMMIT}; echo x > new", path)
    return path


def share(machine, path, mode=None):
    shutil.chown(path, group=machine.group)
    path.chmod(mode or stat.S_IMODE(path.stat().st_mode) | stat.S_IWGRP)


def give(path, user):
    os.chown(path, user.uid, user.gid, follow_symlinks=False)


def frozen(owner, name):
    return list((owner.home / "jobs.jsonl.d/trees").glob(f"*/{name}"))


def accepted(result):
    assert result.returncode == 0, result


# ---- Directories ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [GROUP, STICKY], ids=["group", "sticky"])
@pytest.mark.parametrize("name", ["data", "data/deep", "untracked/deep"])
def test_directory_that_others_can_write_is_refused(machine, owner, project, name, mode):
    """Whatever is in it: others could exchange a file for a link to a private one while git copies it."""
    path = project / name
    owner.sh(f"mkdir -p {name}", project)
    share(machine, path, mode)
    result = freeze(owner, project)
    refused(result, f"'{path}' can be written by {'everybody' if mode == STICKY else 'its group'}, so other users could choose what is frozen; check its content, then run chmod -R go-w on it")
    assert "add it to .gitignore" in result.stderr and ("git rm -r --cached" in result.stderr) == name.startswith("data"), result
    assert not (owner.home / "jobs.jsonl.d").exists()
    accepted(freeze(owner, project, "--trust"))
    owner.sh(f"chmod -R go-w '{path}'", project)  # as the message says
    accepted(freeze(owner, project))


@pytest.mark.parametrize("attack", ["mkfifo .gitignore", "mkfifo .gitattributes; echo n > new.bin", "truncate -s 1T .gitignore", "rm -f file; truncate -s 1T file",
                                    "echo '*' > .gitignore", "rm -f file; ln -s ~/private file"])
def test_nothing_in_a_directory_that_others_can_write_is_read(machine, owner, other, project, attack):
    """Git would wait for the pipe, read the huge file, leave out what the owner has there, or copy a private file."""
    share(machine, project / "data", GROUP)
    other.sh(attack, project / "data")
    refused(freeze(owner, project), f"'{project}/data' can be written by its group")


@pytest.mark.parametrize("attack", ["mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; mkfifo config", "git init -q .; rm .git/config; mkfifo .git/config"],
                         ids=["bare", "git"])
def test_repository_of_others_in_the_current_directory_is_not_read(machine, owner, other, project, attack):
    """The directory is ignored, and a repository of another user in it must not replace the one above."""
    owner.sh("echo shared/ > .gitignore; mkdir shared", project)
    share(machine, project / "shared", GROUP)
    other.sh(attack, project / "shared")
    result = freeze(owner, project / "shared")
    assert result.returncode == 2 and f"add the job in a directory that is part of it, such as '{project}'" in result.stderr, result


def test_ignored_directory_may_be_written_by_others_and_is_not_read(machine, owner, other, project):
    """gpuq does not run git ls-files --ignored, which would look for repositories there."""
    owner.sh("printf '/shared/\\n*.tmp\\n' > .gitignore; echo /cache > code/.gitignore; mkdir -p shared code/cache code/a.tmp", project)
    for name in ("shared", "code/cache", "code/a.tmp"):
        share(machine, project / name, GROUP)
        other.sh(f"mkdir deep; {PIPES}; cd deep; {PIPES}", project / name)
    result = freeze(owner, project)
    accepted(result)
    assert [os.readlink(path) for path in frozen(owner, "shared")] == [str(project / "shared")]
    assert frozen(owner, "code/file") and not frozen(owner, "code/cache")


def test_ignored_directory_with_tracked_files_is_refused(machine, owner, project):
    owner.sh("echo data > .gitignore", project)
    accepted(freeze(owner, project))
    for name in ("data/deep", "data"):
        share(machine, project / name, GROUP)
        refused(freeze(owner, project), f"'{project / name}' can be written by its group")
    owner.sh("git rm -rq --cached data", project)
    accepted(freeze(owner, project))


def test_rules_in_a_directory_do_not_make_it_ignored(machine, owner, other, project):
    owner.sh("git rm -rq --cached data", project)
    share(machine, project / "data", GROUP)
    other.sh("echo '*' > .gitignore", project / "data")
    refused(freeze(owner, project), f"'{project}/data' can be written by its group")


def test_rules_that_are_not_checked_out_count(machine, owner, project):
    """Git takes these rules from the index."""
    owner.sh(f"echo cache > .gitignore; echo '!cache' > code/.gitignore; git add .; {COMMIT}; git update-index --skip-worktree code/.gitignore; "
             "rm code/.gitignore; mkdir code/cache; touch code/cache/seen; git ls-files -o --exclude-standard | grep code/cache/seen", project)
    accepted(freeze(owner, project))
    share(machine, project / "code/cache", GROUP)
    refused(freeze(owner, project), f"'{project}/code/cache' can be written by its group")


def test_repository_below_is_checked_although_a_rule_matches_its_name(machine, owner, project):
    owner.sh("echo '.*' > .gitignore; mkdir code/.git code/.git/refs", project)
    accepted(freeze(owner, project))  # not a repository
    for name in ("code/.git/refs", "code/.git"):
        share(machine, project / name, GROUP)
        refused(freeze(owner, project), f"'{project / name}' can be written by its group")


def test_directory_that_cannot_be_read_is_left_out(owner, project):
    (project / "root").mkdir(mode=0o700)
    owner.sh("mkdir mine; chmod 0 mine", project)
    accepted(freeze(owner, project))
    (project / "data").chmod(0o300)
    refused(freeze(owner, project), f"'{project}/data' cannot be examined: Permission denied")


def test_private_group_may_write(owner, project):
    owner.sh("chmod -R g+w *", project)
    accepted(freeze(owner, project))


@pytest.mark.skipif(not shutil.which("setfacl"), reason="setfacl is not installed")
@pytest.mark.parametrize("name", ["data", "data/file", ".gitignore"])
def test_access_list_that_lets_others_write_is_refused(owner, other, project, name):
    owner.sh(f"touch .gitignore; setfacl -m u:{other.name}:rwx {name}", project)
    refused(freeze(owner, project), f"'{project}/{name}' can be written by others (it has an access list)")


# ---- Files and links --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["file", "data/file", "new", ".gitignore", "data/.gitattributes", ".gitmodules", "data/.gitignore"])
def test_file_of_another_user_or_one_that_others_can_write_is_refused(machine, owner, other, project, name):
    """Even if a rule ignores the file: git reads it nevertheless."""
    path = project / name
    if not path.exists():
        plant(owner, path, "*.bin\n")
    share(machine, path)
    plant(owner, project / ".git/info/exclude", ".gitignore\n.gitattributes\n.gitmodules\n")
    refused(freeze(owner, project), f"'{path}' can be written by its group")
    path.chmod(0o644)
    accepted(freeze(owner, project))
    give(path, other)
    refused(freeze(owner, project), f"'{path}' belongs to another user")
    accepted(freeze(owner, project, "--trust"))


def test_ignored_file_of_another_user_is_accepted(owner, other, project):
    for name in ("a.log", "data/b.log", "link.log"):
        (project / name).symlink_to("/etc/hostname") if name.startswith("link") else plant(owner, project / name, "x")
        give(project / name, other)
        refused(freeze(owner, project), f"'{project / name}'")
        owner.sh(f"echo {name} >> .gitignore", project)
        accepted(freeze(owner, project))


def test_links_of_others_are_refused_and_own_ones_are_not_followed(machine, owner, other, project):
    shared = machine.directory(GROUP)
    (shared / "file").touch()
    owner.sh(f"ln -s {shared} folder; ln -s {shared}/file link; ln -s missing broken; ln -s . loop", project)
    accepted(freeze(owner, project))
    assert [os.readlink(path) for path in frozen(owner, "folder")] == [str(shared)]
    give(project / "link", other)
    refused(freeze(owner, project), f"'{project}/link' is a symbolic link of another user")


def test_names_that_git_could_take_for_patterns(machine, owner, project):
    owner.sh("mkdir ':(top)a' ':!b' '*' 'line\nbreak' -- -c; for i in *; do [ -d \"$i\" ] && touch -- \"$i/file\"; done; printf '[*]\\n/-c\\n' > .gitignore", project)
    accepted(freeze(owner, project))
    for name in ("*", "-c"):
        share(machine, project / name, GROUP)
        accepted(freeze(owner, project))
    for name in (":(top)a", ":!b", "line\nbreak"):
        share(machine, project / name, GROUP)
        refused(freeze(owner, project), "can be written by its group")
        (project / name).chmod(0o755)
    accepted(freeze(owner, project))
