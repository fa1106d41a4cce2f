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


def test_only_skipped_links(owner, other, machine):
    """There is no summary line if there is nothing to do."""
    folder = machine.project(other)
    other.sh(f"ln -s '{machine.directory(GROUP)}' train", folder)
    result = owner.run(*words(owner, folder), cwd=owner.home)
    assert result.returncode == 0 and "1 input skipped" in result.stdout, result
    assert summary(owner)["inputs_skipped"] == 1
    result = owner.gpuq("launch", "--input-dir", folder, "--recursive", "--gpus", "sim:1", "--dry-run", "--", "true", cwd=owner.home)
    assert result.returncode == 0 and "1 input skipped" in result.stdout, result
