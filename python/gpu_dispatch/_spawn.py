# SPDX-License-Identifier: MIT
"""How a pool starts its workers: the command, and the data it sends them."""
from __future__ import annotations

import math
import os
import sys

from gpu_dispatch import _directory, _engine, _interpreter, _log, _main, _place
from gpu_dispatch.worker import BaseWorker

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pickle import dumps as pickle_dumps
    from typing import Any
else:
    from _pickle import dumps as pickle_dumps  # the same function

__all__ = ["batch_size", "check_worker_class", "found_in", "item_dumps", "milliseconds", "worker_argv", "worker_settings"]

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


def _import_path() -> list[str]:
    """The module path of a worker.

    In sys.path of an interactive program, "" is the current directory. The program may have changed to a directory in
    which another user has planted modules, so the worker gets the directory in which this package was imported instead.
    """
    path = [found_in(entry) for entry in sys.path if isinstance(entry, str)]
    if "" in sys.path:
        path += [directory for directory in _module_directories() if directory not in path]
    return [entry for entry in path if entry]


def found_in(entry: str) -> str:
    """The directory that an entry of sys.path stands for. A relative entry keeps the meaning of its first use."""
    if not entry or os.path.isabs(entry):
        return entry or _directory
    directory = getattr(sys.path_importer_cache.get(entry), "path", None)
    return directory if isinstance(directory, str) else entry


def _module_directories() -> list[str]:
    """The directories from which the program has imported modules, also after it has changed to another directory.

    Only those that were searched as part of sys.path: modules that were loaded by other means do not count.
    """
    found: dict[str, None] = {}
    for name, module in list(sys.modules.items()):
        if "." in name or not issubclass(type(module), type(sys)):
            continue
        # Not module.__dict__: it would execute a module that is loaded lazily (importlib.util.LazyLoader).
        values = object.__getattribute__(module, "__dict__")
        places = [*(values.get("__path__") or ())] or [values.get("__file__")]
        # Not a module of a package under another name, such as _frozen_importlib, whose file is importlib/_bootstrap.py.
        found |= {os.path.dirname(place): None for place in places if isinstance(place, str) and _stem(place) == name}
    return [directory for directory in found if directory in sys.path_importer_cache]


def _stem(path: str) -> str:
    return os.path.basename(path).partition(".")[0]


def worker_argv(max_batch: int = 1) -> list[str]:
    """The command of a worker: this Python, with the same options and module path."""
    import subprocess

    _main.refuse_to_nest()
    executable = _interpreter.executable()
    if not executable:
        raise RuntimeError("workers cannot be started: sys.executable is not known")
    # Take the package from where this program has it: its other versions may precede it in the path. "" is the current
    # directory. The path of the program is set after a check of its directories, see _main.prepare().
    code = (
        f"import sys; sys.path[:] = [{_place!r}, *filter(None, sys.path)]; import gpu_dispatch; del sys.path[0]; "
        f"from gpu_dispatch._worker import main; main({max_batch})"
    )
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [executable, *flags, *_main.safe_path_flags(), "-c", code]


def batch_size(worker_cls: type[BaseWorker], max_batch: int | None) -> int:
    """The number of items that process_batch() gets at once; 1: the class has only process().

    Raises TypeError if a size is given for a class without process_batch(), ValueError if it is out of range.
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
        "main": _engine.encode(dict(_main.describe_main(_import_path()))),
        "cloudpickle": b"1" if dumps is not pickle_dumps else b"0",
    }
