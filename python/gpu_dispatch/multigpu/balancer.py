# SPDX-License-Identifier: MIT
"""Progress and statistics of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TypedDict

from gpu_dispatch._text import printable
from gpu_dispatch.multigpu.result import Queue, Result

__all__ = ["GPUStats", "LoadBalancer"]

_MOST_FAILURES = 20


class GPUStats(TypedDict):
    """The statistics of one GPU."""

    files: int
    failed: int
    processing_time: float
    duration: float
    rtf: float
    """Processing time over seconds of audio; 0.0 if those are unknown."""
    share: float
    """Its share of all files that were done, 0 to 1."""


class LoadBalancer:
    """Takes results from a queue and sums them up.

    ``results`` has all results, ``errors`` the failed ones.
    """

    def __init__(self, gpu_ids: Iterable[int]) -> None:
        self.gpu_ids = list(gpu_ids)
        self.results: list[Result] = []
        self.errors: list[Result] = []
        self._begin: float | None = None
        self._end = 0.0

    @property
    def success_count(self) -> int:
        """Files that are done, including those of an earlier run."""
        return len(self.results) - len(self.errors)

    @property
    def failure_count(self) -> int:
        return len(self.errors)

    def monitor_progress(
        self,
        result_queue: Queue,
        total_files: int,
        progress_callback: Callable[[int, int, Result], object] | None = None,
    ) -> list[Result]:
        """Waits for ``total_files`` results and returns them.

        ``progress_callback(completed, total, result)`` is called for each. ``None`` in the
        queue, which ProcessSpawner puts there after the last result, ends the wait early.
        """
        collected: list[Result] = []
        while len(collected) < total_files:
            result: Result | None = result_queue.get()
            if result is None:
                break
            collected.append(result)
            self.add(result)
            if progress_callback is not None:
                progress_callback(len(collected), total_files, result)
        return collected

    def add(self, result: Result) -> None:
        """Counts one result. ``monitor_progress()`` calls this for each."""
        self.results.append(result)
        if result["status"] != "success":
            self.errors.append(result)
        if not result["skipped"]:
            self._end = time.monotonic()
            # The clock starts with the first file's work: loading the model is not counted.
            if self._begin is None:
                self._begin = self._end - result["processing_time"]

    def get_overall_rtf(self) -> float:
        """Real-time factor: processing time over seconds of audio; 0.0 if the latter are unknown."""
        return _rtf(self._done())

    def get_speedup(self) -> float:
        """Processing time of all GPUs over wall-clock time: 2.0 for two busy GPUs.

        0.0 before the first result.
        """
        wall = self.get_wall_time()
        return sum(result["processing_time"] for result in self._done()) / wall if wall > 0 else 0.0

    def get_wall_time(self) -> float:
        """Seconds from the beginning of the first file to the end of the last."""
        return 0.0 if self._begin is None else self._end - self._begin

    def get_per_gpu_stats(self) -> dict[int, GPUStats]:
        """Statistics for each GPU."""
        done = self._done()
        gpus = dict.fromkeys(
            self.gpu_ids + [r["gpu_id"] for r in done + self.errors if r["gpu_id"] >= 0]
        )
        stats: dict[int, GPUStats] = {}
        for gpu in gpus:
            mine = [result for result in done if result["gpu_id"] == gpu]
            stats[gpu] = {
                "files": len(mine),
                "failed": sum(result["gpu_id"] == gpu for result in self.errors),
                "processing_time": sum(result["processing_time"] for result in mine),
                "duration": sum(result["duration"] for result in mine),
                "rtf": _rtf(mine),
                "share": len(mine) / len(done) if done else 0.0,
            }
        return stats

    def print_progress(self, completed: int, total: int, result: Result) -> None:
        """Prints a line for one result. Made for ``monitor_progress(progress_callback=…)``."""
        where = f"GPU {result['gpu_id']}" if result["gpu_id"] >= 0 else "no GPU"
        if result["status"] != "success":
            words = f"FAILED: {result['error']}"
        elif result["skipped"]:
            where, words = "earlier run", "done"
        else:
            words = f"{result['processing_time']:.1f} s"
            if result["duration"] > 0:
                words += f", RTF {result['processing_time'] / result['duration']:.3g}"
        _print(f"[{completed}/{total}] {result['file']} ({where}): {words}")

    def print_summary(self, total_files: int) -> None:
        """Prints totals, a line for each GPU, and the files that failed."""
        skipped = sum(result["skipped"] for result in self.results)
        words = f"{self.success_count} of {total_files} files done"
        if skipped:
            words += f", {skipped} of them by an earlier run"
        if self.errors:
            words += f", {self.failure_count} failed"
        left = total_files - len(self.results)
        if left > 0:
            words += f", {left} left"
        _print(
            f"{words}; {self.get_wall_time():.1f} s, RTF {self.get_overall_rtf():.3g}, "
            f"speedup {self.get_speedup():.2f}"
        )
        for gpu, stats in self.get_per_gpu_stats().items():
            _print(
                f"  GPU {gpu}: {stats['files']} done, {stats['failed']} failed, "
                f"{stats['processing_time']:.1f} s, RTF {stats['rtf']:.3g}, "
                f"{stats['share']:.0%} of the files"
            )
        for result in self.errors[:_MOST_FAILURES]:
            _print(f"  failed: {result['file']}: {result['error']}")
        if len(self.errors) > _MOST_FAILURES:
            _print(f"  and {len(self.errors) - _MOST_FAILURES} more")

    def _done(self) -> list[Result]:
        return [r for r in self.results if r["status"] == "success" and not r["skipped"]]


def _rtf(results: list[Result]) -> float:
    audio = [result for result in results if result["duration"] > 0]
    duration = sum(result["duration"] for result in audio)
    return sum(result["processing_time"] for result in audio) / duration if duration else 0.0


def _print(line: str) -> None:
    """Prints a line whose file names may not be UTF-8, on a terminal that may not know all characters.

    Other users may have chosen a name: control characters and direction marks are printed as escapes.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(printable(line).encode(encoding, "backslashreplace").decode(encoding), flush=True)
