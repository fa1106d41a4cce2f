# SPDX-License-Identifier: MIT
"""Root and the queues of other users: root reads them, but never runs or changes them, not even with --trust."""
import os
import subprocess

import pytest
from users import BUILD, GPUQ, LIMIT, get_other, get_owner, make_machine, needs_users, until  # noqa: F401  (fixtures)

pytestmark = needs_users

CHANGES = [("add", "--no-start", "true"), ("add", "true"), ("run",), ("prune",), ("cancel", "1"), ("retry", "1"), ("hold", "1"), ("pause",),
           ("verify", "--repair"), ("exec", "true")]


def gpuq(*words, cwd, env=None, user=()):
    """gpuq of root."""
    environment = {**os.environ, "GPUQ_GPUS": "sim:2", "HOME": str(cwd), "XDG_STATE_HOME": str(cwd / "state"), "GPUQ_CLAIMS_DIR": str(cwd / "claims")}
    environment.pop("GPUQ_TRUST", None)
    return subprocess.run([*user, GPUQ, *map(str, words)], cwd=cwd, env={**environment, **(env or {})}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT, check=False)


def contents(folder):
    """All files and folders of a queue: owner, mode and bytes."""
    return {path.relative_to(folder): (path.lstat().st_uid, path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in folder.rglob("*")}


@pytest.fixture(name="queue")
def make_queue(machine, owner):
    """A queue of the owner with a job that waits, and no runner."""
    place = machine.project(owner)
    assert owner.gpuq("add", "--no-start", f"id -u > '{place}/ran'", cwd="/", env={"GPUQ_JOBS_FILE": place / "jobs.jsonl"}).returncode == 0
    return place


@pytest.fixture(name="home")
def make_home(tmp_path):
    """A home of root: what root's gpuq creates besides the queue."""
    return tmp_path


@pytest.mark.parametrize("words", CHANGES, ids="_".join)
@pytest.mark.parametrize("trust", ["", "--trust", "GPUQ_TRUST"])
def test_root_does_not_run_or_change_the_queue_of_a_user(owner, queue, home, words, trust):
    before = contents(queue)
    options = ["--trust"] if trust == "--trust" else []
    result = gpuq(words[0], "--jobs-file", queue / "jobs.jsonl", *options, *words[1:], cwd=home, env={trust: "1"} if trust == "GPUQ_TRUST" else {})
    assert result.returncode != 0, result
    assert (f"refusing to use '{queue}/jobs.jsonl': it belongs to user '{owner.name}', and root never runs or changes a queue of another user; "
            f"use: runuser --pty -l {owner.name} -c 'gpuq …'") in result.stderr, result
    assert contents(queue) == before


def test_command_that_the_message_names_works(owner, queue):
    """The owner can read the environment of the job, so that of root must not be in it."""
    command = f"HOME={owner.home} GPUQ_GPUS=sim:2 GPUQ_CLAIMS_DIR={owner.home}/claims {GPUQ} run --jobs-file {queue}/jobs.jsonl; env"
    result = subprocess.run(["runuser", "--pty", "-l", owner.name, "-c", command], cwd=queue, env={**os.environ, "ROOT_SECRET": "1"}, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 0 and (queue / "ran").read_text() == f"{owner.uid}\n", result
    assert "SHELL=" in result.stdout and "ROOT_SECRET" not in result.stdout, result


def test_owner_without_a_name_is_reported_by_number(home):
    (home / "jobs.jsonl").touch()
    os.chown(home / "jobs.jsonl", 23456, 23456)
    result = gpuq("add", "--trust", "--no-start", "--jobs-file", "jobs.jsonl", "true", cwd=home)
    assert result.returncode == 2 and "it belongs to user 23456, " in result.stderr and result.stderr.endswith("; run gpuq as that user\n"), result
    assert (home / "jobs.jsonl").read_bytes() == b"" and not (home / "jobs.jsonl.d").exists()


def test_root_cannot_create_a_queue_where_new_files_belong_to_another_user(owner, machine):
    place = machine.project(owner)
    env = {"LD_PRELOAD": str(BUILD / "tests/cli/libforeign_files.so"), "FOREIGN_FILES": str(owner.uid), "ASAN_OPTIONS": "verify_asan_link_order=0",
           "HOME": str(owner.home), "XDG_STATE_HOME": str(owner.home / "state")}
    for words in (("add", "--no-start", "true"), ("run", "--commands-file", "/dev/null")):
        result = gpuq(words[0], "--trust", "--jobs-file", place / "jobs.jsonl", *words[1:], cwd=place, env=env)
        assert result.returncode == 2 and (f"cannot create journal '{place}/jobs.jsonl': the file system gives new files to user {owner.uid}; "
                                           "use --jobs-file with a file on another file system") in result.stderr, result
    assert list(place.iterdir()) == []


def test_root_gets_no_advice_that_does_not_work(owner, queue, home):
    result = gpuq("cancel", "1", cwd=queue, env={"HOME": str(home), "XDG_STATE_HOME": str(home)})
    assert "not using './jobs.jsonl', which belongs to another user; name it with --jobs-file to read it" in result.stderr, result
    words = f"root never runs or changes a queue of another user; use: runuser --pty -l {owner.name} -c 'gpuq …'"
    for trust in ([], ["--trust"]):
        result = gpuq("doctor", *trust, "--jobs-file", "jobs.jsonl", cwd=queue)
        assert words in result.stdout and "use --trust" not in result.stdout and "--trust or" not in result.stdout, result
    owner.sh("mkdir sub; ln -s ../jobs.jsonl sub/link", queue)
    result = gpuq("doctor", "--jobs-file", queue / "sub/link", cwd=home)
    assert "root follows no links of other users to a queue" in result.stdout and "--trust or" not in result.stdout, result


def test_root_reads_the_queue_of_a_user(queue, home):
    for words in (("status",), ("info", "1"), ("why", "1"), ("verify",), ("report", "-o", "-")):
        result = gpuq(words[0], "--jobs-file", queue / "jobs.jsonl", *words[1:], cwd=home)
        assert result.returncode == 0, result


def test_root_does_not_run_a_journal_that_a_user_puts_in_place(owner, home, machine):
    """The directory belongs to the user, and root accepts that: the journal of root can be replaced at any time."""
    place = machine.project(owner)
    journal = ("--jobs-file", place / "jobs.jsonl", "--trust")
    assert gpuq("add", *journal, "--no-start", "true", cwd=home).returncode == 0
    owner.sh(f"mkdir q; cd q; gpuq add --jobs-file ./jobs.jsonl --no-start -- 'touch {place}/ran'; mv ../jobs.jsonl ../old; mv jobs.jsonl ..", place)
    result = gpuq("run", *journal, cwd=home)
    assert result.returncode == 2 and f"it belongs to user '{owner.name}'" in result.stderr, result
    assert not (place / "ran").exists()


def test_active_runner_of_root_does_not_run_a_journal_that_a_user_puts_in_place(owner, home, machine):
    place = machine.project(owner)
    journal = ("--jobs-file", place / "jobs.jsonl", "--trust")
    assert gpuq("add", *journal, "--no-start", f"touch '{home}/began'", cwd=home).returncode == 0
    owner.sh(f"mkdir q; cd q; gpuq add --jobs-file ./jobs.jsonl --no-start -- 'touch {place}/ran'", place)
    with subprocess.Popen([GPUQ, "run", "--keep", *map(str, journal)], cwd=home, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "GPUQ_GPUS": "sim:2", "GPUQ_CLAIMS_DIR": str(home / "claims")}) as runner:
        try:
            until((home / "began").exists, "the job")
            owner.sh("mv jobs.jsonl old; mv q/jobs.jsonl .", place)
            errors = runner.communicate(timeout=LIMIT)[1]
        finally:
            runner.kill()
    assert runner.returncode == 2 and f"it belongs to user '{owner.name}'" in errors, errors
    assert not (place / "ran").exists()


def test_root_uses_its_own_queue_in_the_directory_of_a_user(owner, home, machine):
    place = machine.project(owner)
    journal = ("--jobs-file", place / "jobs.jsonl")
    for trust, env in ((["--trust"], {}), ([], {"GPUQ_TRUST": "1"})):
        for words in (("add", "--no-start", f"id -u > '{home}/ran'"), ("run",), ("prune",)):
            result = gpuq(words[0], *journal, *trust, *words[1:], cwd=home, env=env)
            assert result.returncode == 0, result
        assert (home / "ran").read_text() == "0\n"
        (home / "ran").unlink()
    result = gpuq("add", *journal, "--no-start", "true", cwd=home)
    assert result.returncode == 2 and "or use --trust" in result.stderr, result


@pytest.mark.parametrize("link", ["jobs.jsonl", "folder"])
def test_root_does_not_follow_a_link_to_another_queue_of_root(owner, home, machine, link):
    """The user's programs would run as root."""
    place = machine.project(owner)
    home.chmod(0o755)
    target = home / "jobs.jsonl"
    assert gpuq("add", "--jobs-file", target, "--no-start", "true", cwd=home).returncode == 0
    before = target.read_bytes()
    owner.sh(f"ln -s '{target if link == 'jobs.jsonl' else home}' '{link}'", place)
    journal = place / "jobs.jsonl" if link == "jobs.jsonl" else place / "folder" / "jobs.jsonl"
    for words in (("add", "--no-start", "true"), ("run",)):
        result = gpuq(words[0], "--jobs-file", journal, "--trust", *words[1:], cwd=home)
        assert result.returncode == 2 and "root follows no links of other users to a queue; name the file without them" in result.stderr, result
    assert target.read_bytes() == before


def test_user_who_is_root_of_a_namespace_uses_their_own_queue(owner, machine):
    place = machine.project(owner)
    for words in (("add", "--no-start", "id -u > ran"), ("run",), ("prune",)):
        assert owner.gpuq("add", "--no-start", "true", cwd=place).returncode == 0
        result = owner.run("unshare", "--user", "--map-root-user", "gpuq", *words, cwd=place)
        if "unshare failed" in result.stderr:
            pytest.skip("user namespaces are not permitted")
        assert result.returncode == 0, result
    assert (place / "ran").read_text() == "0\n"
