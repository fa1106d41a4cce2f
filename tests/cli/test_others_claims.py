# SPDX-License-Identifier: MIT
"""Claims on GPU memory on a machine with a malicious other user."""
import json
import os
import shutil
import socket
import subprocess
import time

import pytest
from processes import until
from test_queue_memory import FAKE, GIB, HANG_ABOUT, card
from users import GROUP, LIMIT, STICKY, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

# Creates a folder under the victim's name first.
TAKE_NAME = """
import os, sys
os.mkdir(f"{sys.argv[1]}/gpuq-claims-{sys.argv[2]}")
print("done", flush=True)
"""

# Creates a folder under the victim's name and fills the directory; argv: directory, uid, number of folders.
FILL = """
import os, sys
for n in range(int(sys.argv[3])):
    os.mkdir(f"{sys.argv[1]}/gpuq-claims-{sys.argv[2]}" + (f"-{n:016x}" if n else ""))
print("done", flush=True)
"""

# Holds a complete and locked claim; argv: directory, text.
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


GPU = "GPU-00000000-0000-0000-0000-000000000000"

# A card whose driver lists no processes.
SILENT = {"fail": ["GetComputeRunningProcesses 3", "GetGraphicsRunningProcesses 3"]}


def claim_text(promised, gpu=GPU):
    lines = f"gpuq-claim 1\nqueue evil\njob 7\npid 1\npromised {promised}\ndeclared 1\nsettled 0\ngpu {gpu}\n"
    checksum = 0xcbf29ce484222325
    for byte in lines.encode():
        checksum = (checksum ^ byte) * 0x100000001b3 % (1 << 64)
    return f"{lines}sum {checksum:016x}\n"


class Desk:
    """A user's own directory and queue, on a machine with one unused card of 80 GiB."""

    def __init__(self, machine, place, account):
        self.account = account
        self.command, self.identity = [machine.place / "bin/gpuq"], account.identity()
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
        self.nvml = place / "nvml"
        self.shared = place / "shared"
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GPUQ_JOBS_FILE": "./jobs.jsonl", "GPUQ_SYSFS_ROOT": str(place / "sys"),
                            "GPUQ_NVML_LIBRARY": str(nvml), "FAKE_NVML": str(place / "nvml"), "GPUQ_CLAIMS_DIR": str(self.shared)}

    def cards(self, *cards):
        draft = self.nvml.with_suffix(".draft")
        draft.write_text("".join(cards))
        draft.rename(self.nvml)

    def job(self, number):
        return {job["id"]: job for job in json.loads(self.gpuq("status", "--json"))}[number]

    def spend_time_of(self, account):
        """As if this user's runners had seen claims of the account, without a process on the card, for 15 minutes."""
        state = self.home / ".local/state/gpuq"
        state.mkdir(parents=True, mode=0o700, exist_ok=True)
        path = state / f"claims-{socket.gethostname()}"
        path.write_text(f"gpuq-proofs 2\n{account.uid} {GPU} {901 * 10**9} {time.time_ns()} 0 .\n")
        path.chmod(0o600)
        for made in (path, *list(path.parents)[:3]):
            os.chown(made, self.account.uid, self.account.gid)

    def hide_processes(self, hidepid):
        """/proc no longer shows this user the processes of others."""
        script = f'mount -t proc -o hidepid={hidepid} proc /proc && exec setpriv --reuid {self.account.uid} --regid {self.account.gid} --clear-groups "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh"]
        if subprocess.run([*command, "sh", "-c", "! cat /proc/1/stat"], check=False, capture_output=True).returncode:
            pytest.skip("needs a mount of /proc with hidepid of its own")
        self.command, self.identity = [*command, *self.command], {}

    def gpuq(self, *words):
        result = subprocess.run([*self.command, *words], cwd=self.home, env=self.environment, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=LIMIT, check=False, **self.identity)
        assert result.returncode == 0, (words, result.stderr)
        return result.stdout

    def run_all(self):
        """All that a runner prints until the queue is empty."""
        process = subprocess.run([*self.command, "run", "--no-panel"], cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, check=True, **self.identity)
        return process.stdout

    def doctor(self):
        return subprocess.run([*self.command, "doctor"], cwd=self.home, env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT, check=False, **self.identity).stdout

    def start(self, *words):
        process = subprocess.Popen([*self.command, *words], cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.identity)
        self.account.started.append(process)
        return process

    def until(self, condition, what):
        return until(condition, LIMIT, lambda: what)

    def end(self):
        (self.home / "go").touch()
        self.until(lambda: '"running"' not in self.gpuq("status", "--json"), "the jobs to end")


