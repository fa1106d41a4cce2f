# SPDX-License-Identifier: MIT
"""Workers for the tests of Pool. A separate module, because workers import it."""
from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_dispatch import BaseWorker


class Unpicklable(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("no pickle")
        self.lock = threading.Lock()


class OddError(Exception):
    """An exception whose constructor takes other arguments than those in `args`."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")
        self.second = second


class OddOSError(OSError):
    """The same, for a class that has more than `args`."""

    def __init__(self, path: str) -> None:
        super().__init__(2, "no model", path)


class HalfPicklable(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self) -> None:
        super().__init__("first")
        self.grenade = Grenade()


class Grenade:
    """An object that fails when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return explode, ("bad pickle",)


class SlowToUnpickle:
    """Unpickling it takes forever."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickle_slowly, (self.path,)


def unpickle_slowly(path: str) -> None:
    Path(path).write_text("begun")
    while True:
        time.sleep(0.005)


class ParentGrenade:
    """An object that fails when it is unpickled in the process with the given id."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[int]]:
        return explode_in, (self.pid,)


def explode(text: str) -> None:
    raise ValueError(text)


def explode_in(pid: int) -> ParentGrenade:
    if os.getpid() == pid:
        raise ValueError("bad pickle here")
    return ParentGrenade(pid)


class Actor(BaseWorker):
    """Executes the item: (verb, argument)."""

    def setup(self, gpu_id: int, seed: int, greeting: str = "hello", **kwargs: Any) -> None:
        self.gpu_id = gpu_id
        self.seed = seed
        self.greeting = greeting
        self.done = 0

    def process(self, data: Any) -> Any:
        verb, argument = data
        self.done += 1
        result = getattr(self, verb)(argument)
        return result

    def echo(self, value: Any) -> Any:
        return value

    def pid(self, _: Any) -> int:
        return os.getpid()

    def about(self, _: Any) -> dict[str, Any]:
        return {
            "gpu": self.gpu_id,
            "seed": self.seed,
            "greeting": self.greeting,
            "done": self.done,
            "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        }

    def directory(self, _: Any) -> str:
        return os.getcwd()

    def fail(self, text: str) -> None:
        raise KeyError(text)

    def fail_unpicklable(self, _: Any) -> None:
        raise Unpicklable

    def fail_half(self, _: Any) -> None:
        raise HalfPicklable

    def fail_odd(self, _: Any) -> None:
        raise OddError("first", "second") from OddOSError("m.pt")

    def fail_odd_os(self, path: str) -> None:
        raise OddOSError(path)

    def fail_at_length(self, size: int) -> None:
        raise ValueError("x" * size + " the end")

    def die_at(self, path: str) -> None:
        """Dies when a process writes into the FIFO."""
        self.block(path)
        os.kill(os.getpid(), signal.SIGKILL)

    def ignore_cancel(self, path: str) -> str:
        """Returns normally when it is asked to stop."""
        try:
            Path(path).write_text("begun")
            self.forever(None)
        except BaseException:
            pass
        return "done"

    def fail_stop_iteration(self, _: Any) -> None:
        raise StopIteration("stop")

    def exit(self, status: int) -> None:
        raise SystemExit(status)

    def interrupt(self, _: Any) -> None:
        raise KeyboardInterrupt

    def panic(self, words: str) -> None:
        raise Panic(words)

    def lock(self, _: Any) -> Any:
        return threading.Lock()

    def parent_grenade(self, pid: int) -> Any:
        return ParentGrenade(pid)

    def die(self, number: int) -> None:
        os.kill(os.getpid(), number)
        self.forever(None)

    def die_once(self, path: str) -> str:
        """Dies the first time."""
        if not os.path.exists(path):
            Path(path).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "survived"

    def block(self, path: str) -> str:
        """Waits until a process writes into the FIFO."""
        with open(path) as fifo:
            return fifo.read()

    def forever(self, _: Any) -> None:
        while True:
            time.sleep(0.005)

    def until_cancelled(self, path: str) -> None:
        """Reports that it has begun, waits for `self.cancelled`, and reports that it has seen it."""
        try:
            Path(path).write_text("begun")
            while not self.cancelled:
                time.sleep(0.005)
        finally:
            seen = "cancelled" if self.cancelled else "not cancelled"
            try:
                Path(path).write_text(seen)
            except BaseException:  # the interruption, which can arrive after the file was truncated
                Path(path).write_text(seen)
                raise

    def stubborn(self, path: str) -> None:
        """Ignores all requests to stop."""
        Path(path).write_text("begun")
        while True:
            try:
                time.sleep(0.005)
            except BaseException:
                pass

    def log_info(self, text: str) -> None:
        self.log.info("a %s record", text, extra={"color": "green"})

    def log_forever(self, _: Any) -> None:
        while True:
            self.log.info("still at it")

    def log_exception(self, text: str) -> None:
        try:
            raise ValueError(text)
        except ValueError:
            self.log.exception("it failed")

    def log_in_thread(self, text: str) -> None:
        thread = threading.Thread(target=self.log.warning, args=(text,))
        thread.start()
        thread.join()
        self.log.warning("main thread")


    def log_in_thread_only(self, text: str) -> None:
        thread = threading.Thread(target=self.log.warning, args=(text,))
        thread.start()
        thread.join()
        if text == "fail":
            raise ValueError(text)


class Panic(BaseException):
    """As PanicException, which modules in Rust raise."""


class Batcher(BaseWorker):
    """Doubles numbers in batches; reports the batch size."""

    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process_batch(self, items: list[Any]) -> list[Any]:
        if "crash" in items:
            raise ValueError("the whole batch")
        if "short" in items:
            return []
        if "panic" in items:
            return [Panic("in an item")] * len(items)
        return [
            ValueError(item) if isinstance(item, str) else (item * 2, len(items)) for item in items
        ]


class BrokenSetup(BaseWorker):
    """Fails in setup()."""

    def setup(self, gpu_id: int, seed: int) -> None:
        raise RuntimeError("no model")

    def process(self, data: Any) -> Any:
        return data


class ExitingSetup(BrokenSetup):
    """Leaves the process in setup()."""

    def setup(self, gpu_id: int, seed: int) -> None:
        raise SystemExit(3)
