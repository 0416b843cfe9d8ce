"""A job as people see it: what ``job show`` prints and what every list, header and card shows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.timestamps import seconds
from backend.records.base.validation import Fault
from backend.records.jobs.alarm import Alarm
from backend.records.jobs.config import JobConfig, Placement
from backend.records.jobs.history_update import HistoryUpdate
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, UnrecordedEnd, finite
from backend.records.library.item import Pin
from backend.records.library.preview import ModelCheck
from backend.records.nodes.reading import Finding

JOULES_A_KWH = 3.6e6


def gpu_seconds(earlier_s: float | None, gpus: int, started: float, ended: float) -> float | None:
    """Seconds of the earlier runs and of the newest, each times its GPUs; None where unknown.

    Times are seconds since 1970, 0.0 when there is none.
    """
    if earlier_s is None or not started or not ended:
        return None
    found = earlier_s + gpus * (ended - started)
    return found if found > 0 else None


@dataclass(frozen=True)
class JobView:
    """One job at one moment. Times are UTC, ISO 8601; "" when there is none."""

    id: str
    name: str
    state: JobState
    config: JobConfig
    created: str
    run: int = 0
    epoch: int = 0
    step: int = 0
    total_steps: int = 0
    steps_per_epoch: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    best_metric: tuple[str, float] | None = None
    message: str = ""
    error: RankError | None = None
    started: str = ""
    ended: str = ""
    earlier_s: float = 0.0
    """How long its runs before the newest one took together; ``started`` is of the newest one."""
    earlier_gpu_s: float | None = 0.0
    """The same, each times its GPUs; None where that was not recorded."""
    energy_j: float | None = None
    """What the GPUs of all its runs used; None while it runs, and where it is not known."""
    user: str = ""
    notes: str = ""
    tags: tuple[str, ...] = ()
    pins: Mapping[str, Pin] = field(default_factory=dict)
    eta_s: float | None = None
    pace_s: float | None = None
    samples_per_second: float | None = None
    rank_step_ms: tuple[float, ...] = ()
    slow_ranks: tuple[int, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    doubt: str = ""
    """"no news since 14:02", or "" when the news is fresh. Doubt is not a state."""
    unrecorded_end: UnrecordedEnd | None = None
    """Set while a run that is over has to be reaped; see `backend.datastore.jobs.reaper`."""

    @property
    def epochs(self) -> int:
        return self.config.epochs

    @property
    def world_size(self) -> int:
        return self.config.world_size

    @property
    def uses_gpus(self) -> bool:
        return self.config.uses_gpus

    @property
    def progress(self) -> float:
        if self.state is JobState.FINISHED:
            return 1.0
        return min(1.0, self.step / self.total_steps) if self.total_steps else 0.0

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(placement.node for placement in self.config.placement)

    def gpu_s(self, now_s: float) -> float | None:
        """Seconds that all its runs took, each times its GPUs; None on processors."""
        ended = seconds(self.ended) or (now_s if self.state.is_live else 0.0)
        gpus = self.world_size if self.uses_gpus else 0
        return gpu_seconds(self.earlier_gpu_s, gpus, seconds(self.started), ended)

    def ranks(self) -> Iterator[tuple[int, Placement, str]]:
        """Yield each rank, its node, and the UUID of its GPU or "", along the placement."""
        rank = 0
        for placement in self.config.placement:
            for slot in range(placement.slots):
                yield rank, placement, placement.gpus[slot] if placement.gpus else ""
                rank += 1

    def slowest(self) -> tuple[int, float] | None:
        """Find the slowest of the slow ranks of a running job.

        Returns:
            The rank, and the share by which a step takes longer than without the slow ranks. None
            where no rank is slow, or all are.
        """
        times = self.rank_step_ms
        slow = [rank for rank in self.slow_ranks if rank < len(times)]
        rest = [ms for rank, ms in enumerate(times) if rank not in slow]
        if not self.state.is_live or not slow or not rest:
            return None
        rank = max(slow, key=lambda rank: times[rank])
        return rank, times[rank] / statistics.median(rest) - 1

    def to_json(self) -> dict[str, Any]:
        """The document that ``--json`` prints."""
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state.value,
            "run": self.run,
            "epoch": self.epoch,
            "epochs": self.epochs,
            "step": self.step,
            "total_steps": self.total_steps,
            "world_size": self.world_size,
            "metrics": {name: finite(value) for name, value in self.metrics.items()},
            "message": self.message,
            "error": None if self.error is None else self.error.to_dict(),
            "created": self.created,
            "started": self.started,
            "ended": self.ended,
            "gpu_hours": _in(self.gpu_s(time.time()), 3600),
            "energy_kwh": _in(self.energy_j, JOULES_A_KWH),
            "tags": list(self.tags),
            "notes": self.notes,
            "eta_s": self.eta_s,
            "pins": {
                kind: {"name": p.name, "version": p.version, "sha256": p.sha256}
                for kind, p in self.pins.items()
            },
            "doubt": self.doubt,
            "alarms": [alarm.to_dict() for alarm in self.alarms],
        }


def _in(value: float | None, each: float) -> float | None:
    return None if value is None else round(value / each, 6)


@dataclass(frozen=True)
class JobForecast:
    """What a job will take; None where nobody can say.

    ``like`` is the name of the job whose pace it is; ``checkpoint_bytes`` is one checkpoint, of
    which ``checkpoints_kept`` lie on the disk in the end. ``free_bytes`` is what that disk has.
    """

    total_steps: int | None = None
    lasts_s: float | None = None
    like: str = ""
    pace_s: float | None = None
    checkpoint_bytes: int | None = None
    checkpoints_kept: int = 0
    free_bytes: int | None = None
    gpu_s: float | None = None
    energy_j: float | None = None

    @property
    def disk_bytes(self) -> int | None:
        """Of all checkpoints that are kept, at most."""
        if self.checkpoint_bytes is None:
            return None
        return self.checkpoint_bytes * self.checkpoints_kept


GPU_CHECK = "gpu"
"""Its finding that is not ok: a chosen GPU is somebody else's at the moment."""


