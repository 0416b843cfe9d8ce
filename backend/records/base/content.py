"""Size and hash of a file, or of a folder as a whole.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_PIECE_BYTES = 1 << 20


def files_of(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder with their relative paths, sorted; of a file itself with "".

    Links are not followed.
    """
    if not path.is_dir():
        yield "", path
        return
    found = [Path(place, name) for place, _, names in os.walk(path) for name in names]
    yield from sorted((one.relative_to(path).as_posix(), one) for one in found)


def size_of(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(one.lstat().st_size for _, one in files_of(path))


def sha256_of(path: Path, on_bytes: Callable[[int], None] = lambda count: None) -> str:
    """Hash a file, or the relative paths and hashes of all files of a folder."""
    if not path.is_dir():
        return hash_file(path, on_bytes)
    return folder_sha256(
        (name, "" if one.is_symlink() else hash_file(one, on_bytes)) for name, one in files_of(path)
    )


def folder_sha256(files: Iterable[tuple[str, str]]) -> str:
    """Return the hash of a folder from the sorted paths and hashes of its files."""
    whole = hashlib.sha256()
    for name, digest in files:
        whole.update(os.fsencode(name) + f"\0{digest}\n".encode())
    return whole.hexdigest()


def hash_file(path: Path, on_bytes: Callable[[int], None] = lambda count: None) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_PIECE_BYTES))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
            on_bytes(count)
    return digest.hexdigest()
