"""What a node did lately: one quantity of all its GPUs, the unwell ones lifted out of their peers.

A fault is what differs from its peers, so the well GPUs are thin grey lines and only one that is
unwell has a colour and its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QSize, Slot

from backend.records.node import Gpu, NodeReading
from widgets.cluster.node_row import HOT_C, unwell_reason
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import Card
from widgets.common.layout import row
from widgets.common.text import Label
from widgets.common.theme import S2, SEGMENTED_SMALL_H
from widgets.curves.curve_data import CurveData, Floats, XAxis
from widgets.curves.curve_panel import CurvePanel
from widgets.curves.marks import Span, Threshold

CAPACITY = 600
"""Twenty minutes of readings at one each two seconds."""
_LEAST_STRETCH_S = 120.0
_PLOT_MIN_H = 190
_NAME_SHARE = 0.14
"""Of the plot's width, for the name and the value at the end of a curve."""
_NODE = ""


@dataclass(frozen=True)
class Quantity:
    """One thing that is plotted of each GPU, or of the node itself."""

    key: str
    title: str
    text: Callable[[float], str]
    of_gpu: Callable[[Gpu], float | None] | None = None
    of_node: Callable[[NodeReading], float | None] | None = None


def _share(used: int | None, total: int | None) -> float | None:
    return None if used is None or not total else 100 * used / total


def _bits(reading: NodeReading) -> float | None:
    rate = reading.network_bytes_per_s
    return None if rate is None else rate * 8 / 1e9


def _percent(value: float) -> str:
    return f"{value:.0f}{formats.GAP}%"


QUANTITIES = (
    Quantity("temperature", "Temperature", formats.celsius, lambda gpu: gpu.temperature_c),
    Quantity("clock", "Clock", lambda v: formats.with_unit(v, "MHz"), lambda gpu: gpu.sm_clock_mhz),
    Quantity("use", "Use", _percent, lambda gpu: gpu.use_percent),
    Quantity(
        "memory",
        "Memory",
        _percent,
        lambda gpu: _share(gpu.memory_used_bytes, gpu.memory_total_bytes),
    ),
    Quantity("power", "Power", lambda v: formats.with_unit(v, "W"), lambda gpu: gpu.power_w),
    Quantity("processor", "Processor", _percent, None, lambda r: r.cpu.use_percent),
    Quantity(
        "network", "Network", lambda v: f"{formats.metric(v)}{formats.GAP}Gbit/s", None, _bits
    ),
)
_BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}


