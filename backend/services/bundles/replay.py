"""Replays: train a job again, and compare the curve with the original's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.bundles.imported_job import (
    environment_of,
    is_imported,
    original_of,
)
from backend.datastore.jobs.files import read_job
from backend.records.base.program_name import COMMAND
from backend.records.bundles.job_archive import ReplayResult
from backend.records.jobs.config import JobConfig
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.job_file import without_shared_gpus
from backend.records.jobs.metric_names import OF_SERVERS
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.run_environment import RunEnvironment, differences
from backend.records.jobs.schedulers import SCHEDULERS
from backend.records.jobs.view import JobView
from backend.records.library.item import KINDS
from backend.services.bundles.service import find_same_version

if TYPE_CHECKING:
    from backend.services.jobs.service import JobService
    from backend.services.library.service import LibraryService
    from backend.services.nodes.service import NodeService

TOLERANCE = 1e-3
"""Relative. Sums in another order change the seventh digit of a step, and training amplifies that;
a wrong seed or one more sample changes the first digits at once."""
_MIN_DIFFERENCE = 1e-6
_SUFFIX = " (replay)"
_IGNORED_METRICS = frozenset({"samples_per_second", *OF_SERVERS})


class ReplayService:
    """Make and compare replays. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        nodes: NodeService,
        jobs: JobService,
    ) -> None:
        self._root = root
        self._library = library
        self._nodes = nodes
        self._jobs = jobs

    def replay(
        self,
        job_id: str,
        placement: Sequence[Placement] = (),
        progress: Progress | None = None,
    ) -> JobView:
        """Make a draft with the settings, the seed and the exact files of a job.

        Without a ``placement`` the replay runs where the job ran, or on this computer if those
        nodes, or that cluster, are not known.

        Raises:
            BackendError: A version is missing, or the nodes cannot be chosen; nothing was made.
        """
        return self._jobs.create(self.draft(job_id, placement), progress, replay_of=job_id)

    def draft(self, job_id: str, placement: Sequence[Placement] = ()) -> dict[str, Any]:
        """Return the job file of a replay; only the nodes may be changed.

        Raises:
            BackendError: A version is missing, or the nodes cannot be chosen.
        """
        view = self._jobs.queries.show(job_id)
        raw = self._jobs.clone(job_id)
        short_name = view.name.encode()[: 255 - len(_SUFFIX)].decode(errors="ignore")
        raw["name"] = short_name + _SUFFIX
        for key, pin in view.pins.items():
            item = find_same_version(self._library, KINDS[key], pin)
            if item is None:
                raise BackendError(
                    f"The {KINDS[key].value} {pin.reference} (SHA-256 {pin.sha256}) is not in "
                    "this data root.",
                    "Import it, or request a bundle that includes it.",
                )
            raw[key] = item.reference
        if placement or not self._has_cluster(view.config):
            replay_placement = tuple(placement) or self._default_placement(view.config)
            raw = {key: value for key, value in raw.items() if key not in SCHEDULERS}
            raw["placement"] = [p.to_dict() for p in replay_placement]
        return without_shared_gpus(raw)

    def _has_cluster(self, config: JobConfig) -> bool:
        """Return whether a scheduler chose the nodes, in a cluster that is known here."""
        with suppress(BackendError):
            return config.allocation is not None and bool(
                self._nodes.login_site(config.allocation.cluster)
            )
        return False

    def _default_placement(self, config: JobConfig) -> tuple[Placement, ...]:
        capacities = {capacity.node: capacity for capacity in self._nodes.capacities()}
        if all(
            p.node in capacities and set(p.gpus) <= set(capacities[p.node].gpus)
            for p in config.placement
        ):
            return config.placement
        local_capacity = capacities.get(THIS_COMPUTER)
        if not config.uses_gpus:
            return (Placement(THIS_COMPUTER, config.world_size, ()),)
        if local_capacity is not None and len(local_capacity.gpus) >= config.world_size:
            return (Placement(THIS_COMPUTER, 0, local_capacity.gpus[: config.world_size]),)
        node_names = ", ".join(p.node for p in config.placement)
        raise BackendError(
            f"The job ran on {config.world_size} GPUs of {node_names}, which are not here.",
            f"Choose where it runs: {COMMAND} job replay ID --on NODE=GPU,GPU",
        )

    def original_id(self, job_id: str) -> str:
        """Return the id of the job that a replay repeats; "" if the job is no replay."""
        folder = self._root.job(job_id)
        with as_backend_error(f"The job {job_id} could not be read"):
            self._root.files.refresh_file(folder.origin)
        return original_of(folder)

    def compare(self, job_id: str, tolerance: float = TOLERANCE) -> ReplayResult:
        """Compare the curve of a replay with its original's.

        Raises:
            BackendError: The job is not a replay, or one of the two jobs made no step.
        """
        original_id = self.original_id(job_id)
        if not original_id:
            raise BackendError(
                f"The job {job_id} is not a replay.",
                f"Make one with “Replay”, or {COMMAND} job replay ID.",
            )
        original_update = self._jobs.queries.poll(original_id)
        replay_update = self._jobs.queries.poll(job_id)
        result = first_difference(original_update.history, replay_update.history, tolerance)
        if not result.steps:
            raise BackendError(
                f"The jobs {original_id} and {job_id} have no step in common yet.",
                "Wait until the replay has run.",
            )
        recorded_differences = self._recorded_differences(
            original_id, original_update.view, job_id, replay_update.view
        )
        return replace(
            result,
            original_id=original_id,
            replay=job_id,
            differences=recorded_differences,
            message=_message(result, recorded_differences, tolerance, original_update.view),
        )

    def _recorded_differences(
        self, original_id: str, original_view: JobView, job_id: str, replay_view: JobView
    ) -> tuple[str, ...]:
        original_environment = environment_of(self._root.job(original_id), original_view.run)
        replay_environment = environment_of(self._root.job(job_id), replay_view.run)
        if original_environment is None or replay_environment is None:
            # Runs of an older Ringmaster have no such record; their settings are known.
            original_environment = _planned_environment(original_view)
            replay_environment = _planned_environment(replay_view)
        environment_differences = differences(original_environment, replay_environment)
        folder = self._root.job(original_id)
        settings = read_job(folder).config.environment if is_imported(folder) else {}
        empty_variables = [name for name, value in settings.items() if not value]
        return (
            *environment_differences,
            *(f"the variable {name} is empty" for name in empty_variables),
        )


