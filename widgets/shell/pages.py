"""The pages of the window, in the order of the side bar."""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.library.item import Kind


@dataclass(frozen=True)
class Place:
    """A page. ``number`` is its key (Ctrl+number)."""

    key: str
    title: str
    icon: str
    number: int


PLACES = (
    Place("jobs", "Jobs", "stack", 1),
    Place("compare", "Compare", "chart-line-up", 2),
    Place("datasets", "Datasets", "database", 3),
    Place("models", "Models", "cube", 4),
    Place("loaders", "Loaders", "funnel", 5),
    Place("scripts", "Scripts", "code", 7),
    Place("nodes", "Nodes", "hard-drives", 6),
)

PLACES_OF_KINDS = {
    Kind.DATASET: "datasets",
    Kind.MODEL: "models",
    Kind.LOADER: "loaders",
    Kind.SCRIPT: "scripts",
}
