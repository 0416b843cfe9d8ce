"""Status of a run while it trains, its warnings, how it ended, and the cause of a failure.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from backend.records.base import timestamps
from backend.records.base.atomic_files import stored_record
from backend.records.base.layout import JobFolder
from backend.records.base.schema import KEY, Record
from backend.records.jobs.placement import Placement
from backend.records.jobs.slow_cause import SlowCause, StepTimes
from backend.records.jobs.state import JobState
from backend.records.jobs.usage import NodeUsage

STATUS_SCHEMA = 1
GROWN = "grown"
_REQUIRED_FIELDS = (
    *("run", "epoch", "epochs", "step", "total_steps", "steps_per_epoch", "world_size"),
    *("metrics", "message", "heartbeat"),
)


@dataclass(frozen=True)
class RankError(Record, label="error"):
    """The first failure of a run. ``message`` is for users; the traceback is one click away.

    ``cause`` names what the logs prove (see `records.jobs.diagnosis`), "" if they were not
    analysed; ``evidence`` are the lines that prove it, or the last lines if nothing does.
    ``says_remedy``: the sentence is this program's and ends with what to do. ``sound_step`` is the
    last step before the loss rose, if that ended the run. ``retry`` is "always" if the machine
    failed, "once" if another try may succeed, "" if the user has to act.
    """

    message: str = field(default="", metadata={KEY: "sentence"})
    rank: int | None = None
    node: str = ""
    traceback: str = ""
    cause: str = ""
    remedy: str = ""
    evidence: tuple[EvidenceLine, ...] = ()
    says_remedy: bool = False
    sound_step: int | None = None
    retry: str = ""


@dataclass(frozen=True)
class Condition:
    """The state of a run as its launcher knows it, for the user.

    ``state`` is None where the run's own status has the truth.
    """

    state: JobState | None
    message: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Continuation(Record, label="continued run"):
    """The reason why the program itself made a run: a machine failed in the previous run.

    ``reason`` is a sentence, ``retries`` the number of such runs since the last start by a user,
    ``avoided_nodes`` are left out, and ``chosen_nodes`` are the nodes that the user chose.
    ``step`` and ``cause`` are those of the failure; the cause `GROWN` is a node that is back.
    ``chosen_batch`` and ``chosen_global_batch`` are the batch of a process and of an update on the
    nodes that the user chose, if the global batch is to stay; otherwise 0.
    """

    reason: str
    started_at: str = field(default="", metadata={KEY: "since"})
    retries: int = 0
    avoided_nodes: tuple[str, ...] = field(default=(), metadata={KEY: "avoids"})
    chosen_nodes: tuple[str, ...] = field(default=(), metadata={KEY: "before"})
    placement: tuple[Placement, ...] = ()
    batch_size: int = 0
    step: int = 0
    cause: str = ""
    chosen_batch: int = 0
    chosen_global_batch: int = 0

    @property
    def is_short(self) -> bool:
        """Return whether the run has fewer nodes than the user chose."""
        return len(self.placement) < len(self.chosen_nodes)

    @property
    def has_grown(self) -> bool:
        return self.cause == GROWN

    @property
    def nodes(self) -> str:
        """Return "2 of 3 nodes", "" if it has had all of them since its start."""
        text = f"{len(self.placement)} of {len(self.chosen_nodes)} nodes"
        return text if self.is_short or self.has_grown else ""


@dataclass(frozen=True)
class RunStatus(Record, label="status", newest_schema=STATUS_SCHEMA, required=_REQUIRED_FIELDS):
    """A reading of ``status.json``.

    ``heartbeat`` is a counter: a status is fresh if it advances, whatever two clocks say. ``step``
    counts optimizer steps of the job, over all its runs; ``epoch`` is the current one, from 1.
    ``pace_s`` is the time from one step to the next, evaluations and checkpoints included.
    ``rank_step_ms`` is the median step time of each rank over the last steps; ``slow_ranks`` are
    those that `training.slow_ranks` calls slow; ``step_times`` are the parts of a step, and
    ``slow_cause`` is what slows the job. ``is_planned``: its ranks know their steps; before
    that, the figures are those of the previous run. ``earlier_s`` is the duration of all earlier
    runs, ``earlier_gpu_s`` the same times the GPUs of each, ``earlier_energy_j`` their energy;
    ``gpus`` and ``energy_j`` are this run's, and the latter is known at its end. None is "not
    known". ``peak_memory_bytes`` is the most that rank 0 had of its GPU, or of the computer's
    memory. ``early_finish`` says why it has finished before its last epoch. ``waited_s`` is the
    time in the queue before the run, None if it was not queued.
    """

    state: JobState
    run: int = 0
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    total_steps: int = 0
    steps_per_epoch: int = 0
    world_size: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    message: str = ""
    error: RankError | None = None
    heartbeat: int = 0
    samples_per_second: float | None = None
    eta_s: float | None = None
    pace_s: float | None = None
    rank_step_ms: tuple[float, ...] = ()
    slow_ranks: tuple[int, ...] = ()
    step_times: StepTimes | None = None
    slow_cause: SlowCause | None = None
    alarms: tuple[Alarm, ...] = ()
    started_at: str = field(default="", metadata={KEY: "started"})
    updated_at: str = field(default="", metadata={KEY: "updated"})
    earlier_s: float = 0.0
    earlier_gpu_s: float | None = None
    earlier_energy_j: float | None = None
    gpus: int = 0
    energy_j: float | None = None
    other_cpu: float | None = None
    is_planned: bool = False
    continuation: Continuation | None = field(default=None, metadata={KEY: "continued"})
    early_finish: str = ""
    peak_memory_bytes: int | None = None
    waited_s: float | None = None
    unused_s: float | None = None
    """Time without use of a session."""
    schema: int = STATUS_SCHEMA

    @property
    def progress(self) -> float:
        """Share of the job that is done, 0 to 1."""
        return min(1.0, self.step / self.total_steps) if self.total_steps else 0.0

    @property
    def ended_at(self) -> str:
        """The end of the run, also of a job that is queued again; "" while it is not over."""
        return "" if self.state.is_live else self.updated_at

    @property
    def total_energy_j(self) -> float | None:
        """Energy of this run and of all earlier ones."""
        if self.energy_j is None or self.earlier_energy_j is None:
            return None
        return self.earlier_energy_j + self.energy_j

    def with_exit(self, record: RunExit) -> RunStatus:
        """Return the last status of a run: these figures, with the end that is on record.

        A clock that was set during the run does not change how long it took.
        """
        started_at, ended_at = self.started_at, record.ended_at or self.updated_at
        if record.took_s is not None:
            started_at = record.started_at or started_at
        elif timestamps.seconds(ended_at) < timestamps.seconds(started_at):
            ended_at = self.updated_at
        return replace(
            self,
            state=record.state,
            message=record.message,
            error=record.error,
            eta_s=None,
            energy_j=record.energy_j,
            other_cpu=record.other_cpu,
            started_at=started_at,
            updated_at=ended_at,
        )


def last_status(folder: JobFolder) -> RunStatus | None:
    """Return the status that was written last; None if it cannot be read."""
    return stored_record(RunStatus, folder.status)


def finite(value: float | None) -> float | None:
    """Return ``value``, or None if JSON cannot represent it."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class ProcessIdentity(Record, label="process"):
    """A process, identified uniquely: pids repeat, after a reboot from 1 on.

    ``start_ticks`` is field 22 of ``/proc/<pid>/stat`` (clock ticks since boot).
    """

    host: str
    boot_id: str
    pid: int
    start_ticks: int


