"""Simulate the asynchronous training of a job file on this computer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.launch import Launch
from backend.records.jobs.simulation import Simulation
from backend.records.library.item import KINDS
from backend.services.jobs.validation import CheckedJob
from backend.services.tools import tool_process

if TYPE_CHECKING:
    from backend.services.library.service import LibraryService

_LIMIT_S = 24 * 3600.0
"""A user can cancel it."""


def simulate(
    checked_job: CheckedJob,
    library: LibraryService,
    staleness: int,
    is_random: bool,
    progress: Progress | None,
) -> Simulation:
    """Train a checked job in one process; see `JobService.simulate`."""
    config = checked_job.config
    if config is None or checked_job.errors:
        raise BackendError(" ".join(error.message for error in checked_job.errors))
    if not config.strategy.servers or config.strategy.has_coordinator:
        raise BackendError(
            f"The strategy “{config.strategy.name}” is synchronous, so it has no staleness.",
            "Set the strategy to downpour or dc-asgd.",
        )
    if staleness < 0:
        raise BackendError(f"A staleness of {staleness} is not possible.", "Give 0 or more.")

    def content(key: str) -> str:
        if key not in checked_job.pins:
            return ""
        return str(library.open_content(KINDS[key], checked_job.pins[key].reference, progress))

    launch = Launch(
        job_id="simulation",
        run=1,
        config=config,
        argv=(),
        ranks=(),
        model_source=content("model"),
        loader_source=content("loader"),
        dataset_files=content("dataset"),
        validation_loader_source=content("validation_loader"),
        validation_dataset_files=content("validation_dataset"),
    )
    return tool_process.simulate(launch, staleness, is_random, _LIMIT_S, progress)
