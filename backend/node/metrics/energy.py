"""Energy that the GPUs of a run use, from the counters of their drivers.

The counters of a node with an agent are in its last reading; on this computer, which has none, the
driver is queried. A figure that could be wrong is not given: if a node's agent was away, or a GPU
has no counter, the energy is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from backend.node.metrics.gpus import Gpus
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.reading import Gpu, NodeReading

_SHORTEST_BEATS = 20
"""A reading is up to one heartbeat old: for a shorter run the figure would be too inaccurate."""
_LEAST_BEAT_SHARE = 0.9
"""The share of the expected heartbeats that proves that an agent was running."""


@dataclass(frozen=True)
class _Counters:
    """``beat_s`` counts the seconds for which an agent worked; None without an agent."""

    used_j: Mapping[str, float]
    beat_s: float | None = None
    interval_s: float = 0.0


class EnergyMeter:
    """Reads the counters at the beginning of a run and at its end."""

    def __init__(
        self,
        root: DataRoot,
        ranks: Sequence[RankPlan],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._gpus = [(plan.node, plan.gpu) for plan in ranks]
        self._clock = clock
        self._driver = Gpus()
        self._started_s = 0.0
        self._start_counters: dict[str, _Counters] = {}

    def start(self) -> None:
        self._started_s = self._clock()
        self._start_counters = self._read()

    def used_j(self) -> float | None:
        """Return the joules that all GPUs used since `start`, None unless known for all."""
        start_counters, end_counters = self._start_counters, self._read()
        duration_s = self._clock() - self._started_s
        total_j = 0.0
        for node, uuid in self._gpus:
            if node not in start_counters or node not in end_counters:
                return None
            start, end = start_counters[node], end_counters[node]
            start_j, end_j = start.used_j.get(uuid), end.used_j.get(uuid)
            if start_j is None or end_j is None or end_j < start_j:
                return None
            if not _had_agent(start, end, duration_s):
                return None
            total_j += end_j - start_j
        return total_j if self._gpus else None

    def _read(self) -> dict[str, _Counters]:
        nodes = dict.fromkeys(node for node, uuid in self._gpus if uuid)
        readings = {node: self._counters(node) for node in nodes}
        return {node: counters for node, counters in readings.items() if counters is not None}

    def _counters(self, node: str) -> _Counters | None:
        if node == THIS_COMPUTER:
            return _Counters(_by_uuid(self._driver.read()[0]))
        try:
            reading = NodeReading.from_dict(read_json(self._root.node(node).status))
            interval_s = reading.interval_s
            return _Counters(_by_uuid(reading.gpus), reading.heartbeat * interval_s, interval_s)
        except (OSError, ValueError, OverflowError):
            # A node with its own data root writes its readings elsewhere. A file that another user
            # wrote must not end the supervisor.
            return None


def _by_uuid(gpus: Sequence[Gpu]) -> dict[str, float]:
    return {gpu.uuid: gpu.energy_j for gpu in gpus if gpu.energy_j is not None}


def _had_agent(start: _Counters, end: _Counters, duration_s: float) -> bool:
    """Return whether an agent wrote readings all the time, the last of them at the end."""
    if start.beat_s is None or end.beat_s is None:
        return True
    beats_s = end.beat_s - start.beat_s
    return (
        duration_s >= _SHORTEST_BEATS * end.interval_s and beats_s >= _LEAST_BEAT_SHARE * duration_s
    )
