# SPDX-License-Identifier: MIT
"""Runs a stream of items through one worker per GPU."""
from __future__ import annotations

import contextvars
import threading

from gpu_dispatch import _engine, _interpreter, _log, _main, _spawn
from gpu_dispatch._failure import exception_of, traceback_text
from gpu_dispatch.errors import NoWorkers, PoolClosed
from gpu_dispatch.worker import BaseWorker

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    OnSuccess = Callable[[int, Any, int], object]
    OnError = Callable[[int, str, int], object]
    OnTimeout = Callable[[int, float, int], object]
    OnSetupFail = Callable[[int, str], object]
    OnTaskStart = Callable[[int, int], object]
    OnExit = Callable[[], object]

__all__ = ["Dispatcher"]

# Iterating over these neither waits nor runs user code, so it needs no thread.
_INLINE = (list, tuple, range, dict, set, frozenset, str, bytes)


class Dispatcher:
    """Passes items to persistent workers, one process per GPU, and their results to callbacks.

    ::

        class Scaler(BaseWorker):
            def setup(self, gpu_id, seed, factor):
                self.factor = factor

            def process(self, data):
                return data * self.factor

        results = {}

        def on_success(task_id, result, worker_id):
            results[task_id] = result

        if __name__ == "__main__":
            Dispatcher(Scaler, gpu_ids=[0, 1]).run(range(3), on_success, factor=10)
            print(sorted(results.items()))  # [(0, 0), (1, 10), (2, 20)]

    worker_cls: a class derived from BaseWorker. It is instantiated here, without arguments,
        and pickled.
    gpu_ids: the numbers of the GPUs. They need not exist: a number is only passed to setup(),
        which uses `cuda:{gpu_id}`. A number that occurs twice means two workers.
    queue_size: maximum number of items that wait for a worker. When it is reached, the generator
        waits, too.
    suppress_worker_output: drop the output of workers.
    bind_gpu: each worker sees only its own GPU (CUDA_VISIBLE_DEVICES), as device 0.

    Raises TypeError if worker_cls is not such a class, ValueError if gpu_ids is empty.
    """

    def __init__(
        self,
        worker_cls: type[BaseWorker],
        gpu_ids: Sequence[int],
        queue_size: int = 1024,
        suppress_worker_output: bool = False,
        *,
        bind_gpu: bool = False,
    ) -> None:
        _spawn.check_worker_class(worker_cls)
        self.worker_cls = worker_cls
        self.gpu_ids = list(gpu_ids)
        if not self.gpu_ids:
            raise ValueError("gpu_ids must not be empty")
        if queue_size < 1:
            raise ValueError(f"queue_size must be at least 1, not {queue_size}")
        self.queue_size = queue_size
        self.suppress_worker_output = suppress_worker_output
        self.bind_gpu = bind_gpu
        self._lock = threading.Lock()
        self._run: _Run | None = None
        self._last_stats: dict[str, Any] = {}

    def run(
        self,
        generator: Iterable[Any],
        on_success: OnSuccess,
        on_error: OnError | None = None,
        on_timeout: OnTimeout | None = None,
        on_setup_fail: OnSetupFail | None = None,
        on_task_start: OnTaskStart | None = None,
        on_exit: OnExit | None = None,
        base_seed: int = 42,
        task_timeout: float | None = None,
        total_tasks: int | None = None,
        **setup_kwargs: Any,
    ) -> None:
        """Processes all items and returns when the workers have cleaned up and ended.

        generator: any iterable. It is iterated in a separate thread, unless it is a list or another
            built-in container.
        on_success(task_id, result, worker_id), on_error(task_id, error, worker_id) with a
            traceback as text, on_timeout(task_id, timeout, worker_id): exactly one of them is
            called for each item. Items are numbered from 0; worker_id is the GPU's number.
            Items that were never begun when the run was stopped get no callback.
        on_setup_fail(gpu_id, error), on_task_start(task_id, worker_id).
        on_exit(): always called last, after the workers have ended.
        base_seed: setup() gets base_seed + gpu_id.
        task_timeout: seconds for one item. At the deadline TaskTimedOut, a TimeoutError, is raised
            inside process(), and the worker continues with its model. A worker that does not react
            within ten seconds is replaced.
        total_tasks: the number of items, for get_stats().
        setup_kwargs: passed to setup().

        Raises RuntimeError if all workers fail during setup, and any exception of the generator or
        a callback: then running items are finished, and no others are begun. After Ctrl-C, running
        items are interrupted, callbacks that are due are called for up to two seconds, the workers
        clean up, and KeyboardInterrupt is raised; a second Ctrl-C kills the workers.
        """
        _main.refuse_to_nest()
        try:
            run = _Run(self, base_seed, task_timeout, total_tasks)
            run.set_callbacks(on_success, on_error, on_timeout, on_setup_fail, on_task_start)
            with self._lock:
                if self._run is not None:
                    raise RuntimeError("this dispatcher is already running")
                self._run = run
            try:
                run.execute(generator, setup_kwargs)
            finally:
                self._last_stats = run.stats()
                self._run = None
        finally:
            if on_exit is not None:
                on_exit()

    def shutdown(self) -> None:
        """Ends the run: running items are finished, no others are begun, and run() returns.

        A second call interrupts the running items, a third one kills the workers. May be called
        by other threads and by callbacks. Does nothing if there is no run.
        """
        run = self._run
        if run is not None:
            run.stop()

    def get_stats(self) -> dict[str, Any]:
        """Statistics of the current or last run: `pending` (items taken from the generator that have
        not ended), `completed`, `failed`, `timeouts` and others."""
        run = self._run
        stats = run.stats() if run is not None else self._last_stats
        done = ("completed", "failed", "timeouts", "cancelled")
        result: dict[str, Any] = {"pending": stats.get("queued", 0) + stats.get("running", 0)}
        result.update({name: stats.get(name, 0) for name in done})
        result["total"] = stats.get("expected", 0) or None
        result["running"] = stats.get("running", 0)
        result["queue_size"] = self.queue_size
        for name in ("submitted", "setup_failures", "restarts", "workers_alive"):
            result[name] = stats.get(name, 0)
        return result


