"""What happened to a node: one quantity of all its GPUs, the unwell ones lifted out of their peers.

A fault is what differs from its peers, so the well GPUs are thin grey lines and only one that is
or was unwell has a colour and its name. Above lies which job ran when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtWidgets import QLayout

from backend.records.job_view import JobView
from backend.records.node import NodeState
from widgets.cluster.job_lane import JobLane, bars_of
from widgets.cluster.node_history import BY_KEY, HOT_C, NODE, QUANTITIES, NodeHistory, Quantity
from widgets.cluster.node_row import node_title
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import Card
from widgets.common.layout import STRETCH, Item, col, row
from widgets.common.text import Label
from widgets.common.theme import S2, SEGMENTED_SMALL_H
from widgets.curves.column import Floats
from widgets.curves.curve_data import CurveData, XAxis
from widgets.curves.curve_panel import CurvePanel
from widgets.curves.marks import Span, Threshold
from widgets.curves.picture_menu import PictureButton

_HOUR_S = 3600.0
_STRETCHES = {"1": ("1 h", "Last hour"), "3": ("3 h", "Last 3 hours"), "24": ("24 h", "Last day")}
_LEAST_STRETCH_S = 120.0
_PLOT_MIN_H = 190
_NAME_SHARE = 0.14
"""Of the plot's width, for the name and the value at the end of a curve."""
_LEAST_SPAN_SHARE = 0.004


class _Plot(CurvePanel):
    """A plot that asks for no more room than it needs; it takes what the page has left."""

    def sizeHint(self) -> QSize:
        return QSize(400, _PLOT_MIN_H)


@dataclass(frozen=True)
class Stretch:
    """What of a node is plotted where it is not its last hours: the time of a job.

    ``to_s`` is None while it goes on. ``names`` are those of its GPUs, by UUID; no others are
    plotted.
    """

    title: str
    from_s: float
    to_s: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def unwell_spans(
    history: NodeHistory, uuids: Iterable[str], first: float, last: float
) -> list[Span]:
    """While any of the GPUs was unwell; a short moment is wide enough to be seen."""
    least = _LEAST_SPAN_SHARE * (last - first)
    return [
        Span(
            one.from_s,
            max(one.to_s, one.from_s + least),
            "warn",
            one.words[:1].upper() + one.words[1:],
        )
        for one in history.spans(tuple(uuids), first, last)
    ]


