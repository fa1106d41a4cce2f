# SPDX-License-Identifier: MIT
"""Which files there are, and how they are shared out."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

__all__ = ["ResourceAllocator", "Workload"]

logger = logging.getLogger(__name__)


class Workload(TypedDict):
    """How much there is to do. Sizes are bytes."""

    file_count: int
    total_size: int
    average_size: float
    largest_size: int
    smallest_size: int
    largest_file: Path | None
    smallest_file: Path | None


class ResourceAllocator:
    """Finds files and shares them out over GPUs."""

    def discover_files(
        self, input_dir: str | os.PathLike[str], pattern: str = "*.wav"
    ) -> list[Path]:
        """The files in ``input_dir`` that match, sorted by name.

        ``pattern`` is one of ``Path.glob()``: ``"**/*.wav"`` looks into the folders below, too.
        Names that begin with a dot match only a pattern that does. Raises
        FileNotFoundError or NotADirectoryError for the folder itself.
        """
        folder = Path(input_dir)
        if not folder.is_dir():
            if folder.exists():
                raise NotADirectoryError(f"input folder '{folder}' is not a directory")
            raise FileNotFoundError(f"input folder '{folder}' does not exist")
        hidden = pattern.rpartition("/")[2].startswith(".")
        found = (path for path in folder.glob(pattern) if hidden or not path.name.startswith("."))
        files = sorted(path for path in found if path.is_file())
        logger.debug("%d files in '%s' match '%s'", len(files), folder, pattern)
        return files

    def distribute_workload(self, files: Iterable[Path], num_gpus: int) -> list[list[Path]]:
        """One list of files per GPU: largest first, dealt out in turn.

        This shows how the work would be split in advance. During a run, each worker takes
        the next file when it is free.
        """
        if num_gpus < 1:
            raise ValueError(f"num_gpus must be 1 or more, not {num_gpus}")
        ordered = _largest_first(files)
        return [ordered[gpu::num_gpus] for gpu in range(num_gpus)]

    def create_task_queue(self, files: Iterable[Path], num_workers: int) -> Queue[Path | None]:
        """A queue with all files, largest first, then one ``None`` per worker: the end."""
        if num_workers < 1:
            raise ValueError(f"num_workers must be 1 or more, not {num_workers}")
        queue: Queue[Path | None] = multiprocessing.Queue()
        queue.cancel_join_thread()  # a program that gives up early must not wait for readers
        for file in _largest_first(files):
            queue.put(file)
        for _ in range(num_workers):
            queue.put(None)
        return queue

    def estimate_workload(self, files: Sequence[Path]) -> Workload:
        """Number and sizes of the files. A file that cannot be read counts as empty."""
        sizes = [_size(file) for file in files]
        largest = max(range(len(files)), key=sizes.__getitem__, default=None)
        smallest = min(range(len(files)), key=sizes.__getitem__, default=None)
        return {
            "file_count": len(files),
            "total_size": sum(sizes),
            "average_size": sum(sizes) / len(sizes) if sizes else 0.0,
            "largest_size": max(sizes, default=0),
            "smallest_size": min(sizes, default=0),
            "largest_file": None if largest is None else files[largest],
            "smallest_file": None if smallest is None else files[smallest],
        }


def _size(file: Path) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _largest_first(files: Iterable[Path]) -> list[Path]:
    return sorted(files, key=_size, reverse=True)
