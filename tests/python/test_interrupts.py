# SPDX-License-Identifier: MIT
"""Ctrl-C in a program that runs a dispatcher."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from workers import wait_until

PROGRAM = """
import os, pathlib, signal, sys, threading, time
from gpu_dispatch import BaseWorker, Dispatcher, Pool

here = pathlib.Path(sys.argv[1])
how = sys.argv[2]

def mark(name):
    (here / name).touch()

def wait_for(name):
    while not (here / name).exists():
        time.sleep(0.002)

def both_work():
    # Their setups are over, so that both will clean up.
    return (here / "has-task-0").exists() and (here / "has-task-1").exists()

def stubborn(seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            mark("waits")
            time.sleep(60)
        except BaseException:
            mark("asked")

class Worker(BaseWorker):
    def setup(self, gpu_id, seed):
        self.gpu_id = gpu_id
        mark(f"pid-{os.getpid()}")
        if how == "setup" and gpu_id == 0:
            wait_for("processed")
            try:
                mark("waits")
                threading.Event().wait()
            finally:
                mark("left-setup")
        mark(f"ready-{gpu_id}")
    def process(self, item):
        mark(f"has-task-{self.gpu_id}")
        if how == "process":
            wait_for("has-task-0")
            wait_for("has-task-1")
            mark("waits")
            time.sleep(60)
        if how == "stubborn":
            stubborn()
        if how == "setup":
            mark("processed")
        if how == "slow callbacks":
            # Each worker has one: during a callback no worker is given another task.
            mark(f"began-{item}")
            for number in range(4):
                wait_for(f"began-{number}")
            mark(f"done-{item}")
        return item
    def cleanup(self):
        if how == "cleanup":
            mark("waits")
            wait_for("go")
        if how in ("endless cleanup", "pool"):
            mark("cleaning")
            stubborn()
        mark(f"cleaned-{self.gpu_id}")

def items():
    if how == "cleanup":  # a setup that still runs when the items end would be interrupted, and not cleaned up
        wait_for("ready-0")
        wait_for("ready-1")
    for number in range(10**9 if how in ("callback", "generator") else 4):
        if how == "generator" and number >= 10 and both_work():
            mark("waits")
            threading.Event().wait()
        yield number

def on_success(task_id, result, worker_id):
    if how == "callback" and both_work() and not (here / "waits").exists():
        mark("waits")
        time.sleep(60)
    if how == "slow callbacks":
        for number in range(4):
            wait_for(f"done-{number}")
        mark(f"callback-{task_id}")
        first = not (here / "waits").exists()
        mark("waits")
        time.sleep(60 if first else 1.5)

def on_exit():
    mark("exit")

def use_pool():
    with Pool(Worker, [0, 1], bind_gpu=False, cleanup_timeout=600) as pool:
        assert list(pool.map(range(4))) == [0, 1, 2, 3]
        mark("waits")
        time.sleep(60)

if __name__ == "__main__":
    # The parent process may have ignored it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if how == "pool":
        try:
            use_pool()
        except KeyboardInterrupt:
            sys.exit(7)
    dispatcher = Dispatcher(Worker, [0, 1, 2, 3] if how == "slow callbacks" else [0, 1])
    try:
        dispatcher.run(items(), on_success, on_exit=on_exit)
    except KeyboardInterrupt:
        assert (here / "exit").exists()
        mark("interrupted")
        # Afterwards Ctrl-C has its usual effect.
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        sys.exit(7)
"""


class Program:
    def __init__(self, directory: pathlib.Path, how: str) -> None:
        (directory / "program.py").write_text(PROGRAM)
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, str(directory / "program.py"), str(directory), how], start_new_session=True
        )
        wait_until((directory / "waits").exists)

    def ctrl_c(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait_for_delivery(self) -> None:
        """Waits until the handler of the last Ctrl-C runs or has run."""

        def is_pending() -> bool:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
            return any(mask >> (signal.SIGINT - 1) & 1 for mask in masks)

        wait_until(lambda: not is_pending())

    def names(self) -> set[str]:
        return {name for name in os.listdir(self.directory) if not name.startswith(("pid-", "program"))}

    def check_interrupted(self) -> None:
        assert self.process.wait(30) == 7
        for name in os.listdir(self.directory):
            if name.startswith("pid-"):
                assert not os.path.exists(f"/proc/{name[4:]}")


Start = Callable[[str], Program]


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    started: list[Program] = []

    def start_one(how: str) -> Program:
        started.append(Program(tmp_path, how))
        return started[-1]

    yield start_one
    for program in started:
        program.process.kill()
        program.process.wait()


@pytest.mark.parametrize("how", ["process", "callback", "generator"])
def test_workers_clean_up_on_exit_runs_and_keyboard_interrupt_is_raised(start: Start, how: str) -> None:
    program = start(how)
    program.ctrl_c()
    program.check_interrupted()
    assert {"cleaned-0", "cleaned-1", "exit", "interrupted"} <= program.names()


def test_slow_callbacks_for_available_results_are_limited_in_time(start: Start) -> None:
    """After the interrupted callback, two of 1.5 seconds each exceed the limit; the last one is skipped."""
    program = start("slow callbacks")
    program.ctrl_c()
    program.check_interrupted()
    assert len([name for name in program.names() if name.startswith("callback")]) == 3
    assert {"cleaned-0", "exit", "interrupted"} <= program.names()


def test_a_setup_is_interrupted(start: Start) -> None:
    """The interrupt does not wait for the grace period, which is as long as the test's own timeout."""
    program = start("setup")
    program.ctrl_c()
    program.check_interrupted()
    assert {"left-setup", "cleaned-1", "exit", "interrupted"} <= program.names()
    assert "cleaned-0" not in program.names()


def test_an_interrupt_during_cleanup_lets_it_finish(start: Start) -> None:
    program = start("cleanup")
    program.ctrl_c()
    (program.directory / "go").touch()
    program.check_interrupted()
    assert {"cleaned-0", "cleaned-1", "exit"} <= program.names()


def test_a_second_interrupt_kills_workers_that_do_not_react(start: Start) -> None:
    program = start("stubborn")
    program.ctrl_c()
    wait_until((program.directory / "asked").exists)
    program.ctrl_c()
    program.check_interrupted()
    assert "exit" in program.names() and "cleaned-0" not in program.names()


def test_a_second_interrupt_kills_workers_in_cleanup(start: Start) -> None:
    program = start("endless cleanup")
    program.ctrl_c()
    program.wait_for_delivery()
    program.ctrl_c()
    program.check_interrupted()
    assert "exit" in program.names() and "cleaned-0" not in program.names()


def test_a_second_interrupt_kills_the_workers_of_a_pool_in_cleanup(start: Start) -> None:
    program = start("pool")
    program.ctrl_c()
    wait_until((program.directory / "cleaning").exists)
    program.ctrl_c()
    program.check_interrupted()
    assert "cleaned-0" not in program.names()
