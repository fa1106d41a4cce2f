# SPDX-License-Identifier: MIT
"""Two users of this machine who do not trust each other, and a gpuq that both can execute."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import processes
import pytest
import sealing

BUILD = pathlib.Path(os.environ["GD_BUILD"])
GPUQ = pathlib.Path(os.environ["GPUQ"])
LIMIT = 240  # seconds, timeout for operations that take milliseconds
STICKY, GROUP = 0o1777, 0o2775  # modes of directories
OPEN = f"chmod {GROUP:o} ."
JOURNAL = sealing.seal(sealing.HEADER, 1).decode()
WAIT_FOR = "until [ -e {0} ]; do sleep 0.01; done"
MAPPER = """import json, sys
print(json.dumps({"type": "ready"}), flush=True)
sys.stdin.readline()
for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps({"id": message["id"], "ok": True, "results": message["items"]}), flush=True)
"""


needs_users = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("useradd") or not shutil.which("userdel"),
                                 reason="creates two users: run it as root, with useradd")


class User:
    """A new account with a private group, which is also a member of `group`."""

    def __init__(self, name, group, place):
        subprocess.run(["useradd", "--no-create-home", "--no-log-init", "--user-group", "--groups", group, name], check=True)
        self.name = name
        self.uid = int(subprocess.check_output(["id", "-u", name]))
        self.gid = int(subprocess.check_output(["id", "-g", name]))
        self.groups = [int(n) for n in subprocess.check_output(["id", "-G", name]).split()]
        self.home = place / name
        self.home.mkdir(mode=0o700)
        os.chown(self.home, self.uid, self.gid)
        self.place = place
        self.started = []

    def remove(self):
        processes.end_started(self.started)
        for pid in processes.with_variable("GPUQ_TEST_USER", self.name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        subprocess.run(["userdel", "--force", self.name], check=False, capture_output=True)

    def identity(self):
        return {"user": self.uid, "group": self.gid, "extra_groups": self.groups}

    def options(self, env, umask):
        return {**self.identity(), "umask": umask, "env": {
            "HOME": str(self.home), "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}", "GPUQ_GPUS": "sim:2", "GPUQ_JOBS_FILE": "./jobs.jsonl",
            "GPUQ_CLAIMS_DIR": str(self.home / "claims"), "GPUQ_TEST_USER": self.name, **(env or {})}}

    def start(self, *words, cwd, env=None, umask=0o022):
        process = subprocess.Popen([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **self.options(env, umask))
        self.started.append(process)
        return process

    def run(self, *words, cwd, env=None, umask=0o022):
        """The finished process; a timeout fails the test."""
        return subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT, check=False, **self.options(env, umask))

    def gpuq(self, *words, cwd, env=None):
        return self.run("gpuq", *words, cwd=cwd, env=env)

    def attack(self, program, *words):
        """Runs a Python program; returns the first line that it prints. The program may continue."""
        process = subprocess.Popen([sys.executable, "-c", program, *map(str, words)], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
                                   text=True, cwd="/", **self.identity())
        self.started.append(process)
        return process.stdout.readline().strip()

    def sh(self, script, cwd):
        result = self.run("sh", "-ec", script, cwd=cwd)
        assert result.returncode == 0, result
        return result.stdout


class Machine:
    """The users `owner` and `other`, a directory for all users (like /tmp) and one of a group with both users."""

    def __init__(self, place):
        self.place = place
        place.chmod(0o755)
        (place / "bin").mkdir(mode=0o755)
        for program in (GPUQ, *(BUILD / f"gpuq-{name}" for name in ("launch", "map", "worker", "probe", "slurm", "web"))):
            if program.exists():
                shutil.copy(program, place / "bin" / program.name)
        self.group = f"gpuqg{os.getpid()}"
        self.users = []
        self.number = 0

    def add_users(self):
        """Separate from the constructor, so that remove() cleans up after a failure."""
        subprocess.run(["groupadd", self.group], check=True)
        for letter in "ab":
            self.users.append(User(f"gpuq{letter}{os.getpid()}", self.group, self.place))
        self.owner, self.other = self.users

    def directory(self, mode):
        """A new directory owned by root and the group."""
        self.number += 1
        path = self.place / f"dir{self.number}"
        path.mkdir()
        shutil.chown(path, "root", self.group)
        path.chmod(mode)
        return path

    def project(self, owner):
        """A new directory of `owner`, who can share it with the group by running OPEN."""
        path = self.directory(0o755)
        shutil.chown(path, owner.uid, self.group)
        return path

    def remove(self):
        for user in self.users:
            user.remove()
        subprocess.run(["groupdel", self.group], check=False, capture_output=True)


@pytest.fixture(name="machine", scope="module")
def make_machine():
    with tempfile.TemporaryDirectory() as path:
        machine = Machine(pathlib.Path(path))
        try:
            machine.add_users()
            yield machine
        finally:
            machine.remove()


@pytest.fixture(name="owner")
def get_owner(machine):
    return machine.owner


@pytest.fixture(name="other")
def get_other(machine):
    return machine.other


def job(command, number=1):
    """The second line of a journal."""
    return sealing.seal({"event": "add", "id": number, "time": "2026-11-15T21:42:19.599Z", "command": command}, number + 1).decode()


def until(condition, what):
    return processes.until(condition, LIMIT, lambda: what)


def plant(user, path, text, mode=0o644):
    """Creates a file of that user, replacing any existing one."""
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text)
    os.chown(draft, user.uid, user.gid)
    draft.chmod(mode)
    user.sh(f"mv -f '{draft.name}' '{path.name}'", path.parent)


def hold_pipe(user, path):
    """A pipe of that user, who keeps it open and never reads."""
    program = "import os, sys; os.mkfifo(sys.argv[1]); os.chmod(sys.argv[1], 0o666); f = os.open(sys.argv[1], os.O_RDWR); print(1, flush=True); sys.stdin.read()"
    assert user.attack(program, path) == "1"


# Exchanges two entries as often as it can.
FLIP = """
import ctypes, os, sys
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
def flip():
    if renameat2(-100, os.fsencode(sys.argv[1]), -100, os.fsencode(sys.argv[2]), 2) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
flip()
print("begun", flush=True)
while True:
    flip()
"""


def refused(result, words):
    assert result.returncode == 2, result
    assert words in result.stderr, result
    assert "--trust" in result.stderr, result


def copy_journal(user, path, command):
    """Copies a queue with a waiting job to a file of that user, without a folder."""
    path.write_text(JOURNAL + job(command))
    os.chown(path, user.uid, user.gid)
    path.chmod(0o600)
