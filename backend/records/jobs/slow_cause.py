"""The parts of a step on each rank, and the one cause that slows a job.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from backend.records.base.schema import Record


class Cause(Enum):
    DATA = "data"
    COMPUTE = "compute"
    CPU = "cpu"
    """Other programs take the CPU: a rank that could compute waits for a core."""
    COMMUNICATION = "communication"


@dataclass(frozen=True)
class StepTimes(Record, label="step times"):
    """Milliseconds of a step over the last steps, one number for each rank.

    ``communication_ms`` is the same on all ranks. None: it is part of ``compute_ms``, as on a GPU,
    where the CPU waits for both at once.
    """

    data_ms: tuple[float, ...]
    compute_ms: tuple[float, ...]
    waiting_ms: tuple[float, ...]
    communication_ms: float | None = None

    def times_of_rank(self, rank: int) -> dict[str, float]:
        """Return the parts of a rank's step by name."""
        data, compute = self.data_ms[rank], self.compute_ms[rank]
        if self.communication_ms is None:
            return {"data": data, "compute and communication": compute}
        return {
            "data": data,
            "compute": compute,
            "communication": self.communication_ms,
            "waiting": self.waiting_ms[rank],
        }


@dataclass(frozen=True)
class SlowCause(Record, label="slow cause"):
    """The cause that costs most, with its evidence.

    ``ms`` is the time of its part in a step of ``step_ms``, and ``usual_ms`` that of the same part
    on the other ranks, or of the same step on free cores. ``rank`` is None if it is the same on
    every rank. ``cpu_wait_ms``: how long the rank waits for a core in a step.
    """

    cause: Cause
    rank: int | None
    ms: float
    step_ms: float
    usual_ms: float = 0.0
    cpu_wait_ms: float = 0.0

    @property
    def is_of_shared_cores(self) -> bool:
        """Return whether other programs use the cores of every rank."""
        return self.rank is None and self.cause is Cause.CPU

    @property
    def evidence(self) -> str:
        """Return the second half of `message`."""
        ms, usual_ms, rank = _figure(self.ms), _figure(self.usual_ms), self.rank
        if self.is_of_shared_cores:
            times = f"{self.ms / max(self.usual_ms, 1e-9):.1f}".removesuffix(".0")
            return (
                f"processes share their cores with other programs, so steps take {times} × as long"
            )
        if rank is None:
            activity = "waiting for data" if self.cause is Cause.DATA else "communication"
            return (
                f"{activity} takes {ms} of the {_figure(self.step_ms)} ms of a step on every rank"
            )
        if self.cause is Cause.DATA:
            return f"rank {rank} waits {ms} ms a step for its loader, the others {usual_ms} ms"
        if self.cause is Cause.COMMUNICATION:
            return f"rank {rank} waits {ms} ms a step for the servers, the others {usual_ms} ms"
        message = f"rank {rank} computes {ms} ms a step, the others {usual_ms} ms"
        if self.cause is Cause.CPU:
            wait = _figure(self.cpu_wait_ms)
            return f"other programs use its CPU; {message}, and it waits {wait} ms for a free core"
        return message

    def message(self, node: str, node_count: int) -> str:
        """Return ``The network slows this job: communication takes 22 of the 31 ms …``.

        Args:
            node: The node of the rank.
            node_count: The number of the job's nodes.
        """
        if self.is_of_shared_cores:
            return f"{self.evidence[0].upper()}{self.evidence[1:]}."
        shared_part = "The loader"
        if self.cause is Cause.COMMUNICATION:
            shared_part = "The network" if node_count > 1 else "Communication"
        return f"{shared_part if self.rank is None else node} slows this job: {self.evidence}."


def _figure(ms: float) -> str:
    return f"{ms:.0f}" if ms >= 9.95 else f"{ms:.1f}"
