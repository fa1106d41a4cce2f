# SPDX-License-Identifier: MIT
"""The pool in an event loop: the loop watches the pool's descriptor, and there is no thread.

The end of a task may be delivered by the loop itself or by another thread that happens to poll;
`Bridge.call()` brings it to the loop's thread.
"""
from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any

from ._core import Core
from ._progress import Progress
from ._run import END, Errors, Items, Run, Source, outcome
from .errors import PoolClosed

DETACH_SECONDS = 1.0


class Bridge:
    """One pool in one event loop."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self.core = core
        self.loop = loop
        self._thread_id = threading.get_ident()
        self._fd = core.engine.fileno()
        loop.add_reader(self._fd, self._readable)

    @staticmethod
    def of(core: Core) -> Bridge:
        """The bridge to the running loop."""
        loop = asyncio.get_running_loop()
        bridge = core.bridges.get(loop)
        if bridge is None:
            for other in [loop for loop in core.bridges if loop.is_closed()]:
                core.bridges.pop(other, None)
            bridge = core.bridges[loop] = Bridge(core, loop)
        return bridge

    def call(self, function: Callable[..., None], *args: Any) -> None:
        """Calls function(*args) on the loop's thread; does nothing if the loop is closed."""
        if threading.get_ident() == self._thread_id:
            function(*args)
            return
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass

    def detach(self) -> None:
        """Stops watching the descriptor, which is about to be closed."""
        self.core.bridges.pop(self.loop, None)
        if self.loop.is_closed():
            return
        if threading.get_ident() == self._thread_id or not self.loop.is_running():
            self.loop.remove_reader(self._fd)
            return
        removed = threading.Event()

        def remove() -> None:
            self.loop.remove_reader(self._fd)
            removed.set()

        self.call(remove)
        removed.wait(DETACH_SECONDS)

    def _readable(self) -> None:
        if not self.core.leader.poll():
            self.loop.remove_reader(self._fd)
            self.core.bridges.pop(self.loop, None)


class AsyncTask:
    """The task of asubmit(): the tag in the engine, and the awaitable of the coroutine."""

    __slots__ = ("_id", "_bridge", "future")

    def __init__(self, bridge: Bridge) -> None:
        self._id = -1
        self._bridge = bridge
        self.future: asyncio.Future[Any] = bridge.loop.create_future()

    def _succeed(self, value: Any) -> None:
        self._bridge.call(_set_result, self.future, value)

    def _fail(self, exception: BaseException) -> None:
        self._bridge.call(_set_exception, self.future, exception)

    def _drop(self) -> None:
        self._fail(PoolClosed("the task was cancelled, because the pool was shut down"))


def _set_result(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _set_exception(future: asyncio.Future[Any], exception: BaseException) -> None:
    if future.done():
        return
    if isinstance(exception, StopIteration):  # a future does not accept it
        wrapped = RuntimeError("process() raised StopIteration")
        wrapped.__cause__ = exception
        exception = wrapped
    future.set_exception(exception)


async def submit(core: Core, item: Any, timeout_ms: int) -> Any:
    """Submits an item and returns its result. Cancelling the coroutine cancels the task."""
    core.check_process()
    task = AsyncTask(Bridge.of(core))
    core.submit_later(item, task, timeout_ms)
    try:
        return await task.future
    except asyncio.CancelledError:
        core.cancel(task)
        raise


class AsyncRun(Run):
    """A run whose consumer is a coroutine."""

    def __init__(self, core: Core, timeout_ms: int, buffersize: int, ordered: bool) -> None:
        self._bridge = Bridge.of(core)
        self._sleeper: asyncio.Future[None] | None = None
        super().__init__(core, timeout_ms, buffersize, ordered)

    def wake(self) -> None:
        self._bridge.call(self._end_sleep)

    def _end_sleep(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def sleep(self, awake: Callable[[], bool], deadline: float | None) -> None:
        """Sleeps until wake(), unless awake() is already true. Raises TimeoutError."""
        self._sleeper = self._bridge.loop.create_future()
        if awake():
            return
        if deadline is None:
            await self._sleeper
            return
        left = max(0.0, deadline - time.monotonic())
        done, _ = await asyncio.wait((self._sleeper,), timeout=left)
        if not done and not awake():
            raise TimeoutError()

    async def wait(self, deadline: float | None) -> None:
        """Waits until a slot can be taken, or is woken for another reason. Raises TimeoutError."""
        self.expect()
        await self.sleep(self.line.ready, deadline)


class InlineItems(Items):
    """Items of a plain iterable."""

    async def fetch(self, deadline: float | None) -> None:
        """Submits items, or sets `ended`. If there is no space, the item waits in a list."""
        self.fill()
        item = self.take_kept()
        if item is not END:
            self._run.submit_one(item, self._run.core.submit_later)

    async def stop(self) -> None:
        """Does nothing: there is no task to end."""


class Feeder(Source):
    """Items of an asynchronous iterable, pulled by a separate task."""

    def __init__(self, run: AsyncRun, items: AsyncIterable[Any]) -> None:
        self._run = run
        self._items = items.__aiter__()
        self._space = asyncio.Event()
        self._task = asyncio.create_task(self._pull_all())

    def fill(self) -> bool:
        """Lets the task continue."""
        if self._run.space() > 0:
            self._space.set()
        return False

    async def fetch(self, deadline: float | None) -> None:
        """Waits for the task's next item, or its end. Raises TimeoutError."""
        self.fill()
        await self._run.sleep(lambda: bool(len(self._run.line)) or self.ended, deadline)

    async def stop(self) -> None:
        """Ends the task."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _pull_all(self) -> None:
        run = self._run
        try:
            while True:
                while run.space() <= 0:
                    self._space.clear()
                    await self._space.wait()
                try:
                    item = await self._items.__anext__()
                except StopAsyncIteration:
                    break
                run.submit_one(item, run.core.submit_later)
                run.wake()
        except Exception as error:
            self.error = error
        finally:
            self.ended = True
            run.wake()


async def results(
    run: AsyncRun,
    items: Iterable[Any] | AsyncIterable[Any],
    errors: Errors,
    deadline: float | None,
    progress: Progress,
) -> AsyncIterator[Any]:
    """Yields the results; closing it cancels the remaining tasks."""
    source: InlineItems | Feeder
    source = Feeder(run, items) if isinstance(items, AsyncIterable) else InlineItems(run, items)
    line = run.line
    try:
        progress.start()
        while True:
            batch = line.take(run.refill)
            while batch:
                slot = batch.pop()
                run.yielded += 1
                progress.advance(slot.error is None)
                try:
                    yield outcome(slot, errors)
                finally:
                    del slot  # breaks a cycle, as in outcome()
            if source.ended and not len(line):
                break
            if not len(line):
                await source.fetch(deadline)
            elif source.fill():
                await asyncio.sleep(0)
            elif not line.ready():
                await run.wait(deadline)
        source.raise_error()
    finally:
        run.cancel()
        await source.stop()
        progress.stop()
