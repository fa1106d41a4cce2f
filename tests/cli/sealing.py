# SPDX-License-Identifier: MIT
"""Journal lines as journal_append() writes them, with a sequence number and a checksum."""

import json


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 if byte & 1 else byte >> 1
        table.append(byte)
    return table


TABLE = _table()
QUEUE = "0123456789abcdef0123456789abcdef"
HEADER = {"event": "journal", "version": 2, "queue": QUEUE, "generation": 1, "time": "2026-11-15T21:42:19.599Z"}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def seal(line, number):
    """One line, from an object or from bytes."""
    if not isinstance(line, bytes):
        line = json.dumps(line, separators=(",", ":")).encode()
    body = line.strip()[:-1] + b',"n":%d' % number
    return body + b',"c":"%08x"}\n' % crc32c(body)


def is_sealed(line):
    body, mark, check = line.rstrip(b"\n").rpartition(b',"c":"')
    return bool(mark) and check == b'%08x"}' % crc32c(body)


def sealed(*lines, first=1):
    """The lines of a file, numbered."""
    return b"".join(seal(line, number) for number, line in enumerate(lines, first))


def journal(*lines):
    """A whole file."""
    return sealed(HEADER, *lines)


def again(events):
    """Seals events again that were read and may have been changed."""
    return sealed(*({key: value for key, value in event.items() if key not in ("n", "c")} for event in events))


def last_number(path):
    return max((json.loads(line)["n"] for line in path.read_bytes().splitlines() if is_sealed(line)), default=0)


def append(path, *lines):
    """Appends lines like a process that died before it wrote its counters."""
    with open(path, "ab") as file:
        file.write(sealed(*lines, first=last_number(path) + 1))
