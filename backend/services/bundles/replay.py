"""Replays: train a job again, and compare the curve with the original's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError, as_backend_error
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
from backend.records.jobs.config import JobConfig, without_neighbours
from backend.records.jobs.history_update import HistoryUpdate
from backend.records.jobs.metric_names import OF_SERVERS
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.run_environment import RunEnvironment, differences
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
_SMALLEST = 1e-6
_NOT_THE_CURVE = frozenset({"samples_per_second", *OF_SERVERS})


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

        Without a ``placement`` it runs where the job ran, or here if those nodes are not known.

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
        raw["name"] = _named(view.name)
        for key, pin in view.pins.items():
            item = find_same_version(self._library, KINDS[key], pin)
            if item is None:
                raise BackendError(
                    f"The {KINDS[key].value} {pin.reference} (SHA-256 {pin.sha256}) is not in "
                    "this data root.",
                    "Import it, or request a bundle that includes it.",
                )
            raw[key] = item.reference
        chosen = tuple(placement) or self._placement(view.config)
        raw["placement"] = [one.to_dict() for one in chosen]
        return without_neighbours(raw)

    def _placement(self, config: JobConfig) -> tuple[Placement, ...]:
        rooms = {room.node: room for room in self._nodes.capacities()}
        if all(
            one.node in rooms and set(one.gpus) <= set(rooms[one.node].gpus)
            for one in config.placement
        ):
            return config.placement
        here = rooms.get(THIS_COMPUTER)
        if not config.uses_gpus:
            return (Placement(THIS_COMPUTER, config.world_size, ()),)
        if here is not None and len(here.gpus) >= config.world_size:
            return (Placement(THIS_COMPUTER, 0, here.gpus[: config.world_size]),)
        where = ", ".join(one.node for one in config.placement)
        raise BackendError(
            f"The job ran on {config.world_size} GPUs of {where}, which are not here.",
            f"Choose where it runs: {COMMAND} job replay ID --on NODE=GPU,GPU",
        )

    def original_id(self, job_id: str) -> str:
        """Return the job that this one replays, or ""."""
        folder = self._root.job(job_id)
        with as_backend_error(f"The job {job_id} could not be read"):
            self._root.files.refresh_file(folder.origin)
        return original_of(folder)

    def compare(self, job_id: str, tolerance: float = TOLERANCE) -> ReplayResult:
        """Compare the curve of a replay with its original's.

        Raises:
            BackendError: It is not a replay, or one of the two made no step.
        """
        original = self.original_id(job_id)
        if not original:
            raise BackendError(
                f"The job {job_id} is not a replay.",
                f"Make one with “Replay”, or {COMMAND} job replay ID.",
            )
        before, after = self._jobs.queries.poll(original), self._jobs.queries.poll(job_id)
        found = first_difference(before.history, after.history, tolerance)
        if not found.steps:
            raise BackendError(
                f"The jobs {original} and {job_id} have no step in common yet.",
                "Wait until the replay has run.",
            )
        apart = self._apart(original, before.view, job_id, after.view)
        return replace(
            found,
            original=original,
            replay=job_id,
            differences=apart,
            sentence=_sentence(found, apart, tolerance, before.view),
        )

    def _apart(
        self, original: str, before: JobView, job_id: str, after: JobView
    ) -> tuple[str, ...]:
        then = environment_of(self._root.job(original), before.run)
        now = environment_of(self._root.job(job_id), after.run)
        if then is None or now is None:
            # Runs of an older Ringmaster have no such record; their settings are known.
            then, now = _asked(before), _asked(after)
        found = differences(then, now)
        folder = self._root.job(original)
        settings = read_job(folder).config.environment if is_imported(folder) else {}
        gone = [name for name, value in settings.items() if not value]
        return (*found, *(f"the variable {name} is empty" for name in gone))


def _asked(view: JobView) -> RunEnvironment:
    return RunEnvironment(run=view.run, seed=view.config.seed, processes=view.world_size)


def first_difference(
    then: HistoryUpdate, now: HistoryUpdate, tolerance: float = TOLERANCE
) -> ReplayResult:
    """Return the first step at which two curves differ by more than ``tolerance`` (relative)."""
    places = {int(step): place for place, step in enumerate(now.steps)}
    common = [(k, places[int(s)], int(s)) for k, s in enumerate(then.steps) if int(s) in places]
    names = [name for name in then.metrics if name in now.metrics and name not in _NOT_THE_CURVE]
    found = ReplayResult("", "", True, "", steps=len(common))
    for before, after, step in common:
        for name in names:
            a, b = float(then.metrics[name][before]), float(now.metrics[name][after])
            if not _alike(a, b, tolerance):
                return replace(
                    found, is_same=False, step=step, metric=name, then=_shown(a), now=_shown(b)
                )
    return found


def _alike(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= max(_SMALLEST, tolerance * max(abs(a), abs(b)))


def _shown(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _sentence(
    found: ReplayResult, apart: Sequence[str], tolerance: float, original: JobView
) -> str:
    what = "; ".join(apart)
    name = f"{original.name} ({original.id})"
    if found.is_same:
        steps = "the one step" if found.steps == 1 else f"all {found.steps} steps"
        text = f"The same curve: {steps} that this job and {name} made agree within "
        text += f"{100 * tolerance:g} %."
        return f"{text} Differences between the two: {what}." if apart else text
    text = (
        f"The curves differ from step {found.step} on: {found.metric} was {_figure(found.then)} "
        f"in {name} and is {_figure(found.now)} in this job."
    )
    if apart:
        return f"{text} Differences between the two: {what}."
    return f"{text} No recorded setting differs; the model or the loader may be random."


def _figure(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.6g}"


def _named(name: str) -> str:
    ending = " (replay)"
    return name.encode()[: 255 - len(ending)].decode(errors="ignore") + ending