@pytest.fixture(name="desks")
def make_desks(machine, owner, other):
    place = machine.directory(0o755)
    made = [Desk(machine, place, account) for account in (other, owner)]
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
    assert f"GPU 0: 30.0 GiB free, job needs 40.0 GiB; 50.0 GiB promised to job 1 of {victim.account.name} (queue " in words


def test_directory_of_a_group_that_is_moved_to_the_place_of_claims_stays_as_it_is(desks):
    """A member of the group can move a directory that the group can write; it still belongs to the victim."""
    _, victim = desks
    moved = victim.shared / f"gpuq-claims-{victim.account.uid}"
    moved.mkdir()
    (moved / "model-0123456789abcdef").write_text("precious")
    for path in (moved, moved / "model-0123456789abcdef"):
        shutil.chown(path, victim.account.uid, victim.account.gid)
    moved.chmod(0o2730)
    for _ in range(2):
        victim.gpuq("add", "--no-start", "--mem", "1G", "true")
        assert "Completed" in victim.run_all()
    assert moved.stat().st_mode & 0o7777 == 0o2730 and (moved / "model-0123456789abcdef").exists()
    assert list(victim.shared.glob(f"gpuq-claims-{victim.account.uid}-*"))


def test_folder_of_claims_that_was_bloated_is_not_read(desks):
    """Removed names leave a large directory behind, and each reading would scan it."""
    attacker, victim = desks
    assert attacker.account.attack(HOLD_CLAIM, attacker.shared, claim_text(80 * GIB)) == "done"
    folder = attacker.shared / f"gpuq-claims-{attacker.account.uid}"
    victim.gpuq("add", "--no-start", "--mem", "10G", "true")
    assert f"promised to job 7 of {attacker.account.name}" in victim.gpuq("why", "1")
    names = [folder / (f"{number:06}" + "x" * 240) for number in range(8000)]
    for name in names:
        name.touch()
    for name in names:
        name.unlink()
    if folder.stat().st_size <= 1 << 20:
        pytest.skip("directories of this file system shrink")
    assert "promised to job 7" not in victim.gpuq("why", "1")


def test_fake_claim_is_limited_to_the_card_and_named(desks):
    attacker, victim = desks
    assert attacker.account.attack(HOLD_CLAIM, attacker.shared, claim_text(8_000_000 * GIB)) == "done"
    victim.gpuq("add", "--no-start", "--mem", "10G", "true")
    words = victim.gpuq("why", "1")
    assert f"80.0 GiB promised to job 7 of {attacker.account.name} (queue evil, pid " in words


