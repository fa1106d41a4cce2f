# SPDX-License-Identifier: MIT
"""The exceptions of gpu_dispatch."""
from __future__ import annotations

__all__ = [
    "GPUNotFound",
    "NoWorkers",
    "PoolClosed",
    "RemoteTraceback",
    "TaskCancelled",
    "TaskError",
    "TaskTimedOut",
    "WorkerDied",
]


class PoolClosed(RuntimeError):
    """The pool takes no more tasks: it was stopped, shut down or closed."""


class NoWorkers(RuntimeError):
    """No worker is left: all setups failed, or the workers died too often."""


class GPUNotFound(LookupError):
    """A GPU that does not exist was asked for."""


class TaskError(RuntimeError):
    """A task failed, and its own exception could not be transferred: the message says why."""


class WorkerDied(RuntimeError):
    """The process of the worker ended while it had the task.

    `signal` is the number of the signal that ended the process, or None. `reason` is one line
    for people. Both survive pickling.

    >>> error = WorkerDied("the worker was killed at work: SIGKILL (Killed)", 9)
    >>> error.signal
    9
    >>> print(error)
    the worker was killed at work: SIGKILL (Killed)
    """

    def __init__(self, reason: str, signal: int | None = None) -> None:
        super().__init__(reason, signal)
        self.reason = reason
        self.signal = signal

    def __str__(self) -> str:
        return self.reason


class TaskTimedOut(TimeoutError):
    """The task was not done in time. Also raised inside process() at the deadline."""


class TaskCancelled(BaseException):
    """Raised inside process() when its task is cancelled.

    Not an Exception, as asyncio.CancelledError is none: `except Exception` in process()
    is not meant to go on with a task that nobody wants any more.
    """


class RemoteTraceback(Exception):
    """The traceback of an exception in the worker, as text: the cause of the exception here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'
