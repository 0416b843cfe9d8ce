"""Reader of the new content of a file that another program writes.

Such a program appends, cuts, replaces or rewrites its file: Lightning writes its CSV again, with
more columns, when a new metric comes. The bytes read before are therefore compared each time.
"""

from __future__ import annotations

import os
from pathlib import Path

_COMPARED_BYTES = 4096


class ForeignFile:
    """File that is read from ``offset`` on, and from its start if it was replaced.

    A replaced file has another inode, is shorter than the bytes read before, or has other first or
    last bytes.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.was_replaced = False
        self._inode: tuple[int, int] | None = None
        self._head = self._tail = b""

    def read(self, limit_bytes: int) -> bytes:
        """Return the bytes after ``offset``, which stays until `advance`.

        Raises:
            OSError: The file cannot be read.
        """
        with self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            inode = (status.st_dev, status.st_ino)
            head = file.read(len(self._head))
            file.seek(self.offset - len(self._tail))
            tail = file.read(len(self._tail))
            if (
                self._inode not in (None, inode)
                or status.st_size < self.offset
                or (head, tail) != (self._head, self._tail)
            ):
                self.was_replaced = True
                self.offset, self._head, self._tail = 0, b"", b""
            self._inode = inode
            file.seek(self.offset)
            return file.read(limit_bytes)

    def advance(self, content: bytes) -> None:
        """Continue after ``content``, with which the bytes of the last `read` begin."""
        if self.offset == len(self._head) < _COMPARED_BYTES:
            self._head = (self._head + content)[:_COMPARED_BYTES]
        self._tail = (self._tail + content)[-_COMPARED_BYTES:]
        self.offset += len(content)

    def skip(self, count: int) -> None:
        """Skip ``count`` bytes, without comparing them later."""
        self.offset, self._tail = self.offset + count, b""
