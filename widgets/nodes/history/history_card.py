"""The history of a node: plots of all its GPUs, those with a problem highlighted.

A fault is a difference from the peers, so healthy GPUs are thin grey lines, and only one that has
or had a problem gets a colour and its name. The jobs that ran are shown above.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QSize, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.view import JobView
from backend.records.nodes.reading import Gpu, NodeState
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import Card
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, Item, col, row
from widgets.common.theme import S1, S2, SEGMENTED_SMALL_H
from widgets.nodes.history.job_timeline import JobTimeline, job_bars
from widgets.nodes.history.node_history import (
    BY_KEY,
    HOT_C,
    NODE,
    VIEWS,
    HistoryView,
    NodeHistory,
    Quantity,
)
from widgets.nodes.row.node_row import node_title, upper_first
from widgets.plots.annotations import AxisSpan, ThresholdLine
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.export_menu import PictureButton
from widgets.plots.growable_array import Floats
from widgets.plots.image_export import Picture, stacked
from widgets.plots.linked_cursor import HoverLink

_HOUR_S = 3600.0
_STRETCHES = {
    "1": ("1 h", "Last hour"),
    "3": ("3 h", "Last 3 hours"),
    "24": ("24 h", "Last day"),
    "168": ("7 d", "Last 7 days"),
}
_LEAST_STRETCH_S = 120.0
_PLOT_MIN_H, _OF_PAIR_MIN_H = 190, (130, 90)
_OF_PAIR_SHARES = (3, 2)
_NAME_SHARE = 0.14
"""The share of the plot's width for the name and the value at the end of a curve."""
_LEAST_SPAN_SHARE = 0.004


class _Plot(CurvePanel):
    """A plot that requests only its minimum height and takes the room that is left.

    Two plots, one above the other, show each moment at the same x.
    """

    other: _Plot | None = None

    def sizeHint(self) -> QSize:
        return QSize(400, self.minimumHeight())

    def join(self, other: _Plot) -> None:
        """Share one time axis with another plot from now on."""
        for one, two in ((self, other), (other, self)):
            one.other = two
            one.x_range_changed.connect(two._follow)
            one.fitted.connect(two.fit)

    @Slot(float, float)
    def _follow(self, x0: float, x1: float) -> None:
        if self.other is not None and self.other.is_fitted():
            self.fit()
        else:
            self.set_x_range(x0, x1)

    @Slot()
    def refresh(self) -> None:
        super().refresh()
        # The names of both, at the current plot width, determine where the axis ends.
        other = self.other
        if other is not None and other.is_fitted() and other.x_range() != self.x_range():
            CurvePanel.refresh(other)

    def _name_rooms(self) -> list[tuple[float, float]]:
        rooms = super()._name_rooms()
        return rooms if self.other is None else [*rooms, *CurvePanel._name_rooms(self.other)]

    def _put_ticks(self) -> None:
        super()._put_ticks()
        if self.other is not None:
            # Repeat the last widths; the final width is known later.
            both = (self._plot.left, self.other._plot.left)
            widest = max(axis.maximumWidth() for axis in both)
            for axis in both:
                if axis.maximumWidth() != widest:
                    axis.setWidth(widest)


@dataclass(frozen=True)
class Stretch:
    """A period of a node to plot instead of its last hours: the time of a job.

    ``to_s`` is None while the job runs. ``names`` are those of its GPUs, by UUID; no others are
    plotted.
    """

    title: str
    from_s: float
    to_s: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def problem_spans(
    history: NodeHistory, uuids: Iterable[str], first: float, last: float
) -> list[AxisSpan]:
    """Return the spans in which any of the GPUs had a problem, each wide enough to be visible."""
    least = _LEAST_SPAN_SHARE * (last - first)
    return [
        AxisSpan(
            one.start_s,
            max(one.end_s, one.start_s + least),
            "warn",
            one.message[:1].upper() + one.message[1:],
        )
        for one in history.problem_spans(tuple(uuids), first, last)
    ]


