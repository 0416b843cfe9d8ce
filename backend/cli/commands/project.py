"""Import model, loader and data at once."""

from __future__ import annotations

from typing import Annotated

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.command import command
from backend.cli.commands._library import Source, import_parts
from backend.cli.printing import Answer
from backend.records.base.validation import sanitize
from backend.services.context.container import Services


@command("project import")
def import_project(
    services: Services,
    progress: Progress,
    path: Source,
    *,
    name: Annotated[str, "name of all three"],
) -> Answer:
    """Import a model, a loader and a dataset from one folder or archive."""
    project = services.library.inspect(path).project
    if project is None:
        raise BackendError(
            f"No model with its loader was found in {path}.",
            "It needs bks_model.py and bks_dataset.py at its top or in one of its folders.",
        )
    items = services.library.import_project(path, project, name, progress)
    omission_text = f"Not imported: {', '.join(map(sanitize, project.other_entries))}."
    return Answer(items, map(import_parts, items), [omission_text] if project.other_entries else [])
