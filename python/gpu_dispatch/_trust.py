# SPDX-License-Identifier: MIT
"""Finds directories and links that another user could replace, with the rules of ``gpuq``."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat

__all__ = ["absolute", "is_off", "is_own", "open_place", "resolve", "resolve_any"]

_MOST_LINKS = 40  # as in the kernel
_OPEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


def is_off() -> bool:
    """Whether the user accepts files of others."""
    return os.environ.get("GPUQ_TRUST", "0") not in ("", "0")


def resolve(path: str) -> tuple[str, bool]:
    """The absolute path without links, and whether it leads through a link of another user, even behind links of this user.

    Each link is read once: its owner could replace it before a second look. Raises OSError.
    """
    whole = path if path.startswith("/") else os.path.join(os.getcwd(), path)
    at, names, links, chosen = "/", whole.split("/")[::-1], 0, False
    while names:
        name = names.pop()
        if name == "..":
            at = os.path.dirname(at)
        if name in ("", ".", ".."):
            continue
        entry = os.path.join(at, name)
        status = os.lstat(entry)
        if not stat.S_ISLNK(status.st_mode):
            at = entry
            continue
        target = os.readlink(entry)
        chosen = chosen or status.st_uid not in (0, os.geteuid())
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        at = "/" if target.startswith("/") else at
        names += target.split("/")[::-1]
    return at, chosen


def resolve_any(path: str) -> tuple[str, bool]:
    """The same, but the path itself and True if it cannot be examined: others may be changing it."""
    try:
        return resolve(path)
    except OSError:
        return path, True


def absolute(path: str | os.PathLike[str]) -> str:
    """The absolute path. It contains ".." only after a path that cannot be examined or leads through a link of another user.

    Not os.path.abspath(): the kernel does not ignore a link before "..".
    """
    text = os.fspath(path)
    if ".." not in text.split("/"):
        return os.path.abspath(text)
    at = "/"
    for name in os.path.join("/" if os.path.isabs(text) else os.getcwd(), text).split("/"):
        if name == "..":
            real, chosen = resolve_any(at)
            at = os.path.join(at, name) if chosen else os.path.dirname(real)
        elif name not in ("", "."):
            at = os.path.join(at, name)
    return at


def open_place(path: str) -> tuple[str, int]:
    """The real path and a descriptor of a directory in which no other user can replace this user's entries.

    This applies to all directories above it, too, so the path can be used afterwards. Raises
    PermissionError for other directories, and OSError if it cannot be opened.
    """
    real, chosen = resolve(path)
    if is_off():
        return real, os.open(real, _OPEN)
    if chosen:
        raise _refuse(path, "is reached through a symbolic link of another user")
    at = "/"
    fd = os.open(at, _OPEN)
    try:
        _check(fd, at)
        for name in real.split("/"):
            if name:
                at = os.path.join(at, name)
                below = os.open(name, _OPEN, dir_fd=fd)
                os.close(fd)
                fd = below
                _check(fd, at)
    except BaseException:
        os.close(fd)
        raise
    return real, fd


def is_own(path: str) -> bool:
    """Whether no other user can choose what is at this absolute path, which need not exist.

    This applies to all directories above it and to those of links, too. In contrast to open_place(), a private group may
    write.
    """
    if is_off():
        return True
    at, names, links = "/", path.split("/")[::-1], 0
    try:
        while names:
            name = names.pop()
            if name == "..":
                at = os.path.dirname(at)
            if name in ("", ".", ".."):
                continue
            if not _is_own(at, stat.S_ISVTX):
                return False
            entry = os.path.join(at, name)
            if not os.path.lexists(entry):
                break  # others must not be able to create it
            status = os.lstat(entry)
            if not stat.S_ISLNK(status.st_mode):
                at = entry
                continue
            links += 1
            if links > _MOST_LINKS or not _is_ours(status.st_uid):
                return False
            target = os.readlink(entry)
            at = "/" if target.startswith("/") else at
            names += target.split("/")[::-1]
        return _is_own(at)
    except OSError:
        return False


def _is_own(path: str, enough: int = 0) -> bool:
    """Whether this user or root owns the file, and either no other user can write to it or its mode has the bit `enough`."""
    status = os.lstat(path)
    if not _is_ours(status.st_uid) or status.st_mode & enough:
        return _is_ours(status.st_uid)
    # The bits of the group include those of an access list.
    is_private = not status.st_mode & stat.S_IWGRP or _is_private(status.st_gid) and not _has_access_list(path)
    return is_private and not status.st_mode & stat.S_IWOTH


def _is_ours(uid: int) -> bool:
    return uid in (0, os.geteuid()) or _is_unmapped(uid)


def _is_private(gid: int) -> bool:
    """Whether this user is the only member of the group, which has the same name."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user and not set(group.gr_mem) - {user}


def _has_access_list(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _check(fd: int, path: str) -> None:
    status = os.fstat(fd)
    if not _is_ours(status.st_uid):
        raise _refuse(path, "belongs to another user")
    if status.st_mode & stat.S_ISVTX:
        return  # only the owner of an entry can rename it
    # The bits of the group include those of an access list. A private group is not recognized.
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        everybody = status.st_mode & stat.S_IWOTH
        raise _refuse(path, f"can be written by {'everybody' if everybody else 'its group'}")


def _is_unmapped(uid: int) -> bool:
    """Whether this id stands for all users, including root, that a user namespace does not map."""
    try:
        with open("/proc/sys/kernel/overflowuid", "rb") as file:
            overflow = int(file.read())
        with open("/proc/self/uid_map", "rb") as file:
            line = file.readline().split()
    except (OSError, ValueError):
        return False
    # The first user namespace maps all users in one line. A map can be empty.
    return uid == overflow and (len(line) != 3 or int(line[2]) < 0xFFFFFFFF)


def _refuse(path: str, words: str) -> PermissionError:
    return PermissionError(errno.EPERM, f"the directory {words}", path)
