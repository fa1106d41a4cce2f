# SPDX-License-Identifier: MIT
"""How queues share their memory promises: a claim for each job, while it runs."""
import json
import os
import pathlib
import signal

from lab import LIMIT
from processes import ignore_signals, name_of
from test_queue_memory import HANG_ABOUT, box, card, go  # noqa: F401


def claims(lab):
    """The content of each file that claims a GPU."""
    found = []
    for path in (lab.directory / "claims").glob("gpuq-claims-*/[0-9a-f]*"):
        lines = [line.split(" ", 1) for line in path.read_text().split("\n") if " " in line]
        if any(line[0] == "gpu" for line in lines):
            found.append(dict(lines))
    return found


def other(box, *words, **options):
    return box.gpuq(words[0], "--jobs-file", "other.jsonl", *words[1:], **options)


def status_of_other(box):
    return json.loads(other(box, "status", "--json", 1))[0]["status"]


def test_job_that_outlives_its_runner_stays_claimed(box):  # noqa: F811
    box.cards(card(0, total=80, free=80))
    box.add("--mem", "50G", HANG_ABOUT)
    runner = box.start("run")
    box.until(box.ran, "the job")
    keeper = box.until(box.keepers)[0]
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    # Nothing is allocated yet: only the claim shows it. The runner's claim, if not yet withdrawn, is dead.
    held = [(claim["job"], claim["pid"], claim["promised"]) for claim in claims(box) if claim["pid"] != "0"]
    assert held == [("1", str(keeper), str(50 << 30))]
    other(box, "add", "--no-start", "--mem", "40G", "echo other >> ran")
    second = box.start("run", "--jobs-file", "other.jsonl", "--poll-interval", "0.05")
    other(box, "add", "--no-start", "--mem", "1G", "echo small >> ran")
    box.until(lambda: "small" in box.ran(), "the job that fits")
    assert status_of_other(box) == "pending"
    go(box)
    assert second.wait(LIMIT) == 0
    assert box.ran() == ["1", "small", "other"]
    assert claims(box) == []


def test_keeper_has_one_claim_file_for_all_its_jobs(box):  # noqa: F811
    box.cards(card(0, total=80, free=80))
    for _ in range(30):
        box.add("--mem", "1G", f"ls {box.directory}/claims/gpuq-claims-* >> files")
    box.gpuq("run", "--jobs-per-gpu", "1")
    names = set((box.directory / "files").read_text().split())
    # The keeper's, and the runner's for the next job.
    assert len(names) <= 3, names
    # A keeper that exits removes its claim.
    box.until(lambda: not list((box.directory / "claims").glob("gpuq-claims-*/[0-9a-f]*")), "the keepers to leave")


def test_claim_ends_with_a_killed_keeper(box):  # noqa: F811
    box.cards(card(0, total=80, free=80))
    box.add("--mem", "50G", HANG_ABOUT)
    box.start("run", "--keep")
    box.until(box.ran, "the job")
    os.kill(box.until(box.keepers)[0], signal.SIGKILL)
    other(box, "add", "--no-start", "--mem", "40G", "echo other >> ran")
    other(box, "run", "--poll-interval", "0.05")
    assert box.ran() == ["1", "other"]


def test_the_probe_starts_without_ignored_signals(box):  # noqa: F811
    box.cards(card(0))
    box.add(HANG_ABOUT)
    box.start("run", preexec_fn=ignore_signals)
    box.until(box.ran, "the job")
    probes = [pid for pid in box.processes() if name_of(pid) == "gpuq-probe"]
    assert len(probes) == 1
    status = pathlib.Path(f"/proc/{probes[0]}/status").read_text().split("\n")
    assert [line.split()[1] for line in status if line.startswith("SigIgn")] == ["0" * 16]
    go(box)
