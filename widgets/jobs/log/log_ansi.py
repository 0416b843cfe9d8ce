"""ANSI colours in program output, as styles of plain text.

A log is never used as markup: escape sequences become tones of the theme or are removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from backend.records.base.terminal_text import SEQUENCE
from backend.records.base.terminal_text import plain as plain
from widgets.common.theme import Tone

TAB = 8

_BASIC: tuple[Tone, ...] = ("text3", "bad", "good", "warn", "live", "rest", "live", "text")
"""Black, red, green, yellow, blue, magenta, cyan, white, as tones of this theme."""


@dataclass(frozen=True)
class Style:
    tone: Tone | None = None
    bold: bool = False
    italic: bool = False
    underlined: bool = False
    dim: bool = False


PLAIN = Style()


@dataclass(frozen=True)
class Piece:
    """Text of one style; ``begin`` counts characters of the plain line."""

    begin: int
    text: str
    style: Style = PLAIN


def pieces(line: str) -> tuple[Piece, ...]:
    """Split a line of a log where its style changes; tabs become spaces."""
    if "\x1b" not in line:
        text = _shown(line, 0)
        return (Piece(0, text),) if text else ()
    found: list[Piece] = []
    style = PLAIN
    place = length = 0
    for match in SEQUENCE.finditer(line):
        length += _take(found, line[place : match.start()], length, style)
        place = match.end()
        if match["end"] == "m":
            style = _changed(style, match["code"])
    _take(found, line[place:], length, style)
    return tuple(found)


def _take(found: list[Piece], raw: str, begin: int, style: Style) -> int:
    text = _shown(raw, begin)
    if text:
        found.append(Piece(begin, text, style))
    return len(text)


def _shown(raw: str, begin: int) -> str:
    if raw.isprintable():
        return raw
    shown = ""
    for character in raw:
        if character == "\t":
            shown += " " * (TAB - (begin + len(shown)) % TAB)
        elif character.isprintable():
            shown += character
    return shown


def _changed(style: Style, code: str) -> Style:
    numbers = [int(part) if part.isdecimal() else 0 for part in re.split("[;:]", code)]
    index = 0
    while index < len(numbers):
        number = numbers[index]
        index += 1
        if number in (38, 48) and index < len(numbers):
            length = {5: 2, 2: 4}.get(numbers[index], 1)
            if number == 38:
                style = replace(style, tone=_tone(numbers[index : index + length]))
            index += length
        else:
            style = _simple(style, number)
    return style


def _simple(style: Style, number: int) -> Style:
    if number == 0:
        return PLAIN
    if 30 <= number <= 37 or 90 <= number <= 97:
        return replace(style, tone=_BASIC[number % 10])
    if number == 39:
        return replace(style, tone=None)
    if number in (1, 2):
        return replace(style, bold=number == 1, dim=number == 2)
    if number == 22:
        return replace(style, bold=False, dim=False)
    if number in (3, 23):
        return replace(style, italic=number == 3)
    if number in (4, 24):
        return replace(style, underlined=number == 4)
    return style


def _tone(numbers: list[int]) -> Tone | None:
    """Return the tone nearest to one of 256 colours, or to an RGB colour."""
    if numbers[0] == 5 and len(numbers) == 2:
        index = min(numbers[1], 255)
        if index < 16:
            return _BASIC[index % 8]
        if index >= 232:
            return "text3" if index < 244 else "text2"
        index -= 16
        red, green, blue = index // 36, index // 6 % 6, index % 6
    elif numbers[0] == 2 and len(numbers) == 4:
        red, green, blue = numbers[1:]
    else:
        return None
    most = max(red, green, blue)
    if most - min(red, green, blue) <= most * 0.2:
        return "text2"
    on = tuple(part > 0.6 * most for part in (red, green, blue))
    return _BASIC[on[0] + 2 * on[1] + 4 * on[2]]
