"""The values of a field as users type them: one, and for a sweep a list or a range.

Users type the same in the window and on the command line: ``0.01, 0.03, 0.1`` or
``1e-4..1e-1:4:log`` (from, to, how many, and ``log`` for equal factors instead of equal steps).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tomllib

from backend.base.log import suppress
from backend.records.base.validation import sanitize
from backend.records.jobs.arguments import argument_name
from backend.records.jobs.settings import SETTINGS

LINEAR, LOG = "linear", "log"
SCALES = (LINEAR, LOG)
MAX_VALUES = 200
FORMS = "0.01, 0.03, 0.1 or 0.01..0.1:3"
ARGUMENT = "argument"
"""The kind of an argument of a script, whose values stay as typed: only the script knows it."""
_RANGES = ("whole", "number", ARGUMENT)
LISTS = ("pair", "texts", "wholes")
"""Kinds of a field whose value has commas; semicolons separate several."""
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NUMBER = r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(
    rf"^\s*({_NUMBER})\s*(?:\.\.|–)\s*({_NUMBER})\s*(?::\s*(\d+)\s*)?(?::\s*(\w+)\s*)?$"
)
_RANGE_LIKE = re.compile(r"[^/\\]+(?:\.\.|–)[^/\\]+")
"""A text that was meant as a range; one with a slash is a path."""
_LIKE_RANGE_OF_NUMBERS = re.compile(rf"{_NUMBER}(?:\s*(?:[:|/-]|to)\s*|\s+){_NUMBER}([\s:].*)?")
"""A range or list of another program, such as 1e-4:1e-1:4 or 16-64."""
_COMMA = re.compile(r"(?<![\d.eE])(?<![eE][-+])(\d+),(?=(\d+)(?![\d.]))")
"""A comma without a space between two whole numbers: between values, or inside of a number."""
_THOUSANDS = re.compile(r"[-+]?\d{1,3}\.\d{3}")
"""Form of a whole number in some countries: 1.000 is a thousand."""
_LIST = re.compile(r"""["']|\[\s*(?:["']|\])|\[.*,.*\]$|.*["']\s*,?\s*\]$""", re.DOTALL)
"""A text that begins or ends as a list in a job file."""
_LIST_EXAMPLES = {"pair": "[0.9, 0.99]", "number": "[0.1, 0.2]", "flag": "[true, false]"}
_LIST_EXAMPLES |= dict.fromkeys(("wholes", "whole"), "[1, 2]")
_ENOUGH_DIGITS = (3, 4, 6, 9, 12, 17)
"""Digits of a value of a range: as few as keep the values distinct."""


@dataclass(frozen=True)
class ValueRange:
    """A range from ``low`` to ``high``, both included. ``steps`` 0: only for random draws.

    ``is_whole``: an argument of a script that has only whole numbers; a setting's kind says it.
    """

    low: float
    high: float
    steps: int = 0
    scale: str = LINEAR
    is_whole: bool = False

    @property
    def end_texts(self) -> tuple[str, str]:
        """Return both ends, so that `parse_axis` reads them as whole numbers, or as others."""
        if self.is_whole:
            return str(int(self.low)), str(int(self.high))
        return repr(float(self.low)), repr(float(self.high))


@dataclass(frozen=True)
class Axis:
    """A field of the job file (``optimizer.lr``) and its values, in order."""

    path: str
    values: tuple[Any, ...] = ()
    span: ValueRange | None = None

    @property
    def is_whole(self) -> bool:
        return field_kind(self.path) == "whole" or (self.span is not None and self.span.is_whole)

    @property
    def is_drawn_only(self) -> bool:
        """True for a range without steps, which is not part of a grid."""
        return self.span is not None and not self.span.steps

    @property
    def has_one_value(self) -> bool:
        ends = () if self.error_message() else self.ends()
        return bool(ends) and ends[0] == ends[-1]

    def points(self) -> tuple[Any, ...]:
        """Return the values of a grid; empty for a range without steps."""
        if self.span is None:
            return self.values
        return _range_values(self.span, self.is_whole)

    def ends(self) -> tuple[Any, ...]:
        """Return the values between which all others are: the ends of a range, or all values."""
        if not self.is_drawn_only or self.span is None:
            return self.points()
        if self.is_whole:
            return math.ceil(self.span.low), math.floor(self.span.high)
        return self.span.low, self.span.high

    def value_at(self, share: float) -> Any:
        """Return the value at a share from 0 to below 1 of the axis, for random draws."""
        if self.span is None:
            return self.values[int(share * len(self.values))]
        if self.is_whole:
            # Extended by half a step at both ends, otherwise the ends are drawn half as often.
            wide_span = ValueRange(self.span.low - 0.5, self.span.high + 0.5)
            drawn_span = wide_span if self.span.scale == LINEAR else self.span
            value = round(_value_at_share(drawn_span, share))
            return int(min(max(value, math.ceil(self.span.low)), math.floor(self.span.high)))
        number = float(f"{_value_at_share(self.span, share):.4g}")
        return min(max(number, self.span.low), self.span.high)

    def error_message(self) -> str:
        """Return why the axis has no values, as one sentence, or ""."""
        span = self.span
        if span is None:
            return _list_error(self.values)
        if not has_ranges(self.path):
            return "cannot have a range; give its values one by one."
        if not (math.isfinite(span.low) and math.isfinite(span.high)):
            return "needs two numbers as the ends of its range."
        if span.low >= span.high:
            return f"goes from {span.low:g} to {span.high:g}; the first must be the lower one."
        if span.scale not in SCALES:
            return f"has the scale “{sanitize(span.scale)}”; it must be linear or log."
        if span.scale == LOG and span.low <= 0:
            return f"is logarithmic and begins at {span.low:g}; it must begin above 0."
        if span.steps and not 2 <= span.steps <= MAX_VALUES:
            return f"has {span.steps} steps; it must have 2 to {MAX_VALUES}."
        if self.is_whole and math.ceil(span.low) > math.floor(span.high):
            return f"contains no whole number between {span.low:g} and {span.high:g}."
        whole_count = math.floor(span.high) - math.ceil(span.low) + 1
        if self.is_whole and span.steps > whole_count:
            return f"has {span.steps} steps, and only {whole_count} whole numbers for them."
        return ""


def field_kind(path: str) -> str:
    """Return the kind of a setting (`Setting.kind`), or `ARGUMENT`; an unknown one is text."""
    if argument_name(path):
        return ARGUMENT
    return SETTINGS[path].kind if path in SETTINGS else "text"


def has_ranges(path: str) -> bool:
    """Return whether several values of a field may be given as a range."""
    return field_kind(path) in _RANGES


def parse_axis(path: str, text: str, base_value: object = None) -> Axis:
    """Parse the axis that a user typed.

    Args:
        base_value: The value of the field in the base job, None if it is not known. It shows
            whether an argument of a script is a number, and a whole one.

    Raises:
        ValueError: It is not an axis; the message is a sentence that names the field.
    """
    kind = field_kind(path)
    if kind in _RANGES and re.search(rf"{_NUMBER}\s*\.\.\.", text):
        raise ValueError(f"{path}: “{sanitize(text)}” has three dots; a range has two, as in 1..4.")
    match = _RANGE.match(text) if kind in _RANGES else None
    has_semicolons = ";" in text and kind != "text"
    if match is not None:
        low_text, high_text, steps, scale = match.groups()
        low, high = with_point(low_text), with_point(high_text)
        if ("," in low_text) != ("," in high_text):
            raise ValueError(
                f"{path}: “{low_text}..{high_text}” could be a range, or a value and a range; "
                f"write {low}..{high} for the range, which cannot be joined with other values."
            )
        span = ValueRange(float(low), float(high), int(steps or 0), scale or LINEAR)
        is_written_whole = kind == ARGUMENT and "." not in low + high
        axis = Axis(path, span=with_kind(span, base_value) if is_written_whole else span)
    elif not text.strip():
        axis = Axis(path)
    elif values := None if has_semicolons else _typed_list(path, kind, text):
        has_lists = all(isinstance(value, list) for value in values)
        axis = Axis(path, tuple(values) if kind not in LISTS or has_lists else (values,))
    else:
        if kind in ("whole", "number"):
            _refuse_ambiguous(path, kind, text)
        separator = ";" if has_semicolons or kind in LISTS else ","
        texts = [part.strip() for part in text.split(separator)]
        if not all(texts):
            raise ValueError(f"{path}: has an empty value next to a comma; use {FORMS}.")
        if kind == ARGUMENT:
            texts = _argument_texts(path, texts, base_value)
        axis = Axis(path, tuple(typed_value(path, part) for part in texts))
    if kind in ("whole", "number"):
        first_text = next((value for value in axis.values if isinstance(value, str)), None)
        if first_text is not None:
            is_range = _LIKE_RANGE_OF_NUMBERS.fullmatch(first_text)
            hint = "; write a range as 1e-4..0.1:4" if is_range else ""
            raise ValueError(f"{path}: {sanitize(first_text)} is not a number{hint}.")
    if axis.error_message():
        raise ValueError(f"{path}: {axis.error_message()}")
    return axis


def with_kind(span: ValueRange, base_value: object) -> ValueRange:
    """Return the range of an argument of a script, of whole numbers if both ends are whole.

    Not if the value in the base job is a fraction; nor, if that is unknown, if there are more
    steps than whole numbers.
    """
    are_ends_whole = span.low.is_integer() and span.high.is_integer()
    has_room = _is_number(base_value) or span.steps <= span.high - span.low + 1
    return replace(span, is_whole=are_ends_whole and has_room and not _is_fraction(base_value))


def _is_number(value: object) -> bool:
    return "," not in str(value) and bool(re.fullmatch(_NUMBER, str(value)))


def _is_fraction(value: object) -> bool:
    """Return whether a value is a number that is no whole one: 0.5, 1e-3, also 1.0."""
    return _is_number(value) and ("." in str(value) or not float(str(value)).is_integer())


def _argument_texts(path: str, texts: Sequence[str], base_value: object) -> list[str]:
    """Return the values of an argument, with a point in place of each decimal comma.

    Only semicolons leave commas in a value. It is decimal in ``0,1``, and in ``1,5`` if the base
    job has a fraction; ``64,64`` is otherwise a list.

    Raises:
        ValueError: A value is like a range, and the base job has no text; or two are one number.
    """
    is_text = base_value is not None and not _is_number(base_value)
    for text in texts:
        is_odd_number = _is_number(base_value) and _LIKE_RANGE_OF_NUMBERS.fullmatch(text)
        if is_odd_number or (not is_text and _RANGE_LIKE.fullmatch(text)):
            raise ValueError(
                f"{path}: “{sanitize(text)}” is neither a value nor a range; a range has two "
                "numbers and stands alone, such as 1..4 or 1e-4..0.1:log."
            )
    are_decimals = not is_text and all(
        re.fullmatch(_NUMBER, text)
        and ("," not in text or _is_fraction(base_value) or text.lstrip("+-").startswith("0,"))
        for text in texts
    )
    values = [with_point(text) for text in texts] if are_decimals else list(texts)
    numbers: dict[float, str] = {}
    for value in values if _is_number(base_value) else ():
        if re.fullmatch(_NUMBER, with_point(value)):
            other_value = numbers.setdefault(float(with_point(value)), value)
            if other_value != value:
                raise ValueError(
                    f"{path}: {other_value} and {value} are one number, so that two jobs would be "
                    "equal; remove one of them."
                )
    return values


def value_text(value: object) -> str:
    """Format a value for a job's name and for a field: ``0.01``, ``yes``, ``0.9,0.999``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if isinstance(value, Mapping):
        count = value.get("gpus") or value.get("processes", "")
        is_list = isinstance(count, (list, tuple))
        return f"{value.get('node', '')}×{len(count) if is_list else count}"
    if isinstance(value, (list, tuple)):
        return ",".join(map(value_text, value))
    return str(value)


