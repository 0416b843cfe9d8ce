"""``rescan``."""

from __future__ import annotations

from backend.base.progress import Progress
from backend.cli.command import command
from backend.cli.commands._library import record_answer
from backend.cli.printing import Answer
from backend.services.context.container import Services


@command("rescan", reads_jobs=True)
def rescan(services: Services, progress: Progress) -> Answer:
    """Rebuild the catalogue from the files of the data root."""
    return record_answer(services.library.rescan(progress=progress))
