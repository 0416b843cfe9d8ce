"""Job names shortened for the end of a curve.

No Qt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_MOST = 28
_WORD_END = re.compile(r"[^\s·/_\-:,.]*$")
_EDGES = " ·/_-:,."


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Shorten names to what differs: a common beginning is left out.

    Long names lose their middle. Names that would be the same get a number.
    """
    begin = _WORD_END.sub("", _common_begin(names)) if len(names) > 1 else ""
    cut = [name[len(begin) :].strip(_EDGES) or name for name in names]
    short = [_without_middle(name) for name in cut]
    repeated = Counter(short)
    seen: Counter[str] = Counter()
    result = []
    for name in short:
        seen[name] += 1
        result.append(f"{name} ({seen[name]})" if repeated[name] > 1 else name)
    return tuple(result)


def _common_begin(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    pairs = zip(first, last, strict=False)
    length = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))
    return first[:length]


def _without_middle(name: str) -> str:
    if len(name) <= _MOST:
        return name
    half = (_MOST - 1) // 2
    return f"{name[:half].rstrip()}…{name[-half:].lstrip()}"
