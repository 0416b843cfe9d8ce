"""The built-in example: a dataset, a loader, a model and a job, as users create them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backend.base.progress import Progress
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.jobs.job_file import read_job_file

if TYPE_CHECKING:
    from backend.services.context.container import Services
    from backend.services.library.service import LibraryService

EXAMPLE = Path(__file__).resolve().parents[3] / "resources" / "gallery" / "digits"
NAME = "digits"


def create_example(
    services: Services, workers: int = 2, progress: Progress | None = None
) -> JobView:
    """Import the example if it is missing, and create a job for it; nothing is started."""
    raw = read_job_file(EXAMPLE / "job.toml")
    for kind in (Kind.DATASET, Kind.LOADER, Kind.MODEL):
        raw[kind.value] = import_part(services.library, kind, progress=progress)
    raw["name"] = f"digits, {workers} {'process' if workers == 1 else 'processes'}"
    raw["placement"] = [{"node": THIS_COMPUTER, "processes": workers}]
    return services.jobs.create(raw, progress)


def import_part(
    library: LibraryService,
    kind: Kind,
    folder: Path = EXAMPLE,
    name: str = NAME,
    progress: Progress | None = None,
) -> str:
    """Import a part of a folder of the gallery if it is missing; return its reference."""
    # A user may have versions of that name that are not of the gallery.
    item = library.import_item(kind, folder / kind.value, name, progress, reuse_same=True)
    return item.reference
