# SPDX-License-Identifier: MIT
"""Git repositories that other users can change: their configuration names programs, which git runs."""
import shutil
import subprocess

import pytest

from freeze_lab import COMMIT, freeze, wrap_git
from users import GROUP, OPEN, STICKY, WAIT_FOR, plant, refused, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = [needs_users, pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")]

FILTER = "git config --file {0} filter.evil.clean 'touch {1}; cat'; git config --file {0} filter.evil.smudge 'touch {1}; cat'"
MONITOR = "git config --file {0} core.fsmonitor 'touch {1}; false'"


def repository(owner, directory, *words):
    owner.sh(f"git init -q {' '.join(words)} .; echo '* filter=evil' > .gitattributes; echo x > file", directory)


@pytest.fixture(name="stolen")
def make_stolen(owner):
    """A file that only the owner can create; it exists if another user's command ran as the owner."""
    path = owner.home / "stolen"
    path.unlink(missing_ok=True)
    return path


@pytest.mark.parametrize("attack", [FILTER, MONITOR], ids=["filter", "monitor"])
def test_configuration_that_a_group_can_write_is_not_executed(machine, owner, other, stolen, attack):
    shared = machine.project(owner)
    owner.sh(OPEN, shared)
    repository(owner, shared, "--shared=group")
    other.sh(attack.format(".git/config", stolen), shared)
    refused(freeze(owner, shared), "can be written by its group")
    assert not stolen.exists() and not (owner.home / "jobs.jsonl.d").exists()
    assert freeze(owner, shared, "--trust").returncode == 0
    assert stolen.exists() == (attack == FILTER)  # monitors never run


@pytest.mark.parametrize("attack", [FILTER, MONITOR], ids=["filter", "monitor"])
def test_files_that_make_a_directory_a_repository_are_not_executed(machine, owner, other, stolen, attack):
    """Git checks the owner of the directory, but not of the files in it."""
    shared = machine.project(owner)
    owner.sh(OPEN, shared)
    owner.sh("echo '* filter=evil' > .gitattributes", shared)
    other.sh("git init -q --bare --shared=all bare; mv bare/* .; git config --file config core.bare false; git config --file config core.worktree .; " + attack.format("config", stolen), shared)
    result = freeze(owner, shared)
    assert result.returncode == 2 and "not in a git repository" in result.stderr, result
    assert not stolen.exists()
    assert freeze(owner, shared, "--trust").returncode == 0
    assert stolen.exists() == (attack == FILTER)


def test_repository_that_others_can_replace_is_refused(machine, owner, stolen):
    shared = machine.directory(GROUP)
    owner.sh("mkdir mine", shared)
    repository(owner, shared / "mine")
    refused(freeze(owner, shared / "mine"), "can be written by its group")
    assert freeze(owner, shared / "mine", "--trust").returncode == 0


def make_folder_of_git(stolen):
    """The attack on 'lib', a group-writable directory of the owner: renamed to '.git', it becomes a repository."""
    return ("git init -q --bare --shared=all bare; mv bare/* lib; rmdir bare; git config --file lib/config core.bare false; "
            "echo '* filter=evil' > .gitattributes; echo x > new; "
            "git --git-dir=lib -c safe.directory='*' update-index --add --cacheinfo 100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,new; "
            "chmod -R a+rX lib/*; " + FILTER.format("lib/config", stolen) + "; ")


def test_submodule_that_a_group_can_write_is_not_executed(machine, owner, other, stolen):
    """Git looks for changes in a submodule, with its configuration, if its commit is the recorded one."""
    project = machine.project(owner)
    owner.sh(f"git init -q .; git init -q sub; cd sub; mkdir lib; {COMMIT}; cd ..; git add sub 2>/dev/null; {COMMIT}; "
             f"chgrp {machine.group} sub sub/lib; chmod {GROUP:o} sub sub/lib", project)
    recorded = owner.sh("git rev-parse HEAD:sub", project).strip()
    other.sh(make_folder_of_git(stolen) + f"echo {recorded} > lib/HEAD; mv .git old; mv lib .git", project / "sub")
    result = freeze(owner, project)
    assert not stolen.exists(), result
    assert result.returncode == 2 and "'sub' is a submodule" in result.stderr, result


def test_directory_that_becomes_a_repository_after_the_check_is_not_executed(machine, owner, other, stolen):
    """The owner works in a directory of the group, which git ignores, in a tree that is otherwise private."""
    project = machine.project(owner)
    owner.sh(f"git init -q .; mkdir -p sub/lib; echo x > sub/file; echo sub > .gitignore; git add -A; {COMMIT}; chgrp -R {machine.group} sub; chmod {GROUP:o} sub sub/lib", project)
    environment = wrap_git(owner, "\"$REAL\" \"$@\"; code=$?\n"
                           f"case $* in *--git-common-dir*) touch '{project}/checked'; {WAIT_FOR.format(project / 'sub/swapped')};; esac; exit $code")
    other.start("sh", "-ec", make_folder_of_git(stolen) + WAIT_FOR.format("../checked") + "; mv lib .git; touch swapped", cwd=project / "sub")
    result = freeze(owner, project / "sub", env=environment)
    assert (project / "sub/swapped").exists() and not stolen.exists(), result
    assert result.returncode == 2 and f"add the job in a directory that is part of it, such as '{project}'" in result.stderr, result


def test_own_repository_in_a_sticky_directory_is_frozen(machine, owner):
    shared = machine.directory(STICKY)
    owner.sh("mkdir mine", shared)
    repository(owner, shared / "mine")
    result = freeze(owner, shared / "mine")
    assert result.returncode == 0, result


def test_prune_runs_nothing_of_a_repository_that_another_user_put_in_the_place(machine, owner, other, stolen):
    """The owner's git trusts all repositories, as is often configured for shared directories."""
    shared = machine.directory(STICKY)
    plant(owner, owner.home / ".gitconfig", "[safe]\n\tdirectory = *\n")
    owner.sh("mkdir mine", shared)
    repository(owner, shared / "mine")
    assert freeze(owner, shared / "mine").returncode == 0
    environment = {"GPUQ_JOBS_FILE": str(owner.home / "jobs.jsonl")}
    assert owner.gpuq("cancel", "1", cwd="/", env=environment).returncode == 0
    tree = next((owner.home / "jobs.jsonl.d/trees").iterdir())
    owner.sh("cp -r mine copy; chmod -R a+rX copy; rm -rf mine", shared)
    other.sh("cp -r copy mine; " + MONITOR.format("mine/.git/config", stolen), shared)
    result = owner.gpuq("prune", cwd="/", env=environment)
    assert not stolen.exists(), result
    assert f"cannot remove '{tree}'" in result.stderr and "belongs to another user" in result.stderr, result
    (owner.home / ".gitconfig").unlink()


def test_repository_of_another_user_is_named(machine, owner, other):
    shared = machine.project(other)
    repository(other, shared)
    other.sh("mkdir src; chmod -R go+rX .", shared)
    for place in (shared, shared / "src"):
        refused(freeze(owner, place), f"--freeze: the git repository in '{shared}' belongs to user '{other.name}', who could run commands as you; "
                                      "clone it to a directory of your own, or use --trust")


def test_frozen_tree_inherits_no_access_list(machine, owner, other):
    """Otherwise users in the list could write to the tree when the user lets others read the project."""
    project, queue = machine.project(owner), machine.project(owner)
    repository(owner, project)
    if not shutil.which("setfacl") or subprocess.run(["setfacl", "-d", "-m", f"u:{other.name}:rwx", queue], check=False).returncode:
        pytest.skip("needs setfacl, and a file system with access lists")
    result = owner.gpuq("add", "--freeze", "--hold", "--no-start", "--jobs-file", queue / "jobs.jsonl", "true", cwd=project)
    assert result.returncode == 0, result
    owner.sh(f"chmod -R a+rX '{queue}'", owner.home)
    tree, = (queue / "jobs.jsonl.d/trees").iterdir()
    assert other.sh(f"test -r {tree}/file; for f in $(find {tree}); do test ! -w $f || echo $f; done", "/") == ""


@pytest.mark.parametrize("way", ["chmod 640 key", "chmod 600 key", "chmod 604 key", "setfacl -m u:{other.name}:- key"],
                         ids=["group", "owner", "all but a group", "all but a user"])
def test_file_that_not_everybody_can_read_is_not_stored_where_everybody_can_read_it(machine, owner, other, way):
    if "setfacl" in way and not shutil.which("setfacl"):
        pytest.skip("needs setfacl")
    project = machine.project(owner)
    repository(owner, project)
    owner.sh(f"echo secret > key; {way.format(other=other)}", project)
    result = freeze(owner, project)
    assert result.returncode == 2 and "/key' is private" in result.stderr, result


@pytest.fixture(name="ours")
def make_ours(machine, owner):
    """A repository with a commit, in a directory that only the group of both users can enter."""
    directory = machine.directory(0o3770)
    owner.sh("mkdir ours", directory)
    repository(owner, directory / "ours")
    owner.sh(f"chmod g+w,o+rX -R .; chmod g-w -R .; git add -A; {COMMIT}", directory / "ours")
    return directory / "ours"


def test_file_that_the_group_of_the_repository_can_read_is_stored(machine, owner, other, ours):
    owner.sh("umask 027; mkdir part; echo shared > part/file", ours)
    assert other.sh("cat part/file", ours) == "shared\n" and freeze(owner, ours).returncode == 0


@pytest.mark.parametrize("secret", ["mv ~/key key", "mkdir part; echo secret > part/key; chgrp -R {private} part", "echo secret > key; setfacl -m g::-,m::r key"],
                         ids=["file", "folder", "access list"])
def test_file_of_another_group_is_not_stored_where_a_group_can_read_it(machine, owner, other, ours, secret):
    """With a umask of 027, a file that was made elsewhere can be read by its group: that of the owner."""
    if "setfacl" in secret and not shutil.which("setfacl"):
        pytest.skip("needs setfacl")
    owner.sh(f"umask 027; echo secret > ~/key; cd '{ours}'; {secret.format(private=owner.gid)}", owner.home)
    path, = ours.rglob("key")
    assert path.stat().st_mode & 0o777 == 0o640 and other.run("cat", path, cwd=ours).returncode != 0
    result = freeze(owner, ours)
    assert result.returncode == 2 and f"'{path}' is private, but --freeze would store it in the repository" in result.stderr, result


def test_worktree_in_a_private_directory_is_not_stored_in_the_repository_of_a_group(machine, owner, ours):
    private = machine.project(owner)
    owner.sh(f"git worktree add -q '{private}/tree'; chmod 700 '{private}'; echo secret > '{private}/tree/key'; chgrp -R {machine.group} '{private}'", ours)
    result = freeze(owner, private / "tree")
    assert result.returncode == 2 and "/key' is private" in result.stderr, result
    owner.sh("chmod 710 .", private)
    assert freeze(owner, private / "tree").returncode == 0


@pytest.mark.parametrize("way", ["chmod 700 .; setfacl -m u:{other.name}:x .", "chmod 710 .; chgrp {owner.gid} ."], ids=["access list", "two groups"])
def test_only_what_everybody_can_read_is_stored_where_certain_users_can_read_it(machine, owner, other, ours, way):
    if "setfacl" in way and not shutil.which("setfacl"):
        pytest.skip("needs setfacl")
    subprocess.run(["usermod", "-aG", str(owner.gid), other.name], check=True)  # the second group lets both in
    try:
        owner.sh(way.format(owner=owner, other=other), ours)
        assert freeze(owner, ours).returncode == 0
        owner.sh("echo 1 > file", ours)
        assert freeze(owner, ours).returncode == 0
        owner.sh("chmod 640 file", ours)
        result = freeze(owner, ours)
    finally:
        subprocess.run(["gpasswd", "-d", other.name, owner.name], check=True, capture_output=True)
    assert result.returncode == 2 and f"'{ours}/file' is private" in result.stderr, result


def test_worktree_in_a_private_directory_is_not_stored_in_a_public_repository(machine, owner):
    project, private = machine.project(owner), machine.project(owner)
    repository(owner, project)
    owner.sh(f"git add -A; {COMMIT}; git worktree add -q '{private}/tree'; chmod 700 '{private}'; echo secret > '{private}/tree/key'", project)
    result = freeze(owner, private / "tree")
    assert result.returncode == 2 and "/key' is private" in result.stderr, result


@pytest.mark.parametrize("secret", ["key", "closed/key", "tracked"])
def test_private_file_is_not_stored_where_others_can_read_it(machine, owner, other, secret):
    """Objects of git have the mode 0444, and stay in the repository."""
    project = machine.project(owner)
    repository(owner, project)
    owner.sh(f"echo old > tracked; git add tracked; {COMMIT}; mkdir -m 700 closed; echo secret > {secret}; test {secret} = closed/key || chmod 600 {secret}", project)
    result = freeze(owner, project)
    assert result.returncode == 2 and f"/{secret}' is private, but --freeze would store it in the repository" in result.stderr, result
    assert ("; add it to .gitignore, " in result.stderr) == (secret != "tracked"), "a rule does not apply to a tracked file"
    stored = owner.sh(f"printf 'secret\\n' | git hash-object --stdin --no-filters", project).strip()
    assert not (project / ".git/objects" / stored[:2] / stored[2:]).exists()
    owner.sh("chmod 700 .git/objects", project)
    assert freeze(owner, project).returncode == 0
    owner.sh(f"chmod 755 .git/objects; echo other > {secret}; echo {secret} >> .gitignore", project)
    assert (freeze(owner, project).returncode == 0) == (secret != "tracked")
    assert freeze(owner, project, "--trust").returncode == 0
