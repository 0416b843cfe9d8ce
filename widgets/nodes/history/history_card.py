"""The history of a node: plots of all its GPUs, those with a problem highlighted.

A problem shows as a difference from the peers, so healthy GPUs are thin grey lines, and only a GPU
with a present or past problem gets a colour and its name. The jobs that ran are shown above.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QSize, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.view import JobView
from backend.records.nodes.reading import Gpu, NodeState
from backend.records.queue.entry import Queue
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import Card
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, Item, col, row
from widgets.common.theme import S1, S2, SEGMENTED_SMALL_H
from widgets.nodes.history.job_timeline import JobTimeline, job_bars, reserved_bars
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
from widgets.plots.cursor_readout import HoverLink
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.growable_array import Floats
from widgets.plots.image_export import Picture, PictureButton, stack_pictures

_HOUR_S = 3600.0
_PERIODS = {
    "1": ("1 h", "Last hour"),
    "3": ("3 h", "Last 3 hours"),
    "24": ("24 h", "Last day"),
    "168": ("7 d", "Last 7 days"),
}
_MIN_PERIOD_S = 120.0
_PLOT_MIN_H, _PAIR_MIN_H = 190, (130, 90)
_PAIR_SHARES = (3, 2)
_NAME_SHARE = 0.14
"""The share of the plot's width for the name and the value at the end of a curve."""
_MIN_SPAN_SHARE = 0.004


class _Plot(CurvePanel):
    """A plot that requests only its minimum height and takes the remaining height.

    Two plots, one above the other, show each moment at the same x.
    """

    partner: _Plot | None = None

    def sizeHint(self) -> QSize:
        return QSize(400, self.minimumHeight())

    def pair_with(self, partner: _Plot) -> None:
        """Share one time axis with another plot from now on."""
        for plot, follower in ((self, partner), (partner, self)):
            plot.partner = follower
            plot.x_range_changed.connect(follower._follow_range)
            plot.fit_requested.connect(follower.fit)

    @Slot(float, float)
    def _follow_range(self, x0: float, x1: float) -> None:
        if self.partner is not None and self.partner.is_fitted:
            self.fit()
        else:
            self.set_x_range(x0, x1)

    @Slot()
    def refresh(self) -> None:
        super().refresh()
        # The names of both, at the current plot width, determine where the axis ends.
        partner = self.partner
        if partner is not None and partner.is_fitted and partner.x_range() != self.x_range():
            CurvePanel.refresh(partner)

    def _name_widths(self) -> list[tuple[float, float]]:
        widths = super()._name_widths()
        return widths if self.partner is None else [*widths, *CurvePanel._name_widths(self.partner)]

    def _set_ticks(self) -> None:
        super()._set_ticks()
        if self.partner is not None:
            # Repeat the last widths; the final width is known later.
            axes = (self._plot.left_axis, self.partner._plot.left_axis)
            max_width = max(axis.maximumWidth() for axis in axes)
            for axis in axes:
                if axis.maximumWidth() != max_width:
                    axis.setWidth(max_width)


@dataclass(frozen=True)
class JobPeriod:
    """A period of a node to plot instead of its last hours: the time of a job.

    ``end_s`` is None while the job runs. ``gpu_names`` are the names of the job's GPUs, by UUID;
    no other GPUs are plotted.
    """

    title: str
    start_s: float
    end_s: float | None = None
    gpu_names: Mapping[str, str] = field(default_factory=dict)


def problem_axis_spans(
    history: NodeHistory, uuids: Iterable[str], start_s: float, end_s: float
) -> list[AxisSpan]:
    """Return the spans in which any of the GPUs had a problem, each wide enough to be visible."""
    min_width_s = _MIN_SPAN_SHARE * (end_s - start_s)
    return [
        AxisSpan(
            span.start_s,
            max(span.end_s, span.start_s + min_width_s),
            "warn",
            span.message[:1].upper() + span.message[1:],
        )
        for span in history.problem_spans(tuple(uuids), start_s, end_s)
    ]