class _Plots(QWidget):
    """The plots of one view, one above the other, each with its caption.

    They are reused: building a plot takes longer than filling it.
    """

    def __init__(self, view: HistoryView, link: HoverLink) -> None:
        super().__init__()
        self.quantities = tuple(BY_KEY[key] for key in view.quantities)
        last = self.quantities[-1]
        self.plots = tuple(_new_plot(each, link, each is last) for each in self.quantities)
        layout = col(gap=0)
        for plot, quantity, height, share in zip(
            self.plots, self.quantities, _OF_PAIR_MIN_H, _OF_PAIR_SHARES, strict=False
        ):
            if len(self.plots) > 1:
                plot.setMinimumHeight(height)
                layout.addWidget(Label(quantity.caption, "tiny", "text3"))
            layout.addWidget(plot, share)
        if len(self.plots) > 1:
            self.plots[0].join(self.plots[1])
        self.setLayout(layout)

    def as_picture(self) -> Picture:
        """All plots in one picture."""
        return stacked([plot.as_picture() for plot in self.plots])


def _new_plot(quantity: Quantity, link: HoverLink, show_x: bool) -> _Plot:
    plot = _Plot(
        quantity.title,
        link=link,
        axis=XAxis.CLOCK,
        value_text=quantity.format_value,
        scale=quantity.scale,
        show_x=show_x,
    )
    plot.set_empty_text("No reading yet")
    plot.setMinimumHeight(_PLOT_MIN_H)
    return plot


