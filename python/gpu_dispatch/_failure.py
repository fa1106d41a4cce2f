# SPDX-License-Identifier: MIT
"""Sends exceptions to another process: a line, a traceback, and the exception itself."""
from __future__ import annotations

import io

from gpu_dispatch import _main
from gpu_dispatch.errors import RemoteTraceback, TaskError, TaskTimedOut, WorkerDied

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from pickle import Pickler, loads
    from types import TracebackType
    from typing import Any

    from gpu_dispatch._engine import Failure
else:
    from _pickle import Pickler, loads  # the same objects

__all__ = ["describe", "exception_of", "traceback_text"]


MOST_LINE = 4096

MOST_TEXT = 1 << 20
"""Characters of a traceback. A message of many megabytes would be copied again and again."""

MOST_PICKLED = 16 << 20
"""Bytes of a pickled exception."""


def _shortened(text: str, most: int) -> str:
    """The text without its middle if it is long: the end of a traceback is the most useful part."""
    if len(text) <= most:
        return text
    left_out = len(text) - most
    return f"{text[: most // 2]}\n[… {left_out} characters left out …]\n{text[-most // 2 :]}"


def _plain(text: str) -> str:
    """The text without lone surrogates, which cannot be written everywhere."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _of_user(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without our own frames at its beginning."""
    start = trace
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("gpu_dispatch."):
        trace = trace.tb_next
    return trace or start


class _Pickler(Pickler):
    """Pickles exceptions so that _rebuild() creates them."""

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, BaseException):
            return NotImplemented
        reduced = thing.__reduce_ex__(5)
        if not isinstance(reduced, tuple) or reduced[0] is not type(thing):
            return NotImplemented
        return (_rebuild, reduced[:2], *reduced[2:])


def _rebuild(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Creates the exception, even if its constructor takes other arguments than `args`.

    Pickle restores its attributes afterwards.
    """
    try:
        return cls(*args)
    except (Exception, SystemExit):
        error = cls.__new__(cls, *args)
        built_in = next(base for base in cls.__mro__ if base.__module__ == "builtins")
        built_in.__init__(error, *args)  # type: ignore[misc]
        error.args = args
        return error


def _pickled(error: BaseException) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(error)
    return file.getvalue()


def describe(error: BaseException) -> tuple[str, tuple[bytes | str, str]]:
    """A one-line message, the pickled exception (or why it is not sent), and its traceback."""
    from gpu_dispatch import _traceback

    error = _main.explain(error)
    error.__traceback__ = _of_user(error.__traceback__)
    captured = _traceback.capture(error)
    text = "".join(captured.format())
    # The places of syntax errors come before the line that names the exception; notes come after it.
    lines = list(captured.format_exception_only())
    line = next((line for line in lines if not line.startswith(" ")), lines[-1]).strip()
    try:
        pickled: bytes | str = _pickled(error)
    except Exception:
        pickled = "it cannot be pickled"
    if len(pickled) > MOST_PICKLED:
        pickled = f"its pickle is {len(pickled)} bytes long; the limit is {MOST_PICKLED >> 20} MiB"
    return _plain(line[:MOST_LINE]), (pickled, _plain(_shortened(text, MOST_TEXT)))


def _is_damaged(payload: Any) -> bool:
    """Whether the payload is not what describe() returned: code of the worker may have overwritten its memory."""
    if payload is None:
        return False
    if type(payload) is not tuple or len(payload) != 2:
        return True
    return not isinstance(payload[0], (bytes, str)) or not isinstance(payload[1], str)


def traceback_text(failure: Failure) -> str:
    """The text for an error callback: the traceback, or the message if there is no traceback."""
    if failure.kind == "undecodable":
        from gpu_dispatch import _traceback

        return f"{_traceback.exception_text(failure.payload)}\n{failure.message}"
    if failure.payload is not None and not _is_damaged(failure.payload):
        text: str = failure.payload[1]
        return text
    return failure.message


def exception_of(failure: Failure, hook: str = "process()") -> Exception:
    """The exception of a failed task, or of another failed hook such as setup().

    This is the exception that was raised in the worker, with the remote traceback as its cause.
    Without such an exception: WorkerDied if the process of the worker ended, TaskTimedOut if it was
    killed because setup() did not react to its time limit, otherwise TaskError.
    """
    if failure.kind == "undecodable":
        wrong = TaskError(failure.message)
        wrong.__cause__ = failure.payload
        return wrong
    if _is_damaged(failure.payload):
        return TaskError(f"{failure.message} (the exception itself could not be decoded: it is damaged)")
    if failure.payload is None:
        if failure.kind in ("crashed", "out of memory", "stuck"):
            return WorkerDied(failure.message, failure.signal or None)
        if failure.kind == "timed out":
            return TaskTimedOut(failure.message)
        return TaskError(failure.message)
    pickled, text = failure.payload
    error: object = None
    why = pickled
    if isinstance(pickled, bytes):
        try:
            error = loads(pickled)
        except (Exception, SystemExit) as problem:
            why = f"it cannot be unpickled: {problem!r}"
    if isinstance(error, BaseException) and not isinstance(error, Exception):
        # SystemExit or KeyboardInterrupt of a worker must not end the parent.
        error = TaskError(f"{hook} raised {error!r}")
    if not isinstance(error, Exception):
        error = TaskError(f"{failure.message} (the exception itself could not be transferred: {why})")
    error.__cause__ = RemoteTraceback(text)
    return error
