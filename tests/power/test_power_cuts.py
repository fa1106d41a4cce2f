# SPDX-License-Identifier: MIT
"""Power cuts: whatever reached the disk, accepted jobs and reported ends are kept, and the queue continues.

Real commands run under recorder.c, which logs their changes to the queue's files. From the log,
crash_states.py computes the possible states after a cut at any point, and the real `gpuq` recovers
from each.

    POWER_SEED    selects the states that are tried (default 1)
    POWER_STATES  how many states (default 100); 0: each cut, every combination of up to 12 unsynced changes
"""

import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "cli")]

import crash_states  # noqa: E402
from lab import Lab  # noqa: E402

RECORDER = pathlib.Path(os.environ["GD_BUILD"]) / "tests/power/librecorder.so"
SEED = int(os.environ.get("POWER_SEED", "1"))
STATES = int(os.environ.get("POWER_STATES", "100"))

FINAL = ("completed", "failed", "cancelled", "skipped")


class Recording:
    """A queue whose commands and promises are recorded."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.root = directory / "queue"
        self.root.mkdir()
        self.log = directory / "log"
        self.log.touch()
        self.lab = Lab(self.root, gpus="sim:1")
        self.lab.environment |= {
            "LD_PRELOAD": str(RECORDER),
            "POWER_LOG": str(self.log),
            "POWER_ROOT": str(self.root),
        }

    def mark(self, *words: object) -> None:
        with self.log.open("a") as file:
            file.write("mark " + " ".join(map(str, words)) + "\n")

    def add(self, *words: str) -> int:
        number = self.lab.add(*words)
        self.mark("accepted", number)
        return number

    def wait(self, number: int) -> None:
        self.lab.gpuq("wait", number, code=None)
        self.mark("ended", number)

    def run(self) -> None:
        """All existing jobs have ended when it returns, as its exit code shows."""
        self.lab.gpuq("run", "--quiet", code=None)
        for number, job in self.lab.jobs().items():
            self.mark("accepted", number)
            if job["status"] in FINAL:
                self.mark("ended", number)


def plain(r: Recording) -> None:
    """add, run with a hook that reports, cancel."""
    for n in range(3):
        r.add("--on-finish", f"echo mark ended $GPUQ_JOB_ID >> '{r.log}'", f"exit {n % 2}")
    r.add("true")
    r.lab.gpuq("cancel", 4)
    r.mark("ended", 4)
    r.run()


def pruned(r: Recording) -> None:
    """prune with finished and waiting jobs."""
    for _ in range(3):
        r.add("true")
    r.run()
    r.add("true")
    r.lab.gpuq("prune")
    r.add("false")
    r.run()
    r.lab.gpuq("prune", code=None)


def killed(r: Recording) -> None:
    """A runner is killed while a job runs; another one takes over."""
    hold = r.root / "hold"
    hold.touch()
    first = r.add("test ! -e hold || exec sleep 1000")
    second = r.add("true")
    runner = r.lab.start("run", "--quiet")
    r.lab.until(lambda: any(e["event"] == "start" for e in r.lab.events()))
    runner.kill()
    runner.wait()
    other = r.lab.start("run", "--quiet")
    r.lab.gpuq("cancel", first)
    r.wait(first)
    r.wait(second)
    other.wait()
    hold.unlink()


def large(r: Recording) -> None:
    """Lines that span blocks."""
    for n in range(3):
        r.add("true #" + "x" * 3000 * (n + 1))
    r.run()


SCENES = [plain, pruned, killed, large]


def rebuild(state: crash_states.State, root: pathlib.Path, directory: pathlib.Path) -> str:
    """Writes the files; returns the inode numbers that they must report."""
    inodes = []
    directory.mkdir(mode=0o700)
    for folder in state.folders:
        (directory / pathlib.Path(folder).relative_to(root)).mkdir(mode=0o700, parents=True, exist_ok=True)
    written: dict[str, pathlib.Path] = {}
    for name, inode in state.names.items():
        path = directory / pathlib.Path(name).relative_to(root)
        if not path.parent.is_dir():
            continue
        if inode in written:
            os.link(written[inode], path)
            continue
        path.write_bytes(state.contents.get(inode, b""))
        path.chmod(0o600)
        written[inode] = path
        inodes.append(f"{path.stat().st_ino}={inode.split('.')[0]}")
    for home in directory.rglob("jobs.jsonl.d/home"):
        # Without this, the queue would be refused as a copy, which it is.
        if home.read_bytes().endswith(b";"):
            home.write_text(f"inode {home.parent.stat().st_ino};")
    return " ".join(inodes)


def promises(log: crash_states.Log, cut: int) -> dict[str, set[int]]:
    made: dict[str, set[int]] = collections.defaultdict(set)
    for at, words in log.marks:
        if at <= cut:
            made[words[0]].add(int(words[1]))
    return made


def describe(state: crash_states.State) -> str:
    """Describes the state without environments, which may contain secrets."""
    files = {path: state.contents.get(inode, b"") for path, inode in state.names.items() if "/env/" not in path}
    return "\n".join(f"{path}: {content[:2000]!r}" for path, content in files.items())


def archived(directory: pathlib.Path) -> set[int]:
    """Jobs that prune has moved to the archive, from complete lines."""
    path = directory / "jobs.jsonl.archive"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    events = [json.loads(line) for line in lines if line.startswith(b'{"event":"add"') and line.endswith(b"}")]
    return {event["id"] for event in events}


def check(state: crash_states.State, root: pathlib.Path, made: dict[str, set[int]], where: pathlib.Path, run: bool) -> None:
    """Recovers with the real gpuq. `run`: also runs pending jobs."""
    shutil.rmtree(where, ignore_errors=True)
    inodes = rebuild(state, root, where)
    (where.parent / "boot").write_text("00000000-1111-2222-3333-444444444444\n")
    lab = Lab(where, gpus="sim:1")
    lab.environment |= {
        "LD_PRELOAD": str(RECORDER),
        "POWER_BOOT": str(where.parent / "boot"),
        "POWER_INODES": inodes,
    }
    try:
        added = int(lab.gpuq("add", "--no-start", "echo new"))
        jobs = lab.jobs()
        assert added in jobs and added not in made["accepted"], (added, made)
        lost = {n for n in made["accepted"] if n not in jobs and n not in archived(where)}
        assert not lost, f"accepted but lost: {lost}"
        again = {n for n in made["ended"] if n in jobs and jobs[n]["status"] not in FINAL}
        assert not again, f"reported as ended, but no longer ended: {again}, {jobs}"
        if run:
            before = len(lab.events())
            lab.gpuq("run", "--quiet", code=None)
            assert all(job["status"] in FINAL for job in lab.jobs().values()), lab.jobs()
            started = {e["id"] for e in lab.events()[before:] if e["event"] == "start"}
            assert not started & made["ended"], f"run again: {started & made['ended']}"
    finally:
        lab.end()


@pytest.mark.parametrize("scene", SCENES)
def test_power_cut_loses_nothing_that_was_promised(tmp_path: pathlib.Path, scene) -> None:
    recording = Recording(tmp_path)
    try:
        scene(recording)
    finally:
        recording.lab.end()
    log = crash_states.parse(recording.log)
    assert len(log.changes) > 10 and any(c.synced is not None for c in log.changes)
    chance = random.Random(f"{SEED} {scene.__name__}")
    per_scene = max(1, STATES // len(SCENES))
    cuts = chance.sample(range(log.lines), min(log.lines, max(1, per_scene // 4))) if STATES else range(log.lines)
    per_cut = max(4, per_scene // len(cuts)) if STATES else crash_states.MOST
    seen = set()
    print(f"POWER_SEED={SEED}: {log.lines} calls, {len(cuts)} cuts")
    done = 0
    for cut in cuts:
        made = promises(log, cut)
        for number, state in enumerate(crash_states.states(log, cut, chance, per_cut)):
            key = hash((repr(state), repr(made)))
            if key in seen:
                continue
            seen.add(key)
            try:
                check(state, recording.root, made, tmp_path / "after", run=done % 20 == 19)
            except (AssertionError, ValueError, subprocess.SubprocessError) as problem:
                pytest.fail(f"{scene.__name__}, POWER_SEED={SEED}, cut {cut}, state {number}: {problem}\n{describe(state)}")
            done += 1
    assert done > 0


def test_writes_that_are_not_synced_are_lost_in_some_state(tmp_path: pathlib.Path) -> None:
    """Tests the method itself: without its last sync, an accepted job would be lost."""
    recording = Recording(tmp_path)
    recording.add("true")
    text = recording.log.read_text().splitlines()
    recording.lab.end()
    recording.log.write_text("".join(line + "\n" for line in text if not line.startswith("sync")))
    log = crash_states.parse(recording.log)
    found = 0
    for state in crash_states.states(log, log.lines, random.Random(1), 64):
        journal = state.names.get(str(recording.root / "jobs.jsonl"))
        found += not journal or b'"add"' not in state.contents.get(journal, b"")
    assert found
