"""The pages of the window, in the order of the side bar."""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.library.item import Kind


@dataclass(frozen=True)
class Page:
    """A page. ``number`` is its position and its key (Ctrl+number)."""

    key: str
    title: str
    icon: str
    number: int


PAGES = tuple(
    Page(key, title, icon, number)
    for number, (key, title, icon) in enumerate(
        (
            ("jobs", "Jobs", "stack"),
            ("compare", "Compare", "chart-line-up"),
            ("datasets", "Datasets", "database"),
            ("models", "Models", "cube"),
            ("loaders", "Loaders", "funnel"),
            ("scripts", "Scripts", "code"),
            ("nodes", "Nodes", "hard-drives"),
        ),
        1,
    )
)

PAGE_ICONS = {page.key: page.icon for page in PAGES}
PAGE_KEYS = {
    Kind.DATASET: "datasets",
    Kind.MODEL: "models",
    Kind.LOADER: "loaders",
    Kind.SCRIPT: "scripts",
}
