# SPDX-License-Identifier: MIT
"""gpuq launch --watch in a folder in which other users create files, too: files of its user do not wait for theirs."""
import shutil

import pytest

from users import STICKY, get_other, get_owner, make_machine, needs_users  # noqa: F401
from watch_lab import Watch

pytestmark = needs_users

# Notes the order, and waits for the file go if the input says so.
WORK = ("--", "sh", "-c", 'basename "$GPUQ_FILE" >>order; if grep -q wait "$GPUQ_FILE"; then until [ -e go ]; do sleep 0.01; done; fi; cp "$GPUQ_FILE" "$GPUQ_OUTPUT/r"')


@pytest.fixture(name="place")
def make_place(machine, owner):
    return machine.project(owner)


def order(place):
    return (place / "order").read_text().split() if (place / "order").exists() else []


def results(place):
    return [path.read_text() for path in (place / "out").glob("talk*/r")]


def test_file_does_not_wait_with_a_file_that_another_user_had_at_its_path(machine, owner, other, place):
    shared = machine.directory(STICKY)
    other.sh("for n in 1 2; do echo wait 00000000000 > first$n; done; for n in 3 4 5; do echo 00000000 > n$n; done; echo 1 > talk", shared)
    watch = Watch(owner, place, shared, command=WORK)
    watch.until(lambda: order(place), "a busy worker")
    other.sh("rm talk", shared)
    owner.sh("echo own > .talk; mv .talk talk; echo own > last", shared)
    watch.until(lambda: "of 7 files" in watch.process.stdout.readline(), "the last file to be queued")
    (place / "go").touch()
    watch.until(lambda: len(order(place)) == 7, "all files")
    assert set(order(place)[2:4]) == {"talk", "last"}, "one file is running and one is prefetched"
    watch.end(codes=(0, 130))
    assert results(place) == ["own\n"]


def test_file_does_not_wait_until_the_file_of_another_user_at_its_path_has_ended(machine, owner, other, place):
    shared = machine.directory(STICKY)
    other.sh("echo wait > talk", shared)
    watch = Watch(owner, place, shared, gpus="sim:2", command=WORK)
    watch.until(lambda: order(place), "a busy worker")
    other.sh("rm talk", shared)
    owner.sh("echo own > .talk; mv .talk talk", shared)
    watch.until(lambda: "own\n" in results(place), "the file of the user")
    (place / "go").touch()
    watch.until(lambda: len(results(place)) == 2, "the other file")
    watch.end()
    assert order(place) == ["talk", "talk"]


def test_file_does_not_wait_with_an_incomplete_file_that_another_user_had_at_its_path(machine, owner, other, place):
    shared = machine.directory(STICKY)
    keep = "import os, sys; os.chdir(sys.argv[1]); f = open('talk', 'w'); print('made', flush=True)\nwhile True: os.utime(f.fileno())"
    assert other.attack(keep, shared) == "made"
    watch = Watch(owner, place, shared, command=WORK)
    owner.sh("echo 1 > first", shared)
    watch.until(lambda: order(place), "the first file")
    other.sh("rm talk", shared)
    owner.sh("echo own > .talk; mv .talk talk", shared)
    watch.until(lambda: "own\n" in results(place), "the file of the user")
    watch.end()
    assert order(place) == ["first", "talk"]


@pytest.mark.skipif(not shutil.which("setfacl"), reason="needs setfacl")
def test_file_with_an_access_list_is_processed_once(machine, owner, other, place):
    """It may be of several users, because a folder that is searched after it is open to others."""
    folder = machine.project(owner)
    owner.sh(f"mkdir -m 2775 sub; chgrp {machine.group} sub; umask 002; echo 1 > first; setfacl -m u:{other.uid}:r first", folder)
    watch = Watch(owner, place, folder, "--recursive", command=WORK)
    watch.until(lambda: order(place), "the first file")
    for name in ("a", "b"):
        other.sh(f"mkdir {name}; echo 1 > {name}/{name}", folder / "sub")
        watch.until(lambda: name in order(place), "a search")
    watch.end(codes=(0, 130))
    result = owner.gpuq("launch", "--input-dir", folder, "--output-dir", "out", "--pattern", "*", "--recursive", *WORK, cwd=place)
    assert result.returncode == 0, result
    assert order(place) == ["first", "a", "b"]
