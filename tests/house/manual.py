# SPDX-License-Identifier: MIT
"""Runs documents as programs: the commands that they tell the reader to type.

`sh` blocks of a document are run. A comment before a block changes that:

    <!-- file: train.py -->          the block is the content of this file
    <!-- not run: needs root -->     the block is not run, with the reason
    <!-- exit: 0 or 1 -->            the last command may also exit with 1
"""
import dataclasses
import pathlib
import re

COMMENT = re.compile(r"^<!-- (file|not run|exit): (.+) -->$")


@dataclasses.dataclass
class Block:
    language: str
    text: str
    line: int  # of its first line, from 1
    kind: str = ""  # of the comment before it
    note: str = ""


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document."""
    found: list[Block] = []
    comment = ("", "")
    inside = None
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if inside is not None:
            if line.rstrip() == "```":
                found.append(inside)
                inside = None
            else:
                inside.text += line
        elif line.startswith("```"):
            inside = Block(line[3:].strip(), "", number + 1, *comment)
            comment = ("", "")
        elif match := COMMENT.match(line.rstrip()):
            comment = (match[1], match[2])
        elif line.strip():
            comment = ("", "")
    assert inside is None, f"the block at line {inside.line if inside else 0} has no end"
    return found


def script(document: pathlib.Path) -> str:
    """A shell script of all blocks in order; exports persist from block to block."""
    parts = ["set -e\n"]
    for block in blocks(document.read_text()):
        place = f"{document.name}:{block.line}"
        if block.kind == "file":
            assert "END-OF-BLOCK" not in block.text
            parts.append(f"cat >{block.note} <<'END-OF-BLOCK'\n{block.text}END-OF-BLOCK\n")
        elif block.language == "sh" and block.kind != "not run":
            parts.append(f"echo '@@ {place}' >&2\n")
            # Only the last command may fail: set -e is off for commands before ||.
            lines = block.text.rstrip("\n").split("\n")
            if block.kind == "exit":
                assert block.note == "0 or 1", place
                lines[-1] += " || [ $? -eq 1 ]"
            parts.append("\n".join(lines) + "\n")
    return "".join(parts)