@dataclass(frozen=True)
class RankExit(Record, label="exit record"):
    """The end of one rank; written by its guard (``rank-<k>.json``).

    ``outcome``: "finished", "interrupted" (agreed by all), "error" (an exception), "exit" (with
    ``code``), "signal" (killed by ``signal``), "stalled" (no progress within the limit).
    """

    rank: int
    run: int
    host: str
    node: str
    outcome: str
    code: int | None = None
    signal: str = ""
    error: RankError | None = None
    is_secondary: bool = field(default=False, metadata={KEY: "secondary"})
    """The failure is a consequence of another rank's (a collective that broke)."""
    open_files: int | None = None
    """Files that the rank could open; None without a limit, and in older records."""
    shared_memory_bytes: int | None = None
    """Size of the node's /dev/shm."""


class UnrecordedEnd(Enum):
    """Reason why a run is over although its supervisor recorded no end."""

    REBOOTED = "rebooted"
    SUPERVISOR_GONE = "supervisor gone"
    NEVER_STARTED = "never started"

    @property
    def message(self) -> str:
        return _UNRECORDED[self]


START_LIMIT_S = 120.0
"""A supervisor records its identity within a second of its start, or it never started."""
_UNRECORDED = {
    UnrecordedEnd.REBOOTED: "The computer was restarted during the run.",
    UnrecordedEnd.SUPERVISOR_GONE: "The supervisor of the run ended without a record.",
    UnrecordedEnd.NEVER_STARTED: f"The run did not start within {START_LIMIT_S:.0f} s.",
}


