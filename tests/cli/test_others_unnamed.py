# SPDX-License-Identifier: MIT
"""Files of other users that a command finds without their names being given."""
import grp
import os
import stat

import pytest

from users import FLIP, GROUP, STICKY, plant, refused, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users


def test_commands_file_of_another_user_is_not_executed(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(other, shared / "commands.txt", "touch stolen\n")
    refused(owner.gpuq("run", cwd=shared), "'commands.txt': it belongs to another user")
    assert sorted(p.name for p in shared.iterdir()) == ["commands.txt"]
    assert owner.gpuq("run", "--trust", cwd=shared).returncode == 0
    assert (shared / "stolen").exists()


def test_commands_file_that_is_named_is_the_users_choice(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(other, shared / "commands.txt", "touch ran\n")
    assert owner.gpuq("run", "--commands-file", "commands.txt", "--jobs-file", owner.home / "named.jsonl", cwd=shared).returncode == 0
    assert (shared / "ran").exists()


def test_configuration_that_is_named_is_the_users_choice(machine, owner, other):
    shared = machine.directory(STICKY)
    plant(other, shared / "gpuq.yaml", "on_finish: touch stolen\n")
    plant(owner, shared / "commands.txt", "true\n")
    refused(owner.gpuq("run", cwd=shared), "'./gpuq.yaml': it belongs to another user")
    assert not (shared / "stolen").exists()
    assert owner.gpuq("run", "--config", "gpuq.yaml", "--commands-file", "commands.txt", "--jobs-file", owner.home / "configured.jsonl", cwd=shared).returncode == 0
    assert (shared / "stolen").exists()


@pytest.mark.parametrize("name, words", [("commands.txt", ("run",)), ("gpuq.yaml", ("pause",)),
                                         ("jobs.jsonl", ("run",)), ("jobs.jsonl", ("add", "--no-start", "true"))])
def test_link_of_another_user_is_not_followed(machine, owner, other, name, words):
    """The link leads to a file of the victim that is neither a list of commands nor a journal."""
    shared = machine.directory(STICKY)
    plant(owner, owner.home / "history", "touch stolen\n" + "x" * 100000)
    before = (owner.home / "history").read_text()
    other.sh(f"ln -s '{owner.home}/history' {name}", shared)
    refused(owner.gpuq(*words, cwd=shared), "is a symbolic link of another user")
    assert (owner.home / "history").read_text() == before
    assert not (owner.home / "history.d").exists()
    assert [p.name for p in shared.iterdir()] == [name]


@pytest.mark.parametrize("name, words", [("commands.txt", ("run",)), ("gpuq.yaml", ("pause",)), ("jobs.jsonl", ("add", "--no-start", "true"))])
def test_link_of_the_user_through_a_link_of_another_user_is_not_followed(machine, owner, other, name, words):
    """Its directory, a link of another user, leads to unrelated files of the victim."""
    shared, here = machine.directory(STICKY), machine.project(owner)
    owner.sh(f"rm -rf private; mkdir private; echo 'on_finish: touch stolen' > private/{name}", owner.home)
    other.sh(f"ln -s '{owner.home}/private' folder", shared)
    owner.sh(f"ln -s {shared}/folder/{name} {name}", here)
    refused(owner.gpuq(*words, cwd=here), "symbolic link of another user")
    assert sorted(p.name for p in here.iterdir()) == [name]


def test_link_of_another_user_creates_no_file(machine, owner, other):
    shared = machine.directory(STICKY)
    other.sh(f"ln -s '{owner.home}/new' jobs.jsonl", shared)
    refused(owner.gpuq("add", "--no-start", "true", cwd=shared), "is a symbolic link of another user")
    assert not (owner.home / "new").exists()


def test_link_of_the_user_is_followed(machine, owner):
    shared = machine.project(owner)
    queue = owner.home / "queue"
    owner.sh("mkdir -p queue; rm -rf queue/*", owner.home)
    owner.sh(f"ln -s '{queue}/jobs.jsonl' jobs.jsonl; ln -s '{queue}/list' commands.txt", shared)
    plant(owner, queue / "list", "touch ran\n")
    assert owner.gpuq("run", cwd=shared).returncode == 0
    assert (shared / "ran").exists() and (queue / "jobs.jsonl").exists()


@pytest.mark.parametrize("name, text", [("commands.txt", "touch stolen\n"), ("gpuq.yaml", "on_finish: touch stolen\n")])
def test_file_that_a_member_of_the_group_renames_is_not_used(machine, owner, other, name, text):
    """A file of the victim under another name, for example notes."""
    shared = machine.directory(GROUP)
    plant(owner, shared / "notes.txt", text)
    other.sh(f"mv notes.txt {name}", shared)
    (owner.home / "list").write_text("true\n")
    words = ("--jobs-file", owner.home / f"{shared.name}.jsonl")
    words += () if name == "commands.txt" else ("--commands-file", owner.home / "list")
    refused(owner.gpuq("run", *words, cwd=shared), f"{name}': directory '{shared}' can be written by group '{machine.group}'")
    assert not (shared / "stolen").exists()
    named = "--commands-file" if name == "commands.txt" else "--config"
    assert owner.gpuq("run", *words, named, name, cwd=shared).returncode == 0
    assert (shared / "stolen").exists()


@pytest.mark.parametrize("words", [("add", "--no-start", "true"), ("cancel", "--all"), ("status",)])
def test_file_that_a_member_of_the_group_renames_in_a_directory_above_stops_no_command(machine, owner, other, words):
    """The directory is below the home directory of the victim, who works in a directory in it."""
    shared = machine.project(owner)
    owner.sh(f"chmod {GROUP:o} .; mkdir -p me; echo notes > notes.txt", shared)
    environment = {"HOME": str(shared.parent), "GPUQ_JOBS_FILE": "", "XDG_STATE_HOME": str(owner.home / "state")}
    assert owner.gpuq("add", "--no-start", "true", cwd=shared / "me", env=environment).returncode == 0
    other.sh("mv notes.txt jobs.jsonl", shared)
    result = owner.gpuq(*words, cwd=shared / "me", env=environment)
    assert result.returncode == 0, result
    assert f"not using '{shared}/jobs.jsonl': directory '{shared}' can be written by group '{machine.group}'" in result.stderr, result
    assert sorted(path.name for path in shared.iterdir()) == ["jobs.jsonl", "me"] and (shared / "jobs.jsonl").read_text() == "notes\n"


def test_file_in_a_directory_of_the_private_group_is_used(machine, owner):
    """As created with a umask of 002."""
    owner.sh("umask 002; rm -rf work; mkdir work; echo touch ran > work/commands.txt; echo 'retries: 0' > work/gpuq.yaml", owner.home)
    assert stat.S_IMODE((owner.home / "work").stat().st_mode) == 0o775
    result = owner.gpuq("run", cwd=owner.home / "work")
    assert result.returncode == 0, result
    assert (owner.home / "work/ran").exists()


@pytest.mark.parametrize("name, text", [("commands.txt", "touch stolen\n"), ("gpuq.yaml", "on_finish: touch stolen\n"),
                                        ("jobs.jsonl", '{"id": 1, "command": "touch stolen", "status": "pending"}\n')])
def test_directory_that_a_member_of_the_group_exchanges_is_not_used(machine, owner, other, name, text):
    """The directory is the owner's, but users who can write its parent directory control its name."""
    shared = machine.directory(GROUP)
    owner.sh("mkdir proj clone", shared)
    plant(owner, shared / "clone" / name, text)
    other.sh("mv proj kept; mv clone proj", shared)
    refused(owner.gpuq("run", cwd=shared / "proj"), f"{name}': directory '{shared}' can be written by group '{machine.group}'")
    assert [p.name for p in (shared / "proj").iterdir()] == [name]
    assert (shared / "proj" / name).read_text() == text


@pytest.mark.parametrize("attack", ["ln -s '{0}/clean.sh' sync", "mv clean.sh sync"], ids=["link", "rename"])
def test_script_that_another_user_named_like_a_command_is_not_used(machine, owner, other, attack):
    """The script is the owner's own, so its content is trusted, but another user gave it the name of a command."""
    shared = machine.directory(GROUP)
    for directory in (owner.home, shared):
        plant(owner, directory / "clean.sh", "#!/bin/sh\ntouch cleaned\n", mode=0o755)
    other.sh(attack.format(owner.home), shared)
    queue = {"GPUQ_JOBS_FILE": str(owner.home / "scripts.jsonl")}
    result = owner.gpuq("add", "--hold", "--no-start", "--json", "sync", cwd=shared, env=queue)
    assert result.returncode == 0 and "'sync' in this directory is not used" in result.stderr, result
    assert not (owner.home / "scripts.jsonl.d/scripts").exists()
    assert owner.gpuq("add", "--hold", "--no-start", "./sync", cwd=shared, env=queue).returncode == 0
    assert len(list((owner.home / "scripts.jsonl.d/scripts").iterdir())) == 1
    owner.sh("rm -r scripts.jsonl*", owner.home)


@pytest.mark.parametrize("words", [("add", "--no-start", "--param-file", "{}", "--", "echo", "{{x}}"), ("run", "--commands-file", "{}"),
                                   ("add", "--no-start", "--config", "{}", "true")], ids=["param-file", "commands-file", "config"])
def test_pipe_of_another_user_is_not_read(machine, owner, other, words):
    shared, queue = machine.directory(GROUP), {"GPUQ_JOBS_FILE": str(owner.home / "pipes.jsonl")}
    other.sh("mkfifo -m 644 pipe", shared)
    result = owner.gpuq(*(word.format(shared / "pipe") for word in words), cwd=owner.home, env=queue)
    assert result.returncode == 2 and "pipe': it is a pipe of another user" in result.stderr, result
    assert owner.run("bash", "-c", "gpuq add --no-start --param-file <(printf 'x\\n1\\n') -- echo {x}", cwd=owner.home, env=queue).returncode == 0
    owner.sh("rm -rf pipes.jsonl*", owner.home)


def test_named_commands_file_that_a_group_can_write_is_mentioned(machine, owner):
    shared, queue = machine.project(owner), {"GPUQ_JOBS_FILE": str(owner.home / "named.jsonl")}
    plant(owner, shared / "commands.txt", "true\n", 0o664)
    os.chown(shared / "commands.txt", owner.uid, grp.getgrnam(machine.group).gr_gid)
    words = "commands file 'commands.txt' can be written by its group: other users can add commands, which run as you"
    assert words in owner.gpuq("run", "--commands-file", "commands.txt", cwd=shared, env=queue).stderr
    (shared / "commands.txt").chmod(0o644)
    assert "commands file" not in owner.gpuq("run", "--commands-file", "commands.txt", cwd=shared, env=queue).stderr
    owner.sh("rm -rf named.jsonl*", owner.home)


def test_script_that_another_user_could_have_put_there_adds_no_job(machine, owner):
    """It would fail: the name is not a program in PATH."""
    shared, queue = machine.directory(GROUP), {"GPUQ_JOBS_FILE": str(owner.home / "no-script.jsonl")}
    plant(owner, shared / "train.sh", "#!/bin/sh\ntrue\n", mode=0o755)
    result = owner.gpuq("add", "--no-start", "train.sh", cwd=shared, env=queue)
    assert result.returncode == 2 and "write './train.sh' to use it" in result.stderr, result
    assert not (owner.home / "no-script.jsonl").exists()


@pytest.mark.parametrize("place", [STICKY, GROUP], ids=["sticky", "group"])
def test_planted_queue_does_not_hide_the_personal_one(machine, owner, other, place):
    shared, unnamed = machine.directory(place), {"GPUQ_JOBS_FILE": ""}
    assert owner.gpuq("add", "--no-start", "--name", "mine", "true", cwd=shared, env=unnamed).returncode == 0
    plant(other, shared / "jobs.jsonl", '{"command":"x","status":"completed"}\n')
    for words in (("status",), ("add", "--no-start", "true"), ("cancel", "mine")):
        result = owner.gpuq(*words, cwd=shared, env=unnamed)
        assert result.returncode == 0 and "not using './jobs.jsonl', which belongs to another user" in result.stderr, result
        assert words != ("status",) or "mine" in result.stdout


def test_working_directory_is_not_judged_by_a_link_that_takes_its_place(machine, owner, other):
    """The link leads to a private directory of the victim. Another user has given the file of the victim its name."""
    shared = machine.directory(GROUP)
    owner.sh("mkdir -p trusted", owner.home)
    owner.sh(f"ln -s '{owner.home}/trusted' link; mkdir -m 775 here; echo 'touch {owner.home}/stolen' > here/notes", shared)
    other.sh("mv here/notes here/commands.txt", shared)
    here = os.open(shared / "here", os.O_PATH)
    assert other.attack(FLIP, shared / "here", shared / "link") == "begun"
    for number in range(60):
        owner.gpuq("run", "--jobs-file", owner.home / f"flip{number}.jsonl", cwd=f"/proc/self/fd/{here}")
        assert not (owner.home / "stolen").exists()
    os.close(here)


def test_doctor_creates_no_file_behind_a_link_of_another_user(machine, owner, other):
    shared = machine.directory(GROUP)
    owner.sh("rm -rf private; mkdir -m 700 private", owner.home)
    before = (owner.home / "private").stat().st_mtime_ns
    other.sh(f"ln -s '{owner.home}/private' project", shared)
    output = owner.gpuq("doctor", "--jobs-file", shared / "project/jobs.jsonl", cwd=owner.home).stdout
    assert "  locks  " not in output
    assert (owner.home / "private").stat().st_mtime_ns == before
    output = owner.gpuq("doctor", "--jobs-file", owner.home / "private/jobs.jsonl", cwd=owner.home).stdout
    assert "  locks  " in output and list((owner.home / "private").iterdir()) == []
