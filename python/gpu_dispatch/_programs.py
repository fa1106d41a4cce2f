# SPDX-License-Identifier: MIT
"""Finds ``gpuq``, which a wheel installs next to the interpreter."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig

from gpu_dispatch import _interpreter, _place
from gpu_dispatch._text import printable

__all__ = ["find_gpuq"]


def find_gpuq() -> str:
    """The path of ``gpuq``: ``$GPUQ``, the program of this package, or the first on ``$PATH``.

    Raises FileNotFoundError, and ValueError if ``$GPUQ`` is not an absolute path.
    """
    named = os.environ.get("GPUQ")
    if named and not os.path.isabs(named):
        raise ValueError(f"$GPUQ {printable(repr(named))} is not an absolute path")
    if named:
        return named
    # Relative entries lead to the current directory, where another user may have put a gpuq.
    directories = [entry for entry in os.get_exec_path() if os.path.isabs(entry)]
    for path in (_of_this_package(), _of_this_interpreter(), shutil.which("gpuq", path=os.pathsep.join(directories))):
        if path and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(
        "gpuq is not installed, neither with this package nor on PATH; "
        "reinstall gpu_dispatch, or set GPUQ to its path"
    )


def _of_this_package() -> str | None:
    """The path recorded by pip: correct for virtual environments, --user and --target."""
    # Another user may have put such a record into another directory of sys.path.
    for distribution in importlib.metadata.distributions(name="gpu_dispatch", path=[_place]):
        for file in distribution.files or []:
            if file.name == "gpuq":
                return os.path.realpath(str(file.locate()))
    return None


def _of_this_interpreter() -> str:
    return os.path.join(sysconfig.get_path("scripts") or os.path.dirname(_interpreter.executable()), "gpuq")
