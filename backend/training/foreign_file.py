"""Reading on in a file that another program writes.

Such a program appends, cuts, replaces or rewrites its file as it likes: Lightning writes its CSV
again, with more columns, when a new metric comes. What was read is therefore compared each time.
"""

from __future__ import annotations

import os
from pathlib import Path

_COMPARED_BYTES = 4096


class ForeignFile:
    """A file that is read on from ``offset``, and from its start if it is not the file read before.

    It is another one if its inode changed, if it is shorter than what was read, or if the first or
    the last bytes that were read are different.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.was_replaced = False
        self._inode: tuple[int, int] | None = None
        self._head = self._tail = b""

    def read(self, limit_bytes: int) -> bytes:
        """Return what follows ``offset``; `advance` says how much of it is done with.

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
        """Continue ``count`` bytes further on, without comparing them later."""
        self.offset, self._tail = self.offset + count, b""
