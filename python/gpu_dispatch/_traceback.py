# SPDX-License-Identifier: MIT
"""Formats exceptions like the module traceback, but opens only files that can be source files.

The names of files in a traceback can be those of files that do not exist, such as the cells of a notebook. Another user
may create such a file: a pipe would block the process forever, and a link could lead to a private file of this user.
"""
from __future__ import annotations

import io
import linecache
import os
import re
import stat
import sys
import traceback
from types import TracebackType
from typing import Any

__all__ = ["capture", "exception_text", "print_ignored"]

MOST_SOURCE = 16 << 20
"""The size limit of a source file, in bytes."""

MOST_LINKS = 40  # as in the kernel

_DECLARATION = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # as in tokenize
_BLANK = re.compile(rb"[ \t\f]*(?:[#\r\n]|$)")
_BOM = b"\xef\xbb\xbf"

# Others can be slow, import modules, or not be encodings of text. So tokenize.detect_encoding() is not used, either.
_ENCODINGS = {
    **dict.fromkeys(("utf8", "utf-8", "utf-8-sig", "utf-8-unix"), "utf-8"),
    **dict.fromkeys(("ascii", "us-ascii"), "ascii"),
    **dict.fromkeys(("latin1", "latin-1", "iso8859-1", "iso-8859-1", "iso-latin-1", "iso-latin-1-unix"), "latin-1"),
    **dict.fromkeys(("cp1252", "windows-1252"), "cp1252"),
}

_unreadable: dict[str, tuple[int, float]] = {}
"""The sizes and times of files that could not be decoded."""


def capture(error: BaseException, trace: TracebackType | None = None) -> traceback.TracebackException:
    """The exception and those that led to it, ready to be formatted. The traceback is its own unless another is given."""
    trace = error.__traceback__ if trace is None else trace
    captured = traceback.TracebackException(type(error), error, trace, lookup_lines=False, compact=True)
    sources: dict[str, list[str]] = {}
    rest = [captured]
    while rest:
        one = rest.pop()
        one.stack = _with_lines(one.stack, sources)
        rest += [other for other in (one.__cause__, one.__context__) if other is not None]
        rest += getattr(one, "exceptions", None) or []
    return captured


def exception_text(error: BaseException, trace: TracebackType | None = None) -> str:
    """The text of capture(), which ends with a newline."""
    return "".join(capture(error, trace).format())


def print_ignored(error: BaseException) -> None:
    """Prints an exception of a callback that is not raised, because another one is."""
    try:
        text = exception_text(error)
    except Exception:
        text = "".join(traceback.format_exception_only(type(error), error))
    if sys.stderr is not None:
        sys.stderr.write(f"Exception ignored in a callback of gpu_dispatch:\n{text}")


def _with_lines(stack: traceback.StackSummary, sources: dict[str, list[str]]) -> traceback.StackSummary:
    """The frames with their lines, but without columns.

    To mark columns, traceback parses the expression. Python 3.12 and newer then open a file named "<unknown>".
    """
    frames = []
    for frame in stack:
        if frame.filename not in sources:
            sources[frame.filename] = _source(frame.filename)
        lines, number = sources[frame.filename], frame.lineno
        line = lines[number - 1] if number and number <= len(lines) else ""
        frames.append(traceback.FrameSummary(frame.filename, number, frame.name, lookup_line=False, line=line))
    return traceback.StackSummary.from_list(frames)


def _source(filename: str) -> list[str]:
    """As linecache.getlines(). The lines are also put into the cache of linecache."""
    if not filename or filename.startswith("<") and filename.endswith(">"):
        return []
    entry: Any = linecache.cache.get(filename, ())  # one element: not loaded; otherwise size, time, lines and path
    if len(entry) > 1 and entry[1] is None:
        return list(entry[2])  # source that exists only in memory
    places = [filename]
    if not os.path.isabs(filename):
        places += [os.path.join(place, filename) for place in sys.path if isinstance(place, str)]
    for place in places:
        try:
            return _read(filename, place)
        except (FileNotFoundError, NotADirectoryError):
            if len(entry) == 1:
                return _ask_loader(entry[0])
        except (OSError, ValueError):  # ValueError: a name that no file can have
            break
    return []


def _ask_loader(get_source: object) -> list[str]:
    """The source of a module that was not imported from a file, such as a member of an archive."""
    assert callable(get_source)
    try:
        return [f"{line}\n" for line in (get_source() or "").splitlines()]
    except (ImportError, LookupError, OSError, SyntaxError, ValueError):
        return []


def _read(filename: str, path: str) -> list[str]:
    """Reads a source file, unless the cache has it. Raises OSError if it does not exist or cannot be opened."""
    with os.fdopen(_open(path), "rb") as file:
        status = os.fstat(file.fileno())
        entry: Any = linecache.cache.get(filename, ())
        version = (status.st_size, status.st_mtime)
        if entry[:2] == version:
            return list(entry[2])
        if _unreadable.get(filename) == version:
            return []
        data = file.read(MOST_SOURCE)
    try:
        lines = io.TextIOWrapper(io.BytesIO(data), _encoding(data)).readlines()
    except (LookupError, ValueError):
        _unreadable[filename] = version
        return []
    linecache.cache[filename] = (*version, lines, path)
    return lines


def _encoding(data: bytes) -> str:
    """The encoding that the source declares in its first two lines. Raises LookupError if it is not a common one."""
    start = io.BytesIO(data.removeprefix(_BOM))
    line = start.readline()
    declaration = _DECLARATION.match(line)
    if declaration is None and _BLANK.match(line):
        declaration = _DECLARATION.match(start.readline())
    name = declaration[1].decode("ascii").lower().replace("_", "-") if declaration else "utf-8"
    encoding = _ENCODINGS[name]
    if not data.startswith(_BOM):
        return encoding
    if encoding != "utf-8":
        raise LookupError(name)
    return "utf-8-sig"


def _open(path: str) -> int:
    """Opens a regular file, and follows links of this user and of root if they are the last part of the path."""
    for _ in range(MOST_LINKS):
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            status = os.fstat(fd)
            if stat.S_ISLNK(status.st_mode) and status.st_uid in (0, os.geteuid()):
                path = os.path.join(os.path.dirname(path), os.readlink("", dir_fd=fd))
                continue
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_SOURCE:
                break
            return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK)
        finally:
            os.close(fd)
    raise PermissionError(f"not a source file: {path!r}")
