# SPDX-License-Identifier: MIT
"""The future of one task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, _base
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core import Core

_PENDING: str = _base.PENDING
_FINISHED: str = _base.FINISHED
_CANCELLED = (_base.CANCELLED, _base.CANCELLED_AND_NOTIFIED)
_OVER = (*_CANCELLED, _FINISHED)


class TaskFuture(Future[Any]):
    """A `concurrent.futures.Future` of a task in a pool.

    It differs in two respects. A running task can be cancelled: the future is cancelled at once,
    and the worker is asked to stop. And a thread that waits for the result polls the pool itself.
    Callbacks are called on the pool's own thread, never on a thread that happens to wait for
    something else.
    """

    # Members of the base class; like other executors, this one uses them.
    _condition: threading.Condition
    _done_callbacks: list[Callable[[Future[Any]], object]]
    _exception: BaseException | None
    _result: Any
    _state: str
    _waiters: list[Any]

    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._id = -1
        self._told = False

    def cancel(self) -> bool:
        """Cancels the task, even if it is running. False if the result has been delivered.

        A running task sees `self.cancelled` and gets an exception in `process()`; if it does not
        react, its worker is killed after the grace period.
        """
        with self._condition:
            if self._state == _FINISHED:
                return False
            if self._state in _CANCELLED:
                return True
            self._state = _base.CANCELLED
            self._condition.notify_all()
            self.set_running_or_notify_cancel()
        self._core.cancel(self)
        self._invoke_callbacks()
        return True

    def running(self) -> bool:
        """True if a worker is processing the task now."""
        return self._state == _PENDING and self._core.is_running(self)

    def result(self, timeout: float | None = None) -> Any:
        """Returns the result, or raises the task's exception; waits up to `timeout` seconds.

        Raises `TimeoutError` if the task has not ended by then, and `CancelledError` if it was cancelled.
        """
        if self._state not in _OVER:
            self._wait(timeout)
        if self._state == _FINISHED and self._exception is None:
            return self._result
        try:
            return super().result(0)
        finally:
            del self  # breaks the cycle of the exception, its traceback and this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the task's exception, or None if it has a result. Otherwise like result()."""
        if self._state not in _OVER:
            self._wait(timeout)
        return super().exception(0)

    def _over(self) -> bool:
        return self._state in _OVER

    def _wait(self, timeout: float | None) -> None:
        self._core.leader.wait(self._over, self._condition, timeout)

    # ---- called by the pool with the end of the task ----------------------------------------

    # An exception of a signal handler may come anywhere: then these methods are called again.

    def _succeed(self, value: Any) -> None:
        self._end(value, None)

    def _fail(self, exception: BaseException) -> None:
        self._end(None, exception)

    def _end(self, value: Any, exception: BaseException | None) -> None:
        with self._condition:
            if self._told or self._state in _CANCELLED:
                return
            self._result = value
            self._exception = exception
            self._state = _FINISHED
            for waiter in self._waiters:
                if exception is None:
                    waiter.add_result(self)
                else:
                    waiter.add_exception(self)
            self._condition.notify_all()
        if self._done_callbacks:
            self._core.leader.call_later(self._invoke_callbacks)
        self._told = True

    def _drop(self) -> None:
        """The pool has cancelled the task."""
        with self._condition:
            if self._state == _PENDING:
                self._state = _base.CANCELLED
            if self._state == _base.CANCELLED:
                self._condition.notify_all()
                self.set_running_or_notify_cancel()
        if not self._told and self._done_callbacks:
            self._core.leader.call_later(self._invoke_callbacks)
        self._told = True

    def _invoke_callbacks(self) -> None:
        while self._done_callbacks:
            callback = self._done_callbacks.pop(0)
            try:
                callback(self)
            except BaseException as error:
                # On the pool's thread, SystemExit would otherwise be lost.
                if not (isinstance(error, Exception) or self._core.leader.in_thread()):
                    raise
                _base.LOGGER.exception("exception calling callback for %r", self)
