# SPDX-License-Identifier: MIT
"""Git repositories in which other users can write somewhere below .git: objects, packs, references, alternates."""
import hashlib
import os
import shutil
import stat
import zlib

import pytest

from freeze_lab import COMMIT, freeze
from users import STICKY, plant, refused, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = [needs_users, pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")]

needs_lists = pytest.mark.skipif(not shutil.which("setfacl"), reason="setfacl is not installed")

CODE = b"print('code of the owner')\n"
OBJECT = "objects/" + hashlib.sha1(b"blob %d\0" % len(CODE) + CODE).hexdigest()[:2]
FILE = OBJECT + "/" + hashlib.sha1(b"blob %d\0" % len(CODE) + CODE).hexdigest()[2:]


@pytest.fixture(name="project")
def make_project(machine, owner):
    """A repository of the owner with a commit, a packed reference and a pack."""
    path = machine.project(owner)
    plant(owner, path / "train.py", CODE.decode())
    owner.sh(f"git init -q .; echo x > packed; git add packed; {COMMIT}; git repack -dq; git tag one; git pack-refs --all; "
             f"git add -A; {COMMIT}; git config gc.auto 0; mkdir -p .git/hooks .git/info", path)
    return path


def share(machine, path):
    shutil.chown(path, group=machine.group)
    path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWGRP)


def contents(owner):
    """The contents of train.py in the frozen tree."""
    return [path.read_bytes() for path in (owner.home / "jobs.jsonl.d/trees").glob("*/train.py")]


def test_code_in_objects_that_a_group_can_write_is_not_frozen(machine, owner, other, project):
    """Git does not compare a blob with its name when it checks out a file."""
    owner.sh(f"chgrp -R {machine.group} .git/objects; chmod -R g+ws .git/objects", project)
    evil = b"print('code of the other user')\n"
    plan = "import os, sys; os.unlink(sys.argv[1]); open(sys.argv[1], 'wb').write(bytes.fromhex(sys.argv[2])); print(1)"
    assert other.attack(plan, project / ".git" / FILE, zlib.compress(b"blob %d\0" % len(evil) + evil).hex()) == "1"
    result = freeze(owner, project)
    assert contents(owner) == [], "the frozen tree contains code of another user"
    refused(result, f"'{project}/.git/objects' can be written by its group, so other users could run commands as you; look at .git/config, then run chmod -R go-w {project}/.git")
    assert freeze(owner, project, "--trust").returncode == 0


def test_everything_below_the_git_directory_must_be_the_owners(machine, owner, other, project):
    for name in ("objects", "objects/info", "objects/pack", OBJECT, FILE, "objects/pack/*.pack", "objects/pack/*.idx", "refs", "refs/heads", "refs/heads/*",
                 "info", "info/exclude", "logs", "logs/refs/heads/*", "HEAD", "index", "packed-refs", "config"):
        path = next((project / ".git").glob(name))
        share(machine, path)
        refused(freeze(owner, project), f"'{path}' can be written by its group")
        owner.sh(f"chmod -R go-w '{project}/.git'", "/")  # as the message says
        os.chown(path, other.uid, -1)
        refused(freeze(owner, project), f"'{path}' belongs to another user")
        os.chown(path, owner.uid, -1)
    assert freeze(owner, project).returncode == 0


def test_hooks_are_not_examined_because_they_never_run(machine, owner, other, project):
    share(machine, project / ".git/hooks")
    marker = machine.directory(STICKY) / "ran"
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        plant(other, project / ".git/hooks" / name, f"#!/bin/sh\ntouch '{marker}'\n", 0o755)
    assert freeze(owner, project).returncode == 0
    assert not marker.exists()


def test_private_group_may_write(owner, project):
    owner.sh("chmod -R g+w .git", project)
    assert freeze(owner, project).returncode == 0


@needs_lists
@pytest.mark.parametrize("name", ["objects/pack", "index"])
def test_access_list_that_lets_others_write_is_refused(owner, other, project, name):
    owner.sh(f"setfacl -m u:{other.name}:rwx .git/{name}", project)
    refused(freeze(owner, project), f"'{project}/.git/{name}' can be written by others (it has an access list)")
    owner.sh("chmod -R go-w .git", project)
    assert freeze(owner, project).returncode == 0