class _PlotColumn(QWidget):
    """The plots of one view, one above the other, each with its caption.

    The plots are reused: building a plot takes longer than filling it.
    """

    def __init__(self, view: HistoryView, link: HoverLink) -> None:
        super().__init__()
        self.quantities = tuple(BY_KEY[key] for key in view.quantities)
        last_quantity = self.quantities[-1]
        self.plots = tuple(_new_plot(q, link, q is last_quantity) for q in self.quantities)
        layout = col(gap=0)
        for plot, quantity, height, share in zip(
            self.plots, self.quantities, _PAIR_MIN_H, _PAIR_SHARES, strict=False
        ):
            if len(self.plots) > 1:
                plot.setMinimumHeight(height)
                layout.addWidget(Label(quantity.caption, "tiny", "text3"))
            layout.addWidget(plot, share)
        if len(self.plots) > 1:
            self.plots[0].pair_with(self.plots[1])
        self.setLayout(layout)

    def as_picture(self) -> Picture:
        """All plots in one picture."""
        return stack_pictures([plot.as_picture() for plot in self.plots])


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

    def __init__(self, *head_items: Item) -> None:
        """Build the card; `head_items` are next to its title, with the controls below."""
        self._history = NodeHistory()
        self._job_period: JobPeriod | None = None
        self._state: NodeState | None = None
        self._jobs: tuple[JobView, ...] = ()
        self._queue = Queue()
        self._built_key: tuple[object, ...] = ()
        self._count = 0
        self._data: dict[tuple[str, str], CurveData] = {}
        """The curves by GPU and quantity, as in the history."""
        self._title = Label("", "strong", elide="middle")
        self._view_picker = SegmentedControl(
            [(view.key, view.title) for view in VIEWS],
            name="Quantities",
            height=SEGMENTED_SMALL_H,
        )
        self._view_picker.key_chosen.connect(self._rebuild)
        self._period_picker = SegmentedControl(
            [(key, title) for key, (title, _) in _PERIODS.items()],
            name="Period",
            height=SEGMENTED_SMALL_H,
        )
        self._period_picker.choose("3")
        self._period_picker.key_chosen.connect(self._rebuild)
        self.timeline = JobTimeline()
        self._link = HoverLink()
        self._plots = _PlotColumn(VIEWS[0], self._link)
        self._plots_by_view = {VIEWS[0].key: self._plots}
        self.timeline.follow(self.plot)
        self._peers_label = Label("", "small", "text2", elide="right")
        self.pictures = PictureButton("of the history", lambda: self._plots)
        title = row(self._title, (self._peers_label, 1), *head_items, self.pictures, gap=S2)
        head = col(title, row(self._view_picker, STRETCH, self._period_picker), gap=S1)
        super().__init__(head, self.timeline, (self._plots, 1), gap=S2)
        self._link.setParent(self)

    @property
    def plot(self) -> CurvePanel:
        """The upper plot."""
        return self._plots.plots[0]

    @property
    def lower_plot(self) -> CurvePanel:
        """The plot with the labels of the time axis, which may be the upper one."""
        return self._plots.plots[-1]

    def show_job_period(self, period: JobPeriod) -> None:
        """From the next update on, show the time of a job instead of a choice of hours."""
        self._job_period = period
        self._period_picker.hide()

    def show_history(
        self, history: NodeHistory, state: NodeState, jobs: Iterable[JobView] = ()
    ) -> None:
        """Take an update of a node, or another node. `history` includes the reading."""
        is_other = history is not self._history
        self._history, self._state, self._jobs = history, state, tuple(jobs)
        has_gpus = bool(self._gpus())
        available = {view.key: self._is_available(view) for view in VIEWS}
        for view in VIEWS:
            self._view_picker.set_enabled(view.key, available[view.key])
            # For a job show its GPUs, or the node if the job uses no GPU. A node without GPUs has
            # no views of GPUs.
            is_node_view = BY_KEY[view.quantities[0]].read_node is not None
            is_of_job = self._job_period is not None and has_gpus
            self._view_picker.set_choice_visible(
                view.key, not is_of_job if is_node_view else has_gpus
            )
        tip = "" if available["ecc"] or not has_gpus else "These GPUs do not count memory errors"
        self._view_picker.set_tip("ecc", tip)
        if not available[self._view_picker.key()]:
            self._view_picker.choose(
                next(key for key, is_available in available.items() if is_available)
            )
        new_count = history.count - self._count
        if is_other or new_count > 1 or self._content_key() != self._built_key:
            self._rebuild()
            return
        times = history.times()
        for key, data in self._data.items() if new_count else ():
            data.append(times[-1], history.series(*key)[-1], time_s=times[-1])
        self._count = history.count
        self._refresh_marks()

    def show_queue(self, queue: Queue) -> None:
        """Take the queue; its reservations are shown with the next update of the node."""
        self._queue = queue

    def clear(self) -> None:
        """Clear for another node, until its own history arrives."""
        self._history = NodeHistory()
        for plot in self._plots.plots:
            with plot.batch_redraws():
                plot.clear()
                plot.set_marks(thresholds=(), spans=())
        self.timeline.show_bars((), 0.0, 1.0)
        self._title.setText("")
        self._peers_label.setText("")

    def show_extended_history(self) -> None:
        """Rebuild the plots: the history now begins earlier than before."""
        if self._state is not None:
            self._rebuild()

    def _gpus(self) -> tuple[tuple[str, int], ...]:
        reading = self._state.reading if self._state is not None else None
        gpus = reading.gpus if reading is not None else ()
        return tuple((gpu.uuid, gpu.index) for gpu in gpus if self._is_shown(gpu.uuid))

    def _is_available(self, view: HistoryView) -> bool:
        """Return True if the node has the data of a view: not all GPUs count memory errors."""
        if view.key != "ecc":
            return BY_KEY[view.quantities[0]].read_node is not None or bool(self._gpus())
        reading = self._state.reading if self._state is not None else None
        gpus = [gpu for gpu in reading.gpus if self._is_shown(gpu.uuid)] if reading else []
        return any(gpu.ecc_corrected is not None for gpu in gpus)

    def _is_shown(self, uuid: str) -> bool:
        return self._job_period is None or uuid in self._job_period.gpu_names

    def _curve_name(self, uuid: str, index: int) -> str:
        return f"GPU {index}" if self._job_period is None else self._job_period.gpu_names[uuid]

    def _start_s(self, times: Floats) -> float:
        if self._job_period is not None:
            return self._job_period.start_s
        return float(times[-1]) - float(self._period_picker.key()) * _HOUR_S

    def _end_s(self, times: Floats) -> float:
        job_end_s = self._job_period.end_s if self._job_period is not None else None
        return float(times[-1]) if job_end_s is None else job_end_s

    @property
    def _is_live(self) -> bool:
        return self._job_period is None or self._job_period.end_s is None

    def _unhealthy_gpus(self) -> frozenset[str]:
        """Return the GPUs with a problem now or in the displayed hours."""
        times, state = self._history.times(), self._state
        if state is None or state.reading is None or not len(times):
            return frozenset()
        start_s, end_s = self._start_s(times), self._end_s(times)
        return frozenset(
            gpu.uuid
            for gpu in state.reading.gpus
            if self._is_shown(gpu.uuid)
            and (
                (self._is_live and state.worst_gpu_finding(gpu) is not None)
                or self._history.had_problem(gpu.uuid, start_s, end_s)
            )
        )

    def _content_key(self) -> tuple[object, ...]:
        choice = self._view_picker.key(), self._period_picker.key(), self._job_period
        return *choice, self._gpus(), self._unhealthy_gpus(), self._history.extension_count

    def _show_plots(self, view: HistoryView) -> None:
        if view.key not in self._plots_by_view:
            self._plots_by_view[view.key] = _PlotColumn(view, self._link)
        previous_plots, self._plots = self._plots, self._plots_by_view[view.key]
        if self._plots is previous_plots:
            return
        layout = self.layout()
        if layout is not None:
            layout.replaceWidget(previous_plots, self._plots)
        previous_plots.hide()
        self._plots.show()
        self.timeline.follow(self.plot)

    @Slot()
    def _rebuild(self) -> None:
        """Rebuild all curves: another node or quantity, or a new problem of a GPU."""
        self._show_plots(next(view for view in VIEWS if view.key == self._view_picker.key()))
        self._built_key = self._content_key()
        self._count = self._history.count
        self._data = {}
        with ExitStack() as stack:
            for plot, quantity in zip(self._plots.plots, self._plots.quantities, strict=True):
                stack.enter_context(plot.batch_redraws())
                self._fill_plot(plot, quantity)
            self._refresh_marks()

    def _fill_plot(self, plot: CurvePanel, quantity: Quantity) -> None:
        times = self._history.times()
        unhealthy_gpus = self._unhealthy_gpus()
        curves = [(NODE, quantity.title, True)]
        if quantity.read_gpu is not None:
            gpus = self._gpus()
            curves = [
                (uuid, self._curve_name(uuid, index), uuid in unhealthy_gpus)
                for uuid, index in gpus
            ]
        is_single = len(curves) == 1
        plot.clear()
        plot.fit()
        # Problems last, so that no peer covers them.
        for uuid, name, is_unhealthy in sorted(curves, key=lambda curve: curve[2]):
            data = CurveData()
            data.extend(times, self._history.series(uuid, quantity.key), None, times)
            self._data[uuid, quantity.key] = data
            is_highlighted = is_single or is_unhealthy
            colour: int | str = "warn_fill" if is_unhealthy and uuid != NODE else 0
            plot.set_curve(
                uuid or "node",
                name,
                data,
                colour if is_highlighted else "line_strong",
                with_raw=False,
                with_label=is_highlighted,
                width=2.2 if is_highlighted else 1.2,
            )

    def _refresh_marks(self) -> None:
        times = self._history.times()
        if not len(times) or self._state is None:
            return
        start_s, end_s = max(float(times[0]), self._start_s(times)), self._end_s(times)
        # The first line of the hour may be some seconds late.
        is_whole = start_s - self._start_s(times) < 60.0
        start_text = f"since {formats.time_with_day(start_s, end_s)}"
        if self._job_period is not None:
            # The axis is that of the job, even if the node remembers only a part.
            start_s = self._job_period.start_s
            self._title.setText(
                self._job_period.title if is_whole else f"{self._job_period.title}, {start_text}"
            )
        else:
            period_title = _PERIODS[self._period_picker.key()][1]
            self._title.setText(period_title if is_whole else upper_first(start_text))
        title, name = self._title.text(), node_title(self._state.name)
        plot_subject = title if name in title else f"{name}, {title[:1].lower()}{title[1:]}"
        start_s = min(start_s, end_s - _MIN_PERIOD_S)
        # Half of the axis, at most, is for what is to come.
        limit_s, axis_end_s = 2 * end_s - start_s, end_s + _NAME_SHARE * (end_s - start_s)
        bars = job_bars(self._jobs, self._state.name)
        if self._job_period is None:
            reservations = reserved_bars(self._queue, self._state, end_s)
            bars += tuple(bar for bar in reservations if bar.start_s < limit_s)
            reserved_s = (bar.end_s for bar in bars if bar.is_reserved and bar.end_s)
            axis_end_s = max(axis_end_s, min(limit_s, max(reserved_s, default=0.0)))
        self.timeline.show_bars(bars, start_s, end_s)
        self._peers_label.setText(self._peers_text())
        threshold = ThresholdLine(HOT_C, f"hot above {formats.temperature(HOT_C)}")
        spans = problem_axis_spans(
            self._history, (uuid for uuid, _ in self._gpus()), start_s, end_s
        )
        for plot, quantity in zip(self._plots.plots, self._plots.quantities, strict=True):
            plot.title = f"{quantity.title}, {plot_subject}"
            plot.set_fixed_x(start_s, axis_end_s)
            is_heat = quantity.key == "temperature"
            plot.set_marks(thresholds=[threshold] if is_heat else [], spans=spans)
            # Only once, in the upper plot.
            spans = [replace(span, text="") for span in spans]

    def _peers_text(self) -> str:
        """Describe the grey lines: "7 other GPUs, 63 °C to 69 °C, 1.41 GHz"."""
        reading = self._state.reading if self._state is not None else None
        shown_gpus = [gpu for gpu in reading.gpus if self._is_shown(gpu.uuid)] if reading else []
        quantities = [
            quantity for quantity in self._plots.quantities if quantity.read_gpu is not None
        ]
        if not self._is_live or not quantities or len(shown_gpus) < 2:
            return ""
        unhealthy_gpus = self._unhealthy_gpus()
        healthy_gpus = [gpu for gpu in shown_gpus if gpu.uuid not in unhealthy_gpus]
        ranges = [text for quantity in quantities if (text := _range_text(quantity, healthy_gpus))]
        if not ranges:
            return ""
        qualifier = "other " if len(healthy_gpus) < len(shown_gpus) else ""
        gpu_text = f"{len(healthy_gpus)} {qualifier}GPU{'s' if len(healthy_gpus) > 1 else ''}"
        return ", ".join([gpu_text, *ranges])


def _range_text(quantity: Quantity, gpus: Iterable[Gpu]) -> str:
    """Return "63 °C to 69 °C", "" if no GPU reports the quantity."""
    if quantity.read_gpu is None:
        return ""
    values = [value for gpu in gpus if (value := quantity.read_gpu(gpu)) is not None]
    if not values:
        return ""
    low, high = quantity.format_value(min(values)), quantity.format_value(max(values))
    return low if low == high else f"{low} to {high}"
