"""Records from files that anybody may have written: checked in kind and size, text made printable.

A node's status is written on a machine that other people use. What does not fit its record is
refused whole, because half a reading would look like a whole one; text is kept, but nothing in it
can command a terminal or turn the direction of a line.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from backend.records.values import kind_of, printable

_T = TypeVar("_T")
_MOST_ELEMENTS = 4096
_LONGEST_TEXT = 300
_LARGEST = 2**63 - 1


def build(record: Callable[..., _T], raw: object, path: str = "") -> _T:
    """A ``record`` (a dataclass of plain kinds) from what a JSON file holds.

    Numbers must be finite and not negative. Keys that the record does not know are left out: a
    newer program wrote them.

    Raises:
        ValueError: It does not fit; the message names the field.
    """
    if not isinstance(raw, dict):
        raise ValueError(f"{path or 'it'} must be a table, not {kind_of(raw)}")
    values = {}
    for name, kind, needed in _fields(record):
        where = f"{path}.{name}" if path else name
        if name in raw:
            values[name] = _value(kind, raw[name], where)
        elif needed:
            raise ValueError(f"{where} is missing")
    return record(**values)


@cache
def _fields(record: Any) -> tuple[tuple[str, Any, bool], ...]:
    kinds = typing.get_type_hints(record)
    absent = dataclasses.MISSING
    return tuple(
        (
            field.name,
            kinds[field.name],
            field.default is absent and field.default_factory is absent,
        )
        for field in dataclasses.fields(record)
    )


def _value(kind: Any, raw: object, path: str) -> Any:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        if raw is None:
            return None
        (kind,) = (one for one in typing.get_args(kind) if one is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        element = typing.get_args(kind)[0]
        if not isinstance(raw, list):
            raise ValueError(f"{path} must be a list, not {kind_of(raw)}")
        if len(raw) > _MOST_ELEMENTS:
            raise ValueError(f"{path} holds more than {_MOST_ELEMENTS} elements")
        return tuple(_value(element, one, f"{path}[{n}]") for n, one in enumerate(raw))
    if dataclasses.is_dataclass(kind):
        return build(typing.cast(Callable[..., Any], kind), raw, path)
    if kind is str:
        if not isinstance(raw, str):
            raise ValueError(f"{path} must be text, not {kind_of(raw)}")
        return printable(raw, _LONGEST_TEXT)
    if kind is bool:
        if not isinstance(raw, bool):
            raise ValueError(f"{path} must be true or false, not {kind_of(raw)}")
        return raw
    return _number(kind, raw, path)


def _number(kind: Any, raw: object, path: str) -> int | float:
    is_right = isinstance(raw, int) or (kind is float and isinstance(raw, float))
    if not is_right or isinstance(raw, bool):
        wanted = "a number" if kind is float else "a whole number"
        raise ValueError(f"{path} must be {wanted}, not {kind_of(raw)}")
    assert isinstance(raw, (int, float))
    if not 0 <= raw <= _LARGEST:  # NaN is neither
        raise ValueError(f"{path} is out of range")
    return float(raw) if kind is float else raw
