# SPDX-License-Identifier: MIT
"""RichDispatcher: its statistics and its panel."""
from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")

from rich.console import Console  # noqa: E402

from gpu_dispatch import ui  # noqa: E402
from gpu_dispatch.ui import STATUS_STYLES, Board, RichDispatcher, draw  # noqa: E402
from poolworkers import Actor, BrokenSetup  # noqa: E402
from waiting import eventually  # noqa: E402

KEYS = {
    "total",
    "completed",
    "failed",
    "timeouts",
    "setup_failures",
    "start_time",
    "end_time",
    "expected_total",
    "gpu_status",
}
GPU_KEYS = {
    "status",
    "current_task",
    "task_start_time",
    "last_duration",
    "completed",
    "failed",
    "timeouts",
}


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def plain(stats: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=110)
    console.print(draw(stats))
    return written(console)


def terminal_console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=110)


def test_statistics_without_a_panel() -> None:
    seen: list[tuple[str, Any]] = []
    before = time.time()
    stats = RichDispatcher(Actor, [3, 5], show_ui=False).run(
        iter([("echo", 1), ("fail", "x"), ("forever", None), ("echo", 2)]),
        on_success=lambda task, result, gpu: seen.append(("success", result)),
        on_error=lambda task, error, gpu: seen.append(("error", "KeyError: 'x'" in error)),
        on_timeout=lambda task, seconds, gpu: seen.append(("timeout", seconds)),
        on_task_start=lambda task, gpu: seen.append(("start", task)),
        on_exit=lambda: seen.append(("exit", None)),
        task_timeout=2.0,
        total_tasks=4,
        greeting="hi",
    )
    assert set(stats) == KEYS
    assert (stats["total"], stats["expected_total"]) == (4, 4)
    assert (stats["completed"], stats["failed"], stats["timeouts"]) == (2, 1, 1)
    assert stats["setup_failures"] == 0
    assert before <= stats["start_time"] <= stats["end_time"] <= time.time()
    assert list(stats["gpu_status"]) == [3, 5]
    for gpu in stats["gpu_status"].values():
        assert set(gpu) == GPU_KEYS
        assert gpu["status"] == "finished"
        assert gpu["current_task"] is None and gpu["task_start_time"] is None
    for name in ("completed", "failed", "timeouts"):
        assert sum(gpu[name] for gpu in stats["gpu_status"].values()) == stats[name]
    assert sorted(seen[:-1], key=repr) == sorted(
        [
            ("success", 1),
            ("success", 2),
            ("error", True),
            ("timeout", 2.0),
            *(("start", task) for task in range(4)),
        ],
        key=repr,
    )
    assert seen[-1] == ("exit", None)


def test_on_success_is_optional_and_lists_have_a_total() -> None:
    stats = RichDispatcher(Actor, [0], show_ui=False).run([("echo", 1), ("echo", 2)])
    assert (stats["completed"], stats["expected_total"]) == (2, 2)
    assert stats["gpu_status"][0]["last_duration"] >= 0
    stats = RichDispatcher(Actor, [0], show_ui=False).run(iter([("echo", 1)]))
    assert stats["expected_total"] is None


def test_wrong_arguments() -> None:
    for rate in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="refresh_rate"):
            RichDispatcher(Actor, [0], refresh_rate=rate)
    with pytest.raises(ValueError):
        RichDispatcher(Actor, [])
    with pytest.raises(TypeError):
        RichDispatcher(int, [0])  # type: ignore[arg-type]


def test_failed_setups_are_counted() -> None:
    dispatcher = RichDispatcher(BrokenSetup, [0, 1], show_ui=False)
    failures: list[Any] = []
    with pytest.raises(RuntimeError, match="All workers failed during setup"):
        dispatcher.run([1], on_setup_fail=lambda gpu, error: failures.append((gpu, error)))
    assert sorted(gpu for gpu, _ in failures) == [0, 1]
    assert "no model" in failures[0][1]


def test_the_panel_in_a_file() -> None:
    console = Console(file=io.StringIO(), width=110)
    RichDispatcher(Actor, [0, 1], console=console).run([("echo", n) for n in range(20)])
    text = written(console)
    assert "Tasks 20/20" in text and "Completed 20" in text
    assert text.count("finished") == 2
    assert "\x1b" not in text