def test_fake_claim_that_earlier_runners_saw_for_long_blocks_nothing(desks):
    """The runners of a user share the time for which they accept an unproven claim.

    The attacker cannot make a new runner restart it, even by leaving no space for the victim's folder of claims."""
    attacker, victim = desks
    assert attacker.account.attack(HOLD_CLAIM, attacker.shared, claim_text(80 * GIB)) == "done"
    assert attacker.account.attack(FILL, attacker.shared, victim.account.uid, 4200) == "done"
    proofs = victim.home / ".local/state/gpuq" / f"claims-{socket.gethostname()}"
    victim.gpuq("add", "--no-start", "--mem", "10G", "true")
    first = victim.start("run", "--keep", "--poll-interval", "0.05")
    victim.until(lambda: proofs.exists() and str(attacker.account.uid) in proofs.read_text(), "the first runner's record")
    victim.until(lambda: "is starting" not in victim.gpuq("why", "1"), "the settings of the runner")
    assert "promised to job 7 of" in victim.gpuq("why", "1")
    first.kill()
    first.wait()
    user, gpu, _, seen, proved, end = proofs.read_text().splitlines()[1].split()
    assert (user, end) == (str(attacker.account.uid), ".")
    # As if it had watched for a quarter of an hour.
    proofs.write_text(proofs.read_text().splitlines()[0] + f"\n{user} {gpu} {900 * 10**9} {seen} {proved} .\n")
    assert "promised to job 7 of" not in victim.gpuq("why", "1")
    assert victim.start("run").wait(LIMIT) == 0
    # No other user can read or change the record.
    assert proofs.stat().st_mode & 0o777 == 0o600 and proofs.stat().st_uid == victim.account.uid
    assert proofs.parent.stat().st_mode & 0o777 == 0o700
    # Runner and keeper found the folder that the first of them created, although the directory is full.
    with os.scandir(victim.shared) as entries:
        assert sum(entry.stat(follow_symlinks=False).st_uid == victim.account.uid for entry in entries) == 1


@pytest.mark.parametrize("exists", [False, True])
def test_directory_of_claims_that_a_group_can_replace_is_refused(machine, desks, exists):
    """A member could exchange the new directory with a private one before its mode is set, or hide the existing claims."""
    victim, group = desks[1], machine.directory(GROUP)
    claims = group / "claims"
    if exists:
        claims.mkdir()
        claims.chmod(STICKY)
    words = (f"the directory of claims '{claims}' could be replaced by another user: directory '{group}' can be written by group '{machine.group}'; "
             "set GPUQ_CLAIMS_DIR to another directory, or run 'chmod +t' on the directory that others can write to")
    victim.environment["GPUQ_CLAIMS_DIR"] = str(claims)
    victim.gpuq("add", "--no-start", "--mem", "10G", "true")
    assert "promised" not in victim.gpuq("why", "1")
    assert f"gpuq: {words}; other queues on this machine are not seen\n" in victim.run_all()
    assert words in victim.doctor()
    assert [path.name for path in group.rglob("*")] == (["claims"] if exists else [])
    # The advice helps.
    group.chmod(GROUP | 0o1000)
    assert "could be replaced" not in victim.doctor()
    victim.gpuq("add", "--no-start", "--mem", "10G", "true")
    assert "other queues" not in victim.run_all()
    assert claims.stat().st_mode & 0o7777 == STICKY
    assert (claims / f"gpuq-claims-{victim.account.uid}").exists()


def test_link_of_another_user_in_the_path_of_claims_is_refused(machine, desks):
    attacker, victim = desks
    shared = machine.directory(STICKY)
    attacker.account.sh(f"ln -s '{victim.home}' link", shared)
    victim.environment["GPUQ_CLAIMS_DIR"] = str(shared / "link/claims")
    victim.gpuq("add", "--no-start", "--mem", "10G", "true")
    assert f"'{shared}/link' is a symbolic link of another user" in victim.run_all()
    assert not (victim.home / "claims").exists()


