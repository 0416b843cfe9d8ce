"""Output of results: one JSON document, or lines and tables for users.

Names, notes and messages were written by others, so that control characters in them are never sent
to the terminal.
"""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from backend.records.base import number_format
from backend.records.base.schema import json_value
from backend.records.base.terminal_text import terminal_safe
from backend.records.base.timestamps import instant

OK, FAILED = 0, 1
"""Exit codes; argparse uses 2."""
size_text = number_format.size


class Note(str):
    """A line for standard error: it is not a result."""


class RawText(str):
    """Text that is written as it is."""


class Table(NamedTuple):
    """Rows below a head; without rows, ``empty_hint`` is a note."""

    head: Sequence[str]
    rows: Iterable[Sequence[str]]
    empty_hint: str = ""


class Properties(NamedTuple):
    """Names and values in two columns; empty values are left out."""

    pairs: Iterable[tuple[str, str]]


Part = str | Table | Properties | Iterable["Part"]
"""A piece of a result as text: a ``str`` is a line."""


class Answer:
    """The result of a command, which the printer shows as JSON or as text.

    Attributes:
        data: What JSON shows, or a function that returns it.
        parts: What text shows, in this order; iterators are read only if it is shown.
        has_failed: The exit code is `FAILED`.
    """

    def __init__(self, data: object, *parts: Part, has_failed: bool = False) -> None:
        self.data = data
        self.parts = parts
        self.has_failed = has_failed


def print_json(value: Any) -> None:
    document = json_value(value, documents=True)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    # A name that is not UTF-8 has lone surrogates, which are escapes of JSON, too.
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def toml_answer(raw: Mapping[str, Any]) -> Answer:
    """Return settings, as the file that users edit."""
    import tomli_w

    return Answer(raw, RawText(tomli_w.dumps(raw)))


def print_part(part: Part) -> None:
    if isinstance(part, RawText):
        sys.stdout.write(part)
    elif isinstance(part, Note):
        print_note(part)
    elif isinstance(part, str):
        print_line(part)
    elif isinstance(part, Table):
        print_table(*part)
    elif isinstance(part, Properties):
        print_properties(part.pairs)
    else:
        for subpart in part:
            print_part(subpart)


def print_line(text: str = "") -> None:
    sys.stdout.write(terminal_safe(text) + "\n")


def print_note(text: str) -> None:
    """Print to standard error what is not a result."""
    sys.stderr.write(terminal_safe(text) + "\n")


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], empty_hint: str) -> None:
    lines = [[terminal_safe(cell).replace("\n", " ") for cell in row] for row in rows]
    if not lines:
        print_note(empty_hint)
        return
    widths = [max(_width(row[k]) for row in [list(head), *lines]) for k in range(len(head))]
    for row in [list(head), *lines]:
        cells = [
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        print_line("  ".join(cells).rstrip())


def print_properties(properties: Iterable[tuple[str, str]]) -> None:
    pairs = [(name, value) for name, value in properties if value]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        first_line, *further_lines = value.split("\n")
        print_line(f"{name:<{width}}  {first_line}")
        for line in further_lines:
            print_line(" " * (width + 2) + line)


def duration_text(seconds: float | None) -> str:
    return (
        "" if seconds is None else number_format.duration(seconds).replace(number_format.GAP, " ")
    )


def number_text(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.4g}"


def _width(text: str) -> int:
    return sum(
        0
        if unicodedata.combining(c) or unicodedata.category(c) == "Cf"
        else 2
        if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )


def local_time_text(stamp: str) -> str:
    """Format a file's timestamp in the user's own time zone."""
    time = instant(stamp)
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S") if time is not None else stamp
