"""ANSI colours in program output, as styles of plain text.

A log is never used as markup: escape sequences become colour roles of the theme or are removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from backend.records.base.terminal_text import SEQUENCE
from backend.records.base.terminal_text import strip_codes as strip_codes
from widgets.common.theme import ColorRole

TAB_WIDTH = 8

_BASIC_ROLES: tuple[ColorRole, ...] = (
    "text3",
    "bad",
    "good",
    "warn",
    "live",
    "rest",
    "live",
    "text",
)
"""Black, red, green, yellow, blue, magenta, cyan, white, as colour roles of the theme."""


@dataclass(frozen=True)
class Style:
    color_role: ColorRole | None = None
    bold: bool = False
    italic: bool = False
    underlined: bool = False
    dim: bool = False


PLAIN_STYLE = Style()


@dataclass(frozen=True)
class StyledText:
    """Text of one style; ``start`` counts characters of the plain line."""

    start: int
    text: str
    style: Style = PLAIN_STYLE


def split_styles(line: str) -> tuple[StyledText, ...]:
    """Split a line of a log where its style changes; tabs become spaces."""
    if "\x1b" not in line:
        text = _printable(line, 0)
        return (StyledText(0, text),) if text else ()
    texts: list[StyledText] = []
    style = PLAIN_STYLE
    offset = length = 0
    for match in SEQUENCE.finditer(line):
        length += _add_text(texts, line[offset : match.start()], length, style)
        offset = match.end()
        if match["end"] == "m":
            style = _apply_code(style, match["code"])
    _add_text(texts, line[offset:], length, style)
    return tuple(texts)


def _add_text(texts: list[StyledText], raw_text: str, start: int, style: Style) -> int:
    text = _printable(raw_text, start)
    if text:
        texts.append(StyledText(start, text, style))
    return len(text)


def _printable(raw_text: str, start: int) -> str:
    if raw_text.isprintable():
        return raw_text
    printable = ""
    for character in raw_text:
        if character == "\t":
            printable += " " * (TAB_WIDTH - (start + len(printable)) % TAB_WIDTH)
        elif character.isprintable():
            printable += character
    return printable


def _apply_code(style: Style, code: str) -> Style:
    numbers = [int(part) if part.isdecimal() else 0 for part in re.split("[;:]", code)]
    index = 0
    while index < len(numbers):
        number = numbers[index]
        index += 1
        if number in (38, 48) and index < len(numbers):
            length = {5: 2, 2: 4}.get(numbers[index], 1)
            if number == 38:
                style = replace(style, color_role=_color_role(numbers[index : index + length]))
            index += length
        else:
            style = _apply_number(style, number)
    return style


def _apply_number(style: Style, number: int) -> Style:
    if number == 0:
        return PLAIN_STYLE
    if 30 <= number <= 37 or 90 <= number <= 97:
        return replace(style, color_role=_BASIC_ROLES[number % 10])
    if number == 39:
        return replace(style, color_role=None)
    if number in (1, 2):
        return replace(style, bold=number == 1, dim=number == 2)
    if number == 22:
        return replace(style, bold=False, dim=False)
    if number in (3, 23):
        return replace(style, italic=number == 3)
    if number in (4, 24):
        return replace(style, underlined=number == 4)
    return style


def _color_role(numbers: list[int]) -> ColorRole | None:
    """Return the colour role nearest to an indexed colour of 256, or to an RGB colour."""
    if numbers[0] == 5 and len(numbers) == 2:
        index = min(numbers[1], 255)
        if index < 16:
            return _BASIC_ROLES[index % 8]
        if index >= 232:
            return "text3" if index < 244 else "text2"
        index -= 16
        red, green, blue = index // 36, index // 6 % 6, index % 6
    elif numbers[0] == 2 and len(numbers) == 4:
        red, green, blue = numbers[1:]
    else:
        return None
    max_part = max(red, green, blue)
    if max_part - min(red, green, blue) <= max_part * 0.2:
        return "text2"
    is_bright = tuple(part > 0.6 * max_part for part in (red, green, blue))
    return _BASIC_ROLES[is_bright[0] + 2 * is_bright[1] + 4 * is_bright[2]]
