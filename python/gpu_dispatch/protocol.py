# SPDX-License-Identifier: MIT
"""The events of tasks and workers, as dataclasses.

The dispatcher passes these facts to its callbacks; programs that collect events
in a queue or a log can use the classes for them.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CleanupFailed", "SetupFailed", "TaskError", "TaskStarted", "TaskSuccess", "TaskTimeout"]


@dataclass
class TaskSuccess:
    """A task has succeeded."""

    task_id: int
    data: Any
    """What process() returned."""
    worker_id: int
    """The number of the worker's GPU."""


@dataclass
class TaskError:
    """A task has failed."""

    task_id: int
    error: str
    """A traceback."""
    worker_id: int


@dataclass
class TaskTimeout:
    """A task exceeded its time limit."""

    task_id: int
    timeout: float
    """The limit in seconds."""
    worker_id: int


@dataclass
class TaskStarted:
    """A worker begins a task."""

    task_id: int
    worker_id: int


@dataclass
class SetupFailed:
    """A worker could not be set up."""

    gpu_id: int
    error: str
    """A traceback."""


@dataclass
class CleanupFailed:
    """A worker failed in cleanup()."""

    gpu_id: int
    error: str
    """A traceback."""
