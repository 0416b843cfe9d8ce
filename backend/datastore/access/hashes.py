"""Hashes that prove that files are the imported ones.

Next to its files each version has ``files.sha256``: one line per file, sorted by the bytes of its
path, as ``sha256sum`` prints them. The hash of a version is the SHA-256 of that list, so a user can
verify it without Ringmaster::

    cd datasets/digits/v1/files && sha256sum --quiet -c ../files.sha256
    sha256sum ../files.sha256

Empty folders are kept and not hashed. Hashing gigabytes at every start would cost minutes, so a
verified version counts as unchanged while no name, size or time of its files changes
(`fingerprint`), as in git and make.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path

from backend.base.errors import BackendError
from backend.records.base.content import hash_file
from backend.records.base.validation import sanitize

MANIFEST = "files.sha256"
CHUNK_BYTES = 1 << 20
_CONTAINS = "contains {}, which was not in it when it was imported"
_REMOVE = (
    "Click “Remove added files” among the files of this version, or run dataset, model or loader "
    "remove-added NAME@VERSION. Loaders must keep their caches elsewhere."
)
_LINE = re.compile(rb"(\\?)([0-9a-f]{64})  (.+)")


def manifest(hashes: Mapping[str, str]) -> bytes:
    """Format the list of files from their hashes by path."""
    lines = []
    for path, digest in sorted((os.fsencode(path), digest) for path, digest in hashes.items()):
        # sha256sum marks a line whose path it had to escape.
        mark = b"\\" if b"\\" in path else b""
        lines.append(mark + digest.encode() + b"  " + path.replace(b"\\", b"\\\\") + b"\n")
    return b"".join(lines)


def read_manifest(content: bytes) -> dict[str, str]:
    """Parse the list to hashes by path.

    Raises:
        ValueError: It is not such a list.
    """
    hashes = {}
    for line in content.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError("a line is not a hash and a name")
        mark, digest, path = match.groups()
        hashes[os.fsdecode(path.replace(b"\\\\", b"\\") if mark else path)] = digest.decode()
    return hashes


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and status of each file below, in no order; links are not followed."""
    pending_folders = [("", os.fspath(folder))]
    while pending_folders:
        prefix, folder_path = pending_folders.pop()
        with os.scandir(folder_path) as entries:
            for entry in entries:
                path = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending_folders.append((path + "/", entry.path))
                else:
                    yield path, entry.stat(follow_symlinks=False)


def fingerprint(folder: Path) -> str:
    """Hash the files' names, sizes and times; a write to any file changes the result."""
    digest = hashlib.sha256()
    for path, status in sorted(walk(folder), key=lambda pair: pair[0]):
        digest.update(os.fsencode(path))
        digest.update(f"\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0".encode())
    return digest.hexdigest()


def compare(
    subject: str,
    folder: Path,
    expected_hashes: Mapping[str, str],
    on_bytes: Callable[[int], None] = lambda count: None,
) -> None:
    """Hash every file in ``folder`` and compare; ``subject`` begins the messages.

    Raises:
        BackendError: A file changed, is missing or was added; it is named.
    """
    compare_names(subject, {path for path, _ in walk(folder)}, expected_hashes)
    for path in sorted(expected_hashes):
        if hash_file(folder / path, on_bytes) != expected_hashes[path]:
            raise differs(subject, path)


def compare_names(
    subject: str, present_paths: Set[str], expected_hashes: Mapping[str, str]
) -> None:
    """Compare only the names, as `compare`."""
    for message, paths in (
        (
            "is missing {}, which was in it when it was imported",
            expected_hashes.keys() - present_paths,
        ),
        (_CONTAINS, present_paths - expected_hashes.keys()),
    ):
        if paths:
            error = changed(subject, message.format(files_text(min(paths), len(paths))))
            raise BackendError(error.message, _REMOVE) if message == _CONTAINS else error


def differs(subject: str, path: str) -> BackendError:
    return changed(subject, f"was changed after it was imported: {files_text(path)} differs")


def changed(subject: str, predicate: str) -> BackendError:
    return BackendError(
        f"{subject} {predicate}.",
        "Restore the file, or import the folder again as a new version.",
    )


def files_text(path: str, count: int = 1) -> str:
    """Return a file's path for a message, and the number of further files."""
    quoted_path = f"“{sanitize(path, 120)}”"
    return quoted_path if count == 1 else f"{quoted_path} and {count - 1} more"
