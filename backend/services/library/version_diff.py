"""Differences between two versions: the files, and the changed lines of text files.

Files are compared by the hashes of their import, so that no picture is read. Lines are compared up
to a limit, because the time grows faster than their number.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping

from backend.base.errors import BackendError
from backend.records.library.item import VersionChanges

_MAX_FILES = 50
_MAX_LINES = 5_000


def compare_versions(
    older: tuple[str, Mapping[str, str]],
    newer: tuple[str, Mapping[str, str]],
    read_text: Callable[[str, str], str],
) -> VersionChanges:
    """Compare the files of two versions.

    Args:
        older: The reference, and the SHA-256 of each file by path.
        newer: As ``older``, of the newer version.
        read_text: Reads a file, by reference and path; raises BackendError if it is not text.
    """
    (older_reference, older_hashes), (newer_reference, newer_hashes) = older, newer
    added_paths = sorted(newer_hashes.keys() - older_hashes.keys())
    removed_paths = sorted(older_hashes.keys() - newer_hashes.keys())
    changed_paths = sorted(
        path
        for path in older_hashes.keys() & newer_hashes.keys()
        if older_hashes[path] != newer_hashes[path]
    )

    def lines(reference: str, path: str, hashes: Mapping[str, str]) -> list[str]:
        return read_text(reference, path).splitlines() if path in hashes else []

    def changed_lines() -> Iterator[str]:
        for path in sorted((*changed_paths, *added_paths, *removed_paths))[:_MAX_FILES]:
            try:
                sides = (
                    lines(older_reference, path, older_hashes),
                    lines(newer_reference, path, newer_hashes),
                )
            except BackendError:
                # The lists contain the file's name.
                continue
            if max(map(len, sides)) > _MAX_LINES:
                yield f"… {path} is longer than {_MAX_LINES} lines"
                continue
            yield from difflib.unified_diff(
                *sides, f"{older_reference}/{path}", f"{newer_reference}/{path}", lineterm=""
            )

    diff_lines: list[str] = []
    for line in changed_lines():
        if len(diff_lines) == _MAX_LINES:
            diff_lines.append("… (cut off)")
            break
        diff_lines.append(line)
    if len(added_paths) + len(removed_paths) + len(changed_paths) > _MAX_FILES:
        diff_lines.append(f"… (the first {_MAX_FILES} files)")
    return VersionChanges(
        older_reference,
        newer_reference,
        tuple(added_paths),
        tuple(removed_paths),
        tuple(changed_paths),
        "\n".join(diff_lines),
    )
