# SPDX-License-Identifier: MIT
"""Keep all GPUs of a machine busy: persistent workers, one process per GPU.

    from gpu_dispatch import BaseWorker, Dispatcher

Each worker loads its model once, in setup(), and then processes one item after another. A
Dispatcher runs a stream of items and passes the results to callbacks; a Pool returns futures.
"""
from __future__ import annotations

import os

TYPE_CHECKING = False  # as in typing, whose import takes longer than all of this module
if TYPE_CHECKING:
    from typing import Any

    from gpu_dispatch._serve import LaunchSetup, serve, serve_items
    from gpu_dispatch.dispatcher import Dispatcher
    from gpu_dispatch.errors import (
        GPUNotFound,
        NoWorkers,
        PoolClosed,
        RemoteTraceback,
        TaskCancelled,
        TaskError,
        TaskTimedOut,
        WorkerDied,
    )
    from gpu_dispatch.pool import Pool
    from gpu_dispatch.worker import BaseWorker

    __version__: str

try:
    _directory = os.getcwd()
except OSError:  # the directory was removed
    _directory = ""
"""The current directory when the package was imported, see _main.py and _spawn.py."""

_place = os.path.join(_directory, os.path.dirname(__path__[0]))
"""The directory that contains the package."""

from gpu_dispatch import _places

_places.remember_main(_directory)

# Modules are imported when they are first used, so that `import gpu_dispatch` is fast.
_ORIGINS = {
    "BaseWorker": "worker",
    "Dispatcher": "dispatcher",
    "GPUNotFound": "errors",
    "LaunchSetup": "_serve",
    "NoWorkers": "errors",
    "Pool": "pool",
    "PoolClosed": "errors",
    "RemoteTraceback": "errors",
    "TaskCancelled": "errors",
    "TaskError": "errors",
    "TaskTimedOut": "errors",
    "WorkerDied": "errors",
    "serve": "_serve",
    "serve_items": "_serve",
}

__all__ = [
    "BaseWorker",
    "Dispatcher",
    "GPUNotFound",
    "LaunchSetup",
    "NoWorkers",
    "Pool",
    "PoolClosed",
    "RemoteTraceback",
    "TaskCancelled",
    "TaskError",
    "TaskTimedOut",
    "WorkerDied",
    "__version__",
    "serve",
    "serve_items",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        value = importlib.import_module("gpu_dispatch._engine").version
    elif name in _ORIGINS:
        value = getattr(importlib.import_module(f"gpu_dispatch.{_ORIGINS[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
