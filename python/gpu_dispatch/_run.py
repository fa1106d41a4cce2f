# SPDX-License-Identifier: MIT
"""The tasks of one map() or amap(), and the order in which their results are yielded."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Literal

from ._core import Core
from .errors import NoWorkers, PoolClosed

__all__ = ["CHUNK", "END", "Errors", "Items", "Run", "Slot", "Source", "outcome"]

CHUNK = 256
"""How many items are submitted before checking for results."""

END: Any = object()
"""Returned when there is no item."""

Errors = Literal["raise", "return"]


class Slot:
    """The task of one item: its tag in the engine, and its place among the results."""

    _run: Run
    _id = -1
    ended = False
    value: Any = None
    error: BaseException | None = None

    def _succeed(self, value: Any) -> None:
        self.value = value
        self.ended = True
        if self._run.awaited is self:
            self._run.wake_once()

    def _fail(self, exception: BaseException) -> None:
        self.error = exception
        self._succeed(None)

    def _drop(self) -> None:
        self._fail(PoolClosed("the task was cancelled, because the pool was shut down"))


class UnorderedSlot(Slot):
    """A slot whose place among the results depends on when it ends."""

    def _succeed(self, value: Any) -> None:
        self.value = value
        run = self._run
        run.line.ended.append(self)
        self.ended = True
        if run.awaited is not None:
            run.wake_once()


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
    """Slots not yet taken, in the order of their items."""

    slot_class: type[Slot] = Slot

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()
        self.add = self._slots.append
        self.remove = self._slots.remove
        self.ended: deque[Slot] = deque()  # used by the other class

    def __len__(self) -> int:
        return len(self._slots)

    def unfinished(self) -> list[Slot]:
        return [slot for slot in list(self._slots) if not slot.ended]

    def ready(self) -> bool:
        """Whether take() would return slots."""
        return bool(self._slots) and self._slots[0].ended

    def take(self, limit: int) -> list[Slot]:
        """Removes up to `limit` ended slots from the front; returns them in reverse order."""
        slots = self._slots
        batch: list[Slot] = []
        while slots and slots[0].ended and len(batch) < limit:
            batch.append(slots.popleft())
        batch.reverse()
        return batch

    def next_slot(self) -> Slot:
        """The slot whose end makes ready() true."""
        return self._slots[0]


class Unordered:
    """Slots not yet taken; ended ones are in the order of their ends."""

    slot_class: type[Slot] = UnorderedSlot

    def __init__(self) -> None:
        self._slots: set[Slot] = set()
        self.add = self._slots.add
        self.remove = self._slots.discard
        self.ended: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def unfinished(self) -> list[Slot]:
        return [slot for slot in list(self._slots) if not slot.ended]

    def ready(self) -> bool:
        return bool(self.ended)

    def take(self, limit: int) -> list[Slot]:
        batch: list[Slot] = []
        while self.ended and len(batch) < limit:
            slot = self.ended.popleft()
            if slot in self._slots:  # an end may be delivered twice
                self._slots.discard(slot)
                batch.append(slot)
        batch.reverse()
        return batch

    def next_slot(self) -> Slot:
        return next(iter(self._slots))


class Run(ABC):
    """At most `buffersize` tasks that were pulled from the items but not yet yielded.

    One thread adds slots and counts them in `added`; another may take them and counts in
    `yielded`; any thread may end them. Before the consumer sleeps, it sets `awaited` to the slot it
    waits for (in an unordered run, to any slot, as a mark that it sleeps), and then checks again;
    the thread that ends that slot (in an unordered run, any slot) calls wake().
    """

    def __init__(self, core: Core, timeout_ms: int, buffersize: int, ordered: bool) -> None:
        self.core = core
        self.timeout_ms = timeout_ms
        self.buffersize = buffersize
        self.refill = max(1, min(CHUNK, buffersize // 2))
        self.line: Ordered | Unordered = Ordered() if ordered else Unordered()
        self.added = 0
        self.yielded = 0
        self.awaited: Slot | None = None
        self.closed = False
        core.cancel_at_exit.add(self)

    @abstractmethod
    def wake(self) -> None:
        """Wakes the consumer; called by any thread."""

    def wake_once(self) -> None:
        """The slot that the consumer awaits has ended."""
        self.awaited = None
        self.wake()

    def space(self) -> int:
        """How many more items may be pulled now."""
        return self.buffersize - (self.added - self.yielded)

    def submit_some(self, items: Iterator[Any], limit: int) -> Any:
        """Submits up to `limit` items; returns the item for which there was no space, or END."""
        self.core.check_open()
        line = self.line
        submit = self.core.engine.submit
        for item in islice(items, limit):
            slot = line.slot_class()
            slot._run = self
            line.add(slot)
            try:
                slot._id = submit(item, slot, self.timeout_ms, True)
            except BlockingIOError:
                line.remove(slot)
                return item
            except (PoolClosed, NoWorkers):
                line.remove(slot)
                raise
            except Exception as error:
                slot._fail(error)
            self.added += 1
        return END

    def submit_now(self, item: Any) -> bool:
        """Submits an item on the fast path; False if there is no space."""
        core = self.core
        if core.shut or self.closed:
            return False  # submit_one() raises the reason
        slot = self.line.slot_class()
        slot._run = self
        self.line.add(slot)
        try:
            slot._id = core.engine.submit(item, slot, self.timeout_ms, True)
        except BlockingIOError:
            self.line.remove(slot)
            return False
        except (PoolClosed, NoWorkers):
            self.line.remove(slot)
            raise
        except Exception as error:
            slot._fail(error)
        self.added += 1
        if self.closed:
            core.cancel(slot)
        return True

    def submit_one(self, item: Any, submit: Callable[[Any, Slot, int], object]) -> None:
        """Submits an item with a function of the core that waits for space in its own way."""
        slot = self.line.slot_class()
        slot._run = self
        self.line.add(slot)
        self.added += 1
        try:
            submit(item, slot, self.timeout_ms)
        except BaseException:
            self.line.remove(slot)
            raise
        if self.closed:
            self.core.cancel(slot)

    def expect(self) -> None:
        """Records that the consumer is about to sleep until ready()."""
        self.awaited = self.line.next_slot()

    def cancel(self) -> None:
        """Cancels the unfinished tasks. Nothing is taken afterwards."""
        self.closed = True
        # Last first: a worker whose task is cancelled begins the next one.
        for slot in sorted(self.line.unfinished(), key=lambda slot: slot._id, reverse=True):
            self.core.cancel(slot)
        self.wake()


class Source:
    """The source of items."""

    ended = False
    error: BaseException | None = None

    def raise_error(self) -> None:
        """Raises the exception that the items raised."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error


class Items(Source):
    """A plain iterable, pulled by the consumer itself."""

    def __init__(self, run: Run, items: Iterable[Any]) -> None:
        self._run = run
        self._items = iter(items)
        self._kept: Any = END

    def fill(self) -> bool:
        """Submits some items; True if more may be available at once."""
        limit = min(CHUNK, self._run.space())
        if limit <= 0 or self.ended:
            return False
        before = self._run.added
        try:
            if self._kept is not END:
                self._kept = self._run.submit_some(iter((self._kept,)), 1)
                return self._kept is END
            self._kept = self._run.submit_some(self._items, limit)
        except Exception as error:  # raised by the items, or by a pool that has ended
            self.error = error
            self.ended = True
            return False
        if self._kept is END and self._run.added - before < limit:
            self.ended = True
        return self._kept is END and not self.ended

    def take_kept(self) -> Any:
        """The item for which there was no space, or END."""
        item, self._kept = self._kept, END
        return item
