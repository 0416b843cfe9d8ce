"""Log text as a terminal shows it: the last state of a progress bar, without colours."""

from __future__ import annotations

import re
from typing import AnyStr
from unicodedata import category

SEQUENCE = re.compile(
    r"\x1b(?:\[(?P<code>[0-?]*)[ -/]*(?P<end>[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])"
)


def last_state(line: AnyStr) -> AnyStr:
    """Return what a line shows in the end: the text after its last carriage return."""
    back = b"\r" if isinstance(line, bytes) else "\r"
    return line.rstrip(back).rpartition(back)[2]


def strip_codes(text: str) -> str:
    """Remove colour codes, control characters and earlier states of progress bars."""
    return "\n".join(map(_plain, text.split("\n")))


def _plain(line: str) -> str:
    if line.isprintable():
        return line
    shown = SEQUENCE.sub("", last_state(line))
    return "".join(c for c in shown if c == "\t" or c.isprintable() or category(c) == "Zs")
