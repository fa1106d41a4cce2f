# SPDX-License-Identifier: MIT
"""The items of a result queue."""

from __future__ import annotations

from typing import Any, Protocol, TypedDict

__all__ = ["Queue", "Result"]


class Result(TypedDict):
    """The result of one file. Each file of the task queue gets exactly one."""

    status: str
    """``"success"`` or ``"error"``."""
    file: str
    """The path, as it was put into the task queue."""
    gpu_id: int
    """-1 if the file never reached a GPU."""
    duration: float
    """Seconds of audio; 0.0 if they are unknown."""
    processing_time: float
    """Seconds that the worker needed."""
    error: str | None
    output_dir: str | None
    """The folder with the worker's output files."""
    skipped: bool
    """An earlier run has finished this file; its results are still there."""


class Queue(Protocol):
    """The required methods of a queue, as in multiprocessing queues and queue.Queue."""

    def put(self, item: Any) -> Any:
        ...

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        ...