def test_the_panel_on_a_terminal_is_redrawn_with_colors(tmp_path: Path) -> None:
    console = terminal_console()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def release() -> None:
        eventually(lambda: "processing" in written(console))
        fifo.write_text("go")

    thread = threading.Thread(target=release)
    thread.start()
    dispatcher = RichDispatcher(Actor, [0], refresh_rate=50.0, console=console)
    dispatcher.run([("block", str(fifo))])
    thread.join()
    text = written(console)
    assert "\x1b[32mprocessing" in text and "\x1b[34mfinished" in text
    assert "\x1b[?25l" in text and text.rstrip().endswith("\x1b[?25h")


def test_all_statuses_have_a_color_of_their_own() -> None:
    assert set(STATUS_STYLES) == {"processing", "idle", "initializing", "finished", "error"}
    assert len(set(STATUS_STYLES.values())) == 5


def test_the_statuses_follow_the_run() -> None:
    board = Board([0, 1, 2], 10)

    def status(gpu: int) -> Any:
        return board.snapshot()["gpu_status"][gpu]["status"]

    assert [status(gpu) for gpu in range(3)] == ["initializing"] * 3
    board.started(7, 0)
    assert status(0) == "processing"
    assert board.snapshot()["gpu_status"][0]["current_task"] == 7
    board.succeeded(7, None, 0)
    assert status(0) == "idle"
    board.setup_failed(1, "no model")
    board.failed(8, "error", -1)  # never reached a worker
    assert status(1) == "error"
    text = plain(board.snapshot())
    assert "Tasks 2/10" in text and "ETA" in text and "Setup failures 1" in text
    for word in ("idle", "error", "initializing"):
        assert word in text
    board.finish()
    assert [status(gpu) for gpu in range(3)] == ["finished", "error", "finished"]
    assert "ETA" not in plain(board.snapshot())


def test_ctrl_c_restores_the_terminal() -> None:
    console = terminal_console()
    exits: list[str] = []

    def start(task: int, gpu: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        RichDispatcher(Actor, [0], console=console).run(
            [("forever", None)], on_task_start=start, on_exit=lambda: exits.append("exit")
        )
    assert exits == ["exit"]
    assert written(console).rstrip().endswith("\x1b[?25h")


def test_an_exception_of_a_callback_is_raised() -> None:
    def fail(task: int, result: Any, gpu: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        RichDispatcher(Actor, [0], console=terminal_console()).run([("echo", 1)], on_success=fail)


def test_shutdown_from_a_callback() -> None:
    dispatcher = RichDispatcher(Actor, [0], show_ui=False, queue_size=4)

    def endless() -> Iterator[Any]:
        while True:
            yield "echo", 1

    stats = dispatcher.run(endless(), on_success=lambda *_: dispatcher.shutdown())
    assert stats["completed"] >= 1
    assert dispatcher.get_stats()["completed"] == stats["completed"]


def test_without_rich_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.live", None)  # type: ignore[misc]
    with pytest.raises(ImportError, match=re.escape("gpu_dispatch[ui]")):
        RichDispatcher(Actor, [0])
    RichDispatcher(Actor, [0], show_ui=False)


def test_a_notebook_without_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are updated in place through IPython's display handle."""
    shown: list[Any] = []

    class Handle:
        def update(self, cell: Any) -> None:
            shown.append(cell)

    def display(cell: Any, display_id: bool) -> Handle:
        assert display_id
        shown.append(cell)
        return Handle()

    module = types.ModuleType("IPython.display")
    setattr(module, "display", display)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(ui, "have_widgets", lambda: False)
    console = Console(file=io.StringIO(), force_jupyter=True)
    RichDispatcher(Actor, [0], console=console, refresh_rate=100).run([("echo", 1)])
    assert len(shown) >= 2
    assert all(hasattr(cell, "_repr_mimebundle_") for cell in shown)
    text = shown[-1]._repr_mimebundle_([], [])["text/plain"]
    assert "Completed" in text and "finished" in text
