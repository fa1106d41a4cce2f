# SPDX-License-Identifier: MIT
"""Real users of this machine, made for a test and removed after it, and what they do."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

LIMIT = 240  # seconds, for anything that takes milliseconds

needs_users = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("useradd"),
                                 reason="needs several users: run it as root, with useradd")


class Account:
    """A user with a name, and processes of theirs."""

    def __init__(self, name):
        self.name = name
        subprocess.run(["useradd", "--no-create-home", "--user-group", "--shell", "/bin/sh", name], check=True, timeout=LIMIT)
        self.uid, self.gid = (int(subprocess.run(["id", flag, name], capture_output=True, check=True).stdout) for flag in ("-u", "-g"))
        self.started = []

    def identity(self):
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def attack(self, program, *words):
        """Runs a Python program as this user; returns once it has printed a line, which is the result."""
        process = subprocess.Popen([sys.executable, "-c", program, *map(str, words)], stdout=subprocess.PIPE,
                                   stdin=subprocess.PIPE, text=True, cwd="/", **self.identity())
        self.started.append(process)
        return process.stdout.readline().strip()

    def remove(self):
        for process in self.started:
            process.kill()
            process.communicate()
        subprocess.run(["userdel", "--force", self.name], check=True, capture_output=True, timeout=LIMIT)


@pytest.fixture(name="users")
def make_users():
    """Two users who do not know each other."""
    made = []
    try:
        for letter in "ab":
            made.append(Account(f"gpuq-{letter}{os.getpid()}"))
        yield made
    finally:
        for account in made:
            account.remove()


@pytest.fixture(name="place")
def make_place():
    """A directory that all users can enter, with a copy of the programs: the build may be where they cannot."""
    with tempfile.TemporaryDirectory() as path:
        directory = pathlib.Path(path)
        directory.chmod(0o755)
        (directory / "bin").mkdir()
        build = pathlib.Path(os.environ["GPUQ"]).parent
        for program in ("gpuq", "gpuq-probe", "gpuq-web"):
            if (build / program).exists():
                shutil.copy(build / program, directory / "bin")
        yield directory
