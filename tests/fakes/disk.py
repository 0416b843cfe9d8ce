"""What reached the disk: a power cut keeps what was synced before it got its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


class Disk:
    """Notes each file that is synced, while it still does so."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._synced: set[tuple[int, int]] = set()
        self._fsync = os.fsync
        patch.setattr(os, "fsync", self._record_sync)

    def _record_sync(self, file: Any) -> None:
        self._fsync(file)
        stat = os.fstat(file)
        self._synced.add((stat.st_ino, stat.st_size))

    def has_synced(self, path: Path) -> bool:
        """Whether all of this file was synced; a rename keeps its number."""
        stat = path.stat()
        return (stat.st_ino, stat.st_size) in self._synced
