"""Replace a small file on a disk that is full.

A run must be able to report that the disk is full on the same disk. So space is reserved while
there is some: in a hidden file next to the one that is replaced. If a replacement finds no space,
it is written over the bytes of the hidden file and the two files change places. The replaced file
is the reserve for the next time; no new block is needed.

Copy-on-write file systems (ZFS, btrfs) may refuse that too; then the disk's error is raised, as it
would be without the reserve.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base.atomic_files import replace_bytes

_RESERVE_BYTES = 16_384
"""Larger than a status of a thousand ranks."""
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


class PreallocatedFile:
    """A file with reserved space for its next content, in a hidden file next to ``path``.

    ``path`` has one writer at a time. The hidden file stays until `drop_reserve` removes it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spare = path.with_name(f".{path.name}.spare")
        self._is_reserved = False

    def reserve(self) -> None:
        """Reserve the space if the disk has enough; do nothing if the space is reserved already."""
        if self._is_reserved:
            return
        with suppress(OSError):
            # The hidden file of another user's run cannot be written, so it is replaced.
            if not os.access(self._spare, os.W_OK):
                # fsync reports blocks that were only promised.
                replace_bytes(self._spare, b" " * _RESERVE_BYTES)
            self._is_reserved = True

    def replace_json(self, value: Any) -> None:
        """Replace the file in one step, as `atomic_files.replace_json`, even on a full disk.

        Raises:
            OSError: It cannot be written.
        """
        self.replace_bytes((json.dumps(value, allow_nan=False, indent=1) + "\n").encode())

    def replace_bytes(self, content: bytes) -> None:
        """Replace the file as `replace_json`; blanks may be appended to ``content``."""
        try:
            replace_bytes(self._path, content)
        except OSError as error:
            if error.errno not in _DISK_FULL_ERRNOS or not self._write_over(content):
                raise

    def drop_reserve(self) -> None:
        with suppress(OSError):
            self._spare.unlink()

    def _write_over(self, content: bytes) -> bool:
        replaced_link = self._spare.with_name(f"{self._spare.name}.tmp")
        try:
            with self._spare.open("r+b") as file:
                # JSON may end with blanks; truncating the file would free reserved space.
                file.write(content.ljust(os.fstat(file.fileno()).st_size))
                file.flush()
                os.fsync(file.fileno())
            replaced_link.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                os.link(self._path, replaced_link)
            os.replace(self._spare, self._path)
            with suppress(FileNotFoundError):
                os.replace(replaced_link, self._spare)
        except OSError:
            # The caller raises the error of the write itself.
            return False
        return True
