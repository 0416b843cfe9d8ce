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
        patch.setattr(os, "fsync", self._note)

    def _note(self, file: Any) -> None:
        self._fsync(file)
        found = os.fstat(file)
        self._synced.add((found.st_ino, found.st_size))

    def has(self, path: Path) -> bool:
        """Whether all of this file was synced; a rename keeps its number."""
        found = path.stat()
        return (found.st_ino, found.st_size) in self._synced
