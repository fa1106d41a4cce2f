# SPDX-License-Identifier: MIT
"""Queues in directories that other users can change: they can be read, but are neither executed nor
changed without --trust."""
import os
import shutil
import stat
import subprocess

import pytest

from users import GROUP, OPEN, STICKY, WAIT_FOR, copy_journal, plant, refused, until, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

# Commands that execute or change a queue with a job.
CHANGES = [("add", "--no-start", "true"), ("add", "touch stolen"), ("run",), ("run", "--background"), ("cancel", "1"), ("retry", "1"), ("hold", "1"),
           ("release", "1"), ("urgent", "1"), ("prune",), ("verify", "--repair")]
READS = [("status",), ("status", "--json"), ("why", "1"), ("verify",), ("report", "-o", "-")]


def group_can_write(machine, owner, _):
    return machine.directory(GROUP), f"can be written by group '{machine.group}'"


def everybody_can_write(machine, owner, _):
    return machine.directory(0o777), "can be written by everybody"


def own_and_everybody_can_write(machine, owner, _):
    shared = machine.project(owner)
    owner.sh("chmod 777 .", shared)
    return shared, "can be written by everybody"


def of_another_user(machine, owner, other):
    shared = machine.directory(0o755)
    os.chown(shared, other.uid, other.gid)
    return shared, f"belongs to user '{other.name}'"


def sticky_of_another_user(machine, owner, other):
    """The owner of a sticky directory can rename everything in it."""
    shared = machine.directory(STICKY)
    os.chown(shared, other.uid, other.gid)
    return shared, f"belongs to user '{other.name}'"


PLACES = [group_can_write, everybody_can_write, own_and_everybody_can_write, of_another_user, sticky_of_another_user]


def make_queue(owner, place, below):
    """A directory of the owner in the place, or the place itself, with a queue that the owner copied there."""
    directory = place / "mine" if below else place
    directory.mkdir(exist_ok=True)
    if below:
        os.chown(directory, owner.uid, owner.gid)
    copy_journal(owner, directory / "jobs.jsonl", "touch stolen")
    return directory


@pytest.mark.parametrize("below", [False, True], ids=["in it", "below it"])
@pytest.mark.parametrize("kind", PLACES)
def test_queue_in_a_directory_that_others_can_change_is_refused(machine, owner, other, kind, below):
    place, words = kind(machine, owner, other)
    directory = make_queue(owner, place, below)
    before = (directory / "jobs.jsonl").read_bytes()
    for change in CHANGES:
        result = owner.gpuq(*change, cwd=directory)
        refused(result, f"refusing to use '{directory}/jobs.jsonl': directory '{place}' {words}, so other users could run commands as you; ")
        assert "use --jobs-file with a file in a directory of your own, such as ~/q.jsonl, or use --trust" in result.stderr, result
        refused(owner.gpuq(change[0], "--jobs-file", "jobs.jsonl", *change[1:], cwd=directory), words)
    assert (directory / "jobs.jsonl").read_bytes() == before
    assert [p.name for p in directory.iterdir()] == ["jobs.jsonl"]
    for read in READS:
        result = owner.gpuq(*read, cwd=directory)
        assert result.returncode == 0, (read, result)


@pytest.mark.parametrize("words", [("add", "--jobs-file", "jobs.jsonl", "true"), ("run", "--commands-file", "/dev/null"),
                                   ("run", "--jobs-file", "jobs.jsonl", "--keep")])
def test_no_queue_is_made_in_a_directory_that_others_can_change(machine, owner, words):
    shared = machine.directory(GROUP)
    refused(owner.gpuq(*words, cwd=shared), f"directory '{shared}' can be written by group '{machine.group}'")
    assert not list(shared.iterdir())


@pytest.mark.parametrize("named", [False, True])
def test_queue_elsewhere_has_jobs_in_a_directory_that_others_can_change(machine, owner, named):
    """The personal queue of the user, or a named queue."""
    shared = machine.directory(GROUP)
    words = ("--jobs-file", owner.home / f"{shared.name}.jsonl") if named else ()
    assert owner.gpuq("add", *words, "touch ran", cwd=shared, env={"GPUQ_JOBS_FILE": ""}).returncode == 0
    until((shared / "ran").exists, "the job")
    assert [p.name for p in shared.iterdir()] == ["ran"]


def test_wait_needs_trust_unless_the_journal_is_named(machine, owner):
    """Scripts rely on its exit code."""
    shared = machine.directory(GROUP)
    assert owner.gpuq("add", "--trust", "--jobs-file", "jobs.jsonl", "exit 7", cwd=shared).returncode == 0
    result = owner.gpuq("wait", "1", cwd=shared)
    assert result.returncode == 125 and f"directory '{shared}' can be written by group '{machine.group}'" in result.stderr, result
    assert owner.gpuq("wait", "--jobs-file", "jobs.jsonl", "1", cwd=shared).returncode == 7
    assert owner.gpuq("wait", "--trust", "1", cwd=shared).returncode == 7


