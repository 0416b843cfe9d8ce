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
    noun: str
    description: str


PAGE_TEXTS = {
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
_MAX_NAMES = 3


def project_text(project: Project) -> str:
    """Describe the contents of a folder, by path, and what is not imported."""
    code_paths = [
        project.parts[kind].path_of(kind.entry_file) for kind in (Kind.MODEL, Kind.LOADER)
    ]
    data = project.parts.get(Kind.DATASET)
    contents = "Model, loader and data" if data else "Model and loader"
    paths = ", ".join(map(_name_list, ([path] for path in code_paths)))
    all_paths = f"{paths}, {_name_list(data.display_paths)}" if data else paths
    remainder = (
        f" Not imported: {_name_list(project.other_entries)}." if project.other_entries else ""
    )
    return f"{contents}: {all_paths}.{remainder}"


def _name_list(names: Sequence[str]) -> str:
    shown_names = [sanitize(name, _NAME_CHARS) for name in names[:_MAX_NAMES]]
    suffix = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(shown_names) + suffix