def _planned_environment(view: JobView) -> RunEnvironment:
    return RunEnvironment(run=view.run, seed=view.config.seed, processes=view.world_size)


def first_difference(
    origin: HistoryUpdate, replay: HistoryUpdate, tolerance: float = TOLERANCE
) -> ReplayResult:
    """Return the first step at which two curves differ by more than ``tolerance`` (relative)."""
    replay_indexes = {int(step): index for index, step in enumerate(replay.steps)}
    common_names = [
        (k, replay_indexes[int(s)], int(s))
        for k, s in enumerate(origin.steps)
        if int(s) in replay_indexes
    ]
    names = [
        name for name in origin.metrics if name in replay.metrics and name not in _IGNORED_METRICS
    ]
    result = ReplayResult("", "", True, "", steps=len(common_names))
    for original_index, replay_index, step in common_names:
        for name in names:
            a = float(origin.metrics[name][original_index])
            b = float(replay.metrics[name][replay_index])
            if not _are_close(a, b, tolerance):
                return replace(
                    result,
                    is_same=False,
                    step=step,
                    metric=name,
                    original_value=_finite_or_none(a),
                    replay_value=_finite_or_none(b),
                )
    return result


def _are_close(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= max(_MIN_DIFFERENCE, tolerance * max(abs(a), abs(b)))


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _message(
    result: ReplayResult, recorded_differences: Sequence[str], tolerance: float, origin: JobView
) -> str:
    difference_text = "; ".join(recorded_differences)
    name = f"{origin.name} ({origin.id})"
    if result.is_same:
        steps = "the one step" if result.steps == 1 else f"all {result.steps} steps"
        text = f"The same curve: {steps} that this job and {name} made agree within "
        text += f"{100 * tolerance:g} %."
        if recorded_differences:
            text += f" Differences between the two: {difference_text}."
        return text
    text = (
        f"The curves differ from step {result.step} on: {result.metric} was "
        f"{_figure(result.original_value)} in {name} and is {_figure(result.replay_value)} in this "
        "job."
    )
    if recorded_differences:
        return f"{text} Differences between the two: {difference_text}."
    return f"{text} No recorded setting differs; the model or the loader may be random."


def _figure(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.6g}"
