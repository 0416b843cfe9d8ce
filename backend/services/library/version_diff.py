"""Differences between two versions: the files, and the changed lines of text files.

Files are compared by the hashes taken at their import: of a million pictures none is read. Lines
are compared up to a limit, because the time grows faster than their number.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping

from backend.base.errors import BackendError
from backend.records.library.item import VersionChanges

_MOST_FILES = 50
_MOST_LINES = 5_000


def compare_versions(
    older: tuple[str, Mapping[str, str]],
    newer: tuple[str, Mapping[str, str]],
    text: Callable[[str, str], str],
) -> VersionChanges:
    """Compare the files of two versions.

    Args:
        older: Its reference, and the SHA-256 of each of its files by path; ``newer`` as well.
        text: Reads a file, by reference and path; raises BackendError if it is not text.
    """
    (before, old), (after, new) = older, newer
    added = sorted(new.keys() - old.keys())
    removed = sorted(old.keys() - new.keys())
    changed = sorted(path for path in old.keys() & new.keys() if old[path] != new[path])

    def lines(reference: str, path: str, hashes: Mapping[str, str]) -> list[str]:
        return text(reference, path).splitlines() if path in hashes else []

    def changed_lines() -> Iterator[str]:
        for path in sorted((*changed, *added, *removed))[:_MOST_FILES]:
            try:
                sides = lines(before, path, old), lines(after, path, new)
            except BackendError:
                # The lists contain the file's name.
                continue
            if max(map(len, sides)) > _MOST_LINES:
                yield f"… {path} is longer than {_MOST_LINES} lines"
                continue
            yield from difflib.unified_diff(
                *sides, f"{before}/{path}", f"{after}/{path}", lineterm=""
            )

    found: list[str] = []
    for line in changed_lines():
        if len(found) == _MOST_LINES:
            found.append("… (cut off)")
            break
        found.append(line)
    if len(added) + len(removed) + len(changed) > _MOST_FILES:
        found.append(f"… (the first {_MOST_FILES} files)")
    return VersionChanges(
        before, after, tuple(added), tuple(removed), tuple(changed), "\n".join(found)
    )