def axis_text(axis: Axis) -> str:
    """Format the values of an axis as its field shows them: ``0.01, 0.03, 0.1``."""
    if axis.span is not None and not axis.span.steps:
        whole_hint = " (whole numbers)" if axis.span.is_whole else ""
        return f"{value_text(axis.span.low)} to {value_text(axis.span.high)}{whole_hint}"
    texts = [value_text(value) for value in axis.points()]
    has_commas = field_kind(axis.path) == ARGUMENT and any(
        "," in axis_value for axis_value in texts
    )
    return ("; " if has_commas or field_kind(axis.path) in LISTS else ", ").join(texts)


def read_value(kind: str, text: str) -> Any:
    """Parse one value that a user typed; other text stays as typed, for the check to name.

    A comma in a number is a decimal comma: ``0,05`` is 0.05. ``16.0`` is a whole number, ``1.000``
    is none, because it may be a thousand.
    """
    if kind == "flag":
        return _FLAGS.get(text.lower(), text)
    if kind in LISTS:
        element_kind = {"pair": "number", "wholes": "whole"}.get(kind, "text")
        with suppress(ValueError):
            values = _typed_list("", kind, text)
            elements = text.split(",") if values is None else ()
            return values or [read_value(element_kind, e.strip()) for e in elements]
        return text
    if kind == "words":
        with suppress(ValueError):
            return shlex.split(text)
        return text
    if kind not in ("whole", "number"):
        return text
    number = with_point("".join(text.split()))
    if kind == "whole" and _THOUSANDS.fullmatch(number):
        return text.strip()
    with suppress(ValueError):
        return int(number)
    with suppress(ValueError):
        value = float(number)
        return int(value) if kind == "whole" and value.is_integer() else value
    return text.strip()


