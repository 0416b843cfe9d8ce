"""The words that the form explains: read from the page of the help that lists them."""

from __future__ import annotations

import re
from pathlib import Path

from app.shell.help import DOCS

_ROW = re.compile(r"^\|\s*(?P<words>[^|]+?)\s*\|\s*(?P<sentence>[^|]+?)\s*\|\s*$")
_HEAD = "word"


def read_terms(page: Path = DOCS / "terms.md") -> dict[str, str]:
    """Each term and its sentence; a page that cannot be read explains nothing.

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
