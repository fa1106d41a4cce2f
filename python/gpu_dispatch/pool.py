# SPDX-License-Identifier: MIT
"""A pool of workers, one process per GPU, in the style of `concurrent.futures`."""
from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _engine, _interpreter, _log, _main, _spawn
from ._core import Core
from ._future import TaskFuture
from ._map import SyncRun
from ._map import results as _results
from ._progress import progress_of
from .errors import NoWorkers
from .worker import BaseWorker

if TYPE_CHECKING:
    from ._run import Errors

__all__ = ["Pool"]


class Pool:
    """Worker processes that load a model once and then process one item after another.

    ::

        class Scaler(BaseWorker):
            def setup(self, gpu_id, seed, factor):
                self.factor = factor

            def process(self, data):
                return data * self.factor

        if __name__ == "__main__":
            with Pool(Scaler, gpus="auto", setup={"factor": 10}, task_timeout=30) as pool:
                print(list(pool.map(range(3))))  # [0, 10, 20]
                future = pool.submit(7)
                print(future.result())  # 70

    Leaving the `with` block waits for all tasks; leaving it with an exception cancels the tasks
    that have not begun, with Ctrl-C also the running ones. All methods may be called by any thread.
    A child process that the program forks cannot use the pool: methods raise RuntimeError.
    """

    def __init__(
        self,
        worker_cls: type[BaseWorker],
        gpus: str | Sequence[int] = "auto",
        *,
        setup: Mapping[str, Any] | None = None,
        task_timeout: float | None = None,
        retries: int = 0,
        workers_per_gpu: int = 1,
        max_tasks_per_worker: int | None = None,
        max_batch: int | None = None,
        bind_gpu: bool = True,
        queue_size: int = 1024,
        zero_copy: bool = False,
        base_seed: int = 42,
        grace: float = 10.0,
        setup_timeout: float | None = None,
        cleanup_timeout: float = 10.0,
        output: str = "inherit",
    ) -> None:
        """Starts the workers without waiting until they are ready.

        :param worker_cls: The class of the workers; it is instantiated here and pickled.
        :param gpus: "auto", "all", "0,1", "0-3", "sim:4" for simulated GPUs, or a list of numbers.
        :param setup: Keyword arguments for the workers' setup().
        :param task_timeout: Seconds for one task. At the deadline `TaskTimedOut` is raised inside
            process(), and the worker continues with the next task.
        :param retries: How often a task that failed, timed out or lost its worker is retried.
        :param max_tasks_per_worker: Replace a worker after this many tasks.
        :param max_batch: Maximum number of items that process_batch() gets at once; 32 by default.
        :param bind_gpu: Let each worker see only its own GPU, as device 0.
        :param queue_size: How many tasks may wait for a worker; submit() waits for space.
        :param zero_copy: Arrays in results are read-only views of shared memory.
        :param base_seed: setup() gets base_seed + gpu_id; further workers of a GPU get other seeds.
        :param grace: Seconds until a worker that does not react to a timeout or a cancellation is
            killed and replaced.
        :param setup_timeout: Seconds for setup(); no limit by default.
        :param cleanup_timeout: Seconds for cleanup().
        :param output: What happens to the output of workers: "inherit", "silent", or the name of
            a directory for one file per worker.
        :raises TypeError: `worker_cls` is not a BaseWorker.
        :raises ValueError: An option has an impossible value.
        :raises GPUNotFound: A GPU does not exist.
        """
        _main.refuse_to_nest()
        _spawn.check_worker_class(worker_cls)
        argv = _spawn.worker_argv(_spawn.batch_size(worker_cls, max_batch))
        settings = _spawn.worker_settings(worker_cls(), setup or {})
        if not isinstance(gpus, Iterable):
            raise TypeError(f"gpus must be a string or a list of numbers, not {gpus!r}")
        selection: str | Sequence[int] = gpus if isinstance(gpus, str) else list(gpus)
        if selection == []:
            raise ValueError("gpus is empty")

        def open_engine(core: Core) -> _engine.Pool:
            return _engine.Pool(
                argv=argv,
                environment=_interpreter.changed_environment(),
                settings=settings,
                dumps=_spawn.item_dumps(worker_cls),
                gpus=selection,
                bind=bind_gpu,
                workers_per_gpu=_positive("workers_per_gpu", workers_per_gpu),
                base_seed=base_seed,
                queue_size=_positive("queue_size", queue_size),
                retries=retries,
                task_timeout_ms=_spawn.milliseconds("task_timeout", task_timeout),
                grace_ms=_spawn.milliseconds("grace", grace),
                setup_timeout_ms=_spawn.milliseconds("setup_timeout", setup_timeout),
                cleanup_timeout_ms=_spawn.milliseconds("cleanup_timeout", cleanup_timeout),
                max_tasks_per_worker=(
                    0
                    if max_tasks_per_worker is None
                    else _positive("max_tasks_per_worker", max_tasks_per_worker)
                ),
                fair_start=True,
                output=output,
                zero_copy=zero_copy,
                on_success=core.events.append,
                on_error=core.events.append,
                on_timeout=core.events.append,
                on_cancelled=core.events.append,
                packed=True,
                on_message=_log.receive,
                on_setup_fail=core.on_setup_fail,
                on_cleanup_fail=_log.report_cleanup,
            )

        self._queue_size = queue_size
        self._core = Core(open_engine)

    # ---- tasks ----------------------------------------------------------------------------

    def submit(self, item: Any, *, timeout: float | None = None) -> TaskFuture:
        """Submits one item and returns its future.

        Waits for space while `queue_size` tasks wait for a worker. `timeout` is the task's time
        limit in seconds, instead of the pool's. An item that cannot be pickled fails the future.
        Raises RuntimeError after shutdown() and when no worker is left.
        """
        core = self._core
        core.check_process()
        future = TaskFuture(core)
        core.submit(item, future, _spawn.milliseconds("timeout", timeout))
        core.leader.start_thread()
        return future

    def map(
        self,
        items: Iterable[Any],
        *,
        ordered: bool = True,
        errors: Errors = "raise",
        progress: bool = False,
        timeout: float | None = None,
        task_timeout: float | None = None,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """Returns an iterator over the results of the items.

        Nothing is pulled from `items` before the iterator is used, and at most `buffersize` items
        (by default `queue_size`) are ahead of the results. Closing the iterator cancels the
        remaining tasks. An iterable that is not a list, tuple or range is pulled by a separate
        thread, because it may block.

        :param ordered: Yield in the order of the items; otherwise as they end.
        :param errors: "raise" ends the iteration at the first failed task with its exception;
            "return" yields the exception instead of the result.
        :param progress: Show a bar on standard error, or lines if there is no terminal or Rich is not
            installed.
        :param timeout: Seconds from this call after which `TimeoutError` is raised instead of
            waiting for a result.
        :param task_timeout: The time limit of each task, instead of the pool's.
        :raises RuntimeError: After shutdown(), at once.
        """
        self._check_open()
        _check_errors(errors)
        task_timeout_ms = _spawn.milliseconds("task_timeout", task_timeout)
        run = SyncRun(self._core, task_timeout_ms, self._buffer(buffersize), ordered)
        return _results(run, items, errors, _deadline(timeout), progress_of(items, progress))

    def asubmit(self, item: Any, *, timeout: float | None = None) -> Coroutine[Any, Any, Any]:
        """A coroutine that submits one item and returns its result. For asyncio.

        The event loop watches the pool's descriptor; there is no thread. Cancelling the coroutine
        cancels the task. `timeout` and the exceptions are the same as for submit().
        """
        coroutine: Coroutine[Any, Any, Any] = _aio().submit(
            self._core, item, _spawn.milliseconds("timeout", timeout)
        )
        return coroutine

    def amap(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        *,
        ordered: bool = True,
        errors: Errors = "raise",
        progress: bool = False,
        timeout: float | None = None,
        task_timeout: float | None = None,
        buffersize: int | None = None,
    ) -> AsyncIterator[Any]:
        """map() for asyncio: an asynchronous iterator. `items` may be asynchronous, too.

        A plain iterable is pulled in the event loop and should not block.
        """
        self._check_open()
        _check_errors(errors)
        task_timeout_ms = _spawn.milliseconds("task_timeout", task_timeout)
        run = _aio().AsyncRun(self._core, task_timeout_ms, self._buffer(buffersize), ordered)
        results: AsyncIterator[Any] = _aio().results(
            run, items, errors, _deadline(timeout), progress_of(items, progress)
        )
        return results

    # ---- state ----------------------------------------------------------------------------

    def wait_ready(self, timeout: float | None = None) -> int:
        """Waits until each worker is ready or has failed; returns the number of ready workers.

        Raises NoWorkers if none is ready, with the first failure as its cause, and TimeoutError.
        """
        self._check_open()
        ready = self._core.wait_ready(timeout)
        if not ready:
            raise NoWorkers("all workers failed during setup") from self._core.setup_error
        return ready

    def stats(self) -> dict[str, Any]:
        """Counts, times and, in "per_worker", the state of each worker. Works after shutdown(), too."""
        engine = self._core.engine
        return {**engine.stats(), "per_worker": engine.worker_stats()}

    def fileno(self) -> int:
        """A descriptor that is readable when poll() has something to do: for other event loops."""
        self._check_open()
        return self._core.engine.fileno()

    def poll(self) -> None:
        """Delivers finished results without waiting: for other event loops."""
        self._check_open()
        self._core.leader.poll()

    # ---- end ------------------------------------------------------------------------------

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more tasks, finishes the submitted ones, and ends the workers.

        :param wait: Return when all this is done; otherwise it happens on a thread.
        :param cancel_futures: Cancel the tasks that no worker has begun.

        May be called several times. Each Ctrl-C during the wait goes one step further: waiting
        tasks are cancelled, running tasks are cancelled, the workers are killed.
        """
        self._shutdown(wait, 1 if cancel_futures else 0)

    async def ashutdown(self, *, cancel_futures: bool = False) -> None:
        """shutdown() without blocking the event loop."""
        import asyncio

        self._core.check_process()
        self._core.refuse_tasks(1 if cancel_futures else 0)
        loop = asyncio.get_running_loop()
        closed: asyncio.Future[None] = loop.create_future()

        def done() -> None:
            if not closed.done():
                closed.set_result(None)

        def finish() -> None:
            try:
                self._core.finish()
            finally:
                with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                    loop.call_soon_threadsafe(done)

        self._core.leader.call_later(finish)
        await closed

    def _shutdown(self, wait: bool, stops: int) -> None:
        self._core.check_process()
        self._core.refuse_tasks(stops)
        if wait:
            self._core.finish()
        else:
            self._core.finish_later()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        if self._core.is_ours():  # a forked child may also leave the block
            self._shutdown(True, _stops(kind))
        return False

    async def __aenter__(self) -> Pool:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        self._core.check_process()
        self._core.refuse_tasks(_stops(kind))
        try:
            await self.ashutdown()
        except BaseException as interruption:  # for example, Ctrl-C cancels the awaited future
            self._core.refuse_tasks(_stops(type(interruption)))
            raise
        return False

    def __del__(self) -> None:
        core: Core | None = getattr(self, "_core", None)
        if core is not None and not core.shut and core.is_ours():
            warnings.warn(f"unclosed pool {self!r}", ResourceWarning, source=self)
            core.refuse_tasks(0)
            core.finish_later()

    # ---- arguments ------------------------------------------------------------------------

    def _check_open(self) -> None:
        self._core.check_process()
        self._core.check_open()

    def _buffer(self, buffersize: int | None) -> int:
        return self._queue_size if buffersize is None else _positive("buffersize", buffersize)


@functools.cache
def _aio() -> Any:
    """The part that needs asyncio, imported when it is first used."""
    from . import _aio as module

    return module


def _stops(kind: type[BaseException] | None) -> int:
    """The number of stops when a `with` block ends with such an exception."""
    if kind is None:
        return 0
    return 1 if issubclass(kind, Exception) else 2


def _check_errors(errors: str) -> None:
    if errors not in ("raise", "return"):
        raise ValueError(f"errors must be 'raise' or 'return', not {errors!r}")


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return value


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
