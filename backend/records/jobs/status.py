"""Status of a run while it trains, and how it ended.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

from backend.records.base.schema import check_schema
from backend.records.jobs.alarm import Alarm
from backend.records.jobs.diagnosis import EvidenceLine
from backend.records.jobs.state import JobState

STATUS_SCHEMA = 1


@dataclass(frozen=True)
class RankError:
    """The first failure of a run. ``sentence`` is for users; the traceback is one click away.

    ``cause`` names what the logs prove (see `records.jobs.diagnosis`), "" if they were not
    analysed; ``evidence`` are the lines that prove it, or the last lines if nothing does.
    """

    sentence: str
    rank: int | None = None
    node: str = ""
    traceback: str = ""
    cause: str = ""
    remedy: str = ""
    evidence: tuple[EvidenceLine, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> RankError:
        return cls(
            sentence=str(raw.get("sentence", "")),
            rank=None if raw.get("rank") is None else int(raw["rank"]),
            node=str(raw.get("node", "")),
            traceback=str(raw.get("traceback", "")),
            cause=str(raw.get("cause", "")),
            remedy=str(raw.get("remedy", "")),
            evidence=tuple(EvidenceLine.from_dict(one) for one in raw.get("evidence", ())),
        )


@dataclass(frozen=True)
class RunStatus:
    """One reading of ``status.json``.

    ``heartbeat`` is a counter: a status is fresh if it advances, whatever two clocks say. ``step``
    counts optimizer steps of the job, over all its runs; ``epoch`` is the current one, from 1.
    ``pace_s`` is the time from one step to the next, evaluations and checkpoints included.
    ``rank_step_ms`` is the median step time of each rank over the last steps; ``slow_ranks`` are
    those that `training.slow_ranks` calls slow. ``is_planned``: its ranks know their steps; before
    that, the figures are those of the previous run. ``earlier_s`` is the duration of all earlier
    runs, ``earlier_gpu_s`` the same times the GPUs of each, ``earlier_energy_j`` their energy;
    ``gpus`` and ``energy_j`` are this run's, and the latter is known at its end. None is "not
    known".
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
    alarms: tuple[Alarm, ...] = ()
    started: str = ""
    updated: str = ""
    earlier_s: float = 0.0
    earlier_gpu_s: float | None = None
    earlier_energy_j: float | None = None
    gpus: int = 0
    energy_j: float | None = None
    is_planned: bool = False
    schema: int = STATUS_SCHEMA

    @property
    def progress(self) -> float:
        """Share of the job that is done, 0 to 1."""
        return min(1.0, self.step / self.total_steps) if self.total_steps else 0.0

    @property
    def total_energy_j(self) -> float | None:
        """Energy of this run and of all earlier ones."""
        if self.energy_j is None or self.earlier_energy_j is None:
            return None
        return self.earlier_energy_j + self.energy_j

    def ended_as(self, record: RunExit) -> RunStatus:
        """Return the last status of a run: these figures, with the end that is on record."""
        return replace(
            self,
            state=record.state,
            message=record.message,
            error=record.error,
            eta_s=None,
            energy_j=record.energy_j,
            updated=record.ended or self.updated,
        )

    def to_dict(self) -> dict[str, Any]:
        raw = asdict(self)
        raw["state"] = self.state.value
        raw["metrics"] = {name: finite(value) for name, value in self.metrics.items()}
        raw["rank_step_ms"] = list(self.rank_step_ms)
        raw["slow_ranks"] = list(self.slow_ranks)
        raw["alarms"] = [alarm.to_dict() for alarm in self.alarms]
        return raw

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> RunStatus:
        """Read what `to_dict` wrote.

        Raises:
            ValueError: It was not written by `to_dict`, or by a newer Ringmaster.
        """
        check_schema(raw, "status", STATUS_SCHEMA)
        try:
            return cls(
                state=JobState(raw["state"]),
                run=int(raw["run"]),
                epoch=int(raw["epoch"]),
                epochs=int(raw["epochs"]),
                step=int(raw["step"]),
                total_steps=int(raw["total_steps"]),
                steps_per_epoch=int(raw["steps_per_epoch"]),
                world_size=int(raw["world_size"]),
                metrics={
                    str(name): None if value is None else float(value)
                    for name, value in dict(raw["metrics"]).items()
                },
                message=str(raw["message"]),
                error=RankError.from_dict(raw["error"]) if raw.get("error") else None,
                heartbeat=int(raw["heartbeat"]),
                samples_per_second=_optional(raw.get("samples_per_second")),
                eta_s=_optional(raw.get("eta_s")),
                pace_s=_optional(raw.get("pace_s")),
                rank_step_ms=tuple(float(v) for v in raw.get("rank_step_ms", ())),
                slow_ranks=tuple(int(rank) for rank in raw.get("slow_ranks", ())),
                alarms=tuple(Alarm.from_dict(one) for one in raw.get("alarms", ())),
                started=str(raw.get("started", "")),
                updated=str(raw.get("updated", "")),
                earlier_s=float(raw.get("earlier_s", 0.0)),
                earlier_gpu_s=_optional(raw.get("earlier_gpu_s")),
                earlier_energy_j=_optional(raw.get("earlier_energy_j")),
                gpus=int(raw.get("gpus", 0)),
                energy_j=_optional(raw.get("energy_j")),
                is_planned=bool(raw.get("is_planned", False)),
                schema=raw["schema"],
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"status without a usable {error}") from error


