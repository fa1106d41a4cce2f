# SPDX-License-Identifier: MIT
"""Reads launch.jsonl, to which ``gpuq launch`` appends a line for each file that ends."""

from __future__ import annotations

import base64
import contextlib
import errno
import grp
import json
import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from gpu_dispatch._trust import is_off, resolve_any

__all__ = ["INPUT_VARIABLE", "MARK_VARIABLE", "RECORD_NAME", "Record", "event_of", "name_of"]

RECORD_NAME = "launch.jsonl"
MARK_VARIABLE = "GPUQ_LAUNCH_MARK"
INPUT_VARIABLE = "GPUQ_LAUNCH_INPUT"
SETTING_VARIABLE = "GPUQ_LAUNCH_SET_"  # and a number
_SEVERAL_USERS = 2**32 - 1  # the owner of a file that others may have written


class Record:
    """Reads launch.jsonl as it grows.

    gpuq launch writes ``mark``, which no other launch knows, into the line with which it begins. By then,
    it has checked the output folder. Without this line, another user may have made the path lead to the
    record of an earlier launch.

    All methods raise OSError if launch.jsonl is not a regular file, or if another user could have written it:
    gpuq launch refuses such a file, but the other user could add results until then.
    """

    def __init__(self, path: Path, mark: str) -> None:
        self._path = path
        self._mark = mark
        try:
            with self._open() as file:
                self._begin = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            self._begin = 0
        self._offset = self._begin
        self._began = False
        self.fingerprint: str | None = None  # of worker and settings; None: this launch has not begun

    def _open(self) -> IO[bytes]:
        # Other users may be able to write to the folder: opening a FIFO must not block.
        file = open(self._path, "rb", opener=_open_file)
        objection = _objection(file.fileno(), os.fstat(file.fileno()))
        if objection is not None:
            file.close()
            raise OSError(errno.EPERM, f"{objection}; remove it", str(self._path))
        return file

    def read(self) -> Iterator[dict[str, Any]]:
        """The lines since the last call, starting with the line that has the mark, without an incomplete last line."""
        try:
            with self._open() as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        for line in data.splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    if (event.get("event"), event.get("mark")) == ("run", self._mark):
                        self._began, self.fingerprint = True, str(event.get("fingerprint"))
                    if self._began and _is_usable(event):
                        yield event

    def earlier(self) -> dict[str, dict[int, dict[str, Any]]]:
        """The last event of each file before this run, by name and owner (0: this user or root).

        Call it only if gpuq launch has used the record: if it has skipped files.
        """
        events: dict[str, dict[int, dict[str, Any]]] = {}
        with self._open() as file:
            for line in file.read(self._begin).splitlines():
                with contextlib.suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict) and event.get("event") in ("done", "failed") and _is_usable(event):
                        owners = events.setdefault(name_of(event, "file"), {})
                        # A file that failed before it reached a worker, such as one of the same name in another
                        # input folder, has not replaced the earlier result.
                        if "gpu" in event or event["event"] == "done" or event.get("owner", 0) not in owners:
                            owners[event.get("owner", 0)] = event
        return events


def event_of(file: str, events: Mapping[int, dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the event of this file. ``events``: by owner, as another user may have had a file of the same name."""
    user = os.geteuid()
    try:
        status = os.stat(file)
    except OSError:
        return None
    owner = status.st_uid
    if owner in (0, user):
        own = events.get(0)
        if _SEVERAL_USERS in events and _is_shared(file, status):
            own = events[_SEVERAL_USERS]
    else:
        own = events.get(owner, events.get(0))
    if own is None and owner != user and resolve_any(file)[1]:
        return next(reversed(events.values()), None)  # recorded for the owner of a link
    return own


def _objection(fd: int, status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if is_off():
        return None
    if status.st_uid not in (0, os.geteuid()):
        return "it belongs to another user"
    if status.st_mode & stat.S_IWOTH:
        return "everybody can write it"
    if status.st_mode & stat.S_IWGRP and not _is_private(fd, status.st_gid):
        return "its group can write it"
    return None


def _is_shared(file: str, status: os.stat_result) -> bool:
    """Whether another user may have written a file of this user or root, or have linked it."""
    if status.st_nlink != 1 or status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private(file, status.st_gid)


def _is_private(fd: int | str, gid: int) -> bool:
    """Whether the user is the only member of the group, and no access list lets others write."""
    with contextlib.suppress(KeyError, OSError):
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
        others = any(other.pw_gid == gid and other.pw_uid != user.pw_uid for other in pwd.getpwall())
        own = group.gr_name == user.pw_name and gid == user.pw_gid and set(group.gr_mem) <= {user.pw_name}
        return own and not others and "system.posix_acl_access" not in os.listxattr(fd)
    return False


def _is_usable(event: dict[str, Any]) -> bool:
    """False for a result without a file, and for one outside of the output folder."""
    if event.get("event") not in ("done", "failed"):
        return True
    try:
        name_of(event, "file")
        parts = Path(name_of(event, "output")).parts
        gpu = event.get("gpu")
    except (KeyError, TypeError):
        return False
    return bool(parts) and parts[0] != "/" and ".." not in parts and (gpu is None or isinstance(gpu, int))


def _open_file(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def name_of(event: dict[str, Any], key: str) -> str:
    """A name, as os.listdir() returns it in this locale. If it is not UTF-8, it is sent in base64."""
    if f"{key}_b64" in event:
        return os.fsdecode(base64.b64decode(event[f"{key}_b64"]))
    return os.fsdecode(str(event[key]).encode())