class NodeHistory:
    """The last readings of one node as numbers; a GPU is known by its UUID."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._count = 0
        self._times = np.full(capacity, math.nan)
        self._values: dict[tuple[str, str], np.ndarray] = {}

    def append(self, reading: NodeReading, at_s: float) -> None:
        """Add a reading that came at `at_s`, Unix time of this desktop."""
        place = self._count % self._capacity
        self._count += 1
        self._times[place] = at_s
        for series in self._values.values():
            series[place] = math.nan
        for key, value in values_of(reading).items():
            if key not in self._values:
                self._values[key] = np.full(self._capacity, math.nan, np.float32)
            self._values[key][place] = math.nan if value is None else value

    def times(self) -> Floats:
        """Unix times, oldest first."""
        return self._in_order(self._times)

    def series(self, uuid: str, quantity: str) -> Floats:
        """The values at `times`, NaN where there was none."""
        found = self._values.get((uuid, quantity))
        if found is None:
            return np.full(len(self.times()), math.nan)
        return self._in_order(found).astype(np.float64)

    def _in_order(self, values: np.ndarray) -> Floats:
        if self._count <= self._capacity:
            return values[: self._count]
        return np.roll(values, -(self._count % self._capacity))


def values_of(reading: NodeReading) -> Mapping[tuple[str, str], float | None]:
    """All quantities of a reading by GPU ("" is the node) and key, and who was unwell."""
    found: dict[tuple[str, str], float | None] = {}
    for quantity in QUANTITIES:
        if quantity.of_node is not None:
            found[_NODE, quantity.key] = quantity.of_node(reading)
        if quantity.of_gpu is not None:
            for gpu in reading.gpus:
                found[gpu.uuid, quantity.key] = quantity.of_gpu(gpu)
    for gpu in reading.gpus:
        found[gpu.uuid, "unwell"] = float(bool(unwell_reason(gpu)))
    return found


class _Plot(CurvePanel):
    """A plot that asks for no more room than it needs; it takes what the page has left."""

    def sizeHint(self) -> QSize:
        return QSize(400, _PLOT_MIN_H)


class HistoryCard(Card):
    """The plot, and which quantity it shows."""

    def __init__(self) -> None:
        self._history = NodeHistory()
        self._reading: NodeReading | None = None
        self._shown: tuple[object, ...] = ()
        self._data: dict[str, CurveData] = {}
        self._title = Label("", "strong")
        self._picker = SegmentedControl(
            [(quantity.key, quantity.title) for quantity in QUANTITIES],
            name="What is plotted",
            height=SEGMENTED_SMALL_H,
        )
        self._picker.chosen.connect(self._build)
        self._plot = self._new_plot(QUANTITIES[0])
        self._words = Label("", "small", "text2", elide="right")
        head = row(self._title, (self._words, 1), self._picker, gap=S2)
        super().__init__(head, (self._plot, 1), gap=S2)

    @property
    def plot(self) -> CurvePanel:
        return self._plot

    def show_history(self, history: NodeHistory, reading: NodeReading) -> None:
        """News of a node, or another node. `history` holds `reading` already."""
        other = history is not self._history
        self._history, self._reading = history, reading
        for quantity in QUANTITIES:
            self._picker.set_enabled(
                quantity.key, quantity.of_node is not None or bool(reading.gpus)
            )
        if not reading.gpus and _BY_KEY[self._picker.key()].of_node is None:
            self._picker.choose("processor")
        if other or self._wanted() != self._shown:
            self._build()
            return
        times = history.times()
        for uuid, data in self._data.items():
            value = history.series(uuid, self._picker.key())[-1]
            data.append(times[-1], value, time_s=times[-1])
        self._settle()

    def _wanted(self) -> tuple[object, ...]:
        gpus = self._reading.gpus if self._reading is not None else ()
        marks = tuple((gpu.uuid, bool(unwell_reason(gpu))) for gpu in gpus)
        return self._picker.key(), marks

    def _new_plot(self, quantity: Quantity) -> CurvePanel:
        plot = _Plot(
            quantity.title,
            axis=XAxis.CLOCK,
            value_text=quantity.text,
            from_zero=quantity.key != "temperature",
        )
        plot.set_empty_text("No reading yet")
        plot.setMinimumHeight(_PLOT_MIN_H)
        return plot

    @Slot()
    def _build(self) -> None:
        """All curves anew: another node, another quantity, or a GPU became unwell."""
        if self._reading is None:
            return
        quantity = _BY_KEY[self._picker.key()]
        old = self._plot
        self._plot = self._new_plot(quantity)
        layout = self.layout()
        if layout is not None:
            layout.replaceWidget(old, self._plot)
        old.hide()
        old.deleteLater()
        self._shown = self._wanted()
        self._data = {}
        times = self._history.times()
        curves = [(_NODE, quantity.title, True)]
        if quantity.of_gpu is not None:
            curves = [
                (g.uuid, f"GPU {g.index}", bool(unwell_reason(g))) for g in self._reading.gpus
            ]
        lone = len(curves) == 1
        # The unwell last, so that no peer covers them.
        for uuid, name, unwell in sorted(curves, key=lambda curve: curve[2]):
            data = CurveData()
            data.extend(times, self._history.series(uuid, quantity.key), None, times)
            self._data[uuid] = data
            lifted = lone or (unwell and uuid != _NODE)
            colour: int | str = "warn_fill" if unwell and uuid != _NODE else 0
            self._plot.set_curve(
                uuid or "node",
                name,
                data,
                colour if lifted else "line_strong",
                with_raw=False,
                named=lifted,
                width=2.2 if lifted else 1.2,
            )
        self._settle()

    def _settle(self) -> None:
        times = self._history.times()
        if not len(times):
            return
        first, last = float(times[0]), float(times[-1])
        self._title.setText(f"Since {formats.clock(first)}")
        first = min(first, last - _LEAST_STRETCH_S)
        self._plot.set_fixed_x(first, last + _NAME_SHARE * (last - first))
        key = self._picker.key()
        self._words.setText(self._peers(_BY_KEY[key]))
        thresholds = [Threshold(HOT_C, f"hot from {formats.celsius(HOT_C)}")]
        hottest = max((np.nanmax(d.raw, initial=0.0) for d in self._data.values()), default=0.0)
        near = key == "temperature" and hottest > HOT_C - 10
        self._plot.set_marks(thresholds=thresholds if near else [], spans=self._spans(times))

    def _peers(self, quantity: Quantity) -> str:
        """What the grey lines are, and where they end: "7 GPUs, 63 °C to 69 °C"."""
        reading = self._reading
        if reading is None or quantity.of_gpu is None or len(reading.gpus) < 2:
            return ""
        well = [gpu for gpu in reading.gpus if not unwell_reason(gpu)]
        told = [value for gpu in well if (value := quantity.of_gpu(gpu)) is not None]
        if not told:
            return ""
        low, high = quantity.text(min(told)), quantity.text(max(told))
        others = "other " if len(well) < len(reading.gpus) else ""
        gpus = f"{len(well)} {others}GPU{'s' if len(well) > 1 else ''}"
        return f"{gpus}, {low}" if low == high else f"{gpus}, {low} to {high}"

    def _spans(self, times: Floats) -> list[Span]:
        """While any GPU was unwell."""
        if self._reading is None or not self._reading.gpus:
            return []
        flags = np.zeros(len(times), bool)
        for gpu in self._reading.gpus:
            flags |= self._history.series(gpu.uuid, "unwell") > 0
        edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
        return [
            Span(float(times[first]), float(times[after - 1]))
            for first, after in zip(edges[::2], edges[1::2], strict=True)
        ]
