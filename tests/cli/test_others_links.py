# SPDX-License-Identifier: MIT
"""Links of another user lead a launch to files of a third user, which only the victim can read."""
import os
import shutil
import signal
import subprocess

import pytest

from users import GROUP, LIMIT, STICKY, plant, until, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

SKIPPED = "'x' is skipped: its path contains a symbolic link of another user to a file that not everybody can read"


class Secret:
    """A file 'x' of root in a directory of its own. At first everybody can read it."""

    def __init__(self, machine):
        self.folder = machine.directory(0o755)
        self.file = self.folder / "x"
        self.file.write_text("confidential\n")
        self.file.chmod(0o644)

    def hide(self, path, user, mode):
        """Gives the group of that user the access that its bits of `mode` grant."""
        os.chown(path, 0, user.gid)
        path.chmod(mode)

    def deny(self, path, user):
        if not shutil.which("setfacl") or subprocess.run(["setfacl", "-m", f"u:{user.name}:---", path], check=False).returncode:
            pytest.skip("needs setfacl, and a file system with access lists")


# How the file is kept from the attacker, but not from the victim.
WAYS = {
    "folder": lambda secret, victim, other: secret.hide(secret.folder, victim, 0o750),
    "folder, one group": lambda secret, victim, other: secret.hide(secret.folder, other, 0o705),
    "folder, access list": lambda secret, victim, other: secret.deny(secret.folder, other),
    "file": lambda secret, victim, other: secret.hide(secret.file, victim, 0o640),
    "file, one group": lambda secret, victim, other: secret.hide(secret.file, other, 0o604),
    "file, access list": lambda secret, victim, other: secret.deny(secret.file, other),
}


@pytest.fixture(name="secret")
def make_secret(machine):
    return Secret(machine)


def keep(way, secret, victim, other):
    WAYS[way](secret, victim, other)
    assert other.run("cat", secret.file, cwd="/").returncode != 0
    assert victim.sh(f"cat '{secret.file}'", "/") == "confidential\n"


def words(victim, folder, *more, command=("cp", "{file}", "{output}/r")):
    victim.sh("rm -rf out", victim.home)
    return ("gpuq", "launch", "--input-dir", folder, "--output-dir", victim.home / "out", "--pattern", "?", "--gpus", "sim:1", *more, "--", *command)


def results(victim):
    return sorted(path.parent.name for path in (victim.home / "out").glob("*/r"))


@pytest.mark.parametrize("way", WAYS)
def test_file_that_the_owner_of_the_link_cannot_read_is_not_input(machine, secret, owner, other, way):
    """The result would disclose its contents."""
    shared = machine.directory(GROUP)
    keep(way, secret, owner, other)
    other.sh(f"echo 1 > a; ln -s '{secret.file}' x", shared)
    result = owner.run(*words(owner, shared), cwd=owner.home)
    assert result.returncode == 0 and SKIPPED in result.stderr and "create the link yourself" in result.stderr, result
    assert results(owner) == ["a"]


@pytest.mark.parametrize("link", ["ln -s '../{folder.name}/x' x", "ln -s '{folder}' way; ln -s way/x x", "ln -s '{folder}/../{folder.name}/x' x"])
def test_every_directory_behind_the_link_counts(machine, secret, owner, other, link):
    shared = machine.directory(GROUP)
    keep("folder", secret, owner, other)
    other.sh(f"echo 1 > a; {link.format(folder=secret.folder)}", shared)
    result = owner.run(*words(owner, shared), cwd=owner.home)
    assert result.returncode == 0 and SKIPPED in result.stderr, result
    assert results(owner) == ["a"]


def test_link_of_the_user_through_a_link_of_another_user_is_checked_too(machine, secret, owner, other):
    shared = machine.directory(STICKY)
    keep("folder", secret, owner, other)
    other.sh(f"ln -s '{secret.folder}' way", shared)
    owner.sh(f"rm -rf in; mkdir in; echo 1 > in/a; ln -s '{shared}/way/x' in/x", owner.home)
    result = owner.run(*words(owner, "in"), cwd=owner.home)
    assert result.returncode == 0 and SKIPPED in result.stderr, result
    assert results(owner) == ["a"]


