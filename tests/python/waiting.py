# SPDX-License-Identifier: MIT
"""What tests wait with, and what they look at in other processes."""
from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

DEADLINE_SECONDS = 60.0


def eventually(true: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> None:
    """Waits until it is true; fails after a generous deadline."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "this has not happened"
        time.sleep(0.002)


def says(path: Path, text: str) -> bool:
    """Whether the file has this content."""
    return path.exists() and path.read_text() == text


def alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def children(pid: int) -> set[int]:
    """All processes below this one."""
    found: set[int] = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] not in "ZX":
            found |= {int(entry)} | children(int(entry))
    return found


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))