@pytest.mark.parametrize("words, env", [(("--trust",), {}), ((), {"GPUQ_TRUST": "1"})])
def test_user_who_trusts_the_others_uses_the_directory(machine, owner, words, env):
    shared = machine.directory(GROUP)
    assert owner.gpuq("add", *words, "--jobs-file", "jobs.jsonl", "touch ran", cwd=shared, env=env).returncode == 0
    until((shared / "ran").exists, "the job, which a runner in the background starts")
    assert owner.gpuq("add", "--no-start", *words, "touch second", cwd=shared, env=env).returncode == 0
    assert owner.gpuq("wait", *words, cwd=shared, env=env).returncode == 0
    assert owner.gpuq("prune", *words, cwd=shared, env=env).returncode == 0
    assert owner.gpuq("verify", *words, cwd=shared, env=env).returncode == 0
    assert (shared / "second").exists()


def test_access_list_that_lets_another_user_write_is_seen(machine, owner, other):
    shared = machine.project(owner)
    if not shutil.which("setfacl") or subprocess.run(["setfacl", "-m", f"u:{other.name}:rwx", shared], check=False).returncode:
        pytest.skip("needs setfacl, and a file system with access lists")
    refused(owner.gpuq("add", "--jobs-file", "jobs.jsonl", "true", cwd=shared), f"directory '{shared}' can be written by others (it has an access list)")


def test_runner_says_who_can_change_the_directory_now(machine, owner):
    """New keepers open the journal: the second job waits until no other user can write the directory."""
    shared = machine.project(owner)
    runner = owner.start("gpuq", "run", "--keep", cwd=shared)
    first = f"touch began; {WAIT_FOR.format('go')}; {WAIT_FOR.format('second')}"
    assert owner.gpuq("add", "--no-start", first, cwd=shared).returncode == 0
    until((shared / "began").exists, "the first job")
    owner.sh(OPEN, shared)
    assert owner.gpuq("add", "--no-start", "--trust", "touch second", cwd=shared).returncode == 0
    words = next(line for line in runner.stdout if line.startswith(("gpuq:", "[→] 2")))
    assert f"cannot start a job: directory '{shared}' can be written by group '{machine.group}'" in words
    owner.sh("chmod 755 .; touch go", shared)
    until((shared / "second").exists, "the second job")


# ---- Directories that are fine -------------------------------------------------------------


def works(owner, directory, *prefix, named=()):
    result = owner.run(*prefix, "gpuq", "add", "--no-start", "--jobs-file", "jobs.jsonl", "touch ran", cwd=directory, umask=0o002)
    assert result.returncode == 0, result
    result = owner.run(*prefix, "gpuq", "run", *named, cwd=directory, umask=0o002)
    assert result.returncode == 0, result
    assert (directory / "ran").exists()


def test_directories_of_the_private_group_make_no_difference(machine, owner):
    """The home directory too, as on some systems."""
    owner.home.chmod(0o2770)
    try:
        owner.sh("umask 002; rm -rf private; mkdir -p private/project", owner.home)
        assert stat.S_IMODE((owner.home / "private/project").stat().st_mode) & 0o20
        works(owner, owner.home / "private/project")
    finally:
        owner.home.chmod(0o700)


@pytest.mark.parametrize("mode", [STICKY, 0o3775])
def test_directory_of_the_user_in_a_sticky_directory_is_used(machine, owner, mode):
    shared = machine.directory(mode)
    owner.sh("mkdir mine", shared)
    works(owner, shared / "mine")


@pytest.mark.parametrize("name, content, words", [
    ("jobs.jsonl", None, ("run",)),
    ("jobs.jsonl", None, ("add", "true")),
    ("gpuq.yaml", "on_finish: touch stolen", ("add", "true")),
    ("commands.txt", "touch stolen", ("run",)),
])
def test_file_of_the_user_that_another_user_renamed_is_not_used(machine, owner, other, name, content, words):
    """The user has copied data of somebody else into a directory of the group; a sticky directory has a free name."""
    group, sticky = machine.directory(GROUP), machine.directory(STICKY)
    if content is None:
        copy_journal(owner, group / "data", "touch stolen")
    else:
        owner.sh(f"echo '{content}' > data", group)
    other.sh(f"mv '{group}/data' {name}", sticky)
    refused(owner.gpuq(*words, cwd=sticky, env={"GPUQ_JOBS_FILE": ""}), f"directory '{sticky}' can be written by everybody")
    assert not (sticky / "stolen").exists()


