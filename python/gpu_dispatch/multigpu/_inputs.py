# SPDX-License-Identifier: MIT
"""Gives a list of files to ``gpuq launch``, which takes a folder and patterns.

If the list contains every file of the caller's input folder that has one of the extensions in the
list, and no other files, that folder is used as it is. Otherwise a temporary folder of symbolic links
is used. ``gpuq launch`` records names relative to its input folder, so a later run, with another
temporary folder, recognizes the files that are done. If the caller's input folder contains all files,
the names are relative to that folder, so they do not depend on which files are in the list, and
``gpuq launch`` records that folder, not the temporary one.

Only the folder named by the caller may be reached through links of other users. ``gpuq launch``
checks every other link on the path to a file, so links are not resolved here. It also finds out
whether other users can change the content of the input folder, and then creates a private output folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from gpu_dispatch._trust import absolute, resolve_any
from gpu_dispatch.multigpu._links import LinkFolder

__all__ = ["Inputs", "prepare_inputs"]

# A folder of other users' files may have any number of extensions, and arguments are limited.
_MOST_SUFFIXES = 64


class Inputs:
    """Arguments for gpuq launch, and the mapping of its names to files.

    ``folder``: the input folder that gpuq launch records; None: the one in the arguments.
    ``chosen``: another user chose the named folder, by a link that gpuq launch does not see.
    ``failed``: files that gpuq launch cannot get, as given in the queue, and the reasons.
    ``links``: the temporary folder of links, and the folder of the files; None: there are no links.
    """

    def __init__(
        self,
        arguments: list[str],
        folder: str | None,
        files: dict[str, list[str]],
        chosen: bool = False,
        failed: Mapping[str, str] | None = None,
        links: tuple[str, str] | None = None,
    ) -> None:
        self.arguments = arguments
        self.folder = folder
        self.chosen = chosen
        self.failed = failed or {}
        self._files = files
        self._links = links

    def files_of(self, name: str) -> list[str]:
        """The files, as given in the queue, for a name relative to the input folder."""
        return self._files.get(name, [])

    def in_words(self, words: str) -> str:
        """The message, with paths of the user's folder in place of those of the temporary one."""
        if self._links is None:
            return words
        temporary, folder = self._links
        return words.replace(temporary + "/", os.path.join(folder, "")).replace(temporary, folder)


@contextlib.contextmanager
def prepare_inputs(files: Sequence[str], input_dir: str | None = None) -> Iterator[Inputs]:
    """Inputs for these files, valid inside the `with` block.

    ``input_dir`` is the folder named by the caller, if the files were found there.
    """
    paths: dict[str, list[str]] = {}
    for file in files:
        paths.setdefault(absolute(file), []).append(file)
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    named = absolute(input_dir) if input_dir is not None else None
    if named is not None and os.path.commonpath([folder, named]) == named:
        folder = named
    names = {str(PurePath(path).relative_to(folder)): each for path, each in paths.items()}
    real, chosen = resolve_any(folder)
    suffixes = _whole_suffixes(folder, set(names)) if folder == named else None
    if suffixes is not None:
        patterns = [word for suffix in suffixes for word in ("--pattern", f"*{_escape(suffix)}")]
        yield Inputs(["--input-dir", folder, *patterns], None, names)
        return
    # Links up to the folder named by the caller are resolved, and no others.
    chosen = chosen and folder == named
    targets = real if chosen else folder
    links = LinkFolder()
    try:
        failed = _add_links(links, names, targets)
        yield Inputs(
            ["--input-dir", links.path, "--recursive", "--pattern", "*", "--pattern", ".*"],
            real,
            names,
            chosen,
            failed,
            (links.path, folder),
        )
    finally:
        links.remove()


def _add_links(links: LinkFolder, names: dict[str, list[str]], targets: str) -> dict[str, str]:
    """Returns the files that cannot be linked, and the reasons: other users may have chosen their names."""
    failed = {}
    for name, files in names.items():
        try:
            links.add(name, os.path.join(targets, name))
        except OSError as failure:
            failed.update(dict.fromkeys(files, failure.strerror or str(failure)))
    return failed


def _whole_suffixes(folder: str, names: set[str]) -> list[str] | None:
    """The extensions, if the names are all files of the folder with these extensions; otherwise None.

    Also None if the folder cannot be read.
    """
    if any("/" in name or name.startswith(".") for name in names):
        return None
    suffixes = {os.path.splitext(name)[1] for name in names}
    if "" in suffixes or len(suffixes) > _MOST_SUFFIXES:
        return None
    try:
        entries = os.listdir(folder)
    except OSError:
        return None
    whole = {
        name
        for name in entries
        if not name.startswith(".")
        and name.endswith(tuple(suffixes))
        and os.path.isfile(os.path.join(folder, name))
    }
    return sorted(suffixes) if whole == names else None


def _escape(suffix: str) -> str:
    return "".join(
        f"[{letter}]" if letter in "*?[" else "\\\\" if letter == "\\" else letter
        for letter in suffix
    )
