# SPDX-License-Identifier: MIT
"""The Python library that gpu_dispatch replaces, rewritten from its documents, for comparison.

Not its source: a reimplementation of what its design document and its implementation plan describe.
Worker processes are spawned, take tasks from one multiprocessing.Queue and answer through another; a
thread feeds the generator's items; the caller's thread reads the answers and makes the callbacks; a
`None` per worker ends them; SIGALRM limits the time of a task. As described, every task is announced by
a TaskStarted message before it is processed.
"""
from __future__ import annotations

import multiprocessing
import queue
import signal
import threading
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Iterable


@dataclass
class TaskSuccess:
    task_id: int
    data: Any
    worker_id: int


@dataclass
class TaskError:
    task_id: int
    error: str
    worker_id: int


@dataclass
class TaskTimeout:
    task_id: int
    timeout: float
    worker_id: int


@dataclass
class TaskStarted:
    task_id: int
    worker_id: int


@dataclass
class SetupFailed:
    gpu_id: int
    error: str


@dataclass
class CleanupFailed:
    gpu_id: int
    error: str


@dataclass
class WorkerGone:
    gpu_id: int


def _raise_timeout(signum: int, frame: Any) -> None:
    raise TimeoutError


def _process(worker: Any, gpu_id: int, task_id: int, data: Any, timeout: float | None) -> Any:
    try:
        if timeout is not None:
            signal.setitimer(signal.ITIMER_REAL, timeout)
        try:
            return TaskSuccess(task_id, worker.process(data), gpu_id)
        finally:
            if timeout is not None:
                signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeoutError:
        return TaskTimeout(task_id, timeout or 0.0, gpu_id)
    except Exception:
        return TaskError(task_id, traceback.format_exc(), gpu_id)


def _worker_main(worker: Any, gpu_id: int, seed: int, tasks: Any, results: Any,
                 timeout: float | None, setup: dict[str, Any]) -> None:
    if timeout is not None:
        signal.signal(signal.SIGALRM, _raise_timeout)
    try:
        worker.setup(gpu_id=gpu_id, seed=seed, **setup)
    except Exception:
        results.put(SetupFailed(gpu_id, traceback.format_exc()))
        results.put(WorkerGone(gpu_id))
        return
    while (task := tasks.get()) is not None:
        results.put(TaskStarted(task[0], gpu_id))
        results.put(_process(worker, gpu_id, task[0], task[1], timeout))
    try:
        worker.cleanup()
    except Exception:
        results.put(CleanupFailed(gpu_id, traceback.format_exc()))
    results.put(WorkerGone(gpu_id))


class Dispatcher:
    """Runs tasks of a generator in one process per GPU."""

    def __init__(self, worker_cls: type, gpu_ids: list[int], queue_size: int = 1024) -> None:
        self.worker_cls = worker_cls
        self.gpu_ids = gpu_ids
        self.queue_size = queue_size

    def run(self, generator: Iterable[Any], on_success: Callable[..., None],
            on_error: Callable[..., None] | None = None, on_timeout: Callable[..., None] | None = None,
            on_task_start: Callable[..., None] | None = None, on_exit: Callable[[], None] | None = None,
            base_seed: int = 42, task_timeout: float | None = None, **setup: Any) -> None:
        context = multiprocessing.get_context("spawn")
        tasks: Any = context.Queue(self.queue_size)
        results: Any = context.Queue()
        workers = [context.Process(target=_worker_main, args=(self.worker_cls(), gpu, base_seed + gpu, tasks, results,
                                                              task_timeout, setup)) for gpu in self.gpu_ids]
        for worker in workers:
            worker.start()

        def feed() -> None:
            for number, item in enumerate(generator):
                tasks.put((number, item))
            for _ in workers:
                tasks.put(None)

        threading.Thread(target=feed, daemon=True).start()
        alive = len(workers)
        while alive:
            try:
                message = results.get(timeout=0.1)
            except queue.Empty:
                continue
            if isinstance(message, TaskSuccess):
                on_success(message.task_id, message.data, message.worker_id)
            elif isinstance(message, TaskStarted) and on_task_start:
                on_task_start(message.task_id, message.worker_id)
            elif isinstance(message, TaskError) and on_error:
                on_error(message.task_id, message.error, message.worker_id)
            elif isinstance(message, TaskTimeout) and on_timeout:
                on_timeout(message.task_id, message.timeout, message.worker_id)
            elif isinstance(message, WorkerGone):
                alive -= 1
        for worker in workers:
            worker.join()
        if on_exit:
            on_exit()
