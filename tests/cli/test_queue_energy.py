# SPDX-License-Identifier: MIT
"""The energy of jobs, from the counters of their cards: only for jobs that used their cards alone,
and never a wrong value."""
import os
import subprocess

import pytest

from lab import LIMIT
from test_queue_memory import GIB, box, card  # noqa: F401

FAST = ("--poll-interval", "0.05")


def cards(box, shift=1_000_000_000):
    """100 W; 50 W with another user's process; 200 W with a counter that begins at `shift`; 80 W; no counter."""
    box.cards(card(0, energy="5000000 100000"),
              card(1, energy="5000000 50000", free=79, compute=f"{os.getpid()} {GIB}"),
              card(2, energy=f"{shift} 200000"),
              card(3, energy="7000000 80000"),
              card(4))


def ends(box):
    return {event["id"]: event for event in box.events() if event["event"] == "end"}


def test_energy_is_reported_only_for_jobs_that_had_their_cards_to_themselves(box):  # noqa: F811
    known = None
    # On a loaded machine a short job gets too few samples: retry with a longer one.
    for first, seconds in ((1, 2), (8, 4), (15, 8), (22, 16)):
        cards(box)
        work = f"echo $GPUQ_JOB_ID >> ran; sleep {seconds}"
        for words in (["0"], ["1", "--mem", "10G"], ["2"], ["4"], ["0,3", "--after", first],
                      ["3", "--mem", "10G", "--after", first + 4], ["3", "--mem", "10G", "--after", first + 4]):
            box.add("--gpu", *words, work)
        runner = box.start("run", *FAST)
        shift = 1_000_000_000
        while runner.poll() is None and shift > 0:
            try:
                runner.wait(0.2)
            except subprocess.TimeoutExpired:
                shift -= 1_000_000
                cards(box, shift)
        assert runner.wait(LIMIT) == 0
        known = box.jobs()
        if known[first]["energy_j"] is not None and known[first + 4]["energy_j"] is not None:
            break
    alone, other, backwards, without, two, shared, shared_too = [known[first + i] for i in range(7)]
    assert alone["energy_j"] == pytest.approx(100 * alone["duration"], rel=0.25)
    assert two["energy_j"] == pytest.approx(180 * two["duration"], rel=0.25)
    assert two["history"][0]["energy_j"] == two["energy_j"]
    for job in (other, backwards, without, shared, shared_too):
        assert job["energy_j"] is None, job
        assert "energy_j" not in ends(box)[job["id"]]
    assert ends(box)[first]["energy_j"] == alone["energy_j"]
    assert f"{alone['energy_j']} J" in box.gpuq("info", first)
    report = box.gpuq("report", "-o", "-")
    assert "<h2>Energy</h2>" in report and f"<td class=\"n\">{alone['energy_j']} J</td>" in report


def test_energy_is_not_reported_if_the_runner_has_left_or_another_took_over(box):  # noqa: F811
    """It is unknown which processes used the cards in between."""
    cards(box)
    box.add("--gpu", "0", "sleep 4; echo 1 >> ran; until [ -e go ]; do sleep 0.01; done")
    box.add("--gpu", "3", "sleep 4; echo 2 >> ran; until [ -e gone ]; do sleep 0.01; done")
    runner = box.start("run", *FAST)
    box.until(lambda: len(box.ran()) == 2, "the jobs")
    runner.kill()
    runner.wait()
    (box.directory / "go").touch()
    box.until(lambda: 1 in ends(box), "the end of the first")
    box.add("--gpu", "4", "echo 3 >> ran")
    runner = box.start("run", *FAST)
    box.until(lambda: 3 in ends(box), "the next runner to work")
    (box.directory / "gone").touch()
    assert runner.wait(LIMIT) == 0
    assert [job["energy_j"] for job in box.jobs().values()] == [None, None, None]
    assert [job["status"] for job in box.jobs().values()] == ["completed"] * 3
