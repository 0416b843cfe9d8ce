"""What happened to a node: one quantity of all its GPUs, the unwell ones lifted out of their peers.

A fault is what differs from its peers, so the well GPUs are thin grey lines and only one that is
or was unwell has a colour and its name. Above lies which job ran when.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from PySide6.QtCore import QSize, Slot

from backend.records.health import Limits
from backend.records.job_view import JobView
from backend.records.node import NodeState
from widgets.cluster.job_lane import JobLane, bars_of
from widgets.cluster.node_history import BY_KEY, NODE, QUANTITIES, NodeHistory, Quantity
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import Card
from widgets.common.layout import STRETCH, row
from widgets.common.text import Label
from widgets.common.theme import S2, SEGMENTED_SMALL_H
from widgets.curves.curve_data import CurveData, XAxis
from widgets.curves.curve_panel import CurvePanel
from widgets.curves.marks import Span, Threshold
from widgets.curves.pyramid import Floats

_HOUR_S = 3600.0
_STRETCHES = {"1": ("1 h", "Last hour"), "3": ("3 h", "Last 3 hours"), "24": ("24 h", "Last day")}
_LEAST_STRETCH_S = 120.0
_PLOT_MIN_H = 190
_NAME_SHARE = 0.14
"""Of the plot's width, for the name and the value at the end of a curve."""
_LEAST_SPAN_SHARE = 0.004
_NEAR_HOT_C = 10


class _Plot(CurvePanel):
    """A plot that asks for no more room than it needs; it takes what the page has left."""

    def sizeHint(self) -> QSize:
        return QSize(400, _PLOT_MIN_H)


