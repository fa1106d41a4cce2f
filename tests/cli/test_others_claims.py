# SPDX-License-Identifier: MIT
"""Claims on GPU memory on a machine with another user who means harm."""
import shutil
import subprocess

import pytest
from accounts import LIMIT, make_place, make_users, needs_users  # noqa: F401
from processes import until
from test_queue_memory import FAKE, GIB, HANG_ABOUT, card

pytestmark = needs_users

# Takes the name of a folder before its user does.
TAKE_NAME = """
import os, sys
os.mkdir(f"{sys.argv[1]}/gpuq-claims-{sys.argv[2]}")
print("done", flush=True)
"""

# Holds a claim that is complete and locked; argv: directory, text.
HOLD_CLAIM = """
import fcntl, os, sys
folder = f"{sys.argv[1]}/gpuq-claims-{os.getuid()}"
os.mkdir(folder, 0o755)
file = open(folder + "/x-1-1", "w")
fcntl.lockf(file, fcntl.LOCK_EX)
file.write(sys.argv[2])
file.flush()
print("done", flush=True)
sys.stdin.read()
"""


def claim_text(promised):
    lines = (f"gpuq-claim 1\nqueue evil\njob 7\npid 1\npromised {promised}\ndeclared 1\nsettled 0\n"
             "gpu GPU-00000000-0000-0000-0000-000000000000\n")
    checksum = 0xcbf29ce484222325
    for byte in lines.encode():
        checksum = (checksum ^ byte) * 0x100000001b3 % (1 << 64)
    return f"{lines}sum {checksum:016x}\n"


class Desk:
    """A user's own directory and queue, on a machine with one card of 80 GiB that nobody uses yet."""

    def __init__(self, place, account):
        self.account = account
        self.gpuq_path = place / "bin/gpuq"
        self.home = place / f"home-{account.uid}"
        self.home.mkdir()
        shutil.chown(self.home, account.uid, account.gid)
        nvml = place / "libnvidia-ml.so.1"
        if not nvml.exists():
            shutil.copy(FAKE, nvml)
            (place / "nvml").write_text(card(0, total=80, free=80))
            (place / "sys").mkdir()
            (place / "shared").mkdir()
            (place / "shared").chmod(0o1777)
        self.shared = place / "shared"
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GPUQ_SYSFS_ROOT": str(place / "sys"),
                            "GPUQ_NVML_LIBRARY": str(nvml), "FAKE_NVML": str(place / "nvml"), "GPUQ_CLAIMS_DIR": str(self.shared)}

    def gpuq(self, *words):
        result = subprocess.run([self.gpuq_path, *words], cwd=self.home, env=self.environment, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=LIMIT, check=False, **self.account.identity())
        assert result.returncode == 0, (words, result.stderr)
        return result.stdout

    def start(self, *words):
        process = subprocess.Popen([self.gpuq_path, *words], cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.account.identity())
        self.account.started.append(process)

    def until(self, condition, what):
        return until(condition, LIMIT, lambda: what)

    def end(self):
        (self.home / "go").touch()
        self.until(lambda: '"running"' not in self.gpuq("status", "--json"), "the jobs to end")


@pytest.fixture(name="desks")
def make_desks(place, users):
    made = [Desk(place, account) for account in users]
    yield made
    for desk in made:
        if (desk.home / "jobs.jsonl").exists():
            desk.end()


def test_claim_holds_though_another_user_took_its_place_first(desks):
    attacker, victim = desks
    assert attacker.account.attack(TAKE_NAME, attacker.shared, victim.account.uid) == "done"
    victim.gpuq("add", "--no-start", "--mem", "50G", HANG_ABOUT)
    victim.start("run")
    victim.until((victim.home / "ran").exists, "the job")
    attacker.gpuq("add", "--no-start", "--mem", "40G", "true")
    words = attacker.gpuq("why", "1")
    assert f"GPU 0: needs 40.0 GB, 30.0 GB free; 50.0 GB promised to job 1 of {victim.account.name} (queue " in words


def test_fake_claim_is_limited_to_the_card_and_named(desks):
    attacker, victim = desks
    assert attacker.account.attack(HOLD_CLAIM, attacker.shared, claim_text(8_000_000 * GIB)) == "done"
    victim.gpuq("add", "--no-start", "--mem", "10G", "true")
    words = victim.gpuq("why", "1")
    assert f"80.0 GB promised to job 7 of {attacker.account.name} (queue evil, pid " in words