class _Run:
    """One run: its pool, from the first item to the last worker."""

    def __init__(
        self, dispatcher: Dispatcher, base_seed: int, task_timeout: float | None, total_tasks: int | None
    ) -> None:
        self._dispatcher = dispatcher
        self._task_timeout = task_timeout
        self._options: dict[str, Any] = {
            "gpus": dispatcher.gpu_ids,
            "bind": dispatcher.bind_gpu,
            "queue_size": dispatcher.queue_size,
            "output": "silent" if dispatcher.suppress_worker_output else "inherit",
            "base_seed": base_seed,
            "total_tasks": total_tasks or 0,
            "task_timeout_ms": _spawn.milliseconds("task_timeout", task_timeout),
            "fair_start": True,
        }
        self._pool: _engine.Pool | None = None
        self._stopped = 0
        self._setup_error: Exception | None = None
        # Used by the iterating thread.
        self._fed = False
        self._feed_error: BaseException | None = None

    # ---- Callbacks ----------------------------------------------------------

    def set_callbacks(
        self,
        on_success: OnSuccess,
        on_error: OnError | None,
        on_timeout: OnTimeout | None,
        on_setup_fail: OnSetupFail | None,
        on_task_start: OnTaskStart | None,
    ) -> None:
        """Adapts the user's callbacks; on_success and on_task_start are called as they are."""
        limit = self._task_timeout
        self._options["on_success"] = on_success
        self._options["on_task_start"] = on_task_start
        self._options["on_cleanup_fail"] = _log.report_cleanup
        self._options["on_message"] = _log.receive
        if on_error is not None:
            self._options["on_error"] = lambda key, failure, gpu: (
                None if self._never_had_workers(failure) else on_error(key, traceback_text(failure), gpu)
            )
            self._options["on_cancelled"] = lambda key, failure, gpu: (
                None if failure.attempt == 0 else on_error(key, traceback_text(failure), gpu)
            )
        if on_timeout is not None and limit is not None:
            self._options["on_timeout"] = lambda key, _, gpu: on_timeout(key, limit, gpu)

        def on_failed_setup(gpu: int, failure: _engine.Failure) -> None:
            if self._setup_error is None:
                self._setup_error = exception_of(failure, "setup()")
            if on_setup_fail is not None:
                on_setup_fail(gpu, traceback_text(failure))

        self._options["on_setup_fail"] = on_failed_setup

    def _never_had_workers(self, failure: _engine.Failure) -> bool:
        """True for items that waited for workers that were never ready: run() reports that itself."""
        assert self._pool is not None
        return failure.kind == "no worker" and self._pool.stats()["restarts"] == 0

    # ---- The run ------------------------------------------------------------

    def execute(self, generator: Iterable[Any], setup_kwargs: dict[str, Any]) -> None:
        """Performs the run. The workers have ended when this returns or raises."""
        iterator = iter(generator)
        worker_cls = self._dispatcher.worker_cls
        self._options["settings"] = _spawn.worker_settings(worker_cls(), setup_kwargs)
        self._options["dumps"] = _spawn.item_dumps(worker_cls)
        self._options["argv"] = _spawn.worker_argv()
        self._options["environment"] = _interpreter.changed_environment()
        self._pool = pool = _engine.Pool(**self._options)
        for _ in range(self._stopped):
            pool.stop()  # requested before there was a pool
        try:
            self._work(pool, iterator, inline=type(generator) in _INLINE)
        except PoolClosed:
            pool.close()  # shutdown() was called
        except BaseException as error:
            self._end_early(pool, error)
            if isinstance(error, NoWorkers):
                raise RuntimeError(self._why_no_workers(pool)) from self._setup_error
            raise
        else:
            pool.close()
        if self._all_setups_failed(pool):
            raise RuntimeError(self._why_no_workers(pool)) from self._setup_error

    def _work(self, pool: _engine.Pool, iterator: Iterator[Any], inline: bool) -> None:
        if inline:
            done = False
            while not done or pool.outstanding() > 0:
                if not done and pool.feed(iterator):
                    done = True
                    pool.expect_no_more()
                pool.poll()
            self._wait_if_empty(pool)
            return
        # A generator that blocks must not delay callbacks, so it has a thread. The thread is a
        # daemon: if the run is stopped while the generator blocks, it is not waited for.
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._feed, pool, iterator), name="gpu_dispatch-feeder", daemon=True
        )
        thread.start()
        try:
            while not self._fed or pool.outstanding() > 0:
                pool.poll(idle=True)
        except PoolClosed:
            if self._feed_error is None:
                raise
        if self._feed_error is not None:
            raise self._feed_error
        thread.join()
        self._wait_if_empty(pool)

    @staticmethod
    def _wait_if_empty(pool: _engine.Pool) -> None:
        """Without items, nothing has waited for the workers, and it is not yet known whether they work."""
        if pool.stats()["submitted"] == 0:
            pool.wait_ready()

    def _feed(self, pool: _engine.Pool, iterator: Iterator[Any]) -> None:
        try:
            pool.feed(iterator, wait=True)
            pool.expect_no_more()
        except (PoolClosed, NoWorkers):
            pass  # poll() reports the same
        except BaseException as error:
            self._feed_error = error
            pool.stop()
        self._fed = True
        pool.interrupt()

    def stop(self) -> None:
        """One more step of Pool.stop()."""
        self._stopped += 1
        if self._pool is not None:
            self._pool.stop()

    def stats(self) -> dict[str, Any]:
        return self._pool.stats() if self._pool is not None else {}

    # ---- Early ends ---------------------------------------------------------

    def _end_early(self, pool: _engine.Pool, error: BaseException) -> None:
        """Finishes the running items, or interrupts them after Ctrl-C, and closes the pool. A second Ctrl-C kills the workers."""
        interrupted = isinstance(error, KeyboardInterrupt)
        try:
            pool.stop()
            if interrupted:
                pool.stop()
                pool.hurry()
            self._drain(pool)
        except KeyboardInterrupt:
            for _ in range(3):
                pool.stop()
            interrupted = True
            raise
        finally:
            pool.close(interrupts=1 if interrupted else 2)

    @staticmethod
    def _drain(pool: _engine.Pool) -> None:
        while True:
            try:
                pool.poll()
            except (PoolClosed, NoWorkers):
                return
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                # The first exception is the one that run() raises.
                from gpu_dispatch import _traceback

                _traceback.print_ignored(error)

    @staticmethod
    def _all_setups_failed(pool: _engine.Pool) -> bool:
        stats = pool.stats()
        return bool(stats["setup_failures"] == stats["workers"] and stats["restarts"] == 0)

    def _why_no_workers(self, pool: _engine.Pool) -> str:
        if self._all_setups_failed(pool):
            return "All workers failed during setup"
        lost = [worker["message"] for worker in pool.worker_stats() if worker["message"]]
        return "No worker is left" + (f": {lost[-1]}" if lost else "")
