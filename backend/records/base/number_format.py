"""How a number stands in a sentence that people read, in the window, in a terminal and in a log.

Python 3.9 and nothing but the standard library: ranks and nodes write such sentences, too.
"""

from __future__ import annotations

from collections.abc import Sequence

THIN = "\u202f"
"""Between thousands: narrow, and no line breaks at it. A comma there is a decimal to half of the
world."""
GAP = "\u00a0"
"""Before a unit: no line breaks at it either."""


def count(value: int) -> str:
    """``12 480``: a whole number."""
    return f"{value:,}".replace(",", THIN)


def size(count_bytes: int) -> str:
    """``1.2 GB`` or ``640.0 MB``: on a disk, in powers of 1000."""
    if count_bytes >= 1e9:
        return f"{count_bytes / 1e9:.1f} GB"
    return f"{count_bytes / 1e6:.1f} MB"


def of(value: int, total: int) -> str:
    """``12 480 of 19 500``."""
    return f"{count(value)} of {count(total)}"


def some(names: Sequence[str], limit: int = 4) -> str:
    """``a, b, c, d and 3 more``."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {count(len(names) - limit)} more"
