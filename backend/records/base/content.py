"""Size and hash of a file, or of a folder as a whole.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_CHUNK_BYTES = 1 << 20


def files_of(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder with their relative paths, sorted; of a file itself with "".

    Links are not followed.
    """
    if not path.is_dir():
        yield "", path
        return
    paths = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    yield from sorted((file_path.relative_to(path).as_posix(), file_path) for file_path in paths)


def size_of(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file_path.lstat().st_size for _, file_path in files_of(path))


def sha256_of(path: Path, on_bytes: Callable[[int], None] = lambda count: None) -> str:
    """Hash a file, or the relative paths and hashes of all files of a folder."""
    if not path.is_dir():
        return hash_file(path, on_bytes)
    return folder_sha256(
        (name, "" if file_path.is_symlink() else hash_file(file_path, on_bytes))
        for name, file_path in files_of(path)
    )


def folder_sha256(files: Iterable[tuple[str, str]]) -> str:
    """Return the hash of a folder from the sorted paths and hashes of its files."""
    folder_digest = hashlib.sha256()
    for name, digest in files:
        folder_digest.update(os.fsencode(name) + f"\0{digest}\n".encode())
    return folder_digest.hexdigest()


def hash_file(path: Path, on_bytes: Callable[[int], None] = lambda count: None) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_CHUNK_BYTES))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
            on_bytes(count)
    return digest.hexdigest()
