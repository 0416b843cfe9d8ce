"""The texts of each page of the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.records.base.validation import sanitize
from backend.records.library.item import Kind
from backend.records.library.project import Project


@dataclass(frozen=True)
class PageTexts:
    """The texts of a page."""

    title: str
    icon: str
    what: str
    belongs: str


WORDS = {
    Kind.DATASET: PageTexts(
        "Datasets", "database", "dataset", "A dataset is a folder or a zip with any files."
    ),
    Kind.MODEL: PageTexts(
        "Models", "cube", "model", "A model is a folder with bks_model.py and a UserModel in it."
    ),
    Kind.LOADER: PageTexts(
        "Loaders",
        "funnel",
        "loader",
        "A loader is a folder with bks_dataset.py and a UserDataset in it.",
    ),
    Kind.SCRIPT: PageTexts(
        "Scripts",
        "code",
        "script",
        "A script is a folder with a training program of yours, which runs unchanged.",
    ),
}

FROM_GALLERY, GALLERY_ICON = "From the gallery…", "squares-four"

_NAME_CHARS = 40
_NAMED = 3


def project_words(project: Project) -> str:
    """Describe the contents of a folder, by path, and what is not imported."""
    code = [project.parts[kind].path_of(kind.entry_file) for kind in (Kind.MODEL, Kind.LOADER)]
    data = project.parts.get(Kind.DATASET)
    found = "Model, loader and data" if data else "Model and loader"
    paths = ", ".join(map(_listed, ([one] for one in code)))
    where = f"{paths}, {_listed(data.display_paths)}" if data else paths
    rest = f" Not imported: {_listed(project.other_entries)}." if project.other_entries else ""
    return f"{found}: {where}.{rest}"


def _listed(names: Sequence[str]) -> str:
    shown = [sanitize(name, _NAME_CHARS) for name in names[:_NAMED]]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(shown) + more
