"""A job as users see it: the content of ``job show``, and of every list, header and card."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.schema import KEY, json_value
from backend.records.base.timestamps import seconds
from backend.records.base.validation import ConfigError
from backend.records.jobs.config import JobConfig
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.placement import Placement
from backend.records.jobs.script import is_session, session_length_s
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunStatus, UnrecordedEnd
from backend.records.library.item import Pin
from backend.records.library.preview import ModelCheck
from backend.records.nodes.reading import Finding

JOULES_A_KWH = 3.6e6
NO_RESUME_REASON = "The script has no arguments to resume with; clone the job to give it some"


def gpu_seconds(
    earlier_s: float | None, gpus: int, started_s: float, ended_s: float
) -> float | None:
    """Return the seconds of all runs, each times its GPUs; None if unknown.

    Times are seconds since 1970, 0.0 if there is none.
    """
    if earlier_s is None or not started_s or not ended_s:
        return None
    seconds = earlier_s + gpus * max(0.0, ended_s - started_s)
    return seconds if seconds > 0 else None


@dataclass(frozen=True)
class JobView:
    """A job at one moment. Times are UTC, ISO 8601; "" if there is none."""

    id: str
    name: str
    config: JobConfig
    created: str
    status: RunStatus
    """The newest run: what it wrote last, or how it ended."""
    best_metric: tuple[str, float] | None = None
    user: str = ""
    notes: str = ""
    tags: tuple[str, ...] = ()
    pins: Mapping[str, Pin] = field(default_factory=dict)
    contact_warning: str = ""
    """"no news since 14:02", or "" during contact. The state does not change."""
    unrecorded_end: UnrecordedEnd | None = None
    """Reason why a run that is over has to be reaped; see `backend.datastore.jobs.reaper`."""

    @property
    def state(self) -> JobState:
        return self.status.state

    @property
    def run(self) -> int:
        return self.status.run

    @property
    def step(self) -> int:
        return self.status.step

    @property
    def error(self) -> RankError | None:
        return self.status.error

    @property
    def epochs(self) -> int:
        """Return the epochs of the job; 0 as long as only its script knows them."""
        return self.config.epochs or self.status.epochs

    @property
    def resumes(self) -> bool:
        """Return whether the job can continue from a checkpoint; a script needs arguments."""
        return not self.is_script or bool(self.config.resume_arguments)

    @property
    def has_scheduler(self) -> bool:
        """Return whether a cluster's scheduler starts the job."""
        return self.config.allocation is not None

    @property
    def is_script(self) -> bool:
        return bool(self.config.script)

    @property
    def is_session(self) -> bool:
        return is_session(self.config.script)

    @property
    def state_label(self) -> str:
        return self.state.label_for(is_session=self.is_session)

    @property
    def length_s(self) -> float:
        """Return the time limit of a session, 0.0 for other jobs."""
        return session_length_s(self.config.arguments) if self.is_session else 0.0

    @property
    def world_size(self) -> int:
        return self.config.world_size

    @property
    def process_count(self) -> int:
        """Return the GPUs, or the processes on CPUs; one process may have several GPUs."""
        return sum(placement.process_count for placement in self.config.placement)

    @property
    def uses_gpus(self) -> bool:
        return self.config.uses_gpus

    @property
    def progress(self) -> float | None:
        """Return the share that is done, None if a script has named no total."""
        if self.state is JobState.FINISHED:
            return 1.0
        has_none = self.config.script and self.run and not self.status.total_steps
        return None if has_none else self.status.progress

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes, or the cluster whose scheduler has not chosen them yet."""
        if self.config.allocation is not None and not self.config.names_nodes:
            return (self.config.allocation.cluster,)
        return tuple(placement.node for placement in self.config.placement)

    def gpu_s(self, now_s: float) -> float | None:
        """Return the seconds that all its runs took, each times its GPUs; None on CPUs."""
        status = self.status
        ended_s = seconds(status.ended_at) or (now_s if self.state.is_live else 0.0)
        gpus = self.process_count if self.uses_gpus else 0
        return gpu_seconds(status.earlier_gpu_s, gpus, seconds(status.started_at), ended_s)

    def ranks(self) -> Iterator[tuple[int, Placement, str]]:
        """Yield each rank, its node, and the UUID of its GPU or "", in the placement's order."""
        rank = 0
        for placement in self.config.placement:
            for index in range(placement.process_count):
                yield rank, placement, placement.gpus[index] if placement.gpus else ""
                rank += 1

    def slowest(self) -> tuple[int, float] | None:
        """Find the slowest of the slow ranks of a running job.

        Returns:
            The rank, and the share by which a step takes longer than without the slow ranks. None
            if no rank is slow, or all are.
        """
        times = self.status.rank_step_ms
        slow_ranks = [rank for rank in self.status.slow_ranks if rank < len(times)]
        # A server has no step time.
        other_times = [ms for rank, ms in enumerate(times) if ms and rank not in slow_ranks]
        if not self.state.is_live or not slow_ranks or not other_times:
            return None
        rank = max(slow_ranks, key=lambda rank: times[rank])
        from statistics import median

        return rank, times[rank] / median(other_times) - 1

    def slow_message(self) -> str:
        """Return the cause that slows the running job as a sentence, or ""."""
        cause = self.status.slow_cause
        if cause is None or not self.state.is_live:
            return ""
        nodes = [placement.node for _, placement, _ in self.ranks()]
        return cause.message(nodes[cause.rank or 0], len(set(nodes)))

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``--json`` prints; parts of a step only for a live job."""
        status = self.status
        live_parts = {"step_times": status.step_times, "slow_cause": status.slow_cause}
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state.value,
            "run": self.run,
            "epoch": status.epoch,
            "epochs": self.epochs,
            "step": self.step,
            "total_steps": status.total_steps,
            "world_size": self.world_size,
            "metrics": json_value(status.metrics),
            "message": status.message,
            "error": json_value(self.error),
            "created": self.created,
            "started": status.started_at,
            "ended": status.ended_at,
            "gpu_hours": _in_unit(self.gpu_s(time.time()), 3600),
            "energy_kwh": _in_unit(status.total_energy_j, JOULES_A_KWH),
            "tags": list(self.tags),
            "notes": self.notes,
            "eta_s": status.eta_s,
            "pins": json_value(self.pins),
            "doubt": self.contact_warning,
            **(
                {"continued": json_value(status.continuation)}
                if status.continuation is not None
                else {}
            ),
            "alarms": json_value(status.alarms),
            **(
                json_value(live_parts)
                if self.state.is_live and status.step_times is not None
                else {}
            ),
        }


def _in_unit(value: float | None, unit: float) -> float | None:
    return None if value is None else round(value / unit, 6)


@dataclass(frozen=True)
class JobForecast:
    """Forecast of a job; None for what is not known.

    ``pace_source`` is the name of the job that gave the pace; ``checkpoint_bytes`` is one
    checkpoint, of which ``checkpoints_kept`` are on the disk at the end. ``free_bytes`` is the
    disk's free space, ``free_files`` the number of files that it can still take.
    """

    total_steps: int | None = None
    lasts_s: float | None = None
    pace_source: str = field(default="", metadata={KEY: "like"})
    pace_s: float | None = None
    checkpoint_bytes: int | None = None
    checkpoints_kept: int = 0
    free_bytes: int | None = None
    gpu_s: float | None = None
    energy_j: float | None = None
    free_files: int | None = None

    @property
    def disk_bytes(self) -> int | None:
        """Size of all checkpoints that are kept, at most."""
        if self.checkpoint_bytes is None:
            return None
        return self.checkpoint_bytes * self.checkpoints_kept


GPU_CHECK = "gpu"
"""Name of the check that fails if another user is using a chosen GPU."""
NODE_CHECK = "node"
"""Name of the check that fails if a chosen node is offline."""


@dataclass(frozen=True)
class JobCheck:
    """The result of checking a job form: errors, and figures of the job.

    ``steps_per_epoch`` is None until the size of the dataset is known. ``rates`` are learning
    rates at equal distances over the whole job, for the preview curve.
    """

    errors: tuple[ConfigError, ...] = field(default=(), metadata={KEY: "faults"})
    global_batch: int | None = None
    workers: int = 0
    """The processes that train; the others are ``servers``."""
    servers: int = 0
    learning_rate: float | None = None
    steps_per_epoch: int | None = None
    rates: tuple[float, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Checks of the job; one that failed is a hint, and does not prevent creating the job."""
    jobs: int = 1
    """Number of jobs; more than one for a sweep, whose figures are those of its first job."""
    forecast: JobForecast = JobForecast()
    content_hashes: tuple[str, ...] = field(default=(), metadata={KEY: "together"})
    """The hashes of the files of model, dataset and loader; () until all three exist."""
    trial: ModelCheck | None = None
    """The result of one batch with these three, None if they were never tried."""
    is_counted: bool = False
    """True if the size of the dataset is known."""
    usual_strategy: str = ""
    """The strategy that the job gets if none is chosen; "" until it is known."""

    @property
    def may_start(self) -> bool:
        return not self.errors

    @property
    def waits_for(self) -> str:
        """Return the check because of which it can only be queued, "" if it can be started."""
        failures = {finding.check for finding in self.findings if not finding.ok}
        return next((finding for finding in (NODE_CHECK, GPU_CHECK) if finding in failures), "")


