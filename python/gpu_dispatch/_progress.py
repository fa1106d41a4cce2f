# SPDX-License-Identifier: MIT
"""The progress of a map(): a bar if Rich is installed and there is a terminal, otherwise plain lines."""
from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["Progress", "have_widgets", "progress_of"]

LINE_SECONDS = 10.0
BAR_SECONDS = 0.1


class Progress:
    """Shows nothing."""

    def start(self) -> None:
        """The first item is about to be submitted."""

    def advance(self, succeeded: bool) -> None:
        """A result is about to be yielded."""

    def stop(self) -> None:
        """The map has ended. May be called twice."""


class Counting(Progress):
    """Counts, and shows the counts periodically."""

    def __init__(self, total: int | None, interval_seconds: float) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self._interval_seconds = interval_seconds
        self._started = self._shown = 0.0
        self._stopped = False

    def start(self) -> None:
        self._started = self._shown = time.monotonic()

    def advance(self, succeeded: bool) -> None:
        self.done += 1
        self.failed += not succeeded
        now = time.monotonic()
        if now - self._shown >= self._interval_seconds:
            self._shown = now
            self.show(now - self._started)

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self.show(time.monotonic() - self._started)

    def show(self, elapsed: float) -> None:
        """Shows the counts."""


class Lines(Counting):
    """One line on standard error every ten seconds, and one at the end."""

    def __init__(self, total: int | None) -> None:
        super().__init__(total, LINE_SECONDS)

    def show(self, elapsed: float) -> None:
        print(line(self.done, self.failed, self.total, elapsed), file=sys.stderr, flush=True)


class Bar(Counting):
    """A Rich bar on standard error."""

    def __init__(self, total: int | None, console: Any) -> None:
        from rich import progress as rich_progress

        super().__init__(total, BAR_SECONDS)
        self._bar = rich_progress.Progress(
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("{task.fields[failed]}", style="red"),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("", total=total, failed="")

    def start(self) -> None:
        super().start()
        self._bar.start()

    def show(self, elapsed: float) -> None:
        failed = f"{self.failed} failed" if self.failed else ""
        self._bar.update(self._task, completed=self.done, failed=failed)

    def stop(self) -> None:
        super().stop()
        self._bar.stop()


def line(done: int, failed: int, total: int | None, elapsed: float) -> str:
    """The plain form: "gpu_dispatch: 120 of 1000 done, 2 failed, 35.2/s, 0:00:25 left"."""
    rate = done / elapsed if elapsed > 0 else 0.0
    parts = [f"{done} of {total} done" if total is not None else f"{done} done"]
    if failed:
        parts.append(f"{failed} failed")
    parts.append(f"{rate:.1f}/s")
    if total is not None and rate > 0 and done < total:
        left = round((total - done) / rate)
        parts.append(f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left")
    return "gpu_dispatch: " + ", ".join(parts)


def have_widgets() -> bool:
    """Whether Rich can redraw in a notebook."""
    import importlib.util

    return importlib.util.find_spec("ipywidgets") is not None


def progress_of(items: Any, shown: bool) -> Progress:
    """The progress display for `items`."""
    if not shown:
        return Progress()
    try:
        total: int | None = len(items)
    except TypeError:
        total = None
    try:
        from rich.console import Console
    except ImportError:
        return Lines(total)
    console = Console(stderr=True)
    if console.is_jupyter and not have_widgets():
        return Lines(total)
    if console.is_terminal or console.is_jupyter:
        return Bar(total, console)
    return Lines(total)
