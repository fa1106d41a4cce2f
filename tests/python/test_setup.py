# SPDX-License-Identifier: MIT
"""setup(): interrupted at any point when the pool ends or its time limit is reached, and the outcome."""
from __future__ import annotations

import os
import pathlib
import textwrap
import threading
import time
from typing import Any

import pytest
from scripts import WORKER, check, guarded, python, script
from waiting import eventually

from gpu_dispatch import BaseWorker, NoWorkers, Pool, TaskTimedOut
from gpu_dispatch.errors import TaskCancelled

GRACE = 600.0
"""No test waits this long: if a test ends, its setup was interrupted."""

LIMIT = 10.0
"""Python has started by then, even on a busy machine."""


class Waits(BaseWorker):
    """A setup that blocks in the given way; files show its progress."""

    def setup(self, gpu_id: int, seed: int, how: str, directory: str) -> None:
        self.directory = pathlib.Path(directory)
        try:
            (self.directory / "begun").touch()
            self.block(how)
        except BaseException as error:
            (self.directory / "error").write_text(f"{type(error).__name__}: {error}")
            if how == "go on":
                return
            raise

    def block(self, how: str) -> None:
        if how == "read":
            os.read(os.pipe()[0], 1)
        elif how == "sleep":
            time.sleep(GRACE)
        elif how == "stubborn":
            while True:
                try:
                    time.sleep(GRACE)
                except BaseException:
                    pass
        elif how == "spin":
            while True:
                pass
        else:
            threading.Event().wait()

    def process(self, data: Any) -> Any:
        return data

    def cleanup(self) -> None:
        (self.directory / "cleaned").touch()


def open_pool(directory: pathlib.Path, how: str, grace: float = GRACE, **options: Any) -> Pool:
    setup = {"how": how, "directory": str(directory)}
    return Pool(Waits, "sim:1", setup=setup, grace=grace, **options)


@pytest.mark.parametrize("how", ["read", "sleep", "spin", "wait"])
def test_the_end_of_the_pool_interrupts_setup(how: str, tmp_path: pathlib.Path) -> None:
    with open_pool(tmp_path, how) as pool:
        eventually((tmp_path / "begun").exists)
    assert (tmp_path / "error").read_text() == "TaskCancelled: the pool is ending"
    assert not (tmp_path / "cleaned").exists()
    assert pool.stats()["setup_failures"] == 0


def test_a_pool_that_is_closed_at_once_does_not_wait_for_the_import(tmp_path: pathlib.Path) -> None:
    """Whatever the worker is doing: starting Python, importing this module, or setup."""
    for seconds in (0.0, 0.02, 0.05, 0.1, 0.2):
        with open_pool(tmp_path, "wait") as pool:
            threading.Event().wait(seconds)
        assert pool.stats()["setup_failures"] == 0


def test_setup_that_ignores_the_end_of_the_pool_is_cleaned_up(tmp_path: pathlib.Path) -> None:
    with open_pool(tmp_path, "go on"):
        eventually((tmp_path / "begun").exists)
    assert (tmp_path / "cleaned").exists()


def test_setup_out_of_time_is_interrupted_and_its_worker_used_if_it_continues(tmp_path: pathlib.Path) -> None:
    """Both cases run at the same time, because each takes LIMIT seconds."""
    ends, goes_on = tmp_path / "ends", tmp_path / "goes on"
    ends.mkdir()
    goes_on.mkdir()
    with open_pool(ends, "wait", setup_timeout=LIMIT) as one, open_pool(goes_on, "go on", setup_timeout=LIMIT) as two:
        with pytest.raises(NoWorkers) as caught:
            one.wait_ready()
        assert two.wait_ready() == 1
        assert list(two.map([1])) == [1]
    cause = caught.value.__cause__
    assert isinstance(cause, TaskTimedOut) and str(cause) == "setup() is out of time"
    assert "in block" in str(cause.__cause__), "the traceback says where it was"
    assert (goes_on / "error").read_text() == "TaskTimedOut: setup() is out of time"


def test_setup_killed_after_its_time_limit_reports_the_limit(tmp_path: pathlib.Path) -> None:
    """This is true whether or not setup() has begun."""
    with open_pool(tmp_path, "stubborn", setup_timeout=0.2, grace=0.2) as pool:
        with pytest.raises(NoWorkers) as caught:
            pool.wait_ready()
    cause = caught.value.__cause__
    assert isinstance(cause, TaskTimedOut)
    # The second message appears if loading this file took longer than the limit: loading can be interrupted.
    assert str(cause) in ("setup did not finish within 200 ms", "setup() is out of time")


def test_except_exception_does_not_catch_the_interruption() -> None:
    """`except Exception` in a setup does not catch it."""
    assert not issubclass(TaskCancelled, Exception)


def test_loading_the_program_is_interrupted_without_running_its_finally_blocks(tmp_path: pathlib.Path) -> None:
    first = """
    import os, pathlib, sys, threading
    if __name__ != "__main__":
        try:
            pathlib.Path("begun").touch()
            threading.Event().wait()
        finally:
            pathlib.Path("finally").touch()
    """
    run = """
    import time
    from gpu_dispatch import Pool
    with Pool(Twice, "sim:1", grace=600) as pool:
        while not os.path.exists("begun"):
            time.sleep(0.002)
    print(pool.stats()["setup_failures"])
    """
    check(python(script(tmp_path, first, WORKER, guarded(textwrap.dedent(run))), directory=tmp_path), "0\n")
    assert not (tmp_path / "finally").exists()