def finite(value: float | None) -> float | None:
    """Return ``value``, or None if JSON cannot represent it."""
    return value if value is not None and math.isfinite(value) else None


def _optional(value: Any) -> float | None:
    return None if value is None else float(value)


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, identified uniquely: pids repeat, after a reboot from 1 on.

    ``start_ticks`` is field 22 of ``/proc/<pid>/stat`` (clock ticks since boot).
    """

    host: str
    boot_id: str
    pid: int
    start_ticks: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> ProcessIdentity:
        return cls(str(raw["host"]), str(raw["boot_id"]), int(raw["pid"]), int(raw["start_ticks"]))


@dataclass(frozen=True)
class RankExit:
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
    secondary: bool = False
    """The failure is a consequence of another rank's (a collective that broke)."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> RankExit:
        return cls(
            rank=int(raw["rank"]),
            run=int(raw["run"]),
            host=str(raw["host"]),
            node=str(raw["node"]),
            outcome=str(raw["outcome"]),
            code=None if raw.get("code") is None else int(raw["code"]),
            signal=str(raw.get("signal", "")),
            error=RankError.from_dict(raw["error"]) if raw.get("error") else None,
            secondary=bool(raw.get("secondary", False)),
        )


class UnrecordedEnd(Enum):
    """Why a run is over although its supervisor recorded no end."""

    REBOOTED = "rebooted"
    SUPERVISOR_GONE = "supervisor gone"
    NEVER_STARTED = "never started"

    @property
    def sentence(self) -> str:
        return _UNRECORDED[self]


START_LIMIT_S = 120.0
"""A supervisor records its identity within a second of its start, or it never started."""
_UNRECORDED = {
    UnrecordedEnd.REBOOTED: "The computer was restarted during the run.",
    UnrecordedEnd.SUPERVISOR_GONE: "The supervisor of the run ended without a record.",
    UnrecordedEnd.NEVER_STARTED: f"The run did not start within {START_LIMIT_S:.0f} s.",
}


@dataclass(frozen=True)
class RunExit:
    """The end of a run, from its supervisor (``exit.json``): the most reliable record of it.

    ``leftovers``: processes with the run's tag that survived the cleanup (should be empty).
    ``energy_j``: energy of its GPUs, None if it is not known.
    """

    run: int
    state: JobState
    message: str
    error: RankError | None = None
    mpirun_code: int | None = None
    leftovers: tuple[int, ...] = ()
    ended: str = ""
    energy_j: float | None = None

    def to_dict(self) -> dict[str, Any]:
        raw = asdict(self)
        raw["state"] = self.state.value
        raw["leftovers"] = list(self.leftovers)
        return raw

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> RunExit:
        return cls(
            run=int(raw["run"]),
            state=JobState(raw["state"]),
            message=str(raw["message"]),
            error=RankError.from_dict(raw["error"]) if raw.get("error") else None,
            mpirun_code=None if raw.get("mpirun_code") is None else int(raw["mpirun_code"]),
            leftovers=tuple(int(pid) for pid in raw.get("leftovers", ())),
            ended=str(raw.get("ended", "")),
            energy_j=_optional(raw.get("energy_j")),
        )