def test_files_that_everybody_can_read_and_links_of_the_user_are_input(machine, secret, owner, other):
    shared, public = machine.directory(GROUP), Secret(machine)
    keep("folder", secret, owner, other)
    other.sh(f"ln -s '{public.file}' p; ln -s '../{public.folder.name}/x' q; echo 1 > a; ln -s a b", shared)
    owner.sh(f"ln -s '{secret.file}' m", shared)
    result = owner.run(*words(owner, shared), cwd=owner.home)
    assert result.returncode == 0 and not result.stderr.count("skipped:"), result
    assert results(owner) == ["a", "b", "m", "p", "q"]


def test_new_link_in_a_watched_folder(machine, secret, owner, other):
    shared = machine.directory(GROUP)
    keep("folder", secret, owner, other)
    process = owner.start(*words(owner, shared, "--watch"), cwd=owner.home)
    other.sh("echo 1 > a", shared)
    until(lambda: process.poll() is not None or results(owner) == ["a"], "the first file")
    other.sh(f"ln -s '{secret.file}' x; echo 1 > z", shared)
    until(lambda: process.poll() is not None or "z" in results(owner), "the second file")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and SKIPPED in err, (out, err)
    assert results(owner) == ["a", "z"]


def test_directory_that_is_closed_while_the_file_waits(machine, secret, owner, other):
    """The check is repeated when a worker gets the file."""
    shared = machine.directory(GROUP)
    other.sh(f"echo the longest of all > a; echo longer than x > b; echo long, too... > c; ln -s '{secret.file}' x", shared)
    owner.sh("rm -rf go began; mkfifo go", owner.home)
    script = f"if [ {{stem}} = a ]; then cd '{owner.home}'; touch began; cat go; fi; cp {{file}} {{output}}/r"
    process = owner.start(*words(owner, shared, command=("sh", "-c", script)), cwd=owner.home)
    until(lambda: process.poll() is not None or (owner.home / "began").exists(), "the first file")
    keep("folder", secret, owner, other)
    owner.sh("echo > go", owner.home)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and "symbolic link of another user to a file that not everybody can read" in out + err, (out, err)
    assert results(owner) == ["a", "b", "c"]


def test_link_whose_target_depends_on_the_process(machine, owner, other):
    """For the launch it leads to a file of the attacker, for the command to a file of the victim."""
    shared = machine.directory(GROUP)
    plant(owner, owner.home / "d", "precious\n", 0o600)
    other.sh("echo 1 > a; echo 1 > d; ln -s /proc/self/cwd/d x", shared)
    script = f"cd '{owner.home}'; cp {{file}} {{output}}/r"
    result = owner.run(*words(owner, shared, command=("sh", "-c", script)), cwd=shared)
    assert result.returncode == 0 and SKIPPED in result.stderr, result
    assert results(owner) == ["a", "d"]


def test_users_without_an_id_in_a_container_are_not_one_user(machine, secret, owner, other):
    """The owners of the link and of the file appear to be the same user."""
    prefix = ("unshare", "--user", f"--map-user={owner.uid}")
    if owner.run(*prefix, "true", cwd=owner.home).returncode:
        pytest.skip("needs user namespaces for all users")
    shared, public = machine.directory(GROUP), Secret(machine)
    keep("file", secret, owner, other)
    other.sh(f"ln -s '{secret.file}' x; ln -s '{public.file}' p", shared)
    programs = {f"GPUQ_{name.upper()}": str(machine.place / f"bin/gpuq-{name}") for name in ("launch", "worker")}
    result = owner.run(*prefix, *words(owner, shared), cwd=owner.home, env=programs)
    assert result.returncode == 0 and "'x' is skipped: its path contains a symbolic link whose owner has no id in this user namespace" in result.stderr, result
    assert results(owner) == ["p"]
