"""How each of the three places speaks."""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.library import Kind


@dataclass(frozen=True)
class Words:
    """How a place speaks."""

    title: str
    icon: str
    what: str
    belongs: str


WORDS = {
    Kind.DATASET: Words(
        "Datasets", "database", "dataset", "A dataset is a folder or a zip with any files."
    ),
    Kind.MODEL: Words(
        "Models", "cube", "model", "A model is a folder with bks_model.py and a UserModel in it."
    ),
    Kind.LOADER: Words(
        "Loaders",
        "funnel",
        "loader",
        "A loader is a folder with bks_dataset.py and a UserDataset in it.",
    ),
}
