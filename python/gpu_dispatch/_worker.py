# SPDX-License-Identifier: MIT
"""The process of a worker."""
from __future__ import annotations

import sys
from types import FunctionType

from gpu_dispatch import _engine, _log, _main
from gpu_dispatch import _failure, _traceback  # noqa: F401: their imports precede code of the user, which may change sys.path
from gpu_dispatch.worker import BaseWorker

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pickle import loads
    from typing import Any
else:
    from _pickle import loads  # the same function

__all__ = ["device_index", "main"]

_device: int | None = None


def device_index() -> int:
    """The device number with which this worker opens its GPU. Raises RuntimeError outside of workers."""
    if _device is None:
        raise RuntimeError("this process is not a worker")
    return _device


def _setting(name: str) -> memoryview:
    value = _engine.setting(name)
    if value is None:
        raise RuntimeError(f"the pool has not sent {name!r}")
    return value


class _Hooks:
    """Passes the calls of the engine to the user's worker."""

    def __init__(self, max_batch: int) -> None:
        self.max_batch = max_batch
        self._gpu = self._seed = 0
        self._worker: BaseWorker | None = None

    def load(self, gpu: int, device: int, seed: int) -> None:
        """Runs the program up to its first Pool. There it does not return but continues as a worker.

        The process has inherited the directory that the program was in when it created the pool. The path of
        that directory may lead elsewhere by now: if a group can write to the parent directory, another user can replace
        the directory with a link.
        """
        global _device
        _device = device
        self._gpu = gpu
        self._seed = seed
        preparation: _main.Preparation = _engine.decode(bytes(_setting("main")))
        with _main.loading():
            _main.prepare(preparation, _engine.continue_worker)

    def setup(self) -> None:
        _main.end_preparation()
        with _main.loading():
            if _setting("cloudpickle") == b"1":
                import cloudpickle  # type: ignore[import]

                _engine.set_worker_dumps(cloudpickle.dumps)
            worker: BaseWorker = loads(_setting("worker"))
            kwargs = loads(_setting("setup"))
        self._worker = worker
        try:
            worker.setup(self._gpu, self._seed, **kwargs)
        finally:
            _log.flush()

    @property
    def process(self) -> Callable[[Any], Any]:
        assert self._worker is not None
        return self._worker.process

    @property
    def runs_python(self) -> bool:
        """Whether each task begins with Python code, which releases the GIL to other waiting threads."""
        function: Any = self.process_batch if self.max_batch > 1 else self.process
        return isinstance(getattr(function, "__func__", function), FunctionType)

    @property
    def process_batch(self) -> Callable[[list[Any]], Sequence[Any]]:
        batch: Callable[[list[Any]], Sequence[Any]] | None = getattr(self._worker, "process_batch", None)
        return batch if batch is not None else self._one_by_one

    def _one_by_one(self, items: list[Any]) -> list[Any]:
        assert self._worker is not None
        return [self._worker.process(item) for item in items]

    def cleanup(self) -> None:
        assert self._worker is not None
        try:
            self._worker.cleanup()
        finally:
            _log.flush()

    def leave(self) -> None:
        """Does the work of Python's own shutdown, which is skipped when the process ends."""
        import atexit

        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass  # closed, or without a reader


def main(max_batch: int = 1) -> None:
    """The body of the program. Does not return."""
    for stream in (sys.stdout, sys.stderr):
        # Line-buffered: output of a worker appears at once, is not lost when the worker is killed,
        # and does not mix with lines of other workers.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True, write_through=False)
    sys.exit(_engine.worker_main(_Hooks(max_batch)))