@dataclass(frozen=True)
class JobCommand:
    """The command that starts a job, as one line; "" while its settings are invalid.

    ``node`` is the node on which it can be pasted into a shell: it trains in ``folder`` then, and
    the job does not change. Both are "" before the job's first start.
    """

    line: str = ""
    node: str = ""
    folder: str = ""


@dataclass(frozen=True)
class RunUpdate:
    """An update of a job: its whole view, and what is new in its history.

    ``cursor`` is opaque: pass it to the next read.
    """

    view: JobView
    history: HistoryUpdate
    cursor: object = None


@dataclass(frozen=True)
class JobRun:
    """A run of a job.

    ``put_away``: the number of the last run that starting over put away with it; 0 if the job
    still shows it. ``message`` says how it ended, and who stopped it. ``first_step`` and
    ``last_step`` are 0 if it made none. ``changes`` are the settings that the run before it did not
    have, as text.
    """

    number: int
    state: JobState
    put_away: int = 0
    message: str = ""
    started_at: str = field(default="", metadata={KEY: "started"})
    ended_at: str = field(default="", metadata={KEY: "ended"})
    first_step: int = 0
    last_step: int = 0
    changes: str = ""


def earlier_log(job_id: str, put_away: int) -> str:
    """Return an id that stands for the logs of the runs that starting over put away."""
    return f"{job_id}/runs/{put_away}"


@dataclass(frozen=True)
class LogChunk:
    """A chunk of a log. ``offset`` is the byte after it; ``size`` the file's current size."""

    text: str
    offset: int
    size: int


ALL_LOGS = "all"
MPIRUN_LOG = "mpirun"


@dataclass(frozen=True)
class LogSize:
    """Current size of a log. ``generation`` changes if the log was replaced.

    ``begins_at``: the offset in bytes of the first line that can be shown; more than 0 if reading
    the whole log would take too long.
    """

    lines: int = 0
    size_bytes: int = 0
    generation: int = 0
    begins_at: int = 0


@dataclass(frozen=True)
class LogLines:
    """Lines from number ``first_number`` on, counted from 0.

    ``sources`` says where each is from if that differs: the number of a rank, or "mpirun".
    """

    first_number: int
    lines: tuple[str, ...]
    generation: int = 0
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogMatches:
    """The lines that contain a text, by number from 0, among the first ``searched_count``.

    ``is_cut``: there are more matches than ``lines``.
    """

    text: str
    lines: tuple[int, ...]
    searched_count: int
    generation: int = 0
    is_cut: bool = False
