# SPDX-License-Identifier: MIT
"""Reads launch.jsonl, to which ``gpuq launch`` appends a line for each file that ends."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["RECORD_NAME", "Record", "name_of"]

RECORD_NAME = "launch.jsonl"


class Record:
    """Reads launch.jsonl as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._begin = os.stat(path).st_size
        except FileNotFoundError:
            self._begin = 0
        self._offset = self._begin

    def read(self) -> Iterator[dict[str, Any]]:
        """The lines since the last call, without a last one that is still being written."""
        try:
            with open(self._path, "rb") as file:
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
                    yield event

    def earlier(self) -> dict[str, dict[str, Any]]:
        """The last event of each file before this run."""
        events: dict[str, dict[str, Any]] = {}
        with open(self._path, "rb") as file:
            for line in file.read(self._begin).splitlines():
                with contextlib.suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict) and "file" in event:
                        events[name_of(event, "file")] = event
        return events


def name_of(event: dict[str, Any], key: str) -> str:
    """A name that is not UTF-8 comes in base64, too."""
    if f"{key}_b64" in event:
        return os.fsdecode(base64.b64decode(event[f"{key}_b64"]))
    return str(event[key])
