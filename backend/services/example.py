"""The built-in example: a dataset, a loader, a model and a job, as a user would have made them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from backend.datastore.content import hash_file, manifest
from backend.datastore.sources import look_at_folder
from backend.progress import Progress
from backend.records.job import THIS_COMPUTER
from backend.records.job_view import JobView
from backend.records.library import Kind, LibraryItem

if TYPE_CHECKING:
    from backend.services.workplace import Services

EXAMPLE = Path(__file__).resolve().parents[2] / "resources" / "gallery" / "digits"
NAME = "digits"


def create_example(
    services: Services, workers: int = 2, progress: Progress | None = None
) -> JobView:
    """Import the example, unless just that is there, and make a job of it; starts nothing."""
    raw = services.jobs.read_file(EXAMPLE / "job.toml")
    for kind in (Kind.DATASET, Kind.LOADER, Kind.MODEL):
        item = _imported(services, kind, progress or Progress())
        raw[kind.value] = item.reference
    raw["name"] = f"digits, {workers} {'worker' if workers == 1 else 'workers'}"
    raw["placement"] = [{"node": THIS_COMPUTER, "processes": workers}]
    return services.jobs.create(raw, progress)


def _imported(services: Services, kind: Kind, progress: Progress) -> LibraryItem:
    """The version that is the example's; a user may have versions of that name that are not."""
    source = EXAMPLE / kind.value
    listed = look_at_folder(kind, source, progress).files
    hashes = {file.path: hash_file(source / file.path) for file in listed}
    wanted = hashlib.sha256(manifest(hashes)).hexdigest()
    for item in services.library.list(kind):
        if (item.name, item.sha256) == (NAME, wanted):
            return item
    return services.library.import_item(kind, source, NAME, progress=progress)
