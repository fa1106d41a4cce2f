# SPDX-License-Identifier: MIT
"""The tasks of one map() or amap(), and the order in which their results are yielded."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal

from ._core import Core
from .errors import PoolClosed

__all__ = ["CHUNK", "Run", "Slot", "outcome"]

CHUNK = 256
"""How many items are submitted before results are looked for."""

Errors = Literal["raise", "return"]


class Slot:
    """The task of one item: its tag in the engine, and its place among the results."""

    __slots__ = ("_run", "_id", "ended", "value", "error")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._id = -1
        self.ended = False
        self.value: Any = None
        self.error: BaseException | None = None

    def _succeed(self, value: Any) -> None:
        self.value = value
        self.ended = True
        self._run.slot_ended(self)

    def _fail(self, exception: BaseException) -> None:
        self.error = exception
        self.ended = True
        self._run.slot_ended(self)

    def _drop(self) -> None:
        self._fail(PoolClosed("the task was cancelled, because the pool was shut down"))


def outcome(slot: Slot, errors: Errors) -> Any:
    """The result of a slot that has ended; its exception is raised or returned."""
    if slot.error is None:
        return slot.value
    if errors == "return":
        return slot.error
    try:
        raise slot.error
    finally:
        del slot  # breaks the cycle of the exception, its traceback and this frame


class Ordered:
    """Slots that were not yet yielded, in the order of their items."""

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._slots))

    def add(self, slot: Slot) -> None:
        self._slots.append(slot)

    def remove(self, slot: Slot) -> None:
        self._slots.remove(slot)

    def slot_ended(self, slot: Slot) -> None:
        pass

    def ready(self) -> bool:
        return bool(self._slots) and self._slots[0].ended

    def take(self) -> Slot:
        return self._slots.popleft()

    def next_slot(self) -> Slot | None:
        """The slot that will be taken next; None: any that ends."""
        return self._slots[0]


class Unordered:
    """Slots that were not yet yielded; those that have ended, in the order of their ends."""

    def __init__(self) -> None:
        self._slots: set[Slot] = set()
        self._ended: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._slots))

    def add(self, slot: Slot) -> None:
        self._slots.add(slot)

    def remove(self, slot: Slot) -> None:
        self._slots.discard(slot)

    def slot_ended(self, slot: Slot) -> None:
        self._ended.append(slot)

    def ready(self) -> bool:
        return bool(self._ended)

    def take(self) -> Slot:
        slot = self._ended.popleft()
        self._slots.discard(slot)
        return slot

    def next_slot(self) -> Slot | None:
        return None


class Run(ABC):
    """At most `buffersize` tasks that were pulled from the items and not yet yielded.

    One thread adds slots and one takes them; any thread may end them. Before the consumer sleeps
    it says in `awaited` what it sleeps for, and then looks once more; whoever ends that slot calls
    wake().
    """

    ANY = object()

    def __init__(self, core: Core, timeout_ms: int, buffersize: int, ordered: bool) -> None:
        self.core = core
        self.timeout_ms = timeout_ms
        self.buffersize = buffersize
        self.line: Ordered | Unordered = Ordered() if ordered else Unordered()
        self.awaited: object = None
        self.closed = False
        core.cancel_at_exit.add(self)

    @abstractmethod
    def wake(self) -> None:
        """Wakes the consumer; called by any thread."""

    def slot_ended(self, slot: Slot) -> None:
        """Called by the slot, on any thread."""
        self.line.slot_ended(slot)
        if self.awaited is slot or self.awaited is self.ANY:
            self.awaited = None
            self.wake()

    def full(self) -> bool:
        """True if no more items may be pulled now."""
        return len(self.line) >= self.buffersize

    def try_add(self, item: Any) -> bool:
        """Submits an item; False if the pool has no room."""
        slot = Slot(self)
        self.line.add(slot)
        try:
            added = self.core.try_submit(item, slot, self.timeout_ms)
        except BaseException:
            self.line.remove(slot)
            raise
        if not added:
            self.line.remove(slot)
        elif self.closed:
            self.core.cancel(slot)
        return added

    def expect(self) -> None:
        """Announces that the consumer is about to sleep until ready()."""
        self.awaited = self.line.next_slot() or self.ANY

    def cancel(self) -> None:
        """Cancels the tasks that have not ended. Nothing is taken afterwards."""
        self.closed = True
        for slot in self.line:
            if not slot.ended:
                self.core.cancel(slot)
        self.wake()