@dataclass(frozen=True)
class RunExit(Record, label="exit record"):
    """The end of a run, from its supervisor (``exit.json``): the most reliable record of it.

    ``leftovers``: processes with the run's tag that survived the cleanup (should be empty).
    ``energy_j``: energy of its GPUs, None if it is not known.
    ``took_s``: its duration, as its supervisor measured it; None if that did not see the end.
    ``other_cpu``: the share of the head node's processors that other programs used meanwhile.
    ``pause``: why it gave way, as a sentence; "" for other ends.
    ``nodes``: what it used of each node; ``waited_s`` as in `RunStatus`.
    """

    run: int
    state: JobState
    message: str
    error: RankError | None = None
    mpirun_code: int | None = None
    leftovers: tuple[int, ...] = ()
    ended_at: str = field(default="", metadata={KEY: "ended"})
    energy_j: float | None = None
    took_s: float | None = None
    other_cpu: float | None = None
    pause: str = ""
    nodes: tuple[NodeUsage, ...] = ()
    waited_s: float | None = None

    @property
    def started_at(self) -> str:
        """The start, by the clock of the end; "" if it is not known."""
        return "" if self.took_s is None else timestamps.time_before(self.ended_at, self.took_s)


NOT_A_NUMBER = "not-a-number"
BAD_VALIDATION = "bad-validation"
BAD_CURVE = "bad-curve"
UNMATCHED = "unmatched-numbers"
BAD_CHECKPOINT = "bad-checkpoint"
DIVERGED = "diverged"
STANDSTILL = "standstill"
METRICS_LEFT_OUT = "metrics-left-out"
NOT_SAVED = "not-saved"
NOT_TRAINED = "not-trained"

_LABELS = {
    NOT_A_NUMBER: "not a number",
    BAD_VALIDATION: "validation NaN",
    BAD_CURVE: "NaN written",
    UNMATCHED: "no number matched",
    BAD_CHECKPOINT: "checkpoint NaN",
    DIVERGED: "diverges",
    STANDSTILL: "stalled",
    METRICS_LEFT_OUT: "metrics left out",
    NOT_SAVED: "not saved",
    NOT_TRAINED: "not trained",
}


@dataclass(frozen=True)
class Alarm(Record, label="warning"):
    """A warning. ``step`` is the optimizer step at which it was raised, counted from 1."""

    kind: str
    step: int
    message: str = field(metadata={KEY: "sentence"})

    @property
    def label(self) -> str:
        """The label of its mark on the curve."""
        return _LABELS.get(self.kind, self.kind)

    @property
    def title(self) -> str:
        """The first word of a notification about it."""
        return self.label[:1].upper() + self.label[1:]


UNKNOWN = "unknown"
USER_CODE = "user_code"
LOSS_NOT_A_NUMBER = "not_a_number"
LOSS_DIVERGED = "diverged"
OF_LOSS = frozenset({LOSS_NOT_A_NUMBER, LOSS_DIVERGED})
"""Causes in the course of the loss; the message names a rank only if others are well."""


@dataclass(frozen=True)
class EvidenceLine:
    """A line of a log. ``line`` counts from 1 in the whole file; 0 if it was not counted."""

    file: str = ""
    line: int = 0
    text: str = ""

    @property
    def location(self) -> str:
        """The place, such as "rank-3.log:214", or only the file."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Explanation:
    """A cause. ``cause`` is the name of a rule, `USER_CODE` or `UNKNOWN`; ``remedy`` may be "".

    ``message`` is "" if the logs say no more than the exit records.
    """

    cause: str
    message: str = field(default="", metadata={KEY: "sentence"})
    remedy: str = ""
    evidence: tuple[EvidenceLine, ...] = ()
    is_quoted: bool = False
    """The exception states the cause in plain words, so it is quoted."""
    rank: int | None = None
    """The rank whose log proves it; None if that of another program does."""