def _typed_list(path: str, kind: str, text: str) -> list[Any] | None:
    """Return a list in brackets or quotes, as in a job file; None for another text.

    Raises:
        ValueError: It is a list that is not complete; the message is a sentence.
    """
    text = text.strip()
    # A number in a log may be in brackets: [loss {loss}] is one text.
    is_number = kind in ("pair", "wholes", "whole", "number")
    if not (re.search(r"^\[|\]$", text) if is_number else _LIST.match(text)):
        return None
    with suppress(ValueError):
        toml = f"value = [{text}]" if text[0] in "\"'" else f"value = {text}"
        if isinstance(values := tomllib.loads(toml)["value"], list):
            return values
    example = _LIST_EXAMPLES.get(kind, '["a", "b"]')
    raise ValueError(f"{path}: {sanitize(text)} is not a complete list; write {example}.")


def typed_value(path: str, text: str) -> Any:
    """Parse one value of a setting that a user typed.

    Raises:
        ValueError: It is a list that is not complete; the message is a sentence.
    """
    kind = field_kind(path)
    values = _typed_list(path, kind, text) if kind in LISTS else None
    return read_value(kind, text) if values is None else values


def with_point(number: str) -> str:
    """Replace a decimal comma by a point."""
    is_decimal = number.count(",") == 1 and "." not in number
    return number.replace(",", ".") if is_decimal else number


def _refuse_ambiguous(path: str, kind: str, text: str) -> None:
    """Refuse a list with a comma that may be a decimal one, or one between thousands.

    Raises:
        ValueError: The list may mean other numbers.
    """
    if ";" in text:
        return
    is_unclear = kind == "number" and "." not in text and text.count(",") == 1
    for comma in _COMMA.finditer(text):
        before_comma, after_comma = comma.groups()
        if is_unclear or (len(after_comma) > 1 and after_comma.startswith("0")):
            joined_number = before_comma + ("." if kind == "number" else "") + after_comma
            raise ValueError(
                f"{path}: “{before_comma},{after_comma}” could be one number or two. Write "
                f"{joined_number} for one, or “{before_comma}; {int(after_comma)}” for two."
            )


def _list_error(values: Sequence[Any]) -> str:
    if not values:
        return f"has no values; use {FORMS}."
    if len(values) > MAX_VALUES:
        return f"has {len(values)} values; the limit is {MAX_VALUES}."
    for number, value in enumerate(values):
        if value in values[:number]:
            return f"names {sanitize(value_text(value))} twice."
    return ""


def _value_at_share(span: ValueRange, share: float) -> float:
    if span.scale == LOG:
        return math.exp(math.log(span.low) * (1 - share) + math.log(span.high) * share)
    return span.low * (1 - share) + span.high * share


def _range_values(span: ValueRange, is_whole: bool) -> tuple[Any, ...]:
    if not span.steps:
        return ()
    exact_values = [_value_at_share(span, n / (span.steps - 1)) for n in range(1, span.steps - 1)]
    if is_whole:
        low, high = math.ceil(span.low), math.floor(span.high)
        return tuple(dict.fromkeys((low, *(round(v) for v in exact_values), high)))
    values: tuple[float, ...] = ()
    for digits in _ENOUGH_DIGITS:
        inner_values = (float(f"{value:.{digits}g}") for value in exact_values)
        values = tuple(dict.fromkeys((span.low, *inner_values, span.high)))
        if len(values) == span.steps and list(values) == sorted(values):
            break
    return values
