# SPDX-License-Identifier: MIT
"""Copies of built programs that do not find those of an installation with the prefix of the build."""
import json
import os
import pathlib
import shutil

BUILD = pathlib.Path(os.environ["GD_BUILD"])


def installation():
    """The directory that gpuq searches for its helper programs, next to its own."""
    for line in (BUILD / "src/base/install_dirs.h").read_text().splitlines():
        if line.startswith("#define GD_LIBEXECDIR "):
            return json.loads(line.split(maxsplit=2)[2].split(" /*")[0])
    raise ValueError("install_dirs.h does not define GD_LIBEXECDIR")


def copy_uninstalled(program, directory):
    """The path of the copy, in which the name of that directory is replaced by one that does not exist."""
    path = pathlib.Path(shutil.copy(BUILD / program, directory))
    old = installation().encode() + b"\0"
    new = b"/nowhere".ljust(len(old) - 1, b"/") + b"\0"
    data = path.read_bytes()
    if len(new) != len(old) or data.count(old) != 1:
        raise ValueError(f"{program} contains {old!r} {data.count(old)} times; expected one, of at least 8 characters")
    path.write_bytes(data.replace(old, new))
    return path