class HistoryCard(Card):
    """The plot, which quantity it shows, and of how many hours."""

    def __init__(self) -> None:
        self._history = NodeHistory()
        self._state: NodeState | None = None
        self._jobs: tuple[JobView, ...] = ()
        self._shown: tuple[object, ...] = ()
        self._count = 0
        self._data: dict[str, CurveData] = {}
        self._title = Label("", "strong")
        self._picker = SegmentedControl(
            [(quantity.key, quantity.title) for quantity in QUANTITIES],
            name="What is plotted",
            height=SEGMENTED_SMALL_H,
        )
        self._picker.chosen.connect(self._build)
        self._stretch = SegmentedControl(
            [(key, title) for key, (title, _) in _STRETCHES.items()],
            name="Of how many hours",
            height=SEGMENTED_SMALL_H,
        )
        self._stretch.choose("3")
        self._stretch.chosen.connect(self._build)
        self._lane = JobLane()
        self._plot = self._new_plot(QUANTITIES[0])
        self._words = Label("", "small", "text2", elide="right")
        head = row(self._title, STRETCH, self._picker, self._stretch, gap=S2)
        super().__init__(head, self._words, self._lane, (self._plot, 1), gap=S2)

    @property
    def plot(self) -> CurvePanel:
        return self._plot

    @property
    def lane(self) -> JobLane:
        return self._lane

    def show_history(
        self, history: NodeHistory, state: NodeState, jobs: Iterable[JobView] = ()
    ) -> None:
        """News of a node, or another node. `history` holds its reading already."""
        other = history is not self._history
        self._history, self._state, self._jobs = history, state, tuple(jobs)
        has_gpus = bool(self._gpus())
        for quantity in QUANTITIES:
            self._picker.set_enabled(quantity.key, quantity.of_node is not None or has_gpus)
        if not has_gpus and BY_KEY[self._picker.key()].of_node is None:
            self._picker.choose("processor")
        news = history.count - self._count
        if other or news > 1 or self._wanted() != self._shown:
            self._build()
            return
        times = history.times()
        for uuid, data in self._data.items() if news else ():
            value = history.series(uuid, self._picker.key())[-1]
            data.append(times[-1], value, time_s=times[-1])
        self._count = history.count
        self._settle()

    def show_past(self) -> None:
        """The history goes farther back than before."""
        if self._state is not None:
            self._build()

    def _gpus(self) -> tuple[tuple[str, int], ...]:
        reading = self._state.reading if self._state is not None else None
        return tuple((gpu.uuid, gpu.index) for gpu in reading.gpus) if reading is not None else ()

    def _from_s(self, times: Floats) -> float:
        return float(times[-1]) - float(self._stretch.key()) * _HOUR_S

    def _unwell(self) -> frozenset[str]:
        """GPUs that are unwell, or were so in the hours that are shown."""
        times, state = self._history.times(), self._state
        if state is None or state.reading is None or not len(times):
            return frozenset()
        from_s = self._from_s(times)
        return frozenset(
            gpu.uuid
            for gpu in state.reading.gpus
            if state.of_gpu(gpu) is not None or self._history.was_unwell(gpu.uuid, from_s)
        )

    def _wanted(self) -> tuple[object, ...]:
        return self._picker.key(), self._stretch.key(), self._gpus(), self._unwell()

    def _new_plot(self, quantity: Quantity) -> CurvePanel:
        plot = _Plot(
            quantity.title,
            axis=XAxis.CLOCK,
            value_text=quantity.text,
            from_zero=quantity.key != "temperature",
        )
        plot.set_empty_text("No reading yet")
        plot.setMinimumHeight(_PLOT_MIN_H)
        self._lane.follow(plot)
        return plot

    @Slot()
    def _build(self) -> None:
        """All curves anew: another node, another quantity, or a GPU became unwell."""
        quantity = BY_KEY[self._picker.key()]
        old = self._plot
        self._plot = self._new_plot(quantity)
        layout = self.layout()
        if layout is not None:
            layout.replaceWidget(old, self._plot)
        old.hide()
        old.deleteLater()
        self._shown = self._wanted()
        self._count = self._history.count
        self._data = {}
        times = self._history.times()
        unwell = self._unwell()
        curves = [(NODE, quantity.title, True)]
        if quantity.of_gpu is not None:
            curves = [(uuid, f"GPU {index}", uuid in unwell) for uuid, index in self._gpus()]
        lone = len(curves) == 1
        # The unwell last, so that no peer covers them.
        for uuid, name, is_unwell in sorted(curves, key=lambda curve: curve[2]):
            data = CurveData()
            data.extend(times, self._history.series(uuid, quantity.key), None, times)
            self._data[uuid] = data
            lifted = lone or is_unwell
            colour: int | str = "warn_fill" if is_unwell and uuid != NODE else 0
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
        if not len(times) or self._state is None:
            return
        first, last = max(float(times[0]), self._from_s(times)), float(times[-1])
        # A first line of the hour may be some seconds late.
        is_whole = first - self._from_s(times) < 60.0
        whole = _STRETCHES[self._stretch.key()][1]
        self._title.setText(whole if is_whole else f"Since {formats.clock(first)}")
        first = min(first, last - _LEAST_STRETCH_S)
        self._plot.set_fixed_x(first, last + _NAME_SHARE * (last - first))
        self._lane.show_bars(bars_of(self._jobs, self._state.name), first, last)
        key = self._picker.key()
        self._words.setText(self._peers(BY_KEY[key]))
        self._words.setVisible(bool(self._words.text()))
        hot = Limits().hot_c.enter
        thresholds = [Threshold(hot, f"hot from {formats.celsius(hot)}")]
        hottest = max((np.nanmax(d.raw, initial=0.0) for d in self._data.values()), default=0.0)
        near = key == "temperature" and hottest > hot - _NEAR_HOT_C
        self._plot.set_marks(thresholds=thresholds if near else [], spans=self._spans(first, last))

    def _peers(self, quantity: Quantity) -> str:
        """What the grey lines are, and where they end: "7 other GPUs, 63 °C to 69 °C"."""
        reading = self._state.reading if self._state is not None else None
        if reading is None or quantity.of_gpu is None or len(reading.gpus) < 2:
            return ""
        unwell = self._unwell()
        well = [gpu for gpu in reading.gpus if gpu.uuid not in unwell]
        told = [value for gpu in well if (value := quantity.of_gpu(gpu)) is not None]
        if not told:
            return ""
        low, high = quantity.text(min(told)), quantity.text(max(told))
        others = "other " if len(well) < len(reading.gpus) else ""
        gpus = f"{len(well)} {others}GPU{'s' if len(well) > 1 else ''}"
        return f"{gpus}, {low}" if low == high else f"{gpus}, {low} to {high}"

    def _spans(self, first: float, last: float) -> list[Span]:
        """While any GPU was unwell; a short moment is wide enough to be seen."""
        least = _LEAST_SPAN_SHARE * (last - first)
        found = self._history.spans([uuid for uuid, _ in self._gpus()], first)
        return [
            Span(begin, max(end, begin + least), text=words[:1].upper() + words[1:])
            for begin, end, words in found
        ]
