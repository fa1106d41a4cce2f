# SPDX-License-Identifier: MIT
"""The source archive: the same bytes for the same commit, and everything that a build needs."""
import os
import pathlib
import re
import subprocess
import tarfile

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
LIMIT = 1200
in_git = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], capture_output=True, check=False).returncode == 0
pytestmark = pytest.mark.skipif(not in_git, reason="not a git repository")


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT, check=False, **options)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def make_archive(directory, **variables):
    return pathlib.Path(run(SOURCE / "tools/dist", directory, env={**os.environ, **variables}).strip())


def test_two_archives_of_a_commit_have_the_same_bytes(tmp_path):
    first = make_archive(tmp_path / "first", TZ="Asia/Tokyo", LC_ALL="C")
    before = os.umask(0o077)
    try:
        second = make_archive(tmp_path / "second", TZ="America/Lima", LC_ALL="C.UTF-8", USER="somebody")
    finally:
        os.umask(before)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_the_archive_has_a_folder_named_after_the_version_and_only_committed_files(tmp_path):
    archive = make_archive(tmp_path)
    version = re.search(r"^  version: '(.*)',$", run("git", "-C", SOURCE, "show", "HEAD:meson.build"), re.MULTILINE)[1]
    assert archive.name == f"gpu_dispatch-{version}.tar.gz"
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    files = {member.name.partition("/")[2] for member in members if not member.isdir()}
    committed = run("git", "-C", SOURCE, "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    assert files == set(committed)
    assert {member.name.partition("/")[0] for member in members} == {f"gpu_dispatch-{version}"}
    assert {(member.uid, member.gid) for member in members} == {(0, 0)}


@pytest.mark.heavy
def test_the_first_commands_of_the_readme_work_in_the_unpacked_archive(tmp_path):
    with tarfile.open(make_archive(tmp_path)) as tar:
        tar.extractall(tmp_path)
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GD_", "GPUQ"))}
    first = re.search(r"^```sh\n(.*?)^```$", (source / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    assert "make demo" in first
    out = run("bash", "-ec", first, cwd=source, env={**clean, "HOME": str(tmp_path)})
    assert "command 1 was on GPU" in out and "job 4 on GPU" in out and "Completed" in out
    # Only the programs of the demo were built.
    assert not (source / "build/gpuq-map").exists() and not (source / "build/tests").exists()
