# SPDX-License-Identifier: MIT
"""A temporary folder of symbolic links that other users can neither enter nor replace."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Iterator

from gpu_dispatch._trust import open_place

__all__ = ["LinkFolder"]

# gpuq launch leaves out files beyond these limits.
_LONGEST_PATH = 4096 - 512
_MOST_FOLDERS = 128


class LinkFolder:
    """A new folder. ``path`` leads to it until ``remove()``.

    It is in ``$TMPDIR`` if no other user can rename it there, otherwise in ``/tmp`` or in the state
    directory of gpuq. With ``GPUQ_TRUST=1`` it is always in ``$TMPDIR``, where others may replace
    it, so everything is created and removed through a descriptor of the folder.

    Raises OSError if there is no such place.
    """

    def __init__(self) -> None:
        self._folders: dict[str, None] = {}
        self._links: list[str] = []
        self._name = f"gpu_dispatch-links-{secrets.token_hex(8)}"
        refused: OSError | None = None
        for place in _places():
            try:
                self.path, self._above, self._fd = _make(place, self._name)
                return
            except OSError as failure:
                refused = refused or failure
        assert refused
        raise OSError(
            refused.errno,
            f"cannot create a folder of links: {refused.strerror}; "
            "set TMPDIR to a directory that only you can write",
            refused.filename,
        )

    def add(self, name: str, target: str) -> None:
        """Creates a link with this relative name, and the folders above it. Raises OSError."""
        if len(os.fsencode(self.path + name)) >= _LONGEST_PATH:
            raise OSError(errno.ENAMETOOLONG, "its path is too long")
        if ".." in name.split("/"):
            raise OSError(errno.EPERM, "it is reached through '..' after a link of another user")
        if name.count("/") > _MOST_FOLDERS:
            raise OSError(errno.ENAMETOOLONG, f"it is in more than {_MOST_FOLDERS} nested folders")
        for folder in _folders_above(name):
            # A link that has the name of a folder is not followed: mkdir() fails.
            if folder not in self._folders:
                os.mkdir(folder, 0o700, dir_fd=self._fd)
                self._folders[folder] = None
        os.symlink(target, name, dir_fd=self._fd)
        self._links.append(name)

    def remove(self) -> None:
        """Removes the links and the folder. No error if the folder is no longer at its path."""
        for link in self._links:
            with contextlib.suppress(OSError):
                os.unlink(link, dir_fd=self._fd)
        for folder in reversed(self._folders):
            with contextlib.suppress(OSError):
                os.rmdir(folder, dir_fd=self._fd)
        with contextlib.suppress(OSError):
            there = os.stat(self._name, dir_fd=self._above, follow_symlinks=False)
            if os.path.samestat(os.fstat(self._fd), there):
                os.rmdir(self._name, dir_fd=self._above)
        os.close(self._fd)
        os.close(self._above)


def _places() -> Iterator[str]:
    yield tempfile.gettempdir()
    yield "/tmp"
    base, home = os.environ.get("XDG_STATE_HOME", ""), os.environ.get("HOME", "")
    if not base.startswith("/"):
        base = os.path.join(home, ".local/state")
    if base.startswith("/"):
        state = os.path.join(base, "gpuq")
        with contextlib.suppress(OSError):
            _make_below_own(state)
        yield state


def _make_below_own(path: str) -> None:
    """Creates missing directories, but not in a directory of another user, such as the home of the user who runs sudo."""
    above = os.path.dirname(path)
    if not os.path.exists(above):
        _make_below_own(above)
    if os.stat(above).st_uid == os.geteuid():
        os.mkdir(path, 0o700)


def _make(place: str, name: str) -> tuple[str, int, int]:
    """The path of a new folder in this place, and descriptors of the place and the folder."""
    path, above = open_place(place)
    try:
        os.mkdir(name, 0o700, dir_fd=above)
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
        return os.path.join(path, name), above, os.open(name, flags, dir_fd=above)
    except BaseException:
        os.close(above)
        raise


def _folders_above(name: str) -> Iterator[str]:
    end = name.find("/")
    while end >= 0:
        yield name[:end]
        end = name.find("/", end + 1)
