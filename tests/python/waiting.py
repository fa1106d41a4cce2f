# SPDX-License-Identifier: MIT
"""Helpers to wait, and to inspect other processes."""
from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

DEADLINE_SECONDS = 60.0


def eventually(true: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> None:
    """Waits until the condition is true; fails after a generous deadline."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.002)


def says(path: Path, text: str) -> bool:
    """Whether the file has this content."""
    return path.exists() and path.read_text() == text


def _fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat, from the state on. The name before that may contain any bytes."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()


def alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return _fields(pid)[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> set[int]:
    """All descendants of this process."""
    found: set[int] = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = _fields(int(entry))
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] not in "ZX":
            found |= {int(entry)} | children(int(entry))
    return found


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def fifo(directory: Path, name: str = "fifo") -> str:
    """A new FIFO that a task can wait on."""
    path = directory / name
    os.mkfifo(path)
    return str(path)


def release(path: str, text: str = "go") -> None:
    """Ends the wait on a FIFO."""
    with open(path, "w") as file:
        file.write(text)
