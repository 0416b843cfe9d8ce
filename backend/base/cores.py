"""Processors that this process may use. Standard library only and Python 3.9."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return their number, which a batch system, systemd or taskset may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
