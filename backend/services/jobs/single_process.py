"""Train a job file in one process of this computer: a simulation, a search for the rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.config import JobConfig
from backend.records.jobs.launch import Launch
from backend.records.jobs.rate_search import RateSearch
from backend.records.jobs.simulation import Simulation
from backend.records.library.item import KINDS, Pin
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
    config = _checked_config(checked_job)
    if not config.strategy.servers or config.strategy.has_coordinator:
        raise BackendError(
            f"The strategy “{config.strategy.name}” is synchronous, so it has no staleness.",
            "Set the strategy to downpour or dc-asgd.",
        )
    if staleness < 0:
        raise BackendError(f"A staleness of {staleness} is not possible.", "Give 0 or more.")

    launch = tool_launch("single-process", config, checked_job.pins, library, progress)
    return tool_process.simulate(launch, staleness, is_random, _LIMIT_S, progress)


def find_rate(
    checked_job: CheckedJob, library: LibraryService, progress: Progress | None
) -> RateSearch:
    """Search for the learning rate of a checked job; see `JobService.find_rate`."""
    config = _checked_config(checked_job)
    if config.script or config.strategy.has_coordinator:
        raise BackendError(
            "A script chooses its learning rate itself."
            if config.script
            else "Sandblaster chooses the length of each step itself.",
            "Choose a model and another strategy.",
        )
    launch = tool_launch("single-process", config, checked_job.pins, library, progress)
    return tool_process.find_rate(launch, _LIMIT_S, progress)


def _checked_config(checked_job: CheckedJob) -> JobConfig:
    if checked_job.config is None or checked_job.errors:
        raise BackendError(" ".join(error.message for error in checked_job.errors))
    return checked_job.config


def tool_launch(
    job_id: str,
    config: JobConfig,
    pins: Mapping[str, Pin],
    library: LibraryService,
    progress: Progress | None,
) -> Launch:
    """Return the launch record of a tool process, which reads the pinned versions."""
    folders = {
        key: str(library.open_content(KINDS[key], pin.reference, progress).absolute())
        for key, pin in pins.items()
    }
    return Launch(
        job_id=job_id,
        run=1,
        config=config,
        ranks=(),
        model_source=folders.get("model", ""),
        loader_source=folders.get("loader", ""),
        dataset_files=folders.get("dataset", ""),
        validation_loader_source=folders.get("validation_loader", ""),
        validation_dataset_files=folders.get("validation_dataset", ""),
    )
