# SPDX-License-Identifier: MIT
"""Makes sure that workers run the program again from the directories from which it was run first.

Workers find the script and its modules by their paths. In the directory of a group, another user may be able to rename a
directory in such a path while the program runs, and to put another one there. So the program remembers the inodes of its
directories and archives, and workers refuse those with other inodes, unless only this user can have put them there.
"""
from __future__ import annotations

import os
import stat
import sys

from gpu_dispatch import _trust

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["check", "find_script", "open_script", "origin_of_main", "remember", "remember_main"]

_seen: dict[str, str] = {}
_owner = -1
_real = ""
_start = ""
"""The directory in which the package was imported, if a relative name of the script may refer to it."""


def remember(paths: Iterable[str]) -> dict[str, str]:
    """The identity of each of these directories and archives when it was first seen. Other paths are left out."""
    return {path: identity for path in paths if (identity := _seen.get(path) or _see(path))}


def remember_main(directory: str) -> None:
    """Remembers the directories of the program. Called when the package is imported in `directory`."""
    global _owner, _real, _start
    if directory and _may_be_start(directory):
        _start = directory
    remember(entry or directory for entry in sys.path if isinstance(entry, str))
    path = find_script()
    if path is not None:
        _real = os.path.realpath(path)
        remember([os.path.dirname(_real)])
        try:
            _owner = os.stat(_real).st_uid
        except OSError:
            pass  # the program is not a file


def find_script() -> str | None:
    """The absolute path of the program's script, None if it is not known.

    __file__ is relative if a program such as debugpy or memray executes the script. The current directory does not help:
    the script may already have changed to a directory in which another user has planted a file with the same name.
    """
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(path, str) or os.path.isabs(path):
        return path if isinstance(path, str) else None
    name = os.path.basename(path)
    if sys.argv and os.path.isabs(sys.argv[0]) and os.path.basename(sys.argv[0]) == name:
        return sys.argv[0]
    # The first entry is the directory of the script or, with -m, that in which Python was started. Programs insert others.
    entries = _entries()
    places = [os.path.join(entry, path) for entry in entries] + [os.path.join(entry, name) for entry in entries[:1]]
    files = {os.path.realpath(place): place for place in reversed(places) if os.path.isfile(place)}
    # A file in the current directory can be planted, so it only shows that a different one may be the wrong one.
    other = os.path.join(_start, path)
    if len(files) != 1 or _start and os.path.isfile(other) and os.path.realpath(other) not in files:
        return None
    return files.popitem()[1]


def _entries() -> list[str]:
    """The absolute entries of sys.path before those of the standard library."""
    standard = os.path.dirname(os.__file__)
    entries = [entry for entry in sys.path if isinstance(entry, str) and os.path.isabs(entry)]
    return entries[: entries.index(standard)] if standard in entries else entries


def _may_be_start(directory: str) -> bool:
    """Whether a relative name of the script may refer to this current directory, rather than to an entry of sys.path.

    It does unless the script has changed to another directory. It may if sys.path has the directory of the tool that
    executes the script: that directory can contain a different script with the same name.
    """
    try:
        if os.path.samefile(os.environ.get("PWD", ""), directory):
            return True
    except (OSError, ValueError):
        pass
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    first = frame.f_globals.get("__file__")
    if not isinstance(first, str):
        return False
    return os.path.dirname(os.path.realpath(first)) in [os.path.realpath(entry) for entry in _entries()]


def origin_of_main() -> tuple[str, int]:
    """The path of the script without links, and its owner, when the package was imported. Empty and -1: not known."""
    return _real, _owner


def _see(path: str) -> str:
    try:
        identity = _identity(os.stat(path)) if os.path.isabs(path) else ""
    except (OSError, ValueError):
        return ""
    if identity:
        _seen[path] = identity
    return identity


def _identity(status: os.stat_result) -> str:
    """Another user may be able to remove a file and to create one with the same inode number."""
    inode = f"{status.st_dev}:{status.st_ino}"
    if stat.S_ISREG(status.st_mode):
        return f"{inode}:{status.st_uid}"
    return inode if stat.S_ISDIR(status.st_mode) else ""


# ---- In a worker ------------------------------------------------------------


def check(identities: Mapping[str, str]) -> None:
    """Raises RuntimeError if a directory or an archive may have been replaced by another user. A removed one is accepted."""
    for path, identity in identities.items():
        try:
            same = _identity(os.stat(path)) == identity
        except OSError:
            continue
        if same:
            continue
        if identity.count(":") == 1:
            os.close(_open(path, identity))
        elif not _trust.is_own(path):
            raise _replaced(path, "archive")


def open_script(path: str, identities: Mapping[str, str], origin: tuple[str, int]) -> int:
    """A descriptor of the script. Raises RuntimeError if another user may have put it there, OSError if it is missing."""
    real, owner = origin
    found, chosen = _trust.resolve(path)
    if chosen and found != real and not _trust.is_off():
        raise RuntimeError(
            f"the script '{path}' is reached through a link of another user, and was a different file when the program was "
            "started; set GPUQ_TRUST=1 if you trust this user"
        )
    directory, name = os.path.split(found)
    place = _open(directory, identities.get(directory))
    try:
        script = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=place)
    finally:
        os.close(place)
    if os.fstat(script).st_uid in (0, os.geteuid(), owner) or _trust.is_off():
        return script
    os.close(script)
    raise RuntimeError(
        f"the script '{path}' belongs to another user, but did not when the program was started; "
        "set GPUQ_TRUST=1 if you trust this user"
    )


def _open(path: str, identity: str | None) -> int:
    """A descriptor of this directory. Raises RuntimeError if it is a different one that another user may have put there."""
    place = os.open(path, os.O_PATH | os.O_DIRECTORY)
    if _identity(os.fstat(place)) == identity:
        return place
    os.close(place)
    try:
        return _trust.open_place(path)[1]
    except OSError:
        raise _replaced(path, "directory") from None


def _replaced(path: str, kind: str) -> RuntimeError:
    return RuntimeError(
        f"'{path}' is not the same {kind} as when the program was started, and another user may have put it there: "
        "keep the program in a directory that only you can rename or replace, or set GPUQ_TRUST=1 if you trust all "
        "users who can"
    )
