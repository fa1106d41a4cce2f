# SPDX-License-Identifier: MIT
"""Passes log records of workers to the logging of the parent process.

In the worker, a handler sends each record as a dictionary. Only the main thread can send, so the
records of other threads wait for the next record or the end of the running hook. In the parent,
the record goes to the logger of the same name, whose level and handlers apply as for the parent's
own records.
"""
from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in typing, which takes long to import, and so does logging
if TYPE_CHECKING:
    import logging
    from typing import Any

    from gpu_dispatch._engine import Failure
    from gpu_dispatch._log_sender import Sender

__all__ = ["LOGGER_NAME", "flush", "level_setting", "receive", "report_cleanup", "worker_logger"]

LOGGER_NAME = "gpu_dispatch.worker"
LEVEL_SETTING = "log_level"
MARK = "log record"
_DEFAULT_LEVEL = 30  # logging.WARNING, until logging is imported

_sender: Sender | None = None


def worker_logger() -> logging.Logger:
    """In a worker: the logger whose records reach the parent. In the parent: the same logger."""
    import logging

    global _sender
    logger = logging.getLogger(LOGGER_NAME)
    if _sender is None:
        from gpu_dispatch import _engine
        from gpu_dispatch._log_sender import Sender

        level = _engine.setting(LEVEL_SETTING)
        if level is not None:
            _sender = Sender()
            logger.addHandler(_sender)
            logger.propagate = False
            logger.setLevel(int(bytes(level)))
            _engine.set_worker_flush(_sender.pending, flush)
    return logger


def flush() -> None:
    """In a worker, at the end of a hook: sends the records of other threads."""
    if _sender is not None and _sender.pending:
        _sender.send_pending()


def level_setting() -> dict[str, bytes]:
    """In the parent: tells workers which records would be dropped in the parent."""
    logging = sys.modules.get("logging")
    level = logging.getLogger(LOGGER_NAME).getEffectiveLevel() if logging is not None else _DEFAULT_LEVEL
    return {LEVEL_SETTING: str(level).encode()}


def receive(message: Any, gpu: int, slot: int) -> None:
    """In the parent: on_message of the engine."""
    if not (isinstance(message, tuple) and len(message) == 2 and message[0] == MARK):
        return
    import logging

    record = logging.makeLogRecord(message[1])
    record.gpu = gpu
    record.slot = slot
    logger = logging.getLogger(record.name)
    try:
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)
    except Exception as error:  # must not be raised in a thread that waits for a result
        from gpu_dispatch import _traceback

        print(_traceback.exception_text(error), end="", file=sys.stderr)


def report_cleanup(gpu: int, failure: Failure) -> None:
    """Logs that a worker failed in cleanup(), for which there is no callback."""
    import logging

    from gpu_dispatch._failure import traceback_text

    logging.getLogger("gpu_dispatch").warning(
        "cleanup of the worker on GPU %d failed: %s", gpu, traceback_text(failure)
    )
