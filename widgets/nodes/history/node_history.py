"""The recent history of a node as numbers: the agent's hours, then this window's readings.

No Qt, so that a worker can convert a day into arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from backend.records.nodes.health import Limits
from backend.records.nodes.history import EVERY_S, PastGpu, PastReading
from backend.records.nodes.reading import Gpu, NodeReading
from widgets.common import formats
from widgets.plots.growable_array import Floats
from widgets.plots.plot_range import Scale

CAPACITY = 600
"""Twenty minutes of readings, with a reading every two seconds."""
_RECENT_S, _RECENT_POINTS = 1200.0, 120
_GAP_S, _GAP_LINES = 90.0, 2.5
"""After this time without a reading, or this many missing lines of an agent, a curve has a gap."""
_BLOCK_ROWS = 250
"""Numpy converts so many rows of eight GPUs in 1 ms, in which no other thread runs Python."""
NODE = ""
"""The key in place of a GPU's UUID for values of the node itself."""


HOT_C = Limits().hot_c.enter
_ZERO_BASED_SCALE = Scale(0.0, 0.0, shows_all_values=True)
_COUNT_SCALE = Scale(0.0, 4.0, shows_all_values=True)
_TEMPERATURE_SCALE = Scale(50.0, HOT_C + 8.0, shows_all_values=True, step=10.0)
"""The temperature scale: the heat of work, everything cooler, and space for the text at `HOT_C`.

A variation of two degrees is small, and looks small only on such a scale.
"""