@needs_lists
def test_default_access_list_that_shares_what_git_creates_is_refused(owner, other, project):
    owner.sh(f"setfacl -d -m u:{other.name}:rx .git/objects", project)
    assert freeze(owner, project).returncode == 0
    owner.sh(f"setfacl -d -m u:{other.name}:rwx .git/objects", project)
    result = freeze(owner, project)
    refused(result, f"'{project}/.git/objects' gives others write access to new files (default access list)")
    assert f"run setfacl -R -k {project}/.git," in result.stderr, result
    owner.sh("setfacl -R -k .git", project)
    assert freeze(owner, project).returncode == 0


def test_folders_that_git_creates_are_not_shared(machine, owner, project):
    """Even if the repository was shared: others could replace new objects before git checks them out."""
    owner.sh(f"git config core.sharedRepository group; chgrp -R {machine.group} .git; chmod -R g+s,go-w .git; echo new > new", project)
    result = owner.run("sh", "-c", "umask 0; exec gpuq add --freeze --hold --no-start true", cwd=project, env={"GPUQ_JOBS_FILE": str(owner.home / "new.jsonl")})
    assert result.returncode == 0, result
    shared = [path for path in (project / ".git").glob("**/*") if not path.is_symlink() and path.stat().st_mode & 0o022]
    assert not shared
    assert freeze(owner, project).returncode == 0


# ---- Links ------------------------------------------------------------------------------------


def test_link_of_another_user_is_refused(owner, other, project):
    os.symlink("/etc/hostname", project / ".git/info/attributes")
    os.chown(project / ".git/info/attributes", other.uid, other.gid, follow_symlinks=False)
    refused(freeze(owner, project), f"'{project}/.git/info/attributes' is a symbolic link of another user")


@pytest.mark.parametrize("name", ["info/exclude", "objects/pack", "config"])
def test_link_of_the_owner_is_accepted_if_others_cannot_change_what_it_leads_to(machine, owner, project, name):
    place = machine.project(owner)
    target = place / "target"
    owner.sh(f"mv .git/{name} {target}; ln -s {target} .git/{name}; ln -s {project}/.git .git/info/loop", project)
    result = freeze(owner, project)
    assert result.returncode == 0, result
    share(machine, target)
    refused(freeze(owner, project), f"'{target}' can be written by its group")
    target.chmod(0o755)
    share(machine, place)
    refused(freeze(owner, project), f"'{place}' can be written by its group")


@pytest.mark.parametrize("target", ["missing", "missing/file"])
def test_link_to_a_file_that_others_can_create_is_refused(machine, owner, project, target):
    owner.sh(f"ln -s {target} .git/own", project)
    assert (freeze(owner, project).returncode == 0) == (target == "missing")
    shared = machine.directory(STICKY)
    owner.sh(f"ln -sfn {shared}/{target} .git/own", project)
    result = freeze(owner, project)
    assert result.returncode == 2 and str(shared) in result.stderr, result


def test_file_that_names_the_git_directory_is_examined(machine, owner, other, project):
    place = machine.project(owner)
    owner.sh(f"git worktree add --detach -q {place}/tree", project)
    assert freeze(owner, place / "tree").returncode == 0
    share(machine, place / "tree/.git")
    refused(freeze(owner, place / "tree"), f"'{place}/tree/.git' can be written by its group")
    owner.sh("chmod go-w .git", place / "tree")
    share(machine, project / ".git/worktrees/tree/commondir")
    refused(freeze(owner, place / "tree"), f"'{project}/.git/worktrees/tree/commondir' can be written by its group")
    owner.sh("chmod go-w .git/worktrees/tree/commondir", project)
    share(machine, project / ".git/objects")
    refused(freeze(owner, place / "tree"), f"'{project}/.git/objects' can be written by its group")


