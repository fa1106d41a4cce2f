# SPDX-License-Identifier: MIT
"""What comes out of a result queue."""

from __future__ import annotations

from typing import Any, Protocol, TypedDict

__all__ = ["Queue", "Result"]


class Result(TypedDict):
    """The end of one file. Each file that was in the task queue gets exactly one."""

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
    """The folder with what the worker wrote."""
    skipped: bool
    """An earlier run has done this file; its results are still there."""


class Queue(Protocol):
    """What is needed of a queue. Those of multiprocessing and queue.Queue have it."""

    def put(self, item: Any) -> Any:
        ...

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        ...
