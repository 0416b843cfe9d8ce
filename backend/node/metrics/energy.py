"""Energy that the GPUs of a run use, and the share of the time that they are idle.

The counters of a node with an agent are in its last reading; on this computer, which has none, the
driver is queried. A figure that could be wrong is not given: if a node's agent was away, or a GPU
has no counter, the energy is unknown. How busy the GPUs are is sampled.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from backend.node.metrics.gpus import Gpus
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.usage import NodeUsage
from backend.records.nodes.reading import Gpu, NodeReading

_SHORTEST_BEATS = 20
"""A reading is up to one heartbeat old: for a shorter run the figure would be too inaccurate."""
_LEAST_BEAT_SHARE = 0.9
"""The share of the expected heartbeats, or samples, that proves that an agent was running."""
_SAMPLE_S = 15.0


@dataclass(frozen=True)
class _Counters:
    """``beat_s`` counts the seconds for which an agent worked; None without an agent."""

    used_j: Mapping[str, float]
    use_percent: Mapping[str, float]
    beat_s: float | None = None
    interval_s: float = 0.0


class EnergyMeter:
    """Reads the counters at the beginning of a run and at its end, and samples in between."""

    def __init__(
        self,
        root: DataRoot,
        ranks: Sequence[RankPlan],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._gpus = _gpus_by_node(ranks)
        self._clock = clock
        self._driver = Gpus()
        self._started_s = self._sampled_s = 0.0
        self._start_counters: dict[str, _Counters] = {}
        self._samples: dict[str, list[float]] = {node: [] for node in self._gpus}
        self._sampled_beats_s: dict[str, float | None] = {}

    def start(self) -> None:
        self._started_s = self._sampled_s = self._clock()
        self._start_counters = self._read()

    def sample(self) -> None:
        """Read how busy the GPUs are, if the last time was some seconds ago."""
        if self._clock() - self._sampled_s < _SAMPLE_S:
            return
        self._sampled_s = self._clock()
        for node, counters in self._read().items():
            beat_s = counters.beat_s
            if beat_s is None or beat_s != self._sampled_beats_s.get(node):
                percents = map(counters.use_percent.get, self._gpus[node])
                self._samples[node] += [p for p in percents if p is not None]
            self._sampled_beats_s[node] = beat_s

    def usage(self) -> tuple[NodeUsage, ...]:
        """Return the usage of each node's GPUs since `start`."""
        end_counters = self._read()
        duration_s = self._clock() - self._started_s
        return tuple(
            NodeUsage(
                _node_name(node),
                len(uuids),
                _used_j(uuids, self._start_counters.get(node), end_counters.get(node), duration_s),
                self._idle_share(node, duration_s),
            )
            for node, uuids in self._gpus.items()
        )

    def _idle_share(self, node: str, duration_s: float) -> float | None:
        samples = self._samples[node]
        expected_count = int(duration_s / _SAMPLE_S) * len(self._gpus[node])
        if not samples or len(samples) < _LEAST_BEAT_SHARE * expected_count:
            return None
        return 1.0 - sum(samples) / (100 * len(samples))

    def _read(self) -> dict[str, _Counters]:
        readings = {node: self._counters(node) for node, uuids in self._gpus.items() if uuids}
        return {node: counters for node, counters in readings.items() if counters is not None}

    def _counters(self, node: str) -> _Counters | None:
        if node == THIS_COMPUTER:
            gpus = self._driver.read()[0]
            return _Counters(_energies(gpus), _use_percents(gpus))
        try:
            reading = NodeReading.from_dict(read_json(self._root.node(node).status))
            interval_s = reading.interval_s
            beat_s, gpus = reading.heartbeat * interval_s, reading.gpus
            return _Counters(_energies(gpus), _use_percents(gpus), beat_s, interval_s)
        except (OSError, ValueError, OverflowError):
            # A node with its own data root writes its readings elsewhere. A file that another user
            # wrote must not end the supervisor.
            return None


def allocated_nodes(ranks: Sequence[RankPlan], host: str = "") -> tuple[NodeUsage, ...]:
    """Return the nodes of a run, of which only the number of GPUs is known.

    ``host`` is the computer that the run calls `THIS_COMPUTER`, by default this one.
    """
    gpus_by_node = _gpus_by_node(ranks)
    return tuple(NodeUsage(_node_name(n, host), len(gpus)) for n, gpus in gpus_by_node.items())


def _gpus_by_node(ranks: Sequence[RankPlan]) -> dict[str, list[str]]:
    gpus: dict[str, list[str]] = {}
    for plan in ranks:
        gpus.setdefault(plan.node, []).extend(filter(None, plan.gpu.split(",")))
    return gpus


def _node_name(node: str, host: str = "") -> str:
    """Return a name that is the same on all computers of the data root."""
    return (host or socket.gethostname()) if node == THIS_COMPUTER else node


def _energies(gpus: Sequence[Gpu]) -> dict[str, float]:
    return {gpu.uuid: gpu.energy_j for gpu in gpus if gpu.energy_j is not None}


def _use_percents(gpus: Sequence[Gpu]) -> dict[str, float]:
    return {gpu.uuid: gpu.use_percent for gpu in gpus if gpu.use_percent is not None}


def _used_j(
    uuids: Sequence[str], start: _Counters | None, end: _Counters | None, duration_s: float
) -> float | None:
    """Return the joules that the GPUs of a node used, None unless known for all."""
    if start is None or end is None or not _had_agent(start, end, duration_s):
        return None
    total_j = 0.0
    for uuid in uuids:
        start_j, end_j = start.used_j.get(uuid), end.used_j.get(uuid)
        if start_j is None or end_j is None or end_j < start_j:
            return None
        total_j += end_j - start_j
    return total_j


def _had_agent(start: _Counters, end: _Counters, duration_s: float) -> bool:
    """Return whether an agent wrote readings all the time, the last of them at the end."""
    if start.beat_s is None or end.beat_s is None:
        return True
    beats_s = end.beat_s - start.beat_s
    return (
        duration_s >= _SHORTEST_BEATS * end.interval_s and beats_s >= _LEAST_BEAT_SHARE * duration_s
    )
