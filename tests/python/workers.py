# SPDX-License-Identifier: MIT
"""Workers for the tests. Their processes import this module, and it imports little."""
from __future__ import annotations

import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from gpu_dispatch import BaseWorker, _engine


def wait_until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Polls for a condition that another process causes and that has no event."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.002)


class Echo(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Any) -> Any:
        return data


class Facts(BaseWorker):
    """Answers with facts about the worker."""

    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        self.facts = {
            "gpu_id": gpu_id,
            "seed": seed,
            "kwargs": kwargs,
            "pid": os.getpid(),
            "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "device_index": self.device_index,
            "executable": sys.executable,
            "directory": os.getcwd(),
        }

    def process(self, data: Any) -> Any:
        return self.facts


class Sleeper(BaseWorker):
    """Waits much longer than its time limit, in one system call after another."""

    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Any) -> Any:
        for _ in range(data):
            time.sleep(0.000_01)
        time.sleep(3600)


class Meet(BaseWorker):
    """All workers finish setup() together."""

    def setup(self, gpu_id: int, seed: int, directory: str, count: int) -> None:
        self.gpu_id = gpu_id
        place = pathlib.Path(directory)
        (place / f"ready-{os.getpid()}").touch()
        wait_until(lambda: len(list(place.glob("ready-*"))) >= count)

    def process(self, data: Any) -> Any:
        return self.gpu_id


class NoSetup(BaseWorker):
    """Fails in setup() on the given GPUs."""

    def setup(self, gpu_id: int, seed: int, bad: list[int]) -> None:
        if gpu_id in bad:
            raise OSError(f"no model on {gpu_id}")

    def process(self, data: Any) -> Any:
        return data


class NoCleanup(Echo):
    def cleanup(self) -> None:
        raise OSError("cannot clean up")


class MarkCleanup(BaseWorker):
    def setup(self, gpu_id: int, seed: int, directory: str) -> None:
        self.mark = pathlib.Path(directory) / f"cleaned-{gpu_id}"
        self.mark.with_name(f"ready-{gpu_id}").touch()

    def process(self, data: Any) -> Any:
        return data

    def cleanup(self) -> None:
        self.mark.touch()


class Interrupting:
    """Raises Ctrl-C once while it is unpickled."""

    trips = 0

    def __reduce__(self) -> Any:
        return _unpickle_interrupting, ()


def _unpickle_interrupting() -> Interrupting:
    Interrupting.trips += 1
    if Interrupting.trips == 1:
        signal.raise_signal(signal.SIGINT)
    return Interrupting()


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("this object stays here")


class Undecodable:
    """Can be pickled, but not unpickled."""

    def __reduce__(self) -> Any:
        return (_refuse, ())


def _refuse() -> None:
    raise ValueError("this object cannot be made here")


class OddError(Exception):
    """Pickles, but does not unpickle: its constructor requires more than its args."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Naughty(BaseWorker):
    """Executes the item."""

    def setup(self, gpu_id: int, seed: int, directory: str = "") -> None:
        self.directory = pathlib.Path(directory)
        self.made = 0

    def process(self, data: Any) -> Any:
        what, *args = data if isinstance(data, tuple) else (data,)
        self.made += 1
        method: Callable[..., Any] = getattr(self, f"do_{what}")
        return method(*args)

    def do_echo(self, value: Any = None) -> Any:
        return value

    def do_pid(self) -> tuple[int, int]:
        return os.getpid(), self.made

    def do_fail(self, words: str) -> None:
        raise ValueError(words)

    def do_fail_with_a_note(self, words: str, note: str) -> None:
        error = ValueError(words)
        setattr(error, "__notes__", [note])  # what add_note() of Python 3.11 does
        raise error

    def do_odd(self) -> None:
        raise OddError(1, 2)

    def do_exit(self) -> None:
        sys.exit(3)

    def do_interrupt(self) -> None:
        raise KeyboardInterrupt

    def do_die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_hang(self) -> None:
        """Hangs in Python code, which can be interrupted."""
        (self.directory / "hangs").touch()
        while True:
            time.sleep(60)

    def do_hang_and_catch(self) -> str:
        try:
            self.do_hang()
        except TimeoutError as error:
            return f"caught {type(error).__name__}"
        return "?"

    def do_stubborn(self) -> None:
        """Ignores being interrupted."""
        (self.directory / "hangs").touch()
        while True:
            try:
                time.sleep(60)
            except BaseException:
                pass

    def do_spin(self, nothing: None = None) -> int:
        """Spins without a system call."""
        count = 0
        while True:
            count += 1

    def do_poll_cancelled(self) -> str:
        """Polls in a thread, which no exception reaches."""
        seen = threading.Event()

        def watch() -> None:
            wait_until(lambda: self.cancelled)
            seen.set()

        threading.Thread(target=watch).start()
        try:
            (self.directory / "hangs").touch()
            threading.Event().wait()  # wait for the exception, which would otherwise arrive later
        except BaseException:
            pass
        return "cancelled" if seen.wait(30) else "?"

    def do_wait_for(self, name: str) -> str:
        (self.directory / f"{name}-waits").touch()
        wait_until((self.directory / name).exists)
        return name

    def do_print(self, words: str) -> None:
        print(words)

    def do_unpicklable(self) -> Any:
        return Unpicklable()

    def do_undecodable(self) -> Any:
        return Undecodable()

    def do_interrupting(self) -> Any:
        return Interrupting()

    def do_send(self, value: Any) -> None:
        _engine.send(value)

    def do_send_elsewhere(self) -> str:
        """Only the main thread may send."""
        words: list[str] = []

        def attempt() -> None:
            try:
                _engine.send(1)
            except RuntimeError as error:
                words.append(str(error))

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        return words[0]

    def do_thread_runs(self) -> None:
        """Starts a thread that continues while the worker waits for its next task."""

        def tick() -> None:
            (self.directory / "thread-begins").touch()
            wait_until((self.directory / "tick").exists)
            (self.directory / "tock").touch()

        threading.Thread(target=tick, daemon=True).start()

    def do_task(self) -> tuple[int, int]:
        return _engine.task_id(), _engine.attempt()


class Batches(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Any) -> Any:
        raise AssertionError("process() was called instead of process_batch()")

    def process_batch(self, items: list[Any]) -> list[Any]:
        if "wrong length" in items:
            return []
        return [ValueError(item) if item == "bad" else (item, len(items)) for item in items]
