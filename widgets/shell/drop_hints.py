"""What dropping files on the window would do, by their names alone: nothing is read meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from backend.records.base.validation import sanitize
from backend.records.bundles.job_archive import SUFFIX
from backend.records.library.item import is_weights
from widgets.common import formats

_NAME_CHARS = 48


def is_taken(paths: Sequence[str]) -> bool:
    """Whether the window has a use for them: one at a time, as each asks something else."""
    return len(paths) == 1 and not is_weights(paths[0])


def words_for(paths: Sequence[str]) -> str:
    if len(paths) > 1:
        return f"{formats.count(len(paths))} files at once: drop them one by one"
    path = paths[0]
    name = sanitize(PurePath(path).name, _NAME_CHARS)
    suffix = PurePath(path).suffix.lower()
    if suffix == SUFFIX:
        return f"Bring in the job of “{name}”"
    if suffix == ".toml":
        return f"Open “{name}” as a new job"
    if is_weights(path):
        return f"Weights belong to a model: drop “{name}” on one in Models"
    return f"Import “{name}”"
