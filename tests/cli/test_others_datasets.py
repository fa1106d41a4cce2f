# SPDX-License-Identifier: MIT
"""A launch over a dataset of a colleague, who may be an attacker: links to folders and files of others."""
import json
import signal

import pytest

from users import GROUP, LIMIT, until, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

ADVICE = "; create the link yourself, or use --trust to follow it"


def words(user, folder, *more, command=("cp", "{file}", "{output}/r")):
    user.sh("rm -rf out", user.home)
    return ("gpuq", "launch", "--input-dir", folder, "--output-dir", user.home / "out", "--pattern", "*", "--recursive", "--gpus", "sim:1",
            "--json", user.home / "summary.json", *more, "--", *command)


def results(user):
    out = user.home / "out"
    return sorted(str(path.parent.relative_to(out)) for path in out.rglob("r"))


def summary(user):
    return json.loads((user.home / "summary.json").read_text())


@pytest.fixture(name="dataset")
def make_dataset(machine, owner, other):
    """A folder of the colleague with a link to a folder on another disk, a link to a public file of the user, and loops."""
    folder, disk = machine.project(other), machine.project(other)
    mine = machine.project(owner)
    other.sh("mkdir more; echo 1 > one; echo 2 > more/two", disk)
    owner.sh("echo 3 > three; chmod 644 three", mine)
    other.sh(f"echo 0 > zero; ln -s '{disk}' train; ln -s '{mine}/three' three", folder)
    other.sh(f"ln -s '{folder}' more/back; ln -s . more/again", disk)
    return folder


def test_skipped_links_are_counted_and_explained(owner, dataset):
    result = owner.run(*words(owner, dataset), cwd=owner.home)
    assert result.returncode == 0 and results(owner) == ["zero"], result
    link = "is skipped: its path contains a symbolic link of another user to a"
    assert f"'train' {link} folder{ADVICE}\n" in result.stderr and f"'three' {link} file of yours{ADVICE}\n" in result.stderr, result
    assert "1 of 1 files done, 2 inputs skipped; " in result.stdout, result
    assert summary(owner)["inputs_skipped"] == 2 and summary(owner)["files_total"] == 1


@pytest.mark.parametrize("trust", ["--trust", "GPUQ_TRUST"])
def test_trusted_links_are_followed(owner, dataset, trust):
    more, env = (("--trust",), {}) if trust == "--trust" else ((), {trust: "1"})
    result = owner.run(*words(owner, dataset, *more), cwd=owner.home, env=env)
    assert result.returncode == 0, result
    assert results(owner) == ["three", "train/more/two", "train/one", "zero"], result
    assert "inputs skipped" not in result.stdout and summary(owner)["inputs_skipped"] == 0
    assert result.stderr.count("is skipped: it is a link to one of its own parent folders") == 2, result
    # Others can still choose the files: the results stay private unless the user trusts everybody.
    assert (owner.home / "out").stat().st_mode & 0o777 == (0o700 if trust == "--trust" else 0o755)


def test_trusted_links_are_followed_in_a_watched_folder(owner, other, dataset):
    process = owner.start(*words(owner, dataset, "--watch", "--trust"), cwd=owner.home)
    until(lambda: len(results(owner)) == 4, "the first files")
    other.sh("ln -s train/one new", dataset)
    until(lambda: "new" in results(owner), "the new link")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, (out, err)


def test_skipped_links_to_files_count_only_if_a_pattern_matches_them(owner, dataset):
    command = ["zero" if word == "*" else word for word in words(owner, dataset)]
    result = owner.run(*command, cwd=owner.home)
    assert result.returncode == 0 and results(owner) == ["zero"], result
    assert "'train' is skipped" in result.stderr and "three" not in result.stderr, result
    assert summary(owner)["inputs_skipped"] == 1


def test_only_skipped_links(owner, other, machine):
    """There is no summary line if there is nothing to do."""
    folder = machine.project(other)
    other.sh(f"ln -s '{machine.directory(GROUP)}' train", folder)
    result = owner.run(*words(owner, folder), cwd=owner.home)
    assert result.returncode == 0 and "1 input skipped" in result.stdout, result
    assert summary(owner)["inputs_skipped"] == 1
    result = owner.gpuq("launch", "--input-dir", folder, "--recursive", "--gpus", "sim:1", "--dry-run", "--", "true", cwd=owner.home)
    assert result.returncode == 0 and "1 input skipped" in result.stdout, result


# ---- Files that take forever -------------------------------------------------------------

HOLES = "it has more than 64 MiB of holes, which take long to read"


@pytest.fixture(name="sparse")
def make_sparse(machine, owner, other):
    """A folder of the group. Files of a terabyte without data: of the colleague, of the user, of the user but writable by the group,
    of root behind a link of the colleague, and one that only the colleague can open."""
    folder, place = machine.directory(GROUP), machine.directory(0o755)
    with open(place / "log", "wb") as file:
        file.truncate(1 << 40)
    (place / "log").chmod(0o644)
    other.sh(f"truncate -s 1T theirs; truncate -s 60M small; chmod 644 theirs small; ln -s '{place}/log' log; ln -s theirs again", folder)
    owner.sh("truncate -s 1T mine; echo 1 > a; truncate -s 1T ours; chmod 664 ours", folder)
    other.sh("truncate -s 1T closed; chmod 0 closed", folder)
    return folder


def test_sparse_files_of_another_user_are_skipped(owner, sparse):
    result = owner.run(*words(owner, sparse, command=("touch", "{output}/r")), cwd=owner.home)
    assert result.returncode == 0 and results(owner) == ["a", "mine", "small"], result
    for name in ("theirs", "again", "log", "ours", "closed"):
        assert f"'{name}' is skipped: another user may have written or chosen it, and {HOLES}; use --trust to include it\n" in result.stderr, result
    assert summary(owner)["inputs_skipped"] == 5
    result = owner.gpuq("launch", "--input-dir", sparse, "--output-dir", "out2", "--pattern", "a", "--recursive", "--gpus", "sim:1", "--", "true", cwd=owner.home)
    assert result.returncode == 0 and "skipped" not in result.stderr, result


@pytest.mark.parametrize("trust", ["--trust", "GPUQ_TRUST"])
def test_trusted_sparse_files_are_processed(owner, sparse, trust):
    more, env = (("--trust",), {}) if trust == "--trust" else ((), {trust: "1"})
    result = owner.run(*words(owner, sparse, *more, command=("touch", "{output}/r")), cwd=owner.home, env=env)
    assert result.returncode == 1 and "closed: " in result.stdout and results(owner) == ["a", "again", "log", "mine", "ours", "small", "theirs"], result


def test_sparse_file_under_a_lease_is_skipped(owner, other, sparse):
    """Nobody can open the file, so its holes cannot be counted."""
    lease = ("import fcntl, os, signal, sys\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nf = os.open(sys.argv[1], os.O_RDWR)\n"
             "fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint('leased', flush=True)\nsignal.pause()\n")
    assert other.attack(lease, sparse / "theirs") == "leased"
    result = owner.run(*words(owner, sparse, command=("touch", "{output}/r")), cwd=owner.home)
    assert result.returncode == 0 and "theirs" not in results(owner) and "'theirs' is skipped: another user may have written or chosen it" in result.stderr, result


def test_file_that_becomes_sparse_while_it_waits_is_not_processed(machine, owner, other):
    shared = machine.directory(GROUP)
    other.sh("echo x > b", shared)
    owner.sh("echo the longest > a; echo longer > c", shared)
    owner.sh("rm -f go began; mkfifo go", owner.home)
    process = owner.start(*words(owner, shared, command=(
        "sh", "-c", f"if [ {{stem}} = a ]; then cd '{owner.home}'; touch began; cat go; fi; touch {{output}}/r")), cwd=owner.home)
    until(lambda: process.poll() is not None or (owner.home / "began").exists(), "the first file")
    other.sh("truncate -s 1T b", shared)
    owner.sh("echo > go", owner.home)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and HOLES in out + err, (out, err)
    assert results(owner) == ["a", "c"]


def test_sparse_file_in_a_watched_folder_is_skipped(machine, owner, other):
    shared = machine.directory(GROUP)
    process = owner.start(*words(owner, shared, "--watch", command=("touch", "{output}/r")), cwd=owner.home)
    other.sh("echo x > first", shared)
    until(lambda: results(owner) == ["first"], "the first file")
    other.sh("truncate -s 1T big; echo x > second", shared)
    until(lambda: "second" in results(owner), "the second file")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and results(owner) == ["first", "second"], (out, err)
    assert f"'big' is skipped: another user may have written or chosen it, and {HOLES}; use --trust to include it\n" in err, err


ORDER = ("sh", "-c", "echo {name} >> order; touch {output}/r")


def order(owner, folder, *more, env=None):
    owner.sh("rm -f order", owner.home)
    result = owner.run(*words(owner, folder, *more, command=ORDER), cwd=owner.home, env=env)
    assert result.returncode == 0, result
    return (owner.home / "order").read_text().split()


def test_files_of_others_do_not_delay_own_files(machine, owner, other):
    shared = machine.directory(GROUP)
    other.sh("for i in 1 2 3; do truncate -s ${i}0M theirs$i; done", shared)
    owner.sh("for i in 1 2; do truncate -s ${i}k mine$i; done", shared)
    assert order(owner, shared) == ["mine2", "mine1", "theirs3", "theirs2", "theirs1"]
    assert order(owner, shared, "--balance", "size") == ["mine2", "mine1", "theirs3", "theirs2", "theirs1"]
    assert order(owner, shared, "--balance", "none") == ["mine1", "mine2", "theirs1", "theirs2", "theirs3"]
    assert order(owner, shared, "--trust") == ["theirs3", "theirs2", "theirs1", "mine2", "mine1"]
    assert order(owner, shared, env={"GPUQ_TRUST": "1"}) == ["theirs3", "theirs2", "theirs1", "mine2", "mine1"]
    closed = machine.directory(0o755)
    (shared / "theirs3").rename(closed / "theirs3")
    (shared / "mine2").rename(closed / "mine2")
    assert order(owner, closed) == ["theirs3", "mine2"]
