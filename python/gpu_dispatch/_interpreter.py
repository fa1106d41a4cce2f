# SPDX-License-Identifier: MIT
"""How this program's Python is executed again, also after the program has changed to another directory.

Another user may have planted programs, modules and libraries in that directory.
"""
from __future__ import annotations

import os
import sys

from gpu_dispatch import _directory
from gpu_dispatch._trust import is_own

__all__ = ["changed_environment", "environment", "executable"]


def executable() -> str:
    """The absolute path of this Python; empty if it is not known.

    sys.executable is relative if Python was found by a relative entry of PATH. It is then relative to the directory in
    which the program was started, which is not known here.
    """
    if not sys.executable or os.path.isabs(sys.executable):
        return sys.executable or ""
    if sys.prefix == sys.base_prefix:
        return os.path.realpath("/proc/self/exe")
    # In a virtual environment, the path of the link to Python determines the modules.
    path = os.path.join(sys.prefix, "bin", os.path.basename(sys.executable))
    return path if os.path.isabs(path) and os.path.exists(path) else ""


def environment() -> dict[str, str]:
    """The environment of a child process that is Python or loads libraries: os.environ with absolute paths.

    The loader and Python look for relative and empty entries in the directory in which the process is started. They get
    the meaning that they had when this package was imported. An entry is left out if other users could have chosen what
    it leads to: the program may have changed to another directory before the import.
    """
    variables = dict(os.environ)
    for name, absolute in _VARIABLES.items():
        if variables.get(name):
            variables[name] = absolute(variables[name])
            if not variables[name]:
                del variables[name]
    return variables


def changed_environment() -> list[str] | None:
    """environment() for the engine, or None if it is the same as os.environ."""
    variables = environment()
    return None if variables == dict(os.environ) else [f"{name}={value}" for name, value in variables.items()]


def _module_path(value: str) -> str:
    """PYTHONPATH: the directories that the program itself searches for its relative entries.

    Otherwise a worker would execute the sitecustomize.py of another user before the code of worker_argv() sets the path.
    """
    kept = []
    for entry in value.split(os.pathsep):
        place = entry if os.path.isabs(entry) else os.path.normpath(os.path.join(_directory, entry))
        is_searched = place in sys.path and os.path.isabs(place) and os.pathsep not in place
        if place == entry or is_searched:
            kept.append(place)
    return os.pathsep.join(kept)


def _directories(value: str) -> str:
    places = [_own_place(entry) for entry in value.replace(";", ":").split(":")]
    return ":".join(place for place in places if place and ":" not in place)


def _libraries(value: str) -> str:
    """A library without a slash in its name is not searched in the current directory."""
    entries = value.replace(" ", ":").split(":")
    return ":".join(filter(None, [_own_place(entry) if "/" in entry else entry for entry in entries]))


def _own_place(entry: str) -> str:
    """The absolute path of a relative or empty entry. Empty if other users may have chosen what is there."""
    if os.path.isabs(entry) or entry.startswith(("$ORIGIN", "${ORIGIN}")):
        return entry
    place = os.path.normpath(os.path.join(_directory, entry))
    return place if os.path.isabs(place) and is_own(place) else ""


_VARIABLES = {
    "LD_AUDIT": _libraries,
    "LD_LIBRARY_PATH": _directories,
    "LD_PRELOAD": _libraries,
    "PYTHONHOME": _directories,
    "PYTHONPATH": _module_path,
    "PYTHONPYCACHEPREFIX": _own_place,
    "PYTHONUSERBASE": _own_place,
}
