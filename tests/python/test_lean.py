# SPDX-License-Identifier: MIT
"""The package avoids slow imports and Python code between two tasks."""
from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from typing import Any

import pytest

from gpu_dispatch import BaseWorker, Dispatcher
from gpu_dispatch._worker import _Hooks

SLOW = ("asyncio", "concurrent.futures", "dataclasses", "inspect", "logging", "pickle", "re", "rich", "typing")


def test_importing_a_dispatcher_imports_no_slow_module() -> None:
    code = f"""
import sys
sys.path[:] = {sys.path!r}
import gpu_dispatch
gpu_dispatch.BaseWorker, gpu_dispatch.Dispatcher
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code], check=True, capture_output=True, text=True)
    assert not set(done.stdout.split()) & set(SLOW)


class Plain(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Any) -> Any:
        return data


class BuiltIn(Plain):
    """process() is not Python code: it does not release the GIL by itself."""

    def setup(self, gpu_id: int, seed: int) -> None:
        self.ticks: deque[int] = deque()
        setattr(self, "process", self.ticks.count)
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self) -> None:
        while len(self.ticks) < 1000:
            self.ticks.append(1)


class Ticking(Plain):
    def setup(self, gpu_id: int, seed: int) -> None:
        self.ticks = 0
        threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self) -> None:
        while True:
            self.ticks += 1

    def process(self, data: Any) -> Any:
        return self.ticks


@pytest.mark.parametrize(("worker", "runs_python"), [(Plain, True), (BuiltIn, False)])
def test_the_lock_is_kept_between_tasks_only_where_python_code_passes_it_on(
    worker: type[BaseWorker], runs_python: bool
) -> None:
    hooks = _Hooks(1)
    hooks._worker = worker()
    hooks._worker.setup(0, 0)
    assert hooks.runs_python is runs_python


@pytest.mark.parametrize("worker", [BuiltIn, Ticking])
def test_threads_of_a_worker_run_while_tasks_come(worker: type[BaseWorker]) -> None:
    """The stream of tasks does not end before the thread has made progress."""
    results: list[int] = []

    def items() -> Any:
        while not results or max(results) < 1000:
            yield 1

    Dispatcher(worker, [0]).run(items(), lambda task_id, result, worker_id: results.append(result))
    assert max(results) >= 1000
