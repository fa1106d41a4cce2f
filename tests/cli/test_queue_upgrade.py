# SPDX-License-Identifier: MIT
"""gpuq is upgraded while jobs run: keepers of the old one and a runner of the new one."""
import os
import pathlib
import signal
import socket
import struct
import subprocess

import pytest

from lab import LIMIT

OTHER = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/gpuq-other"
JOB = "echo $GPUQ_JOB_ID >> ran; until [ -e go ]; do sleep 0.02; done"
CANCEL, UNKNOWN = 2, 77


def other(lab, *words):
    return subprocess.Popen([OTHER, *map(str, words)], cwd=lab.directory, env=lab.environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def leave_a_job(lab):
    """Leaves a job without a runner."""
    lab.add(JOB)
    runner = lab.start("run")
    lab.until(lab.ran, "the job")
    runner.kill()
    runner.wait()


def test_runner_of_another_version_says_what_it_waits_for(lab):
    leave_a_job(lab)
    lab.add("echo next >> ran")
    runner = other(lab, "run")
    lines = []
    while not any("was started by another version of gpuq" in line for line in lines):
        lines.append(runner.stdout.readline())
        assert lines[-1], lines
    lab.until(lambda: lab.ran() == ["1", "next"], "a job of the new runner")
    (lab.directory / "go").touch()
    runner.communicate(timeout=LIMIT)
    assert runner.returncode == 0
    assert {job["status"] for job in lab.jobs().values()} == {"completed"}


@pytest.mark.parametrize("order", ["cancel", "interrupt"])
def test_later_runner_of_the_same_version_gives_orders(lab, order):
    leave_a_job(lab)
    keeper, = lab.keepers()
    runner = lab.start("run", "--grace", "1")
    lab.until(lambda: lab.runner() == runner.pid, "the new runner to take over")
    if order == "cancel":
        lab.gpuq("cancel", 1)
        assert runner.wait(LIMIT) == 1
    else:
        def interrupt():
            if runner.poll() is None:
                runner.send_signal(signal.SIGINT)
            return runner.poll() is not None
        lab.until(interrupt, "the runner to end the job and leave")
        assert runner.returncode == 130
    lab.until(lambda: lab.job(1)["status"] == "cancelled", "its end")
    lab.until(lambda: keeper not in lab.keepers(), "the keeper, which is not used again, to leave")


def connect(lab):
    name, = [path for path in (lab.directory / "jobs.jsonl.d/keepers").iterdir()]
    kind, address = name.read_text().split()[:2]
    assert kind == "socket"
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(LIMIT)
    link.connect(b"\0" + address.encode())
    size, what, protocol, _, pid = struct.unpack("=IIiIQ", link.recv(4096))
    assert (size, what, protocol, pid) == (24, 5, 1, lab.keepers()[0])
    return link


def order(kind, job, size):
    return struct.pack("=IIQQ", size, kind, job, 0).ljust(size, b"\xff" if size > 500 else b"\0")


def test_keeper_understands_orders_of_newer_and_older_builds(lab):
    """Longer and shorter orders, unknown kinds, invalid orders, and silent connections."""
    leave_a_job(lab)
    silent = [connect(lab) for _ in range(3)]
    for garbage in (b"\xff" * 64, b"\0" * 64, order(UNKNOWN, 1, 200), order(CANCEL, 9, 24)):
        with connect(lab) as link:
            link.sendall(garbage)
    assert lab.job(1)["status"] == "running"
    with connect(lab) as link:
        link.sendall(order(UNKNOWN, 1, 4096) + order(CANCEL, 1, 24))
        lab.until(lambda: lab.job(1)["status"] == "cancelled", "its end")
    for link in silent:
        link.close()
