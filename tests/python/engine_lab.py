# SPDX-License-Identifier: MIT
"""The extension's Pool with callbacks that record their arguments."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workers import Echo, wait_until

from gpu_dispatch import BaseWorker, _engine, _spawn


class Log:
    """The arguments of the callbacks."""

    def __init__(self) -> None:
        self.results: dict[Any, Any] = {}
        self.failures: dict[Any, _engine.Failure] = {}
        self.cancelled: dict[Any, _engine.Failure] = {}
        self.timeouts: dict[Any, float] = {}
        self.setup_failures: list[_engine.Failure] = []
        self.messages: list[Any] = []

    def callbacks(self) -> dict[str, Callable[..., object]]:
        return {
            "on_success": lambda key, value, gpu: self.results.__setitem__(key, value),
            "on_error": lambda key, failure, gpu: self.failures.__setitem__(key, failure),
            "on_cancelled": lambda key, failure, gpu: self.cancelled.__setitem__(key, failure),
            "on_timeout": lambda key, seconds, gpu: self.timeouts.__setitem__(key, seconds),
            "on_setup_fail": lambda gpu, failure: self.setup_failures.append(failure),
            "on_message": lambda message, gpu, slot: self.messages.append((message, gpu, slot)),
        }


def open_pool(log: Log, worker: type[BaseWorker] = Echo, max_batch: int = 1, **options: Any) -> _engine.Pool:
    setup = options.pop("setup", {})
    settings = _spawn.worker_settings(worker(), setup)
    given: dict[str, Any] = {"gpus": [0], "bind": False, **log.callbacks(), **options}
    return _engine.Pool(argv=_spawn.worker_argv(max_batch), settings=settings, **given)


def drain(pool: _engine.Pool) -> None:
    while pool.outstanding() > 0:
        pool.poll(30_000)


def poll_until(pool: _engine.Pool, condition: Callable[[], object]) -> None:
    wait_until(lambda: pool.poll(1, idle=True) >= 0 and condition())


def submit_all(pool: _engine.Pool, items: list[Any]) -> None:
    """Large tasks do not fit at first."""
    iterator = iter(items)
    while not pool.feed(iterator):
        pool.poll(30_000)
