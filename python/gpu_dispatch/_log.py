# SPDX-License-Identifier: MIT
"""Log records of workers, on their way to the logging of the parent process.

In the worker, a handler sends each record as a dictionary. Only the main thread can send, so the
records of other threads wait for the next record or the end of the running hook. In the parent,
the record goes to the logger of the same name, whose level and handlers apply as for its own.
"""
from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_dispatch._engine import Failure

__all__ = ["LOGGER_NAME", "flush", "level_setting", "receive", "report_cleanup", "worker_logger"]

LOGGER_NAME = "gpu_dispatch.worker"
LEVEL_SETTING = "log_level"
_MARK = "log record"
_formatter = logging.Formatter()


class _Sender(logging.Handler):
    """Sends records to the parent."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: deque[dict[str, Any]] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.pending.append(_as_dictionary(record))
            self.send_pending()
        except Exception:
            self.handleError(record)

    def send_pending(self) -> None:
        from gpu_dispatch import _engine

        if threading.current_thread() is not threading.main_thread():
            return
        while self.pending:
            entry = self.pending.popleft()
            try:
                _engine.send((_MARK, entry))
            except RuntimeError:  # not inside a hook
                self.pending.appendleft(entry)
                return


def _as_dictionary(record: logging.LogRecord) -> dict[str, Any]:
    """The record without arguments, frames and anything else that may not be pickled."""
    plain = (str, int, float, bool, type(None))
    entry = {
        key: value if isinstance(value, plain) else repr(value)
        for key, value in record.__dict__.items()
        if key not in ("args", "exc_info", "msg")
    }
    entry["msg"] = record.getMessage()
    entry["args"] = None
    entry["exc_info"] = None
    if record.exc_info and not record.exc_text:
        entry["exc_text"] = _formatter.formatException(record.exc_info)
    return entry


_sender: _Sender | None = None


def worker_logger() -> logging.Logger:
    """In a worker: the logger whose records reach the parent. In the parent: that very logger."""
    global _sender
    logger = logging.getLogger(LOGGER_NAME)
    if _sender is None:
        from gpu_dispatch import _engine

        level = _engine.setting(LEVEL_SETTING)
        if level is not None:
            _sender = _Sender()
            logger.addHandler(_sender)
            logger.propagate = False
            logger.setLevel(int(bytes(level)))
    return logger


def flush() -> None:
    """In a worker, at the end of a hook: sends the records of other threads."""
    if _sender is not None and _sender.pending:
        _sender.send_pending()


def level_setting() -> dict[str, bytes]:
    """In the parent: tells workers which records would be dropped here."""
    level = logging.getLogger(LOGGER_NAME).getEffectiveLevel()
    return {LEVEL_SETTING: str(level).encode()}


def receive(message: Any, gpu: int, slot: int) -> None:
    """In the parent: on_message of the engine."""
    if not (isinstance(message, tuple) and len(message) == 2 and message[0] == _MARK):
        return
    record = logging.makeLogRecord(message[1])
    record.gpu = gpu
    record.slot = slot
    logger = logging.getLogger(record.name)
    try:
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)
    except Exception:  # must not be raised by whoever waits for a result just now
        traceback.print_exc()


def report_cleanup(gpu: int, failure: Failure) -> None:
    """Logs that a worker failed in cleanup(), where no callback tells it."""
    from gpu_dispatch._failure import traceback_text

    logging.getLogger("gpu_dispatch").warning(
        "cleanup of the worker on GPU %d failed: %s", gpu, traceback_text(failure)
    )
