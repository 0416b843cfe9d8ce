"""The records of the scheduler in `tests.fakes.at_once`, and its entry of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backend.records.base.schema import STRICT, Record
from backend.records.jobs.placement import Placement, PlacementError
from backend.records.jobs.schedulers import ClusterScheduler
from backend.records.jobs.setting import WHERE_SECTION, setting

KEY = "at_once"


def _setting(kind: str, label: str, default: Any) -> Any:
    return setting(kind, label, default, section=WHERE_SECTION, is_changeable=True)


@dataclass(frozen=True)
class AtOncePlacement(Record, label="placement of the tests", rules=STRICT):
    cluster: str = _setting("text", "Cluster", "")
    partition: str = _setting("text", "Partition", "")
    nodes: int = _setting("whole", "Nodes", 1)
    processes: int = _setting("whole", "Processes", 1)
    gpus: int = _setting("whole", "GPUs", 0)
    networks: str = _setting("text", "Networks", "")
    continues: bool = _setting("flag", "Requeue", False)

    def errors(self) -> Iterator[PlacementError]:
        if self.nodes > 1:
            yield PlacementError("This computer is one node.", "Ask for one.")

    def placements(self) -> tuple[Placement, ...]:
        return (Placement(f"{self.cluster}-1", self.processes),)


@dataclass(frozen=True)
class AtOnceSubmission(Record, label="submission of the tests"):
    """``number`` is the process of the batch script, or "waiting"."""

    placement: AtOncePlacement
    number: str = ""


SCHEDULER = ClusterScheduler(KEY, "At Once", "uname", "-m", AtOncePlacement, AtOnceSubmission)
