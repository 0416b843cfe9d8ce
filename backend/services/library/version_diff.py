"""Differences between two versions: the files, and the changed lines of text files.

Files are compared by the hashes of their import, so that no picture is read. Lines are compared up
to a limit, because the time grows faster than their number.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from backend.base.errors import BackendError
from backend.records.library.item import VersionChanges

_MAX_FILES = 50
_MAX_LINES = 5_000
_Version = tuple[str, Mapping[str, str]]


def compare_versions(
    older_version: _Version, newer_version: _Version, read_text: Callable[[str, str], str]
) -> VersionChanges:
    """Compare the files of two versions.

    Args:
        older_version: The reference, and the SHA-256 of each file by path.
        newer_version: As ``older_version``, of the newer version.
        read_text: Reads a file, by reference and path; raises BackendError if it is not text.
    """
    (_, older_hashes), (_, newer_hashes) = older_version, newer_version
    added_paths = sorted(newer_hashes.keys() - older_hashes.keys())
    removed_paths = sorted(older_hashes.keys() - newer_hashes.keys())
    changed_paths = sorted(
        path
        for path in older_hashes.keys() & newer_hashes.keys()
        if older_hashes[path] != newer_hashes[path]
    )
    paths = sorted((*changed_paths, *added_paths, *removed_paths))
    all_lines = _changed_lines((older_version, newer_version), paths[:_MAX_FILES], read_text)
    diff_lines = list(islice(all_lines, _MAX_LINES))
    if next(all_lines, None) is not None:
        diff_lines.append("… (cut off)")
    if len(paths) > _MAX_FILES:
        diff_lines.append(f"… (the first {_MAX_FILES} files)")
    return VersionChanges(
        older_version[0],
        newer_version[0],
        tuple(added_paths),
        tuple(removed_paths),
        tuple(changed_paths),
        "\n".join(diff_lines),
    )


def _changed_lines(
    versions: Sequence[_Version], paths: Sequence[str], read_text: Callable[[str, str], str]
) -> Iterator[str]:
    for path in paths:
        try:
            older_lines, newer_lines = (
                read_text(reference, path).splitlines() if path in hashes else []
                for reference, hashes in versions
            )
        except BackendError:
            # The lists contain the file's name.
            continue
        if max(len(older_lines), len(newer_lines)) > _MAX_LINES:
            yield f"… {path} is longer than {_MAX_LINES} lines"
            continue
        older_file, newer_file = (f"{reference}/{path}" for reference, _ in versions)
        yield from difflib.unified_diff(
            older_lines, newer_lines, older_file, newer_file, lineterm=""
        )
