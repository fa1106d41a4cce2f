# SPDX-License-Identifier: MIT
"""Finds the input files and distributes them."""

from __future__ import annotations

import fnmatch
import logging
import multiprocessing
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypedDict

from gpu_dispatch import _interpreter

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

    from gpu_dispatch.multigpu.result import Queue as AnyQueue

__all__ = ["ResourceAllocator", "Workload"]

logger = logging.getLogger(__name__)

_tracker_lock = threading.Lock()


class Workload(TypedDict):
    """The amount of work. Sizes are in bytes."""

    file_count: int
    total_size: int
    average_size: float
    largest_size: int
    smallest_size: int
    largest_file: Path | None
    smallest_file: Path | None


class ResourceAllocator:
    """Finds files and distributes them over GPUs."""

    def discover_files(
        self, input_dir: str | os.PathLike[str], pattern: str = "*.wav"
    ) -> list[Path]:
        """The files in ``input_dir`` that match, sorted by name.

        ``pattern`` is as in ``Path.glob()``: ``"**/*.wav"`` also searches the folders below. Names
        that begin with a dot match only a pattern that begins with a dot. Entries that cannot be
        examined are left out. Raises FileNotFoundError or NotADirectoryError for the folder itself.
        """
        folder = Path(input_dir)
        if not folder.is_dir():
            if folder.exists():
                raise NotADirectoryError(f"input folder '{folder}' is not a directory")
            raise FileNotFoundError(f"input folder '{folder}' does not exist")
        hidden = pattern.rpartition("/")[2].startswith(".")
        found = _matching(folder, pattern)
        files = sorted(
            path
            for path in found
            if (hidden or not path.name.startswith(".")) and os.path.isfile(path)
        )
        logger.debug("%d files in '%s' match '%s'", len(files), folder, pattern)
        return files

    def distribute_workload(self, files: Iterable[Path], num_gpus: int) -> list[list[Path]]:
        """One list of files per GPU: largest first, dealt out in turn.

        This is how the work would be split in advance. During a run, each worker takes the next
        file when it is free.
        """
        if num_gpus < 1:
            raise ValueError(f"num_gpus must be 1 or more, not {num_gpus}")
        ordered = _largest_first(files)
        return [ordered[gpu::num_gpus] for gpu in range(num_gpus)]

    def create_task_queue(self, files: Iterable[Path], num_workers: int) -> Queue[Path | None]:
        """A queue of multiprocessing with all files, largest first, then one ``None`` per worker as end marker."""
        if num_workers < 1:
            raise ValueError(f"num_workers must be 1 or more, not {num_workers}")
        _start_tracker()
        queue: Queue[Path | None] = multiprocessing.Queue()
        queue.cancel_join_thread()  # a program that gives up early must not wait for readers
        put_tasks(queue, files, num_workers)
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


def _start_tracker() -> None:
    """Starts the resource tracker, a process that queues need unless the start method is "fork".

    By default, the tracker imports modules from the current directory, where another user may have planted some.
    """
    if multiprocessing.get_start_method() == "fork":
        return
    from multiprocessing import resource_tracker, spawn, util

    with _tracker_lock:
        python = os.fsdecode(spawn.get_executable() or "/")
        if not os.path.isabs(python):
            spawn.set_executable(_interpreter.executable() or python)
        flags = util._args_from_interpreter_flags  # type: ignore[attr-defined]
        util._args_from_interpreter_flags = lambda: [*flags(), "-I"]  # type: ignore[attr-defined]
        try:
            resource_tracker.ensure_running()
        finally:
            util._args_from_interpreter_flags = flags  # type: ignore[attr-defined]


def put_tasks(queue: AnyQueue, files: Iterable[Path], num_workers: int) -> None:
    """Puts all files into the queue, largest first, then one ``None`` per worker."""
    for file in _largest_first(files):
        queue.put(file)
    for _ in range(num_workers):
        queue.put(None)


def is_same_folder(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether both paths lead to the same existing folder, also through links."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def without_results(
    files: list[Path], input_dir: str | os.PathLike[str], output_dir: str | os.PathLike[str]
) -> list[Path]:
    """The files that are not in the output folder, which may be below the input folder, or behind a link there."""
    output = Path(os.path.realpath(output_dir))
    if Path(os.path.realpath(input_dir)).is_relative_to(output):
        return list(files)
    is_result: dict[Path, bool] = {}
    for path in files:
        if path.parent not in is_result:
            is_result[path.parent] = Path(os.path.realpath(path.parent)).is_relative_to(output)
    return [path for path in files if not is_result[path.parent]]


def _matching(folder: Path, pattern: str) -> set[Path]:
    """The matching files below ``folder``.

    ``Path.glob()`` would raise for a link to an overlong name, an inaccessible folder or a
    thousand nested folders.
    """
    parts = PurePath(pattern).parts
    if not parts or PurePath(pattern).is_absolute():
        raise ValueError(
            f"pattern '{pattern}' must not be empty or absolute: it is relative to the input folder"
        )
    found: set[Path] = set()
    to_visit = [(folder, 0)]
    linked: set[tuple[int, int, int]] = set()
    while to_visit:
        place, at = to_visit.pop()
        last = at == len(parts) - 1
        for path in _children(place):
            if parts[at] == "**":
                if path.is_dir(follow_symlinks=False):
                    to_visit.append((place / path.name, at))
            elif fnmatch.fnmatchcase(path.name, parts[at]):
                if last:
                    found.add(place / path.name)
                elif os.path.isdir(path) and _is_new(path, at, linked):
                    to_visit.append((place / path.name, at + 1))
        if parts[at] == "**" and not last:
            to_visit.append((place, at + 1))
    return found


def _is_new(path: os.DirEntry[str], at: int, linked: set[tuple[int, int, int]]) -> bool:
    """Whether a folder must be searched: a few links can make billions of paths to the same folder."""
    if not path.is_symlink():
        return True
    try:
        st = path.stat()
    except OSError:
        return False
    key = (st.st_dev, st.st_ino, at)
    if key in linked:
        return False
    linked.add(key)
    return True


def _children(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as failure:
        logger.debug("'%s' is skipped: %s", folder, failure)
        return []


def _size(file: Path) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _largest_first(files: Iterable[Path]) -> list[Path]:
    return sorted(files, key=_size, reverse=True)
