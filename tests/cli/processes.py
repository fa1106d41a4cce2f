# SPDX-License-Identifier: MIT
"""Helpers to start, find, watch and end processes."""
import contextlib
import ctypes
import os
import pathlib
import platform
import re
import signal
import time


def until(condition, limit_s, describe):
    """Polls for a condition that no descriptor reports, and returns its value.

    On timeout, the test fails with the message that describe() returns."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"timed out waiting for {describe()}")


def with_variable(name, value):
    """PIDs of all other processes with this variable in their environment; zombies have no environment."""
    mark = f"{name}={value}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def end_started(started):
    """Kills the subprocesses that are still running, and reaps all."""
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def name_of(pid):
    """The name of the process, or None."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


def naps(pid):
    """How many times a process went to sleep; the number grows when the process does something."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M).group(1))


def alive(pid):
    """Whether a process exists and is not a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def ignore_signals():
    """For a new process: ignores all signals, including 32 and 33, which the C library reserves."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    number = {"x86_64": 13, "aarch64": 134}.get(platform.machine())
    action = (ctypes.c_ulong * 5)(1)  # SIG_IGN
    for one in (32, 33) if number else ():
        assert ctypes.CDLL(None).syscall(number, one, action, None, ctypes.c_ulong(8)) == 0


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()[1])


def children(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if parent(int(entry.name)) == pid:
                    found.append(int(entry.name))
    return sorted(found)


def descendants(pid):
    """All its descendants, from the top down."""
    found = children(pid)
    for child in list(found):
        found += descendants(child)
    return found
