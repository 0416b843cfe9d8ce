"""The effect of dropping files on the window, from their names only: no file is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from backend.records.base.validation import sanitize
from backend.records.bundles.job_archive import SUFFIX
from backend.records.library.item import is_weights
from widgets.common import formats

_NAME_CHARS = 48


def is_taken(paths: Sequence[str]) -> bool:
    """Return True if the window accepts them: one at a time, because each opens a dialog."""
    return len(paths) == 1 and not is_weights(paths[0])


def words_for(paths: Sequence[str]) -> str:
    if len(paths) > 1:
        return f"{formats.count(len(paths))} files: drop them one by one"
    path = paths[0]
    name = sanitize(PurePath(path).name, _NAME_CHARS)
    suffix = PurePath(path).suffix.lower()
    if suffix == SUFFIX:
        return f"Import the job from “{name}”"
    if suffix == ".toml":
        return f"Open “{name}” as a new job"
    if is_weights(path):
        return f"Weights belong to a model: drop “{name}” on a model in Models"
    return f"Import “{name}”"
