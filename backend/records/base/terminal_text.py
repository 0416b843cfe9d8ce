"""Text of others for a terminal or a page: progress bars, colours and control characters."""

from __future__ import annotations

import re
from typing import AnyStr
from unicodedata import category

SEQUENCE = re.compile(
    r"\x1b(?:\[(?P<code>[0-?]*)[ -/]*(?P<end>[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])"
)


def last_state(line: AnyStr) -> AnyStr:
    """Return what a line shows in the end: the text after its last carriage return."""
    carriage_return = b"\r" if isinstance(line, bytes) else "\r"
    return line.rstrip(carriage_return).rpartition(carriage_return)[2]


def strip_codes(text: str) -> str:
    """Remove colour codes, control characters and earlier states of progress bars."""
    return "\n".join(map(_strip_line, text.split("\n")))


def _strip_line(line: str) -> str:
    if line.isprintable():
        return line
    text = SEQUENCE.sub("", last_state(line))
    return "".join(c for c in text if c == "\t" or c.isprintable() or category(c) == "Zs")


def terminal_safe(text: str) -> str:
    """Make ``text`` safe to show: it cannot move a cursor, or hide or reverse what follows."""
    return "".join(
        "?" if category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t\u200d" else c for c in text
    )
