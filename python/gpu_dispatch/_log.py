# SPDX-License-Identifier: MIT
"""Log records of workers, and what a pool has to report."""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_dispatch._engine import Failure

__all__ = ["receive", "report_cleanup", "worker_logger"]


def worker_logger() -> logging.Logger:
    """The logger behind BaseWorker.log."""
    return logging.getLogger("gpu_dispatch.worker")


def receive(message: Any, gpu: int, slot: int) -> None:
    """Passes a log record of a worker to the logging of this process."""


def report_cleanup(gpu: int, failure: Failure) -> None:
    """Logs that a worker failed in cleanup(), where no callback tells it."""
    from gpu_dispatch._failure import traceback_text

    logging.getLogger("gpu_dispatch").warning("cleanup of the worker on GPU %d failed: %s", gpu, traceback_text(failure))
