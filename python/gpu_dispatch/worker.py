# SPDX-License-Identifier: MIT
"""The class from which workers are derived."""
from __future__ import annotations

import abc

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import Any

__all__ = ["BaseWorker"]


class _Inside:
    """An attribute that is computed inside a worker. Assigning to it replaces it."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    def __get__(self, instance: object, owner: type) -> object:
        return self._read()


def _cancelled() -> bool:
    """True when the running task is out of time or cancelled. A long process() may poll it."""
    from gpu_dispatch import _engine

    return _engine.cancelled()


def _log() -> logging.Logger:
    """A logger whose records reach the logging of the parent process."""
    from gpu_dispatch import _log as module

    return module.worker_logger()


def _device_index() -> int:
    """The device number with which this process opens its GPU: 0 if the worker sees only its own GPU."""
    from gpu_dispatch import _worker

    return _worker.device_index()


def _process_as_batch(self: Any, data: Any) -> Any:
    """Processes one item as a batch of one."""
    (result,) = self.process_batch([data])
    if isinstance(result, BaseException):
        raise result
    return result


class BaseWorker(abc.ABC):
    """A worker: one process per GPU, which loads its model once, then processes one item after another.

    Derive from this class and define setup() and process(). The class is instantiated in the
    parent process and pickled, so the constructor must be light and take no arguments. Models and
    GPU memory belong in setup().
    """

    if TYPE_CHECKING:
        cancelled: bool
        log: logging.Logger
        device_index: int
    else:
        cancelled = _Inside(_cancelled)
        log = _Inside(_log)
        device_index = _Inside(_device_index)

    def __init__(self) -> None:
        """Keep it empty or light: no models, no GPU memory."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A class with process_batch() need not define process()."""
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "process_batch") and cls.process is BaseWorker.process:
            setattr(cls, "process", _process_as_batch)

    if TYPE_CHECKING:
        # Each subclass names its own arguments.
        setup: Callable[..., None]

        # Not abstract for type checkers: process_batch() can take its place.
        def process(self, data: Any) -> Any: ...

    else:

        @abc.abstractmethod
        def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
            """Called once, when the worker's process starts: loads the model.

            `gpu_id` is the number of the GPU, `seed` differs for each worker, and the keyword
            arguments are those passed to run() or Pool().
            """

        @abc.abstractmethod
        def process(self, data: Any) -> Any:
            """Called for each item; returns its result.

            With a Pool, a class may define process_batch(items) instead: it gets several items at
            once and returns the same number of results. An exception among them is that item's
            error.
            """

    def cleanup(self) -> None:
        """Called when the worker ends: releases what setup() has loaded."""
