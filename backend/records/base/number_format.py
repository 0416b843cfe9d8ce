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


def duration(seconds: float) -> str:
    """Format a time with at most two units: ``2 min 17 s``, ``1 h 55``, ``3 d 4 h``."""
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}{GAP}ms" if seconds >= 0.0005 else f"0{GAP}s"
    if seconds < 9.95:
        return f"{seconds:.1f}{GAP}s"
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds}{GAP}s"
    if whole_seconds < 3600:
        minutes, remainder = divmod(whole_seconds, 60)
        return f"{minutes}{GAP}min" + (f" {remainder}{GAP}s" if remainder else "")
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60}{GAP}h {minutes % 60:02d}"
    hours = round(seconds / 3600)
    days, remainder = divmod(hours, 24)
    if days >= 100:
        return f"{count(round(seconds / 86400))}{GAP}d"
    return f"{days}{GAP}d" + (f" {remainder}{GAP}h" if remainder else "")


def use_time(seconds: float) -> str:
    """Format the use of nodes or GPUs, in hours from one on: ``42 s``, ``3.25 h``, ``1 273 h``."""
    hours = seconds / 3600
    if hours < 1:
        return duration(seconds)
    return f"{f'{hours:.3g}' if hours < 99.5 else count(round(hours))}{GAP}h"


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