@pytest.mark.parametrize("name", ["link", "file", "commondir"])
def test_way_to_the_git_directory_does_not_lead_through_links_of_others(machine, owner, other, project, name):
    """Another user could change where the link leads to. Git prints the path without it."""
    shared = machine.directory(STICKY)
    other.sh(f"ln -s {project} link", shared)
    top = machine.project(owner)
    script = {"link": f"ln -s {shared}/link/.git .git", "file": f"echo 'gitdir: {shared}/link/.git' > .git",
              "commondir": f"cd {project}; git worktree add --detach -q {top}/tree; echo {shared}/link/.git > .git/worktrees/tree/commondir"}[name]
    plant(owner, owner.home / ".gitconfig", "[safe]\n\tdirectory = *\n")
    owner.sh(script, top)
    result = freeze(owner, top / "tree" if name == "commondir" else top)
    (owner.home / ".gitconfig").unlink()
    refused(result, f"'{shared}/link' is a symbolic link of another user")


def test_prune_does_not_use_a_repository_that_others_can_write(machine, owner, project):
    assert freeze(owner, project).returncode == 0
    environment = {"GPUQ_JOBS_FILE": str(owner.home / "jobs.jsonl")}
    assert owner.gpuq("cancel", "1", cwd="/", env=environment).returncode == 0
    tree = next((owner.home / "jobs.jsonl.d/trees").iterdir())
    share(machine, project / ".git/objects/pack")
    result = owner.gpuq("prune", cwd="/", env=environment)
    assert f"cannot remove '{tree}': '{project}/.git/objects/pack' can be written by its group" in result.stderr, result
    assert tree.exists()


# ---- Alternates and variables -------------------------------------------------------------------


@pytest.fixture(name="chain")
def make_chain(machine, owner, project):
    """A repository that takes its objects from `project`, through a repository between them."""
    place = machine.project(owner)
    owner.sh(f"git clone -qs {project} middle; git clone -qs middle last; echo ../../../middle/.git/objects > last/.git/objects/info/alternates; cd last; git fsck", place)
    return place / "last"


def test_alternates_are_examined(machine, owner, project, chain):
    result = freeze(owner, chain)
    assert result.returncode == 0 and contents(owner) == [CODE], result
    middle = chain.parent / "middle/.git/objects"
    for path in (middle, middle / "info/alternates", project / ".git/objects/pack", project / ".git" / FILE, project):
        share(machine, path)
        refused(freeze(owner, chain), f"'{path}' can be written by its group")
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o022)
    assert freeze(owner, chain).returncode == 0


@pytest.mark.parametrize("line, words", [("/missing/objects", "'/missing'"), ("../../../link/../middle/.git/objects", "contains '..'"), ("\\\"/a\\\\x\\\"", "is quoted")])
def test_alternates_that_cannot_be_examined_are_refused(owner, chain, line, words):
    owner.sh(f"printf '# comment\\n\\n%s\\n' \"{line}\" >> .git/objects/info/alternates", chain)
    result = freeze(owner, chain)
    assert result.returncode == 2 and words in result.stderr and "--trust" in result.stderr, result


def test_alternates_that_lead_to_each_other_end(machine, owner, project, chain):
    owner.sh(f"echo {chain}/.git/objects > .git/objects/info/alternates", project)
    assert freeze(owner, chain).returncode == 0
    share(machine, project / ".git/objects/pack")
    refused(freeze(owner, chain), f"'{project}/.git/objects/pack' can be written by its group")


def test_folders_in_variables_are_examined(machine, owner, project):
    place = machine.project(owner)
    owner.sh(f"cp -r {project}/.git/objects objects; cp {project}/.git/index index; mkdir empty", place)
    variables = {"GIT_OBJECT_DIRECTORY": place / "objects", "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{place}/empty:{place}/objects", "GIT_INDEX_FILE": place / "index"}
    for name, value in variables.items():
        environment = {name: str(value)}
        result = freeze(owner, project, env=environment)
        assert result.returncode == 0, result
        path = place / "index" if name == "GIT_INDEX_FILE" else place / "objects/pack"
        share(machine, path)
        refused(freeze(owner, project, env=environment), f"'{path}' can be written by its group")
        owner.sh("chmod -R go-w .", place)
    for value in ("relative", f'"{place}/objects"'):
        refused(freeze(owner, project, env={"GIT_ALTERNATE_OBJECT_DIRECTORIES": value}), "GIT_ALTERNATE_OBJECT_DIRECTORIES")