class HistoryCard(Card):
    """The plot, which quantity it shows, and of how many hours.

    Signals:
        saved: A file name, and the bytes to put there.
    """

    saved = Signal(str, object)

    def __init__(self, *before: Item) -> None:
        """The card; `before` stands beside its title, with what can be chosen below."""
        self._history = NodeHistory()
        self._job: Stretch | None = None
        self._state: NodeState | None = None
        self._jobs: tuple[JobView, ...] = ()
        self._shown: tuple[object, ...] = ()
        self._count = 0
        self._data: dict[str, CurveData] = {}
        self._title = Label("", "strong", elide="middle")
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
        self._plots = {QUANTITIES[0].key: self._plot}
        self._lane.follow(self._plot)
        self._words = Label("", "small", "text2", elide="right")
        pictures = PictureButton("of the history", lambda: self._plot)
        if before:
            title = row((self._title, 1), *before, pictures, gap=S2)
            head: QLayout = col(title, row(self._picker, STRETCH, self._stretch), gap=S2)
        else:
            head = row(self._title, STRETCH, self._picker, self._stretch, pictures, gap=S2)
        super().__init__(head, self._words, self._lane, (self._plot, 1), gap=S2)
        pictures.saved.connect(self.saved)

    @property
    def plot(self) -> CurvePanel:
        return self._plot

    @property
    def lane(self) -> JobLane:
        return self._lane

    def show_stretch(self, job: Stretch) -> None:
        """From the next news on the time of a job, instead of hours that can be chosen."""
        self._job = job
        self._stretch.hide()

    def show_history(
        self, history: NodeHistory, state: NodeState, jobs: Iterable[JobView] = ()
    ) -> None:
        """News of a node, or another node. `history` holds its reading already."""
        other = history is not self._history
        self._history, self._state, self._jobs = history, state, tuple(jobs)
        has_gpus = bool(self._gpus())
        for quantity in QUANTITIES:
            able = quantity.of_node is not None or has_gpus
            self._picker.set_enabled(quantity.key, able)
            # Of a job what its GPUs did, or its node where it uses none.
            fits = self._job is None or has_gpus == (quantity.of_node is None)
            self._picker.set_shown(quantity.key, fits)
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

    def forget(self) -> None:
        """Another node: nothing of the one before is seen until its own history comes."""
        self._history = NodeHistory()
        with self._plot.drawn_once():
            self._plot.clear()
            self._plot.set_marks(thresholds=(), spans=())
        self._lane.show_bars((), 0.0, 1.0)
        self._title.setText("")
        self._words.setText("")

    def show_past(self) -> None:
        """The history goes farther back than before."""
        if self._state is not None:
            self._build()

    def _gpus(self) -> tuple[tuple[str, int], ...]:
        reading = self._state.reading if self._state is not None else None
        gpus = reading.gpus if reading is not None else ()
        return tuple((gpu.uuid, gpu.index) for gpu in gpus if self._is_shown(gpu.uuid))

    def _is_shown(self, uuid: str) -> bool:
        return self._job is None or uuid in self._job.names

    def _name(self, uuid: str, index: int) -> str:
        return f"GPU {index}" if self._job is None else self._job.names[uuid]

    def _from_s(self, times: Floats) -> float:
        if self._job is not None:
            return self._job.from_s
        return float(times[-1]) - float(self._stretch.key()) * _HOUR_S

    def _to_s(self, times: Floats) -> float:
        over = self._job.to_s if self._job is not None else None
        return float(times[-1]) if over is None else over

    @property
    def _goes_on(self) -> bool:
        return self._job is None or self._job.to_s is None

    def _unwell(self) -> frozenset[str]:
        """GPUs that are unwell, or were so in the hours that are shown."""
        times, state = self._history.times(), self._state
        if state is None or state.reading is None or not len(times):
            return frozenset()
        from_s, to_s = self._from_s(times), self._to_s(times)
        return frozenset(
            gpu.uuid
            for gpu in state.reading.gpus
            if self._is_shown(gpu.uuid)
            and (
                (self._goes_on and state.of_gpu(gpu) is not None)
                or self._history.was_unwell(gpu.uuid, from_s, to_s)
            )
        )

    def _wanted(self) -> tuple[object, ...]:
        choice = self._picker.key(), self._stretch.key(), self._job
        return *choice, self._gpus(), self._unwell(), self._history.reach

    def _new_plot(self, quantity: Quantity) -> CurvePanel:
        plot = _Plot(
            quantity.title,
            axis=XAxis.CLOCK,
            value_text=quantity.text,
            scale=quantity.scale,
        )
        plot.set_empty_text("No reading yet")
        plot.setMinimumHeight(_PLOT_MIN_H)
        return plot

    def _take_plot(self, quantity: Quantity) -> None:
        """Each quantity has a plot of its own; to make one takes longer than to fill it."""
        if quantity.key not in self._plots:
            self._plots[quantity.key] = self._new_plot(quantity)
        old, self._plot = self._plot, self._plots[quantity.key]
        if self._plot is old:
            return
        layout = self.layout()
        if layout is not None:
            layout.replaceWidget(old, self._plot)
        old.hide()
        self._plot.show()
        self._lane.follow(self._plot)

    @Slot()
    def _build(self) -> None:
        """All curves anew: another node, another quantity, or a GPU became unwell."""
        quantity = BY_KEY[self._picker.key()]
        self._take_plot(quantity)
        self._shown = self._wanted()
        self._count = self._history.count
        self._data = {}
        times = self._history.times()
        unwell = self._unwell()
        curves = [(NODE, quantity.title, True)]
        if quantity.of_gpu is not None:
            gpus = self._gpus()
            curves = [(uuid, self._name(uuid, index), uuid in unwell) for uuid, index in gpus]
        lone = len(curves) == 1
        with self._plot.drawn_once():
            self._plot.clear()
            self._plot.fit()
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
        first, last = max(float(times[0]), self._from_s(times)), self._to_s(times)
        # A first line of the hour may be some seconds late.
        is_whole = first - self._from_s(times) < 60.0
        since = f"since {formats.clock(first)}"
        if self._job is not None:
            # The axis is the job's, whatever of it the node still knows.
            first = self._job.from_s
            self._title.setText(self._job.title if is_whole else f"{self._job.title}, {since}")
        else:
            whole = _STRETCHES[self._stretch.key()][1]
            self._title.setText(whole if is_whole else since.capitalize())
        title, name = self._title.text(), node_title(self._state.name)
        where = title if name in title else f"{name}, {title[:1].lower()}{title[1:]}"
        self._plot.title = f"{BY_KEY[self._picker.key()].title}, {where}"
        first = min(first, last - _LEAST_STRETCH_S)
        self._plot.set_fixed_x(first, last + _NAME_SHARE * (last - first))
        self._lane.show_bars(bars_of(self._jobs, self._state.name), first, last)
        key = self._picker.key()
        self._words.setText(self._peers(BY_KEY[key]))
        self._words.setVisible(bool(self._words.text()))
        thresholds = [Threshold(HOT_C, f"hot from {formats.temperature(HOT_C)}")]
        is_heat = key == "temperature"
        spans = unwell_spans(self._history, (uuid for uuid, _ in self._gpus()), first, last)
        self._plot.set_marks(thresholds=thresholds if is_heat else [], spans=spans)

    def _peers(self, quantity: Quantity) -> str:
        """What the grey lines are, and where they end: "7 other GPUs, 63 °C to 69 °C"."""
        reading = self._state.reading if self._state is not None else None
        shown = [gpu for gpu in reading.gpus if self._is_shown(gpu.uuid)] if reading else []
        if not self._goes_on or quantity.of_gpu is None or len(shown) < 2:
            return ""
        unwell = self._unwell()
        well = [gpu for gpu in shown if gpu.uuid not in unwell]
        told = [value for gpu in well if (value := quantity.of_gpu(gpu)) is not None]
        if not told:
            return ""
        low, high = quantity.text(min(told)), quantity.text(max(told))
        others = "other " if len(well) < len(shown) else ""
        gpus = f"{len(well)} {others}GPU{'s' if len(well) > 1 else ''}"
        return f"{gpus}, {low}" if low == high else f"{gpus}, {low} to {high}"