def test_claim_on_another_gpu_does_not_hide_that_a_gpu_is_full(desks):
    """The driver lists no processes, so the memory of the card is that of the job only if nobody else has a claim there."""
    attacker, victim = desks
    victim.cards(card(0, **SILENT))
    assert attacker.account.attack(HOLD_CLAIM, attacker.shared, claim_text(GIB, "GPU-elsewhere")) == "done"
    victim.gpuq("add", "--no-start", "--mem", "40G", HANG_ABOUT + "; exit 1")
    victim.gpuq("add", "--no-start", "--mem", "50G", "true")
    runner = victim.start("run", "--poll-interval", "0.05")
    victim.until((victim.home / "ran").exists, "the job")
    victim.cards(card(0, free=1, **SILENT))
    victim.until(lambda: "GPU 0: 1.0 GiB free" in victim.gpuq("why", "2"), "the sample")
    victim.end()
    victim.cards(card(0, **SILENT))
    assert runner.wait(LIMIT) == 1
    assert victim.job(1)["reason"] == "GPU out of memory"


def test_claim_that_no_longer_counts_does_not_remove_the_energy_of_a_job(desks):
    attacker, victim = desks
    victim.cards(card(0, energy="5000000 100000"))
    assert attacker.account.attack(HOLD_CLAIM, attacker.shared, claim_text(GIB)) == "done"
    # On a loaded machine a short job gets too few samples.
    for number, seconds in enumerate((2, 4, 8, 16), 1):
        victim.spend_time_of(attacker.account)
        victim.gpuq("add", "--no-start", "--exclusive", f"sleep {seconds}")
        assert victim.start("run", "--poll-interval", "0.05").wait(LIMIT) == 0
        if victim.job(number)["energy_j"] is not None:
            return
    pytest.fail("no energy")


def test_memory_that_a_claim_used_before_the_runner_started_counts_once(desks):
    other_user, user = desks
    user.cards(card(0, free=40, **SILENT))
    assert other_user.account.attack(HOLD_CLAIM, user.shared, claim_text(40 * GIB)) == "done"
    user.gpuq("add", "--no-start", "--mem", "30G", "true")
    assert "there is room for it now" in user.gpuq("why", "1")
    assert "Completed" in user.run_all()


def test_small_claim_does_not_hide_memory_that_others_use(desks):
    """Otherwise both jobs would be placed in the 40 GiB that the other user leaves."""
    attacker, victim = desks
    victim.cards(card(0, free=40, **SILENT))
    assert attacker.account.attack(HOLD_CLAIM, victim.shared, claim_text(GIB)) == "done"
    victim.gpuq("add", "--no-start", "--mem", "30G", HANG_ABOUT)
    victim.gpuq("add", "--no-start", "--mem", "30G", "true")
    runner = victim.start("run", "--poll-interval", "0.05")
    victim.until((victim.home / "ran").exists, "the job")
    assert "GPU 0: 10.0 GiB free, job needs 30.0 GiB" in victim.gpuq("why", "2")
    victim.end()
    assert runner.wait(LIMIT) == 0


@pytest.mark.parametrize("hidepid", [1, 2])
def test_claim_counts_once_if_the_processes_of_others_are_hidden(desks, hidepid):
    """The driver lists the process of the claim, but it cannot be attributed."""
    other_user, user = desks
    assert other_user.account.attack(HOLD_CLAIM, user.shared, claim_text(40 * GIB)) == "done"
    holder = other_user.account.started[-1]
    user.hide_processes(hidepid)
    user.cards(card(0, free=40, compute=f"{holder.pid} {40 * GIB}"))
    user.gpuq("add", "--no-start", "--mem", "30G", "true")
    assert "there is room for it now" in user.gpuq("why", "1")
    assert "Completed" in user.run_all()
    # The process uses less than was promised to it, and the user's 15 minutes are over.
    user.cards(card(0, free=70, compute=f"{holder.pid} {10 * GIB}"))
    user.spend_time_of(other_user.account)
    user.gpuq("add", "--no-start", "--mem", "50G", "true")
    runner = user.start("run", "--poll-interval", "0.05")
    user.until(lambda: "GPU 0: 40.0 GiB free, job needs 50.0 GiB" in user.gpuq("why", "2"), "the claim")
    holder.kill()
    assert runner.wait(LIMIT) == 0
    assert "/proc hides the processes of other users (hidepid)" in user.doctor()
