# SPDX-License-Identifier: MIT
"""Computes the possible states of files after a power cut from a log of calls (recorder.c).

Lines of the log:

    write INODE OFFSET HEX      truncate INODE SIZE
    create INODE PATH           mkdir PATH       rename FROM TO       link FROM TO       unlink PATH
    sync PID INODE [DIRECTORY]  synced PID INODE
    mark WORDS…                 added by the test: what has been reported as done

The model of the file system: each block of 4096 bytes that was not synced may be on the disk or not, in any order.
The file's size may be on disk without the data, which then reads as zeros. Sizes and operations on directories reach
the disk in order, but any number of the last ones may be missing, unless the directory was synced after them. Nothing
else is assumed: a rename may be on the disk before the data of the file that it moves.
"""

import collections
import dataclasses
import itertools
import pathlib
import random
from collections.abc import Iterator

BLOCK = 4096
EXHAUSTIVE = 12  # up to this many unsynced operations, every combination is generated
MOST = 2**EXHAUSTIVE * EXHAUSTIVE  # the number of states they can have


@dataclasses.dataclass
class Change:
    """One block's part of a write, or a truncation."""

    inode: str
    offset: int
    data: bytes | None  # None: truncate to `offset`
    at: int  # line of the log
    synced: int | None = None  # line at which it is known to be on the disk


@dataclasses.dataclass
class Entry:
    """A change of a directory."""

    words: list[str]
    folders: set[str]
    at: int
    synced: int | None = None


@dataclasses.dataclass
class Log:
    changes: list[Change]
    entries: list[Entry]
    marks: list[tuple[int, list[str]]]
    lines: int


def split(inode: str, offset: int, data: bytes, at: int) -> Iterator[Change]:
    while data:
        size = BLOCK - offset % BLOCK
        yield Change(inode, offset, data[:size], at)
        offset, data = offset + size, data[size:]


def parse(path: pathlib.Path) -> Log:
    log = Log([], [], [], 0)
    syncs: dict[tuple[str, str], tuple[int, str]] = {}
    lives: collections.Counter[str] = collections.Counter()  # inode numbers are reused

    def life(inode: str) -> str:
        return f"{inode}.{lives[inode]}"

    for at, line in enumerate(path.read_text().splitlines()):
        words = line.split(" ")
        match words[0]:
            case "write":
                log.changes.extend(split(life(words[1]), int(words[2]), bytes.fromhex(words[3]), at))
            case "truncate":
                log.changes.append(Change(life(words[1]), int(words[2]), None, at))
            case "create" | "mkdir" | "rename" | "link" | "unlink":
                if words[0] == "create":
                    lives[words[1]] += 1
                    words[1] = life(words[1])
                paths = words[2:] if words[0] == "create" else words[1:]
                log.entries.append(Entry(words, {str(pathlib.Path(p).parent) for p in paths}, at))
            case "sync":
                syncs[words[1], words[2]] = (at, words[3] if len(words) > 3 else "")
            case "synced":
                begun, folder = syncs.pop((words[1], words[2]))
                finish(log, life(words[2]), folder, begun, at)
            case "mark":
                log.marks.append((at, words[1:]))
        log.lines = at + 1
    return log


def finish(log: Log, inode: str, folder: str, begun: int, at: int) -> None:
    for change in log.changes:
        if change.inode == inode and change.at < begun and change.synced is None:
            change.synced = at
    for entry in log.entries if folder else ():
        if folder in entry.folders and entry.at < begun and entry.synced is None:
            entry.synced = at


@dataclasses.dataclass
class State:
    """Files after the power cut: path → inode, inode → content."""

    names: dict[str, str]
    folders: list[str]
    contents: dict[str, bytes]


def apply_entries(entries: list[Entry]) -> tuple[dict[str, str], list[str]]:
    names: dict[str, str] = {}
    folders = []
    for entry in entries:
        match entry.words:
            case ["create", inode, path]:
                names[path] = inode
            case ["mkdir", path]:
                folders.append(path)
            case ["rename", old, new] if old in names:
                names[new] = names.pop(old)
            case ["link", old, new] if old in names:
                names[new] = names[old]
            case ["unlink", path]:
                names.pop(path, None)
    return names, folders


def apply_changes(changes: list[Change], kept: set[int], sized: int) -> dict[str, bytes]:
    """`kept`: which of the changes are on the disk; before line `sized`, sizes are on disk even if data is not."""
    contents: dict[str, bytearray] = {}
    for i, change in enumerate(changes):
        content = contents.setdefault(change.inode, bytearray())
        if i in kept and change.data is None:
            del content[change.offset :]
        elif change.data is not None and (i in kept or change.at < sized):
            end = change.offset + len(change.data)
            content.extend(bytes(max(0, end - len(content))))
            if i in kept:
                content[change.offset : end] = change.data
    return {inode: bytes(content) for inode, content in contents.items()}


def states(log: Log, cut: int, chance: random.Random, at_most: int) -> Iterator[State]:
    """States after a power cut after line `cut` of the log: all of them, or a random selection of `at_most`."""
    changes = [c for c in log.changes if c.at <= cut]
    entries = [e for e in log.entries if e.at <= cut]
    fixed = {i for i, c in enumerate(changes) if c.synced is not None and c.synced <= cut}
    loose = [i for i in range(len(changes)) if i not in fixed]
    first = max((i + 1 for i, e in enumerate(entries) if e.synced is not None and e.synced <= cut), default=0)
    lengths = range(first, len(entries) + 1)

    def make(kept: set[int], length: int, sized: bool) -> State:
        names, folders = apply_entries(entries[:length])
        # Sizes are metadata like directories: none is on disk without the operations before it.
        known = entries[length].at if length < len(entries) else cut + 1
        return State(names, folders, apply_changes(changes, fixed | kept, known if sized else 0))

    count = 2 ** len(loose) * len(lengths) * 2
    if len(loose) + len(lengths) - 1 <= EXHAUSTIVE and count <= at_most:
        for bits in itertools.product((False, True), repeat=len(loose)):
            kept = {i for i, bit in zip(loose, bits) if bit}
            for length, sized in itertools.product(lengths, (False, True)):
                yield make(kept, length, sized)
        return
    for _ in range(min(count, at_most, 1000)):
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        kept = {i for i in loose if chance.random() < share}
        yield make(kept, chance.choice(lengths), chance.random() < 0.5)
