# SPDX-License-Identifier: MIT
"""How a pool starts its workers: the command, and the data it sends them."""
from __future__ import annotations

import math
import os
import sys

from gpu_dispatch import _engine, _log, _main
from gpu_dispatch.worker import BaseWorker

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pickle import dumps as pickle_dumps
    from typing import Any
else:
    from _pickle import dumps as pickle_dumps  # the same function

__all__ = ["batch_size", "check_worker_class", "item_dumps", "milliseconds", "worker_argv", "worker_settings"]

DEFAULT_BATCH = 32
MAX_BATCH = 1024
MOST_SECONDS = 10**9


def milliseconds(name: str, seconds: float | None) -> int:
    """A time limit for the engine, in which 0 means no limit. Raises ValueError."""
    if seconds is None:
        return 0
    if not 0 < seconds <= MOST_SECONDS:
        raise ValueError(
            f"{name} must be a positive number of seconds up to {MOST_SECONDS}, or None, not {seconds!r}"
        )
    return math.ceil(seconds * 1000)


def check_worker_class(worker_cls: object) -> None:
    """Raises TypeError unless it is a class derived from BaseWorker."""
    if not isinstance(worker_cls, type) or not issubclass(worker_cls, BaseWorker):
        raise TypeError(f"worker_cls must be a class derived from BaseWorker, not {worker_cls!r}")


def worker_argv(max_batch: int = 1) -> list[str]:
    """The command of a worker: this Python, with the same options and module path."""
    import subprocess

    _main.refuse_to_nest()
    if not sys.executable:
        raise RuntimeError("workers cannot be started: sys.executable is not known")
    # Replace "" with the current directory, which may change.
    path = [entry or os.getcwd() for entry in sys.path if isinstance(entry, str)]
    code = f"import sys; sys.path[:] = {path!r}; from gpu_dispatch._worker import main; main({max_batch})"
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, *_main.safe_path_flags(), "-c", code]


def batch_size(worker_cls: type[BaseWorker], max_batch: int | None) -> int:
    """The number of items that process_batch() gets at once; 1: the class has only process().

    Raises TypeError if a size is given for a class without process_batch(), and ValueError.
    """
    if not hasattr(worker_cls, "process_batch"):
        if max_batch is not None:
            raise TypeError(f"max_batch is given, but {worker_cls.__qualname__} has no process_batch()")
        return 1
    if max_batch is None:
        return DEFAULT_BATCH
    if not 1 <= max_batch <= MAX_BATCH:
        raise ValueError(f"max_batch must be between 1 and {MAX_BATCH}, not {max_batch}")
    return max_batch


def _needs_cloudpickle(cls: type) -> bool:
    return cls.__module__ == "__main__" and not _main.has_main()


def item_dumps(cls: type) -> Callable[..., bytes] | None:
    """The pickling function for items of this worker class, if it is not pickle.dumps.

    Classes and functions of a notebook exist only in its memory: cloudpickle sends them along.
    Raises RuntimeError if it is needed and not installed.
    """
    if not _needs_cloudpickle(cls):
        return None
    try:
        import cloudpickle  # type: ignore[import]
    except ImportError:
        raise RuntimeError(
            f"the class {cls.__qualname__} exists only in this program's memory (a notebook, -c or standard input), so "
            "workers cannot import it: install cloudpickle (pip install 'gpu_dispatch[notebook]'), or put the "
            "class into a module"
        ) from None
    dumps: Callable[..., bytes] = cloudpickle.dumps
    return dumps


def worker_settings(worker: BaseWorker, setup: Mapping[str, Any]) -> dict[str, bytes]:
    """The input of _worker.main(): the worker, the arguments of its setup(), and the main module.

    Raises the exceptions of pickling.
    """
    dumps = item_dumps(type(worker)) or pickle_dumps
    return {
        **_log.level_setting(),
        "worker": dumps(worker, protocol=5),
        "setup": dumps(dict(setup), protocol=5),
        "main": _engine.encode(dict(_main.describe_main())),
        "cloudpickle": b"1" if dumps is not pickle_dumps else b"0",
    }
