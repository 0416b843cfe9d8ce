"""Format numbers for sentences in the window, a terminal and a log.

Python 3.9 and the standard library only: ranks and nodes write such sentences too.
"""

from __future__ import annotations

from collections.abc import Sequence

THIN = "\u202f"
"""Between thousands: narrow and non-breaking. In half of the world a comma is a decimal point."""
GAP = "\u00a0"
"""Before a unit: non-breaking."""


def count(value: int) -> str:
    """Format a whole number: ``12 480``."""
    return f"{value:,}".replace(",", THIN)


def size(count_bytes: int) -> str:
    """Format a size in powers of 1000: ``1.2 GB`` or ``640.0 MB``."""
    if count_bytes >= 1e9:
        return f"{count_bytes / 1e9:.1f} GB"
    return f"{count_bytes / 1e6:.1f} MB"


def of(value: int, total: int) -> str:
    """Format a part of a whole: ``12 480 of 19 500``."""
    return f"{count(value)} of {count(total)}"


def some(names: Sequence[str], limit: int = 4) -> str:
    """Format a list: ``a, b, c, d and 3 more``."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {count(len(names) - limit)} more"
