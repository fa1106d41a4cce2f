# SPDX-License-Identifier: MIT
"""Shared by Pool, its futures and its iterators: the engine, and which thread polls it.

A core outlives its Pool object while futures or iterators refer to it. Each task carries a tag, an
object with the methods of `Task`; the engine's callbacks call exactly one of them, once.
"""
from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from . import _engine
from ._failure import exception_of
from ._leader import Leader
from .errors import NoWorkers, PoolClosed, TaskTimedOut

if TYPE_CHECKING:
    from ._aio import Bridge

SLICE_SECONDS = 0.1

_SUCCESS, _ERROR, _TIMEOUT, _CANCELLED = range(4)

_log = logging.getLogger("gpu_dispatch")


class Task(Protocol):
    """The tag of a task: is notified of its end."""

    _id: int

    def _succeed(self, value: Any) -> None: ...
    def _fail(self, exception: BaseException) -> None: ...
    def _drop(self) -> None:
        """The task was cancelled."""


class Core:
    """An engine with its threads. All methods may be called by any thread."""

    def __init__(self, open_engine: Callable[[Core], _engine.Pool]) -> None:
        self.pid = os.getpid()
        self.setup_error: BaseException | None = None
        self.bridges: dict[Any, Bridge] = {}
        self.cancel_at_exit: weakref.WeakSet[Any] = weakref.WeakSet()
        # By the id() of the task, which the entry keeps alive. Guarded by its lock, as is `shut`.
        self._backlog: OrderedDict[int, tuple[Any, Task, int]] = OrderedDict()
        self._backlog_lock = threading.RLock()
        self.events: deque[tuple[int, Task, Any, int]] = deque()
        self._deliver_lock = threading.RLock()
        self._closed = threading.Event()
        self._closing = False
        self._state_lock = threading.Lock()
        self.shut = False
        self._interrupted = False
        self.engine = open_engine(self)
        self.leader = Leader(self.engine, self.events)
        self.leader.after_poll = self._after_poll
        _live.add(self)

    # ---- tasks ----------------------------------------------------------------------------

    def submit(
        self,
        item: Any,
        task: Task,
        timeout_ms: int,
        give_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """Submits a task; waits for space. An item that cannot be pickled fails the task.

        Ends without a task when give_up() becomes true.
        """
        over = self.try_submit(item, task, timeout_ms)

        def submitted() -> bool:
            # Called again after it was true; a second call must not submit the task again.
            nonlocal over
            over = over or give_up()
            over = over or (bool(self.engine.room()) and self.try_submit(item, task, timeout_ms))
            return over

        if not over:
            self.leader.wait_progress(submitted)

    def try_submit(self, item: Any, task: Task, timeout_ms: int) -> bool:
        """The same without waiting: False if there is no space."""
        self.check_open()
        return self._place(item, task, timeout_ms)

    def submit_later(self, item: Any, task: Task, timeout_ms: int) -> None:
        """The same for event loops: if there is no space, the task waits in a separate list."""
        with self._backlog_lock:
            self.check_open()
            if self._backlog or not self._place(item, task, timeout_ms):
                self._backlog[id(task)] = (item, task, timeout_ms)
                self._place_backlog()

    def _place(self, item: Any, task: Task, timeout_ms: int) -> bool:
        try:
            task._id = self.engine.submit(item, task, timeout_ms, True)
        except BlockingIOError:
            return False
        except (PoolClosed, NoWorkers):
            raise
        except Exception as error:
            task._fail(error)
        return True

    def _after_poll(self) -> None:
        if self.events:
            self.deliver()
        if self._backlog:
            self._place_backlog()

    def _place_backlog(self) -> None:
        with self._backlog_lock:
            while self._backlog:
                item, task, timeout_ms = next(iter(self._backlog.values()))
                try:
                    if not self._place(item, task, timeout_ms):
                        return
                except PoolClosed:
                    task._drop()
                except NoWorkers as error:
                    error.__cause__ = self.setup_error
                    task._fail(error)
                self._backlog.pop(id(task), None)

    def cancel(self, task: Task) -> None:
        """Cancels a task. Does nothing if it has ended."""
        if task._id < 0:
            with self._backlog_lock:
                self._backlog.pop(id(task), None)
        if task._id >= 0:
            try:
                self.engine.cancel(task._id)
            except PoolClosed:
                return
            self.leader.wake_thread()

    def is_running(self, task: Task) -> bool:
        """True if a worker is processing the task."""
        if self._closing:
            return False
        return any(worker["task_id"] == task._id for worker in self.engine.worker_stats())

    def is_ours(self) -> bool:
        """False in a child process that the program has forked."""
        return os.getpid() == self.pid

    def check_process(self) -> None:
        """Raises RuntimeError in a forked child."""
        if os.getpid() != self.pid:
            raise RuntimeError(
                "this pool belongs to the parent process: a forked child cannot use it"
            )

    def check_open(self) -> None:
        """Raises PoolClosed after shutdown."""
        if self.shut:
            raise PoolClosed("the pool has been shut down")

    # ---- ended tasks ------------------------------------------------------------------------

    def deliver(self) -> None:
        """Delivers the ends of tasks.

        An event is removed after its task was notified. So an exception of a signal handler, which
        may come anywhere here on the main thread, is harmless: the event is delivered again.
        """
        events = self.events
        with self._deliver_lock:
            while events:
                event = events[0]
                kind, task, value, _ = event
                if kind == _SUCCESS:
                    task._succeed(value)
                else:
                    self._deliver_failure(kind, task, value)
                if events and events[0] is event:
                    events.popleft()

    def _deliver_failure(self, kind: int, task: Task, value: Any) -> None:
        if kind == _TIMEOUT:
            task._fail(TaskTimedOut(f"the task exceeded its time limit of {value:g} s"))
        elif kind == _CANCELLED:
            task._drop()
        elif value.kind != "no worker":
            task._fail(exception_of(value))
        else:
            error = NoWorkers(value.message)
            error.__cause__ = self.setup_error
            task._fail(error)

    def on_setup_fail(self, gpu: int, failure: _engine.Failure) -> None:
        error = exception_of(failure, "setup()")
        if self.setup_error is None:
            self.setup_error = error
        _log.error("setup of the worker on GPU %d failed: %s", gpu, failure.message, exc_info=error)

    # ---- end ----------------------------------------------------------------------------------

    def wait_ready(self, timeout: float | None) -> int:
        """Waits until each worker is ready or lost; returns the number of ready workers."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            states = [worker["state"] for worker in self.engine.worker_stats()]
            if "starting" not in states:
                return sum(state in ("idle", "busy") for state in states)
            left = SLICE_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{states.count('starting')} workers are not ready")
            self.leader.wait_ready(min(left, SLICE_SECONDS))

    def refuse_tasks(self, stops: int) -> None:
        """Takes no more tasks. One stop cancels waiting tasks, two (as after a Ctrl-C) also running ones."""
        with self._backlog_lock:
            self.shut = True
            self._interrupted = self._interrupted or stops > 1
        if stops:
            self._drop_backlog()
        try:
            self.engine.expect_no_more()
            for _ in range(stops):
                self.engine.stop()
        except PoolClosed:
            pass  # closed by another thread

    def finish(self) -> None:
        """Finishes the remaining tasks and closes the engine.

        Each Ctrl-C meanwhile goes one step further: waiting tasks are cancelled, running tasks are
        cancelled, the workers are killed. KeyboardInterrupt is raised at the end.
        """
        interrupted: KeyboardInterrupt | None = None
        while not self._closing:
            try:
                self.leader.wait_progress(lambda: self._closing or self._drained())
                break
            except KeyboardInterrupt as error:
                interrupted = error
                self._interrupted = True
                self.refuse_tasks(stops=1)
        self._close()
        self.leader.join()
        if interrupted is not None:
            raise interrupted

    def finish_later(self) -> None:
        """finish() on the pool's thread, which continues with callbacks until then."""
        self.leader.call_when_idle(self._close_if_drained)

    def _close_if_drained(self) -> bool:
        if not self._closing and not self._drained():
            return False
        self._close()
        return True

    def _drained(self) -> bool:
        try:
            return not (self._backlog or self.events or self.engine.outstanding())
        except PoolClosed:
            return True  # closed by another thread

    def _drop_backlog(self) -> None:
        with self._backlog_lock:
            dropped, self._backlog = self._backlog, OrderedDict()
        for _, task, _ in dropped.values():
            task._drop()

    def _close(self) -> None:
        with self._state_lock:
            mine = not self._closing
            self._closing = True
        if not mine:
            self._closed.wait()
            return
        try:
            for bridge in list(self.bridges.values()):
                bridge.detach()
            self._drop_backlog()
            # One Ctrl-C lets the workers clean up, the next one kills them.
            interrupts = 1 if self._interrupted else 2
            self.leader.close(lambda: self.engine.close(interrupts=interrupts))
        finally:
            self.deliver()
            _live.discard(self)
            self._closed.set()


_live: weakref.WeakSet[Core] = weakref.WeakSet()


def _finish_all() -> None:
    """At the end of the program: finishes the submitted tasks, like an Executor."""
    interrupted: BaseException | None = None
    for core in list(_live):
        if not core.is_ours():
            continue
        try:
            for run in list(core.cancel_at_exit):
                run.cancel()
            core.refuse_tasks(stops=0 if interrupted is None else 2)
            core.finish()
        except BaseException as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


atexit.register(_finish_all)
