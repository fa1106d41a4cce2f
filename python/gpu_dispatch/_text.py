# SPDX-License-Identifier: MIT
"""Makes text of other users safe to print on a terminal."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """The text with control characters, direction marks and bytes that are not UTF-8 as escapes."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )
