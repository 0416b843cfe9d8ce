"""Records from files that any user may have written: type and size checked, text made printable.

Other users work on the machine that writes a node's status. A file that does not fit its record is
refused whole, because a partial reading would look complete. Text is kept without characters that
control a terminal or change the direction of a line.

The fields of a record are analysed once: 64 nodes of 8 GPUs have 40,000 fields every two seconds,
and the window needs Python's lock.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from backend.records.base.validation import kind_of, sanitize

_T = TypeVar("_T")
_Reader = Callable[[object], Any]
_MOST_ELEMENTS = 4096
_LONGEST_TEXT = 300
_LARGEST = 2**63 - 1


def build(record: Callable[..., _T], raw: object) -> _T:
    """Build a ``record`` (a dataclass of plain types) from parsed JSON.

    Numbers must be finite and not negative. Unknown keys are ignored: a newer program wrote them.

    Raises:
        ValueError: It does not fit; the message names the field.
    """
    try:
        return typing.cast(_T, _record_reader(record)(raw))
    except _Misfit as error:
        raise ValueError(f"{error.where.lstrip('.') or 'it'} {error.why}") from None


class _Misfit(Exception):
    """A value that does not fit. ``where`` grows from the value outwards."""

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.where = where


@cache
def _record_reader(record: Callable[..., Any]) -> _Reader:
    kinds = typing.get_type_hints(record)
    absent = dataclasses.MISSING
    fields = tuple(
        (
            field.name,
            _reader(kinds[field.name]),
            field.default is absent and field.default_factory is absent,
        )
        for field in dataclasses.fields(typing.cast(Any, record))
    )

    def read(raw: object) -> Any:
        if not isinstance(raw, dict):
            raise _Misfit(f"must be a table, not {kind_of(raw)}")
        values = {}
        name = ""
        try:
            for name, read_field, is_needed in fields:
                if name in raw:
                    values[name] = read_field(raw[name])
                elif is_needed:
                    raise _Misfit("is missing")
        except _Misfit as error:
            error.where = f".{name}{error.where}"
            raise
        return record(**values)

    return read


def _reader(kind: Any) -> _Reader:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        (inner,) = (one for one in typing.get_args(kind) if one is not types.NoneType)
        return _optional(_reader(inner))
    if typing.get_origin(kind) is tuple:
        return _elements(_reader(typing.get_args(kind)[0]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind)
    if dataclasses.is_dataclass(kind):
        return _record_reader(typing.cast(Callable[..., Any], kind))
    return {str: _text, bool: _truth, int: _whole_number, float: _number}[kind]


def _member(kind: type[Enum]) -> _Reader:
    def read(raw: object) -> Enum:
        try:
            return kind(raw)
        except ValueError:
            raise _Misfit("is not a known value") from None

    return read


def _optional(read: _Reader) -> _Reader:
    return lambda raw: None if raw is None else read(raw)


def _elements(read: _Reader) -> _Reader:
    def read_all(raw: object) -> tuple[Any, ...]:
        if not isinstance(raw, list):
            raise _Misfit(f"must be a list, not {kind_of(raw)}")
        if len(raw) > _MOST_ELEMENTS:
            raise _Misfit(f"contains more than {_MOST_ELEMENTS} elements")
        found: list[Any] = []
        try:
            found.extend(map(read, raw))
        except _Misfit as error:
            error.where = f"[{len(found)}]{error.where}"
            raise
        return tuple(found)

    return read_all


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise _Misfit(f"must be text, not {kind_of(raw)}")
    return sanitize(raw, _LONGEST_TEXT)


def _truth(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise _Misfit(f"must be true or false, not {kind_of(raw)}")
    return raw


def _whole_number(raw: object) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool):
        raise _Misfit(f"must be a whole number, not {kind_of(raw)}")
    if not 0 <= raw <= _LARGEST:
        raise _Misfit("is out of range")
    return raw


def _number(raw: object) -> float:
    if not isinstance(raw, (int, float)) or isinstance(raw, bool):
        raise _Misfit(f"must be a number, not {kind_of(raw)}")
    if not 0 <= raw <= _LARGEST:  # False for NaN
        raise _Misfit("is out of range")
    return float(raw)
