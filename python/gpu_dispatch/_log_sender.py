# SPDX-License-Identifier: MIT
"""The handler that sends a worker's log records to the parent process: see _log."""
from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from gpu_dispatch import _engine, _traceback
from gpu_dispatch._log import MARK
from gpu_dispatch.errors import TaskTimedOut

__all__ = ["Sender"]

class Sender(logging.Handler):
    """Sends records to the parent."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: deque[dict[str, Any]] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.pending.append(_as_dictionary(record))
            self.send_pending()
        except TaskTimedOut:
            raise  # it ends the task
        except Exception:
            self.handleError(record)

    def send_pending(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        while self.pending:
            entry = self.pending.popleft()
            try:
                _engine.send((MARK, entry))
            except RuntimeError:  # not inside a hook
                self.pending.appendleft(entry)
                return


def _as_dictionary(record: logging.LogRecord) -> dict[str, Any]:
    """The record without arguments, frames and other members that may not be picklable."""
    plain = (str, int, float, bool, type(None))
    entry = {
        key: value if isinstance(value, plain) else repr(value)
        for key, value in record.__dict__.items()
        if key not in ("args", "exc_info", "msg")
    }
    entry["msg"] = record.getMessage()
    entry["args"] = None
    entry["exc_info"] = None
    if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
        entry["exc_text"] = _traceback.exception_text(*record.exc_info[1:]).rstrip("\n")
    return entry
