# SPDX-License-Identifier: MIT
"""A dispatcher with a live panel, drawn with Rich (``pip install gpu_dispatch[ui]``)."""
from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ._progress import have_widgets
from .dispatcher import Dispatcher
from .worker import BaseWorker

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["RichDispatcher"]

STATUS_STYLES = {
    "initializing": "yellow",
    "processing": "green",
    "idle": "cyan",
    "finished": "blue",
    "error": "red",
}

_INSTALL = "RichDispatcher needs Rich: pip install 'gpu_dispatch[ui]'; or set show_ui=False"


class RichDispatcher:
    """A Dispatcher that shows its run and returns its statistics.

    ::

        stats = RichDispatcher(Worker, gpu_ids=[0, 1], refresh_rate=4.0).run(items)
        print(f"Completed {stats['completed']} tasks")

    The run itself happens on the calling thread, as with a Dispatcher, so callbacks and Ctrl-C
    behave the same. Another thread draws.
    """

    def __init__(
        self,
        worker_cls: type[BaseWorker],
        gpu_ids: Sequence[int],
        queue_size: int = 1024,
        refresh_rate: float = 2.0,
        show_ui: bool = True,
        console: Console | None = None,
        suppress_worker_output: bool = True,
        **options: Any,
    ) -> None:
        """Checks the arguments; starts nothing.

        :param refresh_rate: How many times per second the panel is drawn.
        :param show_ui: False: draw nothing, only count. Rich need not be installed then.
        :param console: Where to draw; by default standard output.
        :param options: Further options of Dispatcher.
        :raises ValueError: `refresh_rate` is not positive, or `gpu_ids` is empty.
        :raises TypeError: `worker_cls` is not a BaseWorker.
        :raises ImportError: Rich is not installed and `show_ui` is true.
        """
        if not refresh_rate > 0:
            raise ValueError(f"refresh_rate must be positive, not {refresh_rate}")
        self._dispatcher = Dispatcher(
            worker_cls,
            gpu_ids,
            queue_size=queue_size,
            suppress_worker_output=suppress_worker_output,
            **options,
        )
        self._gpu_ids = list(gpu_ids)
        self._refresh_rate = refresh_rate
        self._console = console
        self._show_ui = show_ui
        if show_ui:
            try:
                importlib.import_module("rich.live")
            except ImportError as error:
                raise ImportError(_INSTALL) from error

    def run(
        self,
        generator: Iterable[Any],
        on_success: Callable[[int, Any, int], object] | None = None,
        on_error: Callable[[int, str, int], object] | None = None,
        on_timeout: Callable[[int, float, int], object] | None = None,
        on_setup_fail: Callable[[int, str], object] | None = None,
        on_task_start: Callable[[int, int], object] | None = None,
        on_exit: Callable[[], object] | None = None,
        base_seed: int = 42,
        task_timeout: float | None = None,
        total_tasks: int | None = None,
        **setup_kwargs: Any,
    ) -> dict[str, Any]:
        """Dispatcher.run() with a panel; `on_success` is optional.

        Returns `total` (tasks that have ended), `completed`, `failed`, `timeouts`,
        `setup_failures`, `start_time` and `end_time` (as time.time()), `expected_total` (None if
        unknown), and `gpu_status`: for each GPU its `status`, `current_task`, `task_start_time`,
        `last_duration`, `completed`, `failed` and `timeouts`.
        """
        if total_tasks is None and isinstance(generator, Sized):
            total_tasks = len(generator)
        board = Board(self._gpu_ids, total_tasks)
        with self._shown(board):
            self._dispatcher.run(
                generator,
                _both(board.succeeded, on_success),
                on_error=_both(board.failed, on_error),
                on_timeout=_both(board.timed_out, on_timeout),
                on_setup_fail=_both(board.setup_failed, on_setup_fail),
                on_task_start=_both(board.started, on_task_start),
                on_exit=_both(board.finish, on_exit),
                base_seed=base_seed,
                task_timeout=task_timeout,
                total_tasks=total_tasks,
                **setup_kwargs,
            )
        return board.snapshot()

    def shutdown(self) -> None:
        """Stops the run, like Dispatcher.shutdown()."""
        self._dispatcher.shutdown()

    def get_stats(self) -> dict[str, Any]:
        """The dispatcher's own statistics of the run."""
        return self._dispatcher.get_stats()

    def _shown(self, board: Board) -> AbstractContextManager[Any]:
        if not self._show_ui:
            return nullcontext()
        from rich.console import Console
        from rich.live import Live

        console = self._console or Console()
        if console.is_jupyter and not have_widgets():
            return _NotebookLive(board, self._refresh_rate)
        return Live(
            console=console,
            get_renderable=lambda: draw(board.snapshot()),
            refresh_per_second=self._refresh_rate,
        )


def _both(update: Callable[..., None], callback: Callable[..., object] | None) -> Callable[..., None]:
    """Counts, then calls the user's callback."""

    def call(*args: Any) -> None:
        update(*args)
        if callback is not None:
            callback(*args)

    return call


