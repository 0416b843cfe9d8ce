"""End a script before it fills the disk of the data root."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from backend.base.log import suppress
from backend.base.room import disk_space
from backend.records.base import number_format

_LEFT_BYTES = 2_000_000_000
"""A script that writes 10 GB a minute writes a sixth of this between two looks."""


class DiskWatch:
    """Finds a script that fills the disk of the data root, before the disk is full."""

    def __init__(self, root: Path, log: Path, output: Path | None) -> None:
        """``output`` is None for a process that leaves this folder to another one of its node."""
        self._root, self._log, self._output = root, log, output
        self._before = self._written()
        self._least = min(_LEFT_BYTES, self._free() // 10)

    def why_to_end(self) -> str:
        """Return why the script must be ended, "" while the disk has room or others fill it."""
        if (free := self._free()) >= self._least:
            return ""
        log, output = (
            max(0, now - b) for now, b in zip(self._written(), self._before, strict=True)
        )
        if log + output < self._least:
            return ""
        log_size, output_size, left = map(number_format.size, (log, output, free))
        return (
            f"The script was ended before the disk is full: in this run it wrote {log_size} to its "
            f"log and {output_size} to its output folder, and {left} are left. Let it print less "
            "or keep fewer files, or free space."
        )

    def _free(self) -> int:
        with suppress(OSError):
            return disk_space(self._root).free_bytes
        return sys.maxsize

    def _written(self) -> tuple[int, int]:
        return _bytes_of(self._log), _bytes_in(self._output) if self._output else 0


def _bytes_of(path: str | Path) -> int:
    with suppress(OSError):
        return os.lstat(path).st_size
    return 0


def _bytes_in(folder: Path) -> int:
    return sum(
        _bytes_of(os.path.join(place, name))
        for place, _, names in os.walk(folder)
        for name in names
    )
