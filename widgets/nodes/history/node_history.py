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
"""Twenty minutes of readings at one per two seconds."""
_LATELY_S, _LATELY_POINTS = 1200.0, 120
_GAP_S, _GAP_LINES = 90.0, 2.5
"""After this time without a reading, or this many missing lines of an agent, a curve has a gap."""
_BLOCK_ROWS = 250
"""Numpy converts so many rows of eight GPUs in 1 ms, in which no other thread runs Python."""
NODE = ""
"""Replaces the UUID of a GPU for values of the node itself."""


HOT_C = Limits().hot_c.enter
_FROM_ZERO = Scale(0.0, 0.0, leaves_nothing_out=True)
_FEW = Scale(0.0, 4.0, leaves_nothing_out=True)
_UP_TO_HOT = Scale(50.0, HOT_C + 8.0, leaves_nothing_out=True, step=10.0)
"""The temperature scale: the heat of work, everything cooler, and room for the text at `HOT_C`.

A variation of two degrees is small, and looks small only on such a scale.
"""


@dataclass(frozen=True)
class Quantity:
    """A quantity that is plotted for each GPU, or for the node itself."""

    key: str
    title: str
    text: Callable[[float], str]
    of_gpu: Callable[[Gpu], float | None] | None = None
    of_node: Callable[[NodeReading], float | None] | None = None
    of_past_gpu: Callable[[PastGpu], float | None] | None = None
    of_past_node: Callable[[PastReading], float | None] | None = None
    scale: Scale = _FROM_ZERO
    unit: str = ""

    @property
    def caption(self) -> str:
        """The text above its plot."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


def _share(used: int | None, total: int | None) -> float | None:
    return None if used is None or not total else 100 * used / total


def _bits(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s * 8 / 1e9


def _percent(value: float) -> str:
    return f"{value:.0f}{formats.GAP}%"


def _ghz(value: float) -> str:
    return f"{formats.metric(value)}{formats.GAP}GHz"


def _in_ghz(mhz: float | None) -> float | None:
    return None if mhz is None else mhz / 1000


def _errors(value: float) -> str:
    return formats.plural(round(value), "error")


def _watt(value: float) -> str:
    return formats.with_unit(value, "W")


def _gbit(value: float) -> str:
    return f"{formats.metric(value)}{formats.GAP}Gbit/s"


QUANTITIES = (
    Quantity(
        "temperature",
        "Temperature",
        formats.temperature,
        lambda gpu: gpu.temperature_c,
        of_past_gpu=lambda gpu: gpu.temperature_c,
        scale=_UP_TO_HOT,
        unit="°C",
    ),
    Quantity(
        "clock",
        "Clock",
        _ghz,
        lambda gpu: _in_ghz(gpu.sm_clock_mhz),
        of_past_gpu=lambda gpu: _in_ghz(gpu.sm_clock_mhz),
        unit="GHz",
    ),
    Quantity(
        "use",
        "Use",
        _percent,
        lambda gpu: gpu.use_percent,
        of_past_gpu=lambda gpu: gpu.use_percent,
    ),
    Quantity(
        "memory",
        "Memory",
        _percent,
        lambda gpu: _share(gpu.memory_used_bytes, gpu.memory_total_bytes),
        of_past_gpu=lambda gpu: gpu.memory_percent,
    ),
    Quantity("power", "Power", _watt, lambda gpu: gpu.power_w, of_past_gpu=lambda gpu: gpu.power_w),
    Quantity(
        "processor",
        "Processor",
        _percent,
        of_node=lambda reading: reading.cpu.use_percent,
        of_past_node=lambda past: past.processor_percent,
    ),
    Quantity(
        "network",
        "Network",
        _gbit,
        of_node=lambda reading: _bits(reading.network_bytes_per_s),
        of_past_node=lambda past: _bits(past.network_bytes_per_s),
    ),
    Quantity(
        "ecc_uncorrected",
        "Memory errors that spoil results",
        _errors,
        lambda gpu: gpu.ecc_uncorrected,
        of_past_gpu=lambda gpu: gpu.ecc_uncorrected,
        scale=_FEW,
    ),
    Quantity(
        "ecc_corrected",
        "Memory errors that were corrected",
        _errors,
        lambda gpu: gpu.ecc_corrected,
        of_past_gpu=lambda gpu: gpu.ecc_corrected,
        scale=_FEW,
    ),
)
BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}
_OF_PAST_NODE = {one.key: one.of_past_node for one in QUANTITIES if one.of_past_node is not None}
_OF_PAST_GPU = {one.key: one.of_past_gpu for one in QUANTITIES if one.of_past_gpu is not None}


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
    words: tuple[str, ...] = ()


NO_PAST = NodeHistoryData(np.empty(0), {})


def past_of(readings: Sequence[PastReading]) -> NodeHistoryData:
    """Convert the readings to arrays; a missing one becomes a row of NaN, a gap.

    Readings of the same GPUs that follow each other are converted together: a dict for each one
    made half a million objects of a week of eight GPUs, and Python's collector, which runs on the
    GUI thread, then took 0.26 s (tests/benchmarks/soak.py).
    """
    times: list[float] = []
    words: dict[str, float] = {}
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
        blocks[-1][2].append(_past_row(reading, words))
        times.append(reading.at_s)
    values: dict[tuple[str, str], Floats] = {}
    for first, uuids, rows in blocks:
        of_block = np.array(rows, np.float32)  # None becomes NaN
        keys = [(NODE, key) for key in _OF_PAST_NODE]
        keys += [(uuid, key) for uuid in uuids for key in (*_OF_PAST_GPU, "unwell", "bad")]
        for column, key in enumerate(keys):
            if key not in values:
                values[key] = np.full(len(times), math.nan, np.float32)
            values[key][first : first + len(rows)] = of_block[:, column]
    return NodeHistoryData(np.array(times, np.float64), values, tuple(words))


def _past_row(reading: PastReading, words: dict[str, float]) -> list[float | None]:
    row = [of_node(reading) for of_node in _OF_PAST_NODE.values()]
    for gpu in reading.gpus:
        row += [of_gpu(gpu) for of_gpu in _OF_PAST_GPU.values()]
        row += (_number_of(gpu.unhealthy, words), float(gpu.is_bad))
    return row


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _number_of(text: str, words: dict[str, float]) -> float:
    """The index of the text among the words, from 1; 0 for none."""
    return words.setdefault(text, len(words) + 1.0) if text else 0.0


@dataclass(frozen=True)
class ProblemSpan:
    """A time, Unix seconds, with a problem, and its description at the start."""

    from_s: float
    to_s: float
    words: str


class NodeHistory:
    """The known history of one node; a GPU is identified by its UUID."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._times = np.full(capacity, math.nan)
        self._rows: dict[tuple[str, str], int] = {}
        # One array for all: sixty each for 64 nodes, made in one turn, blocked the window.
        self._values = np.empty((0, capacity))
        self._words: dict[str, float] = {}
        self._past = NO_PAST
        self.count = 0
        """The number of appended rows, gaps included."""
        self.reach = 0
        """How often its beginning moved back."""

    def append(
        self,
        reading: NodeReading,
        at_s: float,
        problems: Mapping[str, str] | None = None,
        bad: Collection[str] = (),
    ) -> None:
        """Add a reading that arrived at `at_s`, Unix time of this desktop.

        Args:
            problems: The problem of a GPU, by its UUID.
            bad: The GPUs whose problem is severe.
        """
        if self.count and at_s - self._times[(self.count - 1) % self._capacity] > _GAP_S:
            self._put(self._times[(self.count - 1) % self._capacity] + 1.0, {})
        values = values_of(reading)
        for gpu in reading.gpus:
            values[gpu.uuid, "unwell"] = _number_of((problems or {}).get(gpu.uuid, ""), self._words)
            values[gpu.uuid, "bad"] = float(gpu.uuid in bad)
        self._put(at_s, values)

    def _put(self, at_s: float, values: Values) -> None:
        place = self.count % self._capacity
        self.count += 1
        self._times[place] = at_s
        fresh = [key for key in values if key not in self._rows]
        if fresh:
            for key in fresh:
                self._rows[key] = len(self._rows)
            untold = np.full((len(fresh), self._capacity), math.nan)
            self._values = np.concatenate((self._values, untold))
        self._values[:, place] = math.nan
        rows = [self._rows[key] for key in values]
        self._values[rows, place] = [_number(value) for value in values.values()]

    def put_past(self, past: NodeHistoryData) -> bool:
        """Take the history of its agent; return True if it begins earlier than what was known."""
        known = self.times()
        self._past = past
        now = self.times()
        farther = bool(len(now)) and (not len(known) or now[0] < known[0] - EVERY_S)
        self.reach += farther
        return farther

    def times(self) -> Floats:
        """Unix times, oldest first."""
        live = self._in_order(self._times)
        cut = self._cut(live)
        joint = self._joint(live, cut)
        return np.concatenate((self._past.times[:cut], joint, live))

    def series(self, uuid: str, quantity: str) -> Floats:
        """The values at `times`, NaN for missing ones."""
        live = self._in_order(self._times)
        cut = self._cut(live)
        joint = np.full(len(self._joint(live, cut)), math.nan)
        key = (uuid, quantity)
        before = self._past.values.get(key)
        now = self._rows.get(key)
        return np.concatenate(
            (
                np.full(cut, math.nan) if before is None else before[:cut],
                joint,
                np.full(len(live), math.nan) if now is None else self._in_order(self._values[now]),
            )
        )

    def lately(self, uuid: str, quantity: str) -> Floats:
        """The values of the last minutes at equal intervals, from any source."""
        times = self.times()
        if len(times) < 2:
            return self.series(uuid, quantity)
        begin = max(float(times[0]), float(times[-1]) - _LATELY_S)
        grid = np.linspace(begin, float(times[-1]), _LATELY_POINTS)
        places = np.clip(np.searchsorted(times, grid, "right") - 1, 0, len(times) - 1)
        return self.series(uuid, quantity)[places]

    def spans(
        self, uuids: Sequence[str], from_s: float, to_s: float = math.inf
    ) -> list[ProblemSpan]:
        """The spans in which any of these GPUs had a problem; a change begins another span."""
        if not self._words and not self._past.words:
            return []
        times, live = self.times(), tuple(self._words)
        of_past = len(times) - len(self._in_order(self._times))
        levels, words = np.zeros(len(times), np.int8), [""] * len(times)
        for uuid in uuids:
            series = self.series(uuid, "unwell")
            is_bad = self.series(uuid, "bad") > 0
            for place in np.flatnonzero(series > 0):
                known = self._past.words if place < of_past else live
                level = 2 if is_bad[place] else 1
                if level > levels[place]:
                    levels[place] = level
                    words[place] = known[int(series[place]) - 1]
        levels[(times < from_s) | (times > to_s)] = 0
        edges = np.flatnonzero(np.diff(np.concatenate(([0], levels, [0])).astype(np.int8)))
        last = len(times) - 1
        return [
            ProblemSpan(float(times[first]), float(times[min(after, last)]), words[first])
            for first, after in pairwise(edges.tolist())
            if levels[first]
        ]

    def had_problem(self, uuid: str, from_s: float, to_s: float = math.inf) -> bool:
        if not self._words and not self._past.words:
            return False
        times = self.times()
        within = (times >= from_s) & (times <= to_s)
        return bool(((self.series(uuid, "unwell") > 0) & within).any())

    def _cut(self, live: Floats) -> int:
        """The number of the agent's rows before the first reading of this window."""
        past = self._past.times
        return len(past) if not len(live) else int(np.searchsorted(past, live[0], "left"))

    def _joint(self, live: Floats, cut: int) -> Floats:
        """A row of NaN between the agent's last line and this window's first reading."""
        if not cut or not len(live) or live[0] - self._past.times[cut - 1] <= _GAP_S:
            return np.empty(0)
        return np.array([self._past.times[cut - 1] + 1.0])

    def _in_order(self, values: np.ndarray) -> Floats:
        if self.count <= self._capacity:
            return values[: self.count]
        return np.roll(values, -(self.count % self._capacity))


def values_of(reading: NodeReading) -> dict[tuple[str, str], float | None]:
    """All quantities of a reading by GPU (`NODE` is the node) and key."""
    found: dict[tuple[str, str], float | None] = {}
    for quantity in QUANTITIES:
        if quantity.of_node is not None:
            found[NODE, quantity.key] = quantity.of_node(reading)
        if quantity.of_gpu is not None:
            for gpu in reading.gpus:
                found[gpu.uuid, quantity.key] = quantity.of_gpu(gpu)
    return found
