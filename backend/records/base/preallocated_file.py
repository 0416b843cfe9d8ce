"""Replacing a small file on a disk that has no room left.

A run must be able to say that the disk is full on the very disk that is full. So room is taken
while there is some: a hidden file beside the one that is replaced. When a replacement finds no
room, it is written over the bytes that the hidden file holds already, the two change places, and
the one that was replaced is the room for the next time; not one block is asked for.

Disks that write every byte to a new place (ZFS, btrfs) may refuse that too; then the error of the
disk is raised, as it would be without.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base.atomic_files import FILE_MODE, replace_bytes

_BYTES = 16_384
"""More than a status of a thousand ranks takes."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class PreallocatedFile:
    """The room beside ``path``; there is one writer of it at a time, and it outlives each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spare = path.with_name(f".{path.name}.spare")
        self._is_taken = False

    def take(self) -> None:
        """Have it from now on, if there is room; costs nothing when it is there."""
        if self._is_taken:
            return
        with suppress(OSError):
            if not self._spare.exists():
                # Blocks that were only promised are refused when they are written at last.
                replace_bytes(self._spare, b" " * _BYTES)
            self._is_taken = True

    def replace_json(self, value: Any) -> None:
        """Replace the file in one step, as `files.replace_json`, with room or without.

        Raises:
            OSError: It cannot be written, for want of room or otherwise.
        """
        self.replace_bytes((json.dumps(value, allow_nan=False, indent=1) + "\n").encode())

    def replace_bytes(self, content: bytes) -> None:
        """As `replace_json`; ``content`` may get blanks behind it."""
        try:
            replace_bytes(self._path, content)
        except OSError as error:
            if error.errno not in _FULL or not self._write_over(content):
                raise

    def drop(self) -> None:
        with suppress(OSError):
            self._spare.unlink()

    def _write_over(self, content: bytes) -> bool:
        kept = self._spare.with_name(f"{self._spare.name}.tmp")
        try:
            with self._spare.open("r+b") as file:
                # What is behind the end of JSON may be blank; cutting it off would give room away.
                file.write(content.ljust(os.fstat(file.fileno()).st_size))
                file.flush()
                os.fsync(file.fileno())
            self._spare.chmod(FILE_MODE)
            kept.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                os.link(self._path, kept)
            os.replace(self._spare, self._path)
            with suppress(FileNotFoundError):
                os.replace(kept, self._spare)
        except OSError:
            return False
        return True
