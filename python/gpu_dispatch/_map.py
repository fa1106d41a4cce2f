# SPDX-License-Identifier: MIT
"""Pool.map(): a stream of results, which pulls items only as results are taken.

Lists, tuples and ranges are pulled by the thread that iterates over the results. Any other iterable
may block, so a separate thread pulls it; otherwise finished results would wait for the next item.
"""
from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ._core import Core
from ._progress import Progress
from ._run import END, Errors, Items, Run, Slot, Source, outcome

_INLINE = (list, tuple, range)


class SyncRun(Run):
    """A run whose consumer is a thread."""

    def __init__(self, core: Core, timeout_ms: int, buffersize: int, ordered: bool) -> None:
        self.condition = threading.Condition()
        super().__init__(core, timeout_ms, buffersize, ordered)

    def wake(self) -> None:
        with self.condition:
            self.condition.notify_all()

    def submit_waiting(self, item: Any) -> None:
        """Submits an item; waits for space in the pool."""
        self.submit_one(item, self._submit)

    def _submit(self, item: Any, slot: Slot, timeout_ms: int) -> None:
        self.core.submit(item, slot, timeout_ms, lambda: self.closed)

    def wait(self, deadline: float | None) -> None:
        """Waits until a slot can be taken. Raises TimeoutError."""
        self.expect()
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not self.core.leader.wait(self.line.ready, self.condition, timeout):
            raise TimeoutError()


class InlineItems(Items):
    """Items that never block."""

    def __init__(self, run: SyncRun, items: Iterable[Any]) -> None:
        super().__init__(run, items)
        self._sync_run = run

    def fetch(self, deadline: float | None) -> None:
        """Submits at least one item, waiting for space; or sets `ended`."""
        self.fill()
        item = self.take_kept()
        if item is not END:
            self._sync_run.submit_waiting(item)


class Feeder(Source):
    """Items that may block, pulled by a thread.

    The thread sleeps while the buffer is full: it sets `_space_wanted`, then checks again. The
    consumer checks `_space_wanted` after it has yielded slots, and before it sleeps itself.
    """

    def __init__(self, run: SyncRun, items: Iterable[Any]) -> None:
        self._run = run
        self._items = iter(items)
        self._space_wanted = False
        self._fetching = False
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._pull_all,), name="gpu_dispatch-map", daemon=True
        ).start()

    def fill(self) -> bool:
        """Lets the thread continue."""
        if self._space_wanted and self._run.space() > 0:
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

    def _pull_all(self) -> None:
        run = self._run
        try:
            while True:
                space = self._wait_for_space()
                if run.closed:
                    break
                # One at a time: the next item may take long.
                for _ in range(space):
                    item = next(self._items, END)
                    if item is END or run.closed:
                        return
                    if not run.submit_now(item):
                        run.submit_waiting(item)
                    del item
                    if self._fetching:
                        run.wake()
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            run.wake()

    def _wait_for_space(self) -> int:
        run = self._run
        with run.condition:
            self._space_wanted = True
            while run.space() <= 0 and not run.closed:
                run.condition.wait()
                self._space_wanted = True
            self._space_wanted = False
        return run.space()


def results(
    run: SyncRun,
    items: Iterable[Any],
    errors: Errors,
    deadline: float | None,
    progress: Progress,
) -> Iterator[Any]:
    """Yields the results; closing it cancels the remaining tasks."""
    inline = type(items) in _INLINE
    source: InlineItems | Feeder
    source = InlineItems(run, items) if inline else Feeder(run, items)
    line = run.line
    try:
        progress.start()
        while True:
            batch = line.take(run.refill)
            while batch:
                slot = batch.pop()
                run.yielded += 1
                progress.advance(slot.error is None)
                if slot.error is None:
                    yield slot.value
                    continue
                try:
                    yield outcome(slot, errors)
                finally:
                    del slot  # breaks a cycle, as in outcome()
            if source.ended and not len(line):
                break
            if not len(line):
                source.fetch(deadline)
            elif source.fill():
                run.core.leader.poll()
            elif not line.ready():
                run.wait(deadline)
        source.raise_error()
    finally:
        run.cancel()
        progress.stop()
