"""Records from files that any user may have written: type and size checked, text made printable.

Other users work on the machine that writes a node's status. A file that does not fit its record is
refused whole, because a partial reading would look complete. Text is kept without characters that
control a terminal or change the direction of a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from backend.records.base import schema
from backend.records.base.schema import STRICT, Reader, Rules, SchemaError
from backend.records.base.validation import sanitize

_T = TypeVar("_T")
_LONGEST_TEXT = 300
_LARGEST = 2**63 - 1


def build(record: Callable[..., _T], raw: object) -> _T:
    """Build a ``record`` (a dataclass of plain types) from parsed JSON.

    Numbers must be finite and not negative. Unknown keys are ignored: a newer program wrote them.

    Raises:
        ValueError: It does not fit; the message names the field.
    """
    return schema.build(record, raw, _RULES)


def _text(raw: Any) -> str:
    return sanitize(STRICT.readers[str](raw), _LONGEST_TEXT)


def _in_range(kind: Any) -> Reader:
    def read(raw: Any) -> Any:
        number = raw if type(raw) is kind else STRICT.readers[kind](raw)
        if not 0 <= number <= _LARGEST:  # False for NaN
            raise SchemaError("is out of range")
        return number

    return read


_READERS = {**STRICT.readers, str: _text, int: _in_range(int), float: _in_range(float)}
_RULES = Rules(_READERS, exact_types=frozenset({bool}), max_elements=4096)