class HistoryCard(Card):
    """The plots, with a choice of quantities and hours."""

    def __init__(self, *before: Item) -> None:
        """Build the card; `before` is next to its title, with the controls below."""
        self._history = NodeHistory()
        self._job: Stretch | None = None
        self._state: NodeState | None = None
        self._jobs: tuple[JobView, ...] = ()
        self._shown: tuple[object, ...] = ()
        self._count = 0
        self._data: dict[tuple[str, str], CurveData] = {}
        """By GPU and quantity, as in the history."""
        self._title = Label("", "strong", elide="middle")
        self._picker = SegmentedControl(
            [(view.key, view.title) for view in VIEWS],
            name="Quantities",
            height=SEGMENTED_SMALL_H,
        )
        self._picker.key_chosen.connect(self._build)
        self._stretch = SegmentedControl(
            [(key, title) for key, (title, _) in _STRETCHES.items()],
            name="Period",
            height=SEGMENTED_SMALL_H,
        )
        self._stretch.choose("3")
        self._stretch.key_chosen.connect(self._build)
        self._lane = JobTimeline()
        self._link = HoverLink()
        self._plots = _Plots(VIEWS[0], self._link)
        self._known = {VIEWS[0].key: self._plots}
        self._lane.follow(self.plot)
        self._words = Label("", "small", "text2", elide="right")
        self.pictures = PictureButton("of the history", lambda: self._plots)
        title = row(self._title, (self._words, 1), *before, self.pictures, gap=S2)
        head = col(title, row(self._picker, STRETCH, self._stretch), gap=S1)
        super().__init__(head, self._lane, (self._plots, 1), gap=S2)
        self._link.setParent(self)

    @property
    def plot(self) -> CurvePanel:
        """The upper plot."""
        return self._plots.plots[0]

    @property
    def lower_plot(self) -> CurvePanel:
        """The plot with the labels of the time axis, which may be the upper one."""
        return self._plots.plots[-1]

    @property
    def lane(self) -> JobTimeline:
        return self._lane

    def show_stretch(self, job: Stretch) -> None:
        """From the next update on, show the time of a job instead of a choice of hours."""
        self._job = job
        self._stretch.hide()

    def show_history(
        self, history: NodeHistory, state: NodeState, jobs: Iterable[JobView] = ()
    ) -> None:
        """Take an update of a node, or another node. `history` includes the reading."""
        other = history is not self._history
        self._history, self._state, self._jobs = history, state, tuple(jobs)
        has_gpus = bool(self._gpus())
        able = {view.key: self._is_able(view) for view in VIEWS}
        for view in VIEWS:
            self._picker.set_enabled(view.key, able[view.key])
            # For a job show its GPUs, or the node if it uses none; a node without GPUs has no views
            # of them.
            of_node = BY_KEY[view.quantities[0]].read_node is not None
            is_of_job = self._job is not None and has_gpus
            self._picker.set_choice_visible(view.key, not is_of_job if of_node else has_gpus)
        tip = "" if able["ecc"] or not has_gpus else "These GPUs do not count memory errors"
        self._picker.set_tip("ecc", tip)
        if not able[self._picker.key()]:
            self._picker.choose(next(key for key, is_able in able.items() if is_able))
        added = history.count - self._count
        if other or added > 1 or self._wanted() != self._shown:
            self._build()
            return
        times = history.times()
        for key, data in self._data.items() if added else ():
            data.append(times[-1], history.series(*key)[-1], time_s=times[-1])
        self._count = history.count
        self._settle()

    def clear(self) -> None:
        """Clear for another node, until its own history arrives."""
        self._history = NodeHistory()
        for plot in self._plots.plots:
            with plot.drawn_once():
                plot.clear()
                plot.set_marks(thresholds=(), spans=())
        self._lane.show_bars((), 0.0, 1.0)
        self._title.setText("")
        self._words.setText("")

    def show_past(self) -> None:
        """The history now begins earlier than before."""
        if self._state is not None:
            self._build()

    def _gpus(self) -> tuple[tuple[str, int], ...]:
        reading = self._state.reading if self._state is not None else None
        gpus = reading.gpus if reading is not None else ()
        return tuple((gpu.uuid, gpu.index) for gpu in gpus if self._is_shown(gpu.uuid))

    def _is_able(self, view: HistoryView) -> bool:
        """Return True if the node has the data of a view: not all GPUs count memory errors."""
        if view.key != "ecc":
            return BY_KEY[view.quantities[0]].read_node is not None or bool(self._gpus())
        reading = self._state.reading if self._state is not None else None
        shown = [gpu for gpu in reading.gpus if self._is_shown(gpu.uuid)] if reading else []
        return any(gpu.ecc_corrected is not None for gpu in shown)

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

    def _unhealthy(self) -> frozenset[str]:
        """GPUs that have a problem, or had one in the displayed hours."""
        times, state = self._history.times(), self._state
        if state is None or state.reading is None or not len(times):
            return frozenset()
        from_s, to_s = self._from_s(times), self._to_s(times)
        return frozenset(
            gpu.uuid
            for gpu in state.reading.gpus
            if self._is_shown(gpu.uuid)
            and (
                (self._goes_on and state.worst_gpu_finding(gpu) is not None)
                or self._history.had_problem(gpu.uuid, from_s, to_s)
            )
        )

    def _wanted(self) -> tuple[object, ...]:
        choice = self._picker.key(), self._stretch.key(), self._job
        return *choice, self._gpus(), self._unhealthy(), self._history.extension_count

    def _take_plots(self, view: HistoryView) -> None:
        if view.key not in self._known:
            self._known[view.key] = _Plots(view, self._link)
        old, self._plots = self._plots, self._known[view.key]
        if self._plots is old:
            return
        layout = self.layout()
        if layout is not None:
            layout.replaceWidget(old, self._plots)
        old.hide()
        self._plots.show()
        self._lane.follow(self.plot)

    @Slot()
    def _build(self) -> None:
        """Rebuild all curves: another node or quantity, or a new problem of a GPU."""
        self._take_plots(next(view for view in VIEWS if view.key == self._picker.key()))
        self._shown = self._wanted()
        self._count = self._history.count
        self._data = {}
        with ExitStack() as drawn:
            for plot, quantity in zip(self._plots.plots, self._plots.quantities, strict=True):
                drawn.enter_context(plot.drawn_once())
                self._fill(plot, quantity)
            self._settle()

    def _fill(self, plot: CurvePanel, quantity: Quantity) -> None:
        times = self._history.times()
        unhealthy = self._unhealthy()
        curves = [(NODE, quantity.title, True)]
        if quantity.read_gpu is not None:
            gpus = self._gpus()
            curves = [(uuid, self._name(uuid, index), uuid in unhealthy) for uuid, index in gpus]
        lone = len(curves) == 1
        plot.clear()
        plot.fit()
        # Problems last, so that no peer covers them.
        for uuid, name, is_unhealthy in sorted(curves, key=lambda curve: curve[2]):
            data = CurveData()
            data.extend(times, self._history.series(uuid, quantity.key), None, times)
            self._data[uuid, quantity.key] = data
            lifted = lone or is_unhealthy
            colour: int | str = "warn_fill" if is_unhealthy and uuid != NODE else 0
            plot.set_curve(
                uuid or "node",
                name,
                data,
                colour if lifted else "line_strong",
                with_raw=False,
                named=lifted,
                width=2.2 if lifted else 1.2,
            )

    def _settle(self) -> None:
        times = self._history.times()
        if not len(times) or self._state is None:
            return
        first, last = max(float(times[0]), self._from_s(times)), self._to_s(times)
        # The first line of the hour may be some seconds late.
        is_whole = first - self._from_s(times) < 60.0
        since = f"since {formats.time_with_day(first, last)}"
        if self._job is not None:
            # The axis is that of the job, even if the node remembers only a part.
            first = self._job.from_s
            self._title.setText(self._job.title if is_whole else f"{self._job.title}, {since}")
        else:
            whole = _STRETCHES[self._stretch.key()][1]
            self._title.setText(whole if is_whole else upper_first(since))
        title, name = self._title.text(), node_title(self._state.name)
        where = title if name in title else f"{name}, {title[:1].lower()}{title[1:]}"
        first = min(first, last - _LEAST_STRETCH_S)
        self._lane.show_bars(job_bars(self._jobs, self._state.name), first, last)
        self._words.setText(self._peers())
        hot = ThresholdLine(HOT_C, f"hot above {formats.temperature(HOT_C)}")
        spans = problem_spans(self._history, (uuid for uuid, _ in self._gpus()), first, last)
        for plot, quantity in zip(self._plots.plots, self._plots.quantities, strict=True):
            plot.title = f"{quantity.title}, {where}"
            plot.set_fixed_x(first, last + _NAME_SHARE * (last - first))
            is_heat = quantity.key == "temperature"
            plot.set_marks(thresholds=[hot] if is_heat else [], spans=spans)
            # Only once, in the upper plot.
            spans = [replace(span, text="") for span in spans]

    def _peers(self) -> str:
        """Describe the grey lines: "7 other GPUs, 63 °C to 69 °C, 1.41 GHz"."""
        reading = self._state.reading if self._state is not None else None
        shown = [gpu for gpu in reading.gpus if self._is_shown(gpu.uuid)] if reading else []
        quantities = [one for one in self._plots.quantities if one.read_gpu is not None]
        if not self._goes_on or not quantities or len(shown) < 2:
            return ""
        unhealthy = self._unhealthy()
        well = [gpu for gpu in shown if gpu.uuid not in unhealthy]
        ranges = [text for one in quantities if (text := _range(one, well))]
        if not ranges:
            return ""
        others = "other " if len(well) < len(shown) else ""
        gpus = f"{len(well)} {others}GPU{'s' if len(well) > 1 else ''}"
        return ", ".join([gpus, *ranges])


def _range(quantity: Quantity, gpus: Iterable[Gpu]) -> str:
    """Return "63 °C to 69 °C", "" if no GPU reports the quantity."""
    if quantity.read_gpu is None:
        return ""
    known = [value for gpu in gpus if (value := quantity.read_gpu(gpu)) is not None]
    if not known:
        return ""
    low, high = quantity.format_value(min(known)), quantity.format_value(max(known))
    return low if low == high else f"{low} to {high}"
