"""Datasets of the gallery's loaders, opened as a rank of a job opens them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

from backend.training.user_code import load_loader
from tests.gallery.figures import SERVICE

GALLERY = SERVICE
_numbers = itertools.count()


class Datasets(NamedTuple):
    """The user's datasets: training and validation."""

    training: Any
    validation: Any


def open_data(name: str, folder: Path, code: Path, **settings: object) -> Datasets:
    """Open ``folder`` with a loader whose code is written below ``code``."""
    code_folder = code / f"code-{next(_numbers)}"
    GALLERY.write(name, {key: str(value) for key, value in settings.items()}, code_folder)
    loader = load_loader(code_folder)
    training, validation = loader.training(folder), loader.validation(folder)
    return Datasets(training.user_dataset, validation.user_dataset)


def files(folder: Path, **content: str | bytes) -> Path:
    for name, data in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder
