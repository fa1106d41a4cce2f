# SPDX-License-Identifier: MIT
"""Frozen git trees of a user, in a queue that no other user can write."""
import os
import shutil

from users import plant

COMMIT = "git -c user.name=x -c user.email=x@y commit -qm x --allow-empty"


def queue(owner):
    """A new queue in the home of the owner."""
    path = owner.home / "jobs.jsonl"
    for old in owner.home.glob("jobs.jsonl*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    return {"GPUQ_JOBS_FILE": str(path)}


def freeze(owner, directory, *words, env=None):
    return owner.gpuq("add", "--freeze", "--hold", "--no-start", *words, "true", cwd=directory, env={**queue(owner), **(env or {})})


def wrap_git(owner, script):
    """Environment in which git is a script; it calls the real git as "$REAL"."""
    owner.sh("rm -rf ~/bin; mkdir ~/bin", "/")
    plant(owner, owner.home / "bin/git", f"#!/bin/sh\n{script}\n", 0o755)
    return {"REAL": shutil.which("git"), "PATH": f"{owner.home}/bin:{owner.place}/bin:{os.environ['PATH']}"}
