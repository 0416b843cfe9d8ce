"""Forecast a job from earlier jobs and from what is known of its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.room import DiskSpace, disk_space
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.jobs.checkpoint_files import list_checkpoints
from backend.records.base.atomic_files import read_json
from backend.records.jobs.config import JobConfig
from backend.records.jobs.forecast import (
    SimilarJob,
    checkpoint_bytes,
    checkpoints_kept,
    forecast,
    similar_job_of,
    similar_jobs,
)
from backend.records.jobs.status import RunStatus
from backend.records.jobs.view import JobForecast, JobView
from backend.records.library.item import Kind, Pin

if TYPE_CHECKING:
    from backend.catalogue.store import Catalogue
    from backend.services.library.service import LibraryService

_MAX_JOBS = 200
_MAX_FOLDERS = 3


class JobForecaster:
    """Forecasts jobs from the catalogue and the folders, without user code or nodes."""

    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        index: Catalogue,
    ) -> None:
        self._root = root
        self._library = library
        self._index = index

    def estimate(
        self, config: JobConfig, pins: Mapping[str, Pin], steps_per_epoch: int | None
    ) -> JobForecast:
        """Return a forecast; figures that cannot be forecast are None."""
        jobs = self._jobs()
        return forecast(
            config,
            steps_per_epoch,
            self._similar_job(similar_jobs(config, pins, jobs)),
            self._checkpoint_bytes(config, pins, jobs),
            self._disk_space(),
        )

    def needed_bytes(self, config: JobConfig, pins: Mapping[str, Pin]) -> int:
        """Return the size of all checkpoints of a job without any, at most; 0 if not known.

        Without ``pins`` its model is the newest version.

        Raises:
            BackendError: There is no such model.
        """
        if config.script:
            return 0
        pins = pins or {"model": self._library.pin(Kind.MODEL, config.model)}
        size = self._checkpoint_bytes(config, pins, self._jobs())
        return (size or 0) * checkpoints_kept(config, None, None, writing_count=1)

    def _jobs(self) -> tuple[JobView, ...]:
        with suppress(BackendError):
            return self._index.jobs(limit=_MAX_JOBS)
        return ()

    def _similar_job(self, jobs: Sequence[JobView]) -> SimilarJob | None:
        for view in jobs[:_MAX_FOLDERS]:
            with suppress(OSError, ValueError):
                status = RunStatus.from_dict(read_json(self._root.job(view.id).status))
                similar_job = similar_job_of(view, status.pace_s)
                if similar_job is not None:
                    return similar_job
        return None

    def _checkpoint_bytes(
        self, config: JobConfig, pins: Mapping[str, Pin], jobs: Sequence[JobView]
    ) -> int | None:
        model = pins.get("model")
        if model is None:
            return None
        similar_views = [
            view
            for view in jobs
            if view.step
            and "model" in view.pins
            and view.pins["model"].sha256 == model.sha256
            and view.config.optimizer.name == config.optimizer.name
            and view.config.optimizer.settings == config.optimizer.settings
            and view.config.strategy.is_adaptive == config.strategy.is_adaptive
        ]
        for view in similar_views[:_MAX_FOLDERS]:
            with suppress(OSError, BackendError):
                checkpoints = list_checkpoints(self._root.job(view.id), view.config.checkpoint)
                if checkpoints:
                    return max(record.bytes for record in checkpoints)
        with suppress(BackendError):
            item = self._library.show(Kind.MODEL, model.reference)
            parameter_bytes = item.details.get("parameter_bytes")
            if isinstance(parameter_bytes, int):
                return checkpoint_bytes(parameter_bytes, config)
        return None

    def _disk_space(self) -> DiskSpace | None:
        if not self._root.files.is_mounted:
            return None
        with suppress(OSError):
            return disk_space(self._root.path)
        return None