@dataclass(frozen=True)
class JobCheck:
    """What the form shows beside itself: faults, and what the settings come to.

    ``steps_per_epoch`` is None until the size of the dataset is known. ``rates`` are learning
    rates at equal distances over the whole job, for the preview curve.
    """

    faults: tuple[Fault, ...] = ()
    global_batch: int | None = None
    learning_rate: float | None = None
    steps_per_epoch: int | None = None
    rates: tuple[float, ...] = ()
    command: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Checks that passed; one that did not is a hint, and does not keep the job from being made."""
    jobs: int = 1
    """How many jobs would be made; more than one of a sweep, whose figures are its first job's."""
    forecast: JobForecast = JobForecast()
    together: tuple[str, ...] = ()
    """The hashes of the files of model, dataset and loader; () until all three are there."""
    trial: ModelCheck | None = None
    """What one batch of these three gave, None when it was never tried."""
    is_counted: bool = False
    """Whether the size of the dataset is known."""

    @property
    def may_start(self) -> bool:
        return not self.faults

    @property
    def waits_for_gpus(self) -> bool:
        """It can be queued; a start would be refused with the owner's name."""
        return any(one.check == GPU_CHECK and not one.ok for one in self.findings)


@dataclass(frozen=True)
class JobCommand:
    """What starts a job, as one line; "" where nothing can be said while its settings are at fault.

    ``node`` is where it can be pasted into a shell: it trains in ``folder`` then, and the job stays
    as it is. Both are "" before its first start, when there is nothing yet that it could run.
    """

    line: str = ""
    node: str = ""
    folder: str = ""


@dataclass(frozen=True)
class RunUpdate:
    """One look at a job: the whole view, and what is new in its history.

    ``cursor`` is opaque: give it back with the next look.
    """

    view: JobView
    history: HistoryUpdate
    cursor: object = None


@dataclass(frozen=True)
class JobRun:
    """One run of a job.

    ``put_away``: the number of the last run that starting over put away together with it; 0 for
    one that is a part of what the job shows. ``message`` says how it ended, and by whom it was
    stopped. ``first_step`` and ``last_step`` are 0 when it made none.
    """

    number: int
    state: JobState
    put_away: int = 0
    message: str = ""
    started: str = ""
    ended: str = ""
    first_step: int = 0
    last_step: int = 0


def earlier_log(job_id: str, put_away: int) -> str:
    """In the place of a job's id: its logs of the runs that starting over put away so."""
    return f"{job_id}/runs/{put_away}"


@dataclass(frozen=True)
class LogChunk:
    """A piece of a log. ``offset`` is the byte after it; ``size`` the file's size now."""

    text: str
    offset: int
    size: int


ALL_LOGS = "all"
MPIRUN_LOG = "mpirun"


@dataclass(frozen=True)
class LogSize:
    """How long a log is now. ``generation`` changes when it is another one than before.

    ``begins_at``: the byte of the file where the lines begin that can be shown; more than 0 where
    reading all of it would take too long.
    """

    lines: int = 0
    size_bytes: int = 0
    generation: int = 0
    begins_at: int = 0


@dataclass(frozen=True)
class LogLines:
    """Lines from number ``first`` on, counted from 0. ``sources`` says whose each is, where that
    differs: the number of a rank, or "mpirun"."""

    first: int
    lines: tuple[str, ...]
    generation: int = 0
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogMatches:
    """The lines that hold a text, by number from 0, among the first ``searched`` ones.

    ``is_cut``: there are more than are told.
    """

    text: str
    lines: tuple[int, ...]
    searched: int
    generation: int = 0
    is_cut: bool = False
