# SPDX-License-Identifier: MIT
"""Pool.map(): a stream of results, lazy at both ends.

Lists, tuples and ranges are pulled by the thread that iterates over the results. Any other iterable
may block, so a thread of its own pulls it; otherwise results that are there would wait for the next
item.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ._core import Core
from ._progress import Progress
from ._run import CHUNK, Errors, Run, outcome

_END = object()


class SyncRun(Run):
    """A run whose consumer is a thread."""

    def __init__(self, core: Core, timeout_ms: int, buffersize: int, ordered: bool) -> None:
        self.condition = threading.Condition(threading.Lock())
        super().__init__(core, timeout_ms, buffersize, ordered)

    def wake(self) -> None:
        with self.condition:
            self.condition.notify_all()

    def add(self, item: Any) -> None:
        """Submits an item; waits for room in the pool."""
        if not self.try_add(item):
            self.core.leader.wait_progress(
                lambda: self.closed or (bool(self.core.engine.room()) and self.try_add(item))
            )

    def wait(self, deadline: float | None) -> None:
        """Waits until a slot can be taken. Raises TimeoutError."""
        self.expect()
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not self.core.leader.wait(self.line.ready, self.condition, timeout):
            raise TimeoutError()


class Inline:
    """Items that never block, pulled by the consumer."""

    def __init__(self, run: SyncRun, items: Iterable[Any]) -> None:
        self._run = run
        self._items = iter(items)
        self._kept: Any = _END
        self.ended = False
        self.error: BaseException | None = None

    def fill(self) -> bool:
        """Submits some items; True if there may be more at once."""
        for _ in range(CHUNK):
            if self._run.full() or not self._pull():
                return False
            if not self._run.try_add(self._kept):
                return False
            self._kept = _END
        return True

    def fetch(self, deadline: float | None) -> None:
        """Submits one item, waiting for room; or sets `ended`."""
        if self._pull():
            self._run.add(self._kept)
            self._kept = _END

    def raise_error(self) -> None:
        """Raises what the items raised."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error

    def _pull(self) -> bool:
        if self._kept is _END and not self.ended:
            try:
                self._kept = next(self._items, _END)
            except Exception as error:
                self.error = error
            self.ended = self._kept is _END
        return not self.ended


class Feeder:
    """Items that may block, pulled by a thread.

    The thread sleeps while the run is full: it sets `_space_wanted`, then looks once more. The
    consumer looks at `_space_wanted` after it has taken a slot, and wakes the thread when half of
    the buffer is free, or before it sleeps itself.
    """

    def __init__(self, run: SyncRun, items: Iterable[Any]) -> None:
        self._run = run
        self._items = iter(items)
        self._space_wanted = False
        self._fetching = False
        self.ended = False
        self.error: BaseException | None = None
        threading.Thread(target=self._pull_all, name="gpu_dispatch-map", daemon=True).start()

    def fill(self) -> bool:
        """Lets the thread go on."""
        if self._space_wanted and not self._run.full():
            self._space_wanted = False
            self._run.wake()
        return False

    def fetch(self, deadline: float | None) -> None:
        """Waits for the thread's next item, or its end. Raises TimeoutError."""
        run = self._run
        self.fill()
        with run.condition:
            self._fetching = True
            try:
                while not len(run.line) and not self.ended:
                    left = None if deadline is None else deadline - time.monotonic()
                    if not run.condition.wait(left) and left is not None:
                        raise TimeoutError()
            finally:
                self._fetching = False

    def raise_error(self) -> None:
        """Raises what the items raised."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error

    def _pull_all(self) -> None:
        run = self._run
        try:
            while self._wait_for_space():
                item = next(self._items, _END)
                if item is _END or run.closed:
                    break
                run.add(item)
                del item
                if self._fetching:
                    run.wake()
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            run.wake()

    def _wait_for_space(self) -> bool:
        run = self._run
        with run.condition:
            self._space_wanted = True
            while run.full() and not run.closed:
                run.condition.wait()
                self._space_wanted = True
            self._space_wanted = False
        return not run.closed


def results(
    run: SyncRun,
    items: Iterable[Any],
    errors: Errors,
    deadline: float | None,
    progress: Progress,
) -> Iterator[Any]:
    """Yields the results; cancels what is left when it is closed."""
    inline = type(items) in (list, tuple, range)
    source: Inline | Feeder = Inline(run, items) if inline else Feeder(run, items)
    line = run.line
    refill = max(1, min(CHUNK, run.buffersize // 2))
    taken = 0
    try:
        progress.start()
        while True:
            if line.ready():
                slot = line.take()
                taken += 1
                if taken % refill == 0:
                    source.fill()
                progress.advance(slot.error is None)
                try:
                    yield outcome(slot, errors)
                finally:
                    del slot  # breaks a cycle, as in outcome()
            elif source.ended and not len(line):
                break
            elif not len(line):
                source.fetch(deadline)
            elif source.fill():
                run.core.leader.poll()
            else:
                run.wait(deadline)
        source.raise_error()
    finally:
        run.cancel()
        progress.stop()
