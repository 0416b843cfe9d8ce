"""Explanations of the terms in the form, read from the help page that lists them."""

from __future__ import annotations

import re
from pathlib import Path

from app.shell.help import DOCS

_ROW = re.compile(r"^\|\s*(?P<words>[^|]+?)\s*\|\s*(?P<sentence>[^|]+?)\s*\|\s*$")
_HEAD = "word"


def read_terms(page: Path = DOCS / "terms.md") -> dict[str, str]:
    """Return each term and its sentence; empty if the page cannot be read.

    ``| process, rank | … |`` explains both words.
    """
    try:
        lines = page.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    found: dict[str, str] = {}
    for line in lines:
        row = _ROW.match(line)
        if row is None or row["words"] == _HEAD or set(row["words"]) <= {"-", ":"}:
            continue
        sentence = row["sentence"].replace("`", "")
        found.update(dict.fromkeys(map(str.strip, row["words"].split(",")), sentence))
    return found