@dataclass(frozen=True)
class Quantity:
    """A quantity that is plotted for each GPU, or for the node itself."""

    key: str
    title: str
    format_value: Callable[[float], str]
    read_gpu: Callable[[Gpu], float | None] | None = None
    read_node: Callable[[NodeReading], float | None] | None = None
    read_past_gpu: Callable[[PastGpu], float | None] | None = None
    read_past_node: Callable[[PastReading], float | None] | None = None
    scale: Scale = _ZERO_BASED_SCALE
    unit: str = ""

    @property
    def caption(self) -> str:
        """The text above its plot."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


def _used_percent(used_bytes: int | None, total_bytes: int | None) -> float | None:
    return None if used_bytes is None or not total_bytes else 100 * used_bytes / total_bytes


def _gbit_per_s(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s * 8 / 1e9


def _percent_text(value: float) -> str:
    return f"{value:.0f}{formats.GAP}%"


def _ghz_text(value: float) -> str:
    return f"{formats.metric(value)}{formats.GAP}GHz"


def _mhz_to_ghz(mhz: float | None) -> float | None:
    return None if mhz is None else mhz / 1000


def _errors_text(value: float) -> str:
    return formats.plural(round(value), "error")


def _watt_text(value: float) -> str:
    return formats.with_unit(value, "W")


def _gbit_text(value: float) -> str:
    return f"{formats.metric(value)}{formats.GAP}Gbit/s"


QUANTITIES = (
    Quantity(
        "temperature",
        "Temperature",
        formats.temperature,
        lambda gpu: gpu.temperature_c,
        read_past_gpu=lambda gpu: gpu.temperature_c,
        scale=_TEMPERATURE_SCALE,
        unit="°C",
    ),
    Quantity(
        "clock",
        "Clock",
        _ghz_text,
        lambda gpu: _mhz_to_ghz(gpu.sm_clock_mhz),
        read_past_gpu=lambda gpu: _mhz_to_ghz(gpu.sm_clock_mhz),
        unit="GHz",
    ),
    Quantity(
        "use",
        "Use",
        _percent_text,
        lambda gpu: gpu.use_percent,
        read_past_gpu=lambda gpu: gpu.use_percent,
    ),
    Quantity(
        "memory",
        "Memory",
        _percent_text,
        lambda gpu: _used_percent(gpu.memory_used_bytes, gpu.memory_total_bytes),
        read_past_gpu=lambda gpu: gpu.memory_percent,
    ),
    Quantity(
        "power", "Power", _watt_text, lambda gpu: gpu.power_w, read_past_gpu=lambda gpu: gpu.power_w
    ),
    Quantity(
        "processor",
        "Processor",
        _percent_text,
        read_node=lambda reading: reading.cpu.use_percent,
        read_past_node=lambda reading: reading.processor_percent,
    ),
    Quantity(
        "network",
        "Network",
        _gbit_text,
        read_node=lambda reading: _gbit_per_s(reading.network_bytes_per_s),
        read_past_node=lambda reading: _gbit_per_s(reading.network_bytes_per_s),
    ),
    Quantity(
        "ecc_uncorrected",
        "Memory errors that spoil results",
        _errors_text,
        lambda gpu: gpu.ecc_uncorrected,
        read_past_gpu=lambda gpu: gpu.ecc_uncorrected,
        scale=_COUNT_SCALE,
    ),
    Quantity(
        "ecc_corrected",
        "Memory errors that were corrected",
        _errors_text,
        lambda gpu: gpu.ecc_corrected,
        read_past_gpu=lambda gpu: gpu.ecc_corrected,
        scale=_COUNT_SCALE,
    ),
)
BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}
_PAST_NODE_READERS = {
    quantity.key: quantity.read_past_node
    for quantity in QUANTITIES
    if quantity.read_past_node is not None
}
_PAST_GPU_READERS = {
    quantity.key: quantity.read_past_gpu
    for quantity in QUANTITIES
    if quantity.read_past_gpu is not None
}


class HistoryView(NamedTuple):
    """Quantities that are plotted one above the other, by key: the upper one shows the cause."""

    key: str
    title: str
    quantities: tuple[str, ...]


VIEWS = (
    HistoryView("temperature", "Temperature, clock", ("temperature", "clock")),
    *(
        HistoryView(key, BY_KEY[key].title, (key,))
        for key in ("use", "memory", "power", "processor", "network")
    ),
    HistoryView("ecc", "ECC", ("ecc_corrected", "ecc_uncorrected")),
)

Values = Mapping[tuple[str, str], float | None]


@dataclass(frozen=True)
class NodeHistoryData:
    """The history of an agent. A problem is stored as the number of its text, 0 for none."""

    times: Floats
    values: Mapping[tuple[str, str], Floats]
    problems: tuple[str, ...] = ()


EMPTY_HISTORY = NodeHistoryData(np.empty(0), {})


def to_history_data(readings: Sequence[PastReading]) -> NodeHistoryData:
    """Convert the readings to arrays; a missing reading becomes a row of NaN, a gap.

    Readings of the same GPUs that follow each other are converted together: a dict for each reading
    made half a million objects of a week of eight GPUs, and Python's collector, which runs on the
    GUI thread, then took 0.26 s (tests/benchmarks/soak.py).
    """
    times: list[float] = []
    problem_numbers: dict[str, float] = {}
    blocks: list[tuple[int, tuple[str, ...], list[list[float | None]]]] = []
    gap_s = _GAP_S
    for reading in readings:
        is_gap = bool(times) and reading.at_s - times[-1] > gap_s
        if is_gap:
            times.append(times[-1] + 1.0)
        gap_s = max(_GAP_S, _GAP_LINES * reading.every_s)
        uuids = tuple(gpu.uuid for gpu in reading.gpus)
        if is_gap or not blocks or blocks[-1][1] != uuids or len(blocks[-1][2]) == _BLOCK_ROWS:
            blocks.append((len(times), uuids, []))
        blocks[-1][2].append(_past_row(reading, problem_numbers))
        times.append(reading.at_s)
    values: dict[tuple[str, str], Floats] = {}
    for start, uuids, rows in blocks:
        block_values = np.array(rows, np.float32)  # None becomes NaN
        keys = [(NODE, key) for key in _PAST_NODE_READERS]
        keys += [(uuid, key) for uuid in uuids for key in (*_PAST_GPU_READERS, "unwell", "bad")]
        for column, key in enumerate(keys):
            if key not in values:
                values[key] = np.full(len(times), math.nan, np.float32)
            values[key][start : start + len(rows)] = block_values[:, column]
    return NodeHistoryData(np.array(times, np.float64), values, tuple(problem_numbers))


def _past_row(reading: PastReading, problem_numbers: dict[str, float]) -> list[float | None]:
    row = [read_node(reading) for read_node in _PAST_NODE_READERS.values()]
    for gpu in reading.gpus:
        row += [read_gpu(gpu) for read_gpu in _PAST_GPU_READERS.values()]
        row += (_problem_number(gpu.health_problem, problem_numbers), float(gpu.is_bad))
    return row


def _problem_number(problem: str, problem_numbers: dict[str, float]) -> float:
    """Return the number of a problem, from 1; 0 for ""."""
    return problem_numbers.setdefault(problem, len(problem_numbers) + 1.0) if problem else 0.0


@dataclass(frozen=True)
class ProblemSpan:
    """A span of Unix time with a problem, and the description of the problem at its start."""

    start_s: float
    end_s: float
    message: str


class NodeHistory:
    """The known history of one node; a GPU is identified by its UUID."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._times = np.full(capacity, math.nan)
        self._rows: dict[tuple[str, str], int] = {}
        # One array for all: sixty each for 64 nodes, made in one turn, blocked the window.
        self._values = np.empty((0, capacity))
        self._problem_numbers: dict[str, float] = {}
        self._agent_history = EMPTY_HISTORY
        self.count = 0
        """The number of appended rows, gaps included."""
        self.extension_count = 0
        """How often the start of the history moved back."""

    def append(
        self,
        reading: NodeReading,
        at_s: float,
        problems: Mapping[str, str] | None = None,
        severe_gpus: Collection[str] = (),
    ) -> None:
        """Add a reading that arrived at `at_s`, Unix time of this desktop.

        Args:
            problems: The problem of a GPU, by its UUID.
            severe_gpus: The UUIDs of the GPUs whose problem is severe.
        """
        if self.count and at_s - self._times[(self.count - 1) % self._capacity] > _GAP_S:
            self._write_row(self._times[(self.count - 1) % self._capacity] + 1.0, {})
        values = reading_values(reading)
        for gpu in reading.gpus:
            values[gpu.uuid, "unwell"] = _problem_number(
                (problems or {}).get(gpu.uuid, ""), self._problem_numbers
            )
            values[gpu.uuid, "bad"] = float(gpu.uuid in severe_gpus)
        self._write_row(at_s, values)

    def _write_row(self, at_s: float, values: Values) -> None:
        index = self.count % self._capacity
        self.count += 1
        self._times[index] = at_s
        new_keys = [key for key in values if key not in self._rows]
        if new_keys:
            for key in new_keys:
                self._rows[key] = len(self._rows)
            empty_rows = np.full((len(new_keys), self._capacity), math.nan)
            self._values = np.concatenate((self._values, empty_rows))
        self._values[:, index] = math.nan
        rows = [self._rows[key] for key in values]
        self._values[rows, index] = [math.nan if v is None else v for v in values.values()]

    def set_agent_history(self, agent_history: NodeHistoryData) -> bool:
        """Set the history of the node's agent; return True if the history now begins earlier."""
        previous_times = self.times()
        self._agent_history = agent_history
        times = self.times()
        is_extended = bool(len(times)) and (
            not len(previous_times) or times[0] < previous_times[0] - EVERY_S
        )
        self.extension_count += is_extended
        return is_extended

    def times(self) -> Floats:
        """Unix times, oldest first."""
        live_times = self._in_order(self._times)
        agent_rows = self._agent_rows(live_times)
        gap_times = self._gap_times(live_times, agent_rows)
        return np.concatenate((self._agent_history.times[:agent_rows], gap_times, live_times))

    def series(self, uuid: str, quantity: str) -> Floats:
        """The values at `times`, NaN for missing ones."""
        live_times = self._in_order(self._times)
        agent_rows = self._agent_rows(live_times)
        gap_values = np.full(len(self._gap_times(live_times, agent_rows)), math.nan)
        key = (uuid, quantity)
        agent_values = self._agent_history.values.get(key)
        live_row = self._rows.get(key)
        return np.concatenate(
            (
                np.full(agent_rows, math.nan)
                if agent_values is None
                else agent_values[:agent_rows],
                gap_values,
                np.full(len(live_times), math.nan)
                if live_row is None
                else self._in_order(self._values[live_row]),
            )
        )

    def recent_values(self, uuid: str, quantity: str) -> Floats:
        """Return the values of the last minutes at equal intervals, from any source."""
        times = self.times()
        if len(times) < 2:
            return self.series(uuid, quantity)
        start_s = max(float(times[0]), float(times[-1]) - _RECENT_S)
        grid_times = np.linspace(start_s, float(times[-1]), _RECENT_POINTS)
        indices = np.clip(np.searchsorted(times, grid_times, "right") - 1, 0, len(times) - 1)
        return self.series(uuid, quantity)[indices]

    def problem_spans(
        self, uuids: Sequence[str], start_s: float, end_s: float = math.inf
    ) -> list[ProblemSpan]:
        """Return the spans in which any of the GPUs had a problem; a change starts another span."""
        if not self._problem_numbers and not self._agent_history.problems:
            return []
        times, live_problems = self.times(), tuple(self._problem_numbers)
        agent_rows = len(times) - len(self._in_order(self._times))
        levels, messages = np.zeros(len(times), np.int8), [""] * len(times)
        for uuid in uuids:
            series = self.series(uuid, "unwell")
            is_bad = self.series(uuid, "bad") > 0
            for index in np.flatnonzero(series > 0):
                problems = self._agent_history.problems if index < agent_rows else live_problems
                level = 2 if is_bad[index] else 1
                if level > levels[index]:
                    levels[index] = level
                    messages[index] = problems[int(series[index]) - 1]
        levels[(times < start_s) | (times > end_s)] = 0
        edges = np.flatnonzero(np.diff(np.concatenate(([0], levels, [0])).astype(np.int8)))
        last_index = len(times) - 1
        return [
            ProblemSpan(float(times[start]), float(times[min(end, last_index)]), messages[start])
            for start, end in pairwise(edges.tolist())
            if levels[start]
        ]

    def had_problem(self, uuid: str, start_s: float, end_s: float = math.inf) -> bool:
        if not self._problem_numbers and not self._agent_history.problems:
            return False
        times = self.times()
        is_inside = (times >= start_s) & (times <= end_s)
        return bool(((self.series(uuid, "unwell") > 0) & is_inside).any())

    def _agent_rows(self, live_times: Floats) -> int:
        """The number of the agent's rows before the first reading of this window."""
        agent_times = self._agent_history.times
        return (
            len(agent_times)
            if not len(live_times)
            else int(np.searchsorted(agent_times, live_times[0], "left"))
        )

    def _gap_times(self, live_times: Floats, agent_rows: int) -> Floats:
        """A row of NaN between the agent's last line and this window's first reading."""
        if (
            not agent_rows
            or not len(live_times)
            or live_times[0] - self._agent_history.times[agent_rows - 1] <= _GAP_S
        ):
            return np.empty(0)
        return np.array([self._agent_history.times[agent_rows - 1] + 1.0])

    def _in_order(self, values: np.ndarray) -> Floats:
        if self.count <= self._capacity:
            return values[: self.count]
        return np.roll(values, -(self.count % self._capacity))


def reading_values(reading: NodeReading) -> dict[tuple[str, str], float | None]:
    """All quantities of a reading by GPU (`NODE` is the node) and key."""
    values: dict[tuple[str, str], float | None] = {}
    for quantity in QUANTITIES:
        if quantity.read_node is not None:
            values[NODE, quantity.key] = quantity.read_node(reading)
        if quantity.read_gpu is not None:
            for gpu in reading.gpus:
                values[gpu.uuid, quantity.key] = quantity.read_gpu(gpu)
    return values
