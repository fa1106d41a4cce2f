# SPDX-License-Identifier: MIT
"""Commands on a job that was given to a keeper and has not started yet."""
import os
import signal

import pytest

from processes import naps


class Stopped:
    """A runner whose keepers are all idle and stopped."""

    def __init__(self, lab, count):
        self.lab = lab
        lab.environment["GPUQ_GPUS"] = f"sim:{count + 1}"
        for _ in range(count):
            lab.add(f"touch here.$GPUQ_JOB_ID; until [ $(ls here.* | wc -l) = {count} ]; do sleep 0.01; done")
        self.failing = failing = lab.add("exit 1")
        self.runner = lab.start("run", "--keep", "--jobs-per-gpu", "1")
        lab.until(lambda: [job["status"] for job in lab.jobs().values()][:failing] == ["completed"] * count + ["failed"])
        # In the order in which they get jobs. All have reported ready.
        self.keepers = sorted(lab.keepers(), reverse=True)
        self.let_runner_act()
        lab.until(lambda: self.are_idle(), "idle keepers")
        for pid in self.keepers:
            os.kill(pid, signal.SIGSTOP)

    def are_idle(self):
        before, self.naps = getattr(self, "naps", None), [naps(pid) for pid in self.keepers]
        self.quiet = self.quiet + 1 if before == self.naps else 0
        return self.quiet > 5

    def let_runner_act(self):
        """Waits until it has read the journal: the runner fails these jobs itself, without a keeper."""
        for _ in range(2):
            number = self.lab.add("--after", self.failing, "true")
            self.lab.until(lambda: self.lab.job(number)["status"] == "failed", "the runner")

    def starts(self, number):
        return [event for event in self.lab.events() if event["event"] == "start" and event["id"] == number]


@pytest.mark.parametrize("take, give", [("hold", "release"), ("cancel", "retry")])
def test_job_that_is_taken_and_given_back_while_its_keeper_has_it_runs_once(lab, take, give):
    stopped = Stopped(lab, 2)
    job = lab.add("echo ran >> ran; until [ -e go ]; do sleep 0.01; done")
    stopped.let_runner_act()
    lab.gpuq(take, job)
    lab.gpuq(give, job)
    stopped.let_runner_act()
    # The first keeper refuses the job and gets it again; no other keeper must get it in between.
    for pid in stopped.keepers:
        os.kill(pid, signal.SIGCONT)
        if pid == stopped.keepers[0]:
            stopped.let_runner_act()
    lab.until(lambda: stopped.starts(job), "the start")
    last = lab.add("true")
    lab.until(lambda: lab.job(last)["status"] == "completed")
    (lab.directory / "go").touch()
    lab.until(lambda: lab.job(job)["status"] == "completed")
    assert (len(stopped.starts(job)), lab.ran(), stopped.runner.poll()) == (1, ["ran"], None)


def test_job_that_is_held_while_its_keeper_has_it_and_dies_runs_when_it_is_released(lab):
    stopped = Stopped(lab, 1)
    job = lab.add("echo ran >> ran")
    stopped.let_runner_act()
    lab.gpuq("hold", job)
    stopped.let_runner_act()
    os.kill(stopped.keepers[0], signal.SIGKILL)
    for pid in stopped.keepers[1:]:
        os.kill(pid, signal.SIGCONT)
    stopped.let_runner_act()
    lab.gpuq("release", job)
    lab.until(lambda: lab.job(job)["status"] == "completed")
    assert lab.ran() == ["ran"] and stopped.runner.poll() is None


def test_job_that_is_edited_while_its_keeper_has_it_runs_with_the_new_values(lab):
    stopped = Stopped(lab, 1)
    job = lab.add("echo old >> ran")
    stopped.let_runner_act()
    lab.gpuq("edit", job, "--command", "echo new >> ran", "--mem", "1G")
    for pid in stopped.keepers:
        os.kill(pid, signal.SIGCONT)
    lab.until(lambda: lab.job(job)["status"] == "completed")
    assert (len(stopped.starts(job)), lab.ran()) == (1, ["new"])