class Board:
    """The state of a run. Callbacks write it, the drawing thread reads it."""

    def __init__(self, gpu_ids: Sequence[int], expected_total: int | None) -> None:
        self._lock = threading.Lock()
        self._stats: dict[str, Any] = {
            "total": 0,
            "completed": 0,
            "failed": 0,
            "timeouts": 0,
            "setup_failures": 0,
            "start_time": time.time(),
            "end_time": None,
            "expected_total": expected_total,
        }
        self._gpus: dict[int, dict[str, Any]] = {
            gpu_id: {
                "status": "initializing",
                "current_task": None,
                "task_start_time": None,
                "last_duration": None,
                "completed": 0,
                "failed": 0,
                "timeouts": 0,
            }
            for gpu_id in gpu_ids
        }

    def started(self, task_id: int, gpu_id: int) -> None:
        """on_task_start"""
        with self._lock:
            gpu = self._gpus[gpu_id]
            gpu["status"] = "processing"
            gpu["current_task"] = task_id
            gpu["task_start_time"] = time.time()

    def succeeded(self, task_id: int, result: Any, gpu_id: int) -> None:
        """on_success"""
        self._ended(gpu_id, "completed")

    def failed(self, task_id: int, error: str, gpu_id: int) -> None:
        """on_error"""
        self._ended(gpu_id, "failed")

    def timed_out(self, task_id: int, timeout: float, gpu_id: int) -> None:
        """on_timeout"""
        self._ended(gpu_id, "timeouts")

    def _ended(self, gpu_id: int, count: str) -> None:
        with self._lock:
            self._stats["total"] += 1
            self._stats[count] += 1
            gpu = self._gpus.get(gpu_id)
            if gpu is None:  # the task never reached a worker
                return
            gpu[count] += 1
            if gpu["task_start_time"] is not None:
                gpu["last_duration"] = time.time() - gpu["task_start_time"]
            gpu["current_task"] = gpu["task_start_time"] = None
            if gpu["status"] != "error":
                gpu["status"] = "idle"

    def setup_failed(self, gpu_id: int, error: str) -> None:
        """on_setup_fail"""
        with self._lock:
            self._stats["setup_failures"] += 1
            self._gpus[gpu_id]["status"] = "error"

    def finish(self) -> None:
        """on_exit"""
        with self._lock:
            self._stats["end_time"] = time.time()
            for gpu in self._gpus.values():
                gpu["current_task"] = gpu["task_start_time"] = None
                if gpu["status"] != "error":
                    gpu["status"] = "finished"

    def snapshot(self) -> dict[str, Any]:
        """A copy of everything."""
        with self._lock:
            gpus = {gpu_id: dict(gpu) for gpu_id, gpu in self._gpus.items()}
            return {**self._stats, "gpu_status": gpus}


def draw(stats: dict[str, Any]) -> RenderableType:
    """The panel and the table."""
    from rich.console import Group

    now = stats["end_time"] or time.time()
    return Group(_panel(stats, now), _table(stats["gpu_status"], now))


def _panel(stats: dict[str, Any], now: float) -> RenderableType:
    from rich.panel import Panel
    from rich.text import Text

    elapsed = max(now - stats["start_time"], 1e-9)
    rate = stats["total"] / elapsed
    expected = stats["expected_total"]
    done = str(stats["total"]) if expected is None else f"{stats['total']}/{expected}"
    text = Text()
    text.append("Tasks ").append(done, style="bold")
    text.append("   Completed ").append(str(stats["completed"]), style="green")
    text.append("   Failed ").append(str(stats["failed"]), style="red" if stats["failed"] else "")
    text.append("   Timeouts ").append(
        str(stats["timeouts"]), style="yellow" if stats["timeouts"] else ""
    )
    if stats["setup_failures"]:
        text.append("   Setup failures ").append(str(stats["setup_failures"]), style="red")
    text.append(f"\nElapsed {_clock(elapsed)}   Rate {rate:.1f}/s")
    if expected is not None and stats["end_time"] is None and rate > 0:
        text.append(f"   ETA {_clock((expected - stats['total']) / rate)}")
    return Panel(text, title="gpu_dispatch", title_align="left")


def _table(gpus: dict[int, dict[str, Any]], now: float) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(expand=True)
    for name in ("GPU", "Status", "Task", "Running", "Last", "Completed", "Failed", "Timeouts"):
        table.add_column(name, justify="left" if name == "Status" else "right", no_wrap=True)
    for gpu_id, gpu in gpus.items():
        started = gpu["task_start_time"]
        table.add_row(
            str(gpu_id),
            Text(gpu["status"], style=STATUS_STYLES[gpu["status"]]),
            "-" if gpu["current_task"] is None else str(gpu["current_task"]),
            "-" if started is None else _seconds(max(0.0, now - started)),
            "-" if gpu["last_duration"] is None else _seconds(gpu["last_duration"]),
            str(gpu["completed"]),
            str(gpu["failed"]),
            str(gpu["timeouts"]),
        )
    return table


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 100 else _clock(seconds)


def _clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


class _NotebookLive:
    """Rich's Live needs ipywidgets in a notebook; this updates a plain output cell."""

    def __init__(self, board: Board, refresh_rate: float) -> None:
        self._board = board
        self._interval_seconds = 1 / refresh_rate
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="gpu_dispatch-ui", daemon=True)

    def __enter__(self) -> None:
        from IPython.display import display  # type: ignore[import]

        self._handle = display(self._cell(), display_id=True)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._handle.update(self._cell())

    def _redraw(self) -> None:
        while not self._stopped.wait(self._interval_seconds):
            self._handle.update(self._cell())

    def _cell(self) -> Any:
        from rich.table import Table

        cell = Table.grid()  # can be displayed in a notebook, unlike a Group
        stats = self._board.snapshot()
        now = stats["end_time"] or time.time()
        cell.add_row(_panel(stats, now))
        cell.add_row(_table(stats["gpu_status"], now))
        return cell
