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
    """A GPU that does not exist was requested."""


class TaskError(RuntimeError):
    """A task failed, and its own exception could not be transferred: the message says why."""


class WorkerDied(RuntimeError):
    """The process of the worker ended while it had the task.

    `signal` is the number of the signal that ended the process, or None. `reason` is a one-line
    message. Both survive pickling.

    >>> error = WorkerDied("the worker was killed while it was running: SIGKILL (Killed)", 9)
    >>> error.signal
    9
    >>> print(error)
    the worker was killed while it was running: SIGKILL (Killed)
    """

    def __init__(self, reason: str, signal: int | None = None) -> None:
        super().__init__(reason, signal)
        self.reason = reason
        self.signal = signal

    def __str__(self) -> str:
        return self.reason


class TaskTimedOut(TimeoutError):
    """The task exceeded its time limit. Also raised inside process() at the deadline."""


class TaskCancelled(BaseException):
    """Raised inside process() when its task is cancelled.

    Like asyncio.CancelledError, not an Exception: `except Exception` in process() should not
    continue a cancelled task.
    """


class RemoteTraceback(Exception):
    """The traceback of an exception in the worker, as text: the cause of the exception here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'
