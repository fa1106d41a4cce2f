# SPDX-License-Identifier: MIT
"""Gives a list of files to ``gpuq launch``, which takes a folder and patterns.

The files of a task queue are usually all files of one folder with some extension:
then that folder is used as it is. Otherwise a folder of symbolic links stands for
them. It always has the same place in the output folder, so that a later run knows
which files are done.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["Inputs", "prepare_inputs"]

_LINKS = "launch.links"


class Inputs:
    """Arguments for gpuq launch, and which of its names stands for which files."""

    def __init__(self, arguments: list[str], files: dict[str, list[str]]) -> None:
        self.arguments = arguments
        self._files = files

    def files_of(self, name: str) -> list[str]:
        """The files, as they were in the queue, behind a name relative to the input folder."""
        return self._files.get(name, [])


@contextlib.contextmanager
def prepare_inputs(files: Sequence[str], output_dir: Path) -> Iterator[Inputs]:
    """The caller must be the only one who works in the output folder."""
    paths: dict[str, list[str]] = {}
    for file in files:
        paths.setdefault(os.path.abspath(file), []).append(file)
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    names = {os.path.relpath(path, folder): each for path, each in paths.items()}
    suffixes = _whole_suffixes(folder, set(names))
    if suffixes is not None:
        patterns = [word for suffix in suffixes for word in ("--pattern", f"*{_escape(suffix)}")]
        yield Inputs(["--input-dir", folder, *patterns], names)
        return
    links = output_dir / _LINKS
    _remove(links)
    try:
        for name in names:
            link = links / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.join(folder, name))
        yield Inputs(
            ["--input-dir", str(links), "--recursive", "--pattern", "*", "--pattern", ".*"], names
        )
    finally:
        _remove(links)


def _whole_suffixes(folder: str, names: set[str]) -> list[str] | None:
    """The extensions, if the names are all files of the folder that have them; else None."""
    if any("/" in name or name.startswith(".") for name in names):
        return None
    suffixes = {os.path.splitext(name)[1] for name in names}
    if "" in suffixes:
        return None
    with os.scandir(folder) as entries:
        there = {
            entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file()
        }
    whole = {name for name in there if any(name.endswith(suffix) for suffix in suffixes)}
    return sorted(suffixes) if whole == names else None


def _escape(suffix: str) -> str:
    return "".join(
        f"[{letter}]" if letter in "*?[" else "\\\\" if letter == "\\" else letter
        for letter in suffix
    )


def _remove(links: Path) -> None:
    """Remove what a run has made, folders and links, and nothing else."""
    for folder, _, names in os.walk(links, topdown=False):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(folder)
