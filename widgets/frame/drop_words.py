"""What dropping a file on the window would do, by its name alone: nothing is read meanwhile."""

from __future__ import annotations

from pathlib import PurePath

from backend.records.bundle import SUFFIX
from backend.records.library import is_weights
from backend.records.values import printable

_NAME_CHARS = 48


def words_for(path: str) -> str:
    name = printable(PurePath(path).name, _NAME_CHARS)
    suffix = PurePath(path).suffix.lower()
    if suffix == SUFFIX:
        return f"Bring in the job of “{name}”"
    if suffix == ".toml":
        return f"Open “{name}” as a new job"
    if is_weights(path):
        return f"Weights belong to a model: drop “{name}” on one in Models"
    return f"Import “{name}”"
