"""Format numbers for sentences in the window, a terminal and a log.

Python 3.9 and the standard library only: ranks and nodes write such sentences too.
"""

from __future__ import annotations

from collections.abc import Sequence

THIN = "\u202f"
"""Thousands separator, narrow and non-breaking: in half of the world a comma is a decimal point."""
GAP = "\u00a0"
"""Before a unit: non-breaking."""
_DECIMAL_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(value: int) -> str:
    """Format a whole number: ``12 480``."""
    return f"{value:,}".replace(",", THIN)


def size(count_bytes: float, *, is_binary: bool = False) -> str:
    """Format a size in powers of 1000 or 1024: ``1.2 GB``, ``640 MB``, ``31.0 GiB``."""
    base, units = (1024, _BINARY_UNITS) if is_binary else (1000, _DECIMAL_UNITS)
    value, index = float(count_bytes), 0
    # Half a unit below the next one it is that one: 999.96 kB would read 1000.0 kB.
    while abs(value) >= base - 0.5 and index < len(units) - 1:
        value /= base
        index += 1
    figure = f"{value:.0f}" if index == 0 or abs(value) >= 99.95 else f"{value:.1f}"
    if index == len(units) - 1 and abs(value) >= 1000:
        figure = count(round(value))
    return f"{figure} {units[index]}"


def count_of(value: int, total: int) -> str:
    """Format a part of a whole: ``12 480 of 19 500``."""
    return f"{count(value)} of {count(total)}"


def name_list(names: Sequence[str], limit: int = 4) -> str:
    """Format a list: ``a, b, c, d and 3 more``."""
    shown_names = ", ".join(names[:limit])
    return (
        shown_names
        if len(names) <= limit
        else f"{shown_names} and {count(len(names) - limit)} more"
    )
