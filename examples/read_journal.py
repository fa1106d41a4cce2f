#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads a gpuq journal, checks its lines, and prints the last event of each job.

    read_journal.py [jobs.jsonl]

docs/journal.md describes the format. Exits with 1 if a line is damaged or missing.
"""
import json
import sys

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ 0x82F63B78 if byte & 1 else byte >> 1
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def read(path):
    """Returns the events in the order of their numbers, the number of bad lines, and the missing numbers."""
    events, bad = {}, 0
    with open(path, "rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break  # still being written, or truncated
            body, mark, check = line.rstrip(b"\n").rpartition(b',"c":"')
            if mark and check == b'%08x"}' % crc32c(body):
                event = json.loads(line)
                events.setdefault(event["n"], event)  # a repeated number is ignored
            else:
                bad += 1
    permitted = {n for event in events.values() if event["event"] == "loss" for n in range(event["from"], event["to"] + 1)}
    missing = [n for n in range(1, max(events, default=0) + 1) if n not in events and n not in permitted]
    return [events[n] for n in sorted(events)], bad, missing


def main():
    events, bad, missing = read(sys.argv[1] if len(sys.argv) > 1 else "jobs.jsonl")
    last = {event["id"]: event for event in events if "id" in event}
    for number, event in sorted(last.items()):
        print(number, event["event"], event.get("status", ""))
    if bad or missing:
        print(f"{bad} bad lines; missing: {missing}", file=sys.stderr)
    return 1 if bad or missing else 0


if __name__ == "__main__":
    sys.exit(main())