def test_file_of_the_user_that_another_user_moves_to_the_name_of_a_queue_is_not_used(machine, owner, other):
    sticky, shared = machine.directory(STICKY), machine.directory(GROUP)
    queue = ("--jobs-file", sticky / "q.jsonl")
    copy_journal(owner, shared / "data", "touch stolen")
    other.sh(f"mv data {sticky}/q.jsonl", shared)
    for words in (("add", *queue, "true"), ("run", *queue), ("prune", *queue)):
        refused(owner.gpuq(*words, cwd=owner.home), f"directory '{sticky}' can be written by everybody")
    assert owner.gpuq("wait", "1", cwd=sticky, env={"GPUQ_JOBS_FILE": str(sticky / "q.jsonl")}).returncode == 125
    assert not (owner.home / "stolen").exists() and not (sticky / "q.jsonl.d").exists()
    assert owner.gpuq("run", *queue, "--trust", cwd=owner.home).returncode == 0


@pytest.mark.parametrize("named", [(), ("--jobs-file", "jobs.jsonl")], ids=["found", "named"])
def test_no_queue_is_created_in_a_sticky_directory(machine, owner, named):
    """A queue that is not named is the personal queue."""
    shared = machine.directory(STICKY)
    owner.sh("echo 'touch ran' > list", shared)
    result = owner.gpuq("run", "--commands-file", "list", *named, cwd=shared, env={"GPUQ_JOBS_FILE": ""})
    if named:
        refused(result, "use --jobs-file with a file in a directory of your own")
    else:
        assert result.returncode == 0 and "using the personal queue" in result.stderr, result
        (shared / "ran").unlink()
    assert [p.name for p in shared.iterdir()] == ["list"]
    for _ in range(2):
        assert owner.gpuq("run", "--commands-file", "list", *named, "--trust", cwd=shared, env={"GPUQ_JOBS_FILE": ""}).returncode == 0
    assert (shared / "ran").exists()


def test_private_group_with_another_member_is_not_private(machine, owner, other):
    shared = machine.directory(0o755)
    os.chown(shared, owner.uid, owner.gid)
    owner.sh("chmod 775 .", shared)
    subprocess.run(["gpasswd", "-a", other.name, owner.name], check=True, capture_output=True)
    try:
        refused(owner.gpuq("add", "--jobs-file", "jobs.jsonl", "true", cwd=shared), f"directory '{shared}' can be written by group '{owner.name}'")
    finally:
        subprocess.run(["gpasswd", "-d", other.name, owner.name], check=True, capture_output=True)
    works(owner, shared)


@pytest.mark.parametrize("mapping", ["--map-root-user", "--map-user={0}"])
def test_container_in_which_root_has_no_id(machine, owner, other, mapping):
    """Like Apptainer: files of root and of other users appear to belong to "nobody"."""
    prefix = ("unshare", "--user", mapping.format(owner.uid))
    if owner.run(*prefix, "true", cwd=owner.home).returncode:
        pytest.skip("needs user namespaces for all users")
    owner.sh("rm -rf contained; mkdir contained", owner.home)
    works(owner, owner.home / "contained", *prefix)
    shared = machine.directory(STICKY)
    copy_journal(other, shared / "jobs.jsonl", "touch stolen")
    (shared / "jobs.jsonl").chmod(0o666)
    result = owner.run(*prefix, "gpuq", "run", cwd=shared)
    words = "it belongs to user 65534, and root" if "root" in mapping else f"directory '{shared}' belongs to user 'nobody'"
    assert result.returncode == 2 and words in result.stderr, result
    assert not (shared / "stolen").exists()
    group = machine.directory(GROUP)
    refused(owner.run(*prefix, "gpuq", "add", "--jobs-file", "jobs.jsonl", "true", cwd=group), f"directory '{group}' belongs to user 'nobody'")


@pytest.mark.parametrize("name, text", [("commands.txt", "touch stolen"), ("gpuq.yaml", "on_finish: touch stolen")])
def test_user_namespace_without_a_user_map(machine, owner, other, name, text):
    """All files appear to belong to the current user, even those of other users."""
    prefix = ("unshare", "--user")
    if owner.run(*prefix, "true", cwd=owner.home).returncode:
        pytest.skip("needs user namespaces for all users")
    shared = machine.directory(STICKY)
    plant(other, shared / name, text + "\n")
    refused(owner.run(*prefix, "gpuq", "run", cwd=shared), f"{name}': it may belong to another user")
    refused(owner.run(*prefix, "gpuq", "add", "true", cwd=owner.home), "may belong to another user")
    assert not (shared / "stolen").exists()
