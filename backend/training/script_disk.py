"""Watch over a script, which must end before it fills the disk of the data root."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from backend.base.log import suppress
from backend.base.room import disk_space
from backend.records.base import number_format

_MIN_FREE_BYTES = 2_000_000_000
"""Least free space; a script that writes 10 GB a minute writes a sixth of it between two checks."""


class DiskWatch:
    """Detector of a script that fills the disk of the data root, before the disk is full."""

    def __init__(self, root: Path, log: Path, output: Path | None) -> None:
        """``output`` is None for a process that leaves this folder to another of its node."""
        self._root, self._log, self._output = root, log, output
        self._start_bytes = self._written_bytes()
        self._min_free_bytes = min(_MIN_FREE_BYTES, self._free_bytes() // 10)

    def end_reason(self) -> str:
        """Return why the script must be ended, "" while the disk has room or others fill it."""
        if (free_bytes := self._free_bytes()) >= self._min_free_bytes:
            return ""
        pairs = zip(self._written_bytes(), self._start_bytes, strict=True)
        log_bytes, output_bytes = (max(0, end - start) for end, start in pairs)
        if log_bytes + output_bytes < self._min_free_bytes:
            return ""
        log_size, output_size, free_size = map(
            number_format.size, (log_bytes, output_bytes, free_bytes)
        )
        return (
            f"The script was ended before the disk is full: in this run it wrote {log_size} to its "
            f"log and {output_size} to its output folder, and {free_size} are left. Let it print "
            "less or keep fewer files, or free space."
        )

    def _free_bytes(self) -> int:
        with suppress(OSError):
            return disk_space(self._root).free_bytes
        return sys.maxsize

    def _written_bytes(self) -> tuple[int, int]:
        return _file_bytes(self._log), _folder_bytes(self._output) if self._output else 0


def _file_bytes(path: str | Path) -> int:
    with suppress(OSError):
        return os.lstat(path).st_size
    return 0


def _folder_bytes(folder: Path) -> int:
    return sum(
        _file_bytes(os.path.join(subfolder, name))
        for subfolder, _, names in os.walk(folder)
        for name in names
    )
