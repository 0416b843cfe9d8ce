"""Loss large, then what else was measured: validation metrics, speed, learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QMenu, QWidget

from backend.records.job_view import JobView
from backend.records.series import HistoryUpdate, RunStart
from backend.records.state import JobState
from widgets.common import formats
from widgets.common.buttons import IconButton, SegmentedControl, Switch
from widgets.common.cards import Card, Scroll
from widgets.common.fields import Slider
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.text import Label
from widgets.common.theme import S2, S3, S4
from widgets.curves.curve_data import CurveData, XAxis
from widgets.curves.curve_panel import CurvePanel
from widgets.curves.export import curves_csv
from widgets.curves.hover_link import HoverLink
from widgets.curves.marks import Boundary, Post, Span
from widgets.jobs.ranks_tab import RankStrip

_OWN = ("learning_rate", "gradient_norm", "samples_per_second")
_TITLES = {
    "loss": "Loss",
    "learning_rate": "Learning rate",
    "gradient_norm": "Gradient norm",
    "samples_per_second": "Samples per second",
}
_SMALL_LEAST_W = 210
_NARROW_BELOW_W = 600
_LARGE_H, _SMALL_H = 260, 150


class _LargePlot(CurvePanel):
    """As high as the small ones below leave room, and never lower than can be read."""

    def sizeHint(self) -> QSize:
        return QSize(2 * _LARGE_H, _LARGE_H)

    def minimumSizeHint(self) -> QSize:
        return QSize(_LARGE_H, 200)


class _SmallPlot(Card):
    """A metric of its own: title and newest value above a small plot."""

    def __init__(self, title: str, link: HoverLink) -> None:
        self._value = Label("–", "number")
        self._spans: tuple[Span, ...] = ()
        self.panel = CurvePanel(title, link=link, end_names=False, read_out=False)
        self.panel.setFixedHeight(_SMALL_H)
        super().__init__(
            row(Label(title, "strong", elide="right"), STRETCH, self._value), self.panel, gap=S2
        )

    def show_spans(self, spans: tuple[Span, ...]) -> None:
        if spans != self._spans:
            self._spans = spans
            self.panel.set_marks(spans=spans)

    def show_value(self, value: float | None) -> None:
        self._value.setText(formats.metric(value))


class CurvesTab(QWidget):
    """All curves of the open job.

    Signals:
        save_requested: A suggested file name, and the bytes to put there.
    """

    save_requested = Signal(str, object)

    def __init__(self, smoothing: float = 0.6, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = "curves"
        self._link = HoverLink(self)
        self._data: dict[str, CurveData] = {}
        self._small: dict[str, _SmallPlot] = {}
        self._axis = XAxis.STEP
        self._columns = 0
        self._starts: dict[int, RunStart] = {}
        self._failed_step: int | None = None
        self._began_s = 0.0
        self._unwell: tuple[Span, ...] = ()
        self._smoothing = Slider(smoothing, name="Smoothing")
        self._smoothing.moved.connect(self._smooth)
        self._log = Switch(name="Log y")
        self._log.toggled.connect(self._set_log)
        axes = [("step", "Step"), ("epoch", "Epoch"), ("time", "Time")]
        self._axes = SegmentedControl(axes, "step", name="What stands below the curves")
        self._axes.chosen.connect(self._set_axis)
        save = IconButton("download-simple", "Save the curves")
        menu = QMenu(save)
        menu.addAction("All curves as CSV", self._save_csv)
        menu.addAction("This plot as PNG", self._save_png)
        menu.addAction("This plot as SVG", self._save_svg)
        save.setMenu(menu)
        self._loss = _LargePlot("Loss", link=self._link)
        self._loss.set_empty_text("The first points come with the first steps")
        self._smoothing_word = Label("Smoothing", "small", "text2")
        head = row(
            Label("Loss", "heading"),
            STRETCH,
            self._smoothing_word,
            self._smoothing,
            S2,
            Label("Log y", "small", "text2"),
            self._log,
            S2,
            self._axes,
            save,
        )
        self._problem = Label("", "small", "warn", wrap=True)
        self._problem.hide()
        self._grid = QGridLayout()
        self._grid.setSpacing(S3)
        self.ranks = RankStrip()
        content = QWidget()
        content.setLayout(
            col(
                self._problem,
                Card(head, (self._loss, 1), gap=S2),
                self._grid,
                self.ranks,
                STRETCH,
                gap=S3,
                margins=(0, 0, S2, S4),
            )
        )
        self.setLayout(col((Scroll(content), 1), gap=0))
        self._smooth(smoothing)

    def clear(self, name: str) -> None:
        """Another job is open now."""
        self._name = name
        self._data.clear()
        self._starts.clear()
        self._failed_step = None
        self._began_s, self._unwell = 0.0, ()
        self._loss.clear()
        self._loss.set_marks(posts=(), boundaries=(), spans=())
        self._small.clear()
        clear(self._grid)
        self._problem.hide()
        self._loss.fit()

    def append(self, history: HistoryUpdate) -> None:
        """New points; what a resumed run wrote again replaces what stood there."""
        if history.drop_from is not None:
            for data in self._data.values():
                data.truncate(history.drop_from)
        if len(history.steps):
            self._began_s = history.began_s
        times_s = np.asarray(history.seconds, np.float64) + self._began_s
        for start in history.run_starts:
            self._starts[start.run] = start
        self._starts = {
            run: start
            for run, start in self._starts.items()
            if history.drop_from is None
            or start.first_step <= history.drop_from
            or start in history.run_starts
        }
        for name, values in history.metrics.items():
            if name not in self._data:
                self._data[name] = CurveData(self._smoothing.share())
                self._show_curve(name)
            steps, epochs, times = history.steps, history.epochs, times_s
            if name.startswith("validation/") or name in _OWN:
                # Measured now and then: a line goes from value to value, over steps without one.
                kept = [i for i, value in enumerate(values) if not math.isnan(value)]
                steps = [steps[i] for i in kept]
                epochs = [epochs[i] for i in kept]
                times = times_s[kept]
                values = [values[i] for i in kept]
            if len(values):
                self._data[name].extend(steps, values, epochs, times)
        self._problem.setText(" ".join(history.problems))
        self._problem.setVisible(bool(history.problems))
        self._refresh()

    def show_view(self, view: JobView) -> None:
        """Where it failed, and how fast each rank is."""
        failed = view.step if view.state in (JobState.ERROR, JobState.LOST) else None
        if failed != self._failed_step:
            self._failed_step = failed
            self._mark()
        self.ranks.show_ranks(view.rank_step_ms if view.state.is_live else ())

    def show_unwell(self, spans: Sequence[Span]) -> None:
        """When GPUs of the job were unwell; the places are Unix times."""
        if tuple(spans) != self._unwell:
            self._unwell = tuple(spans)
            self._mark()

    @property
    def began_s(self) -> float:
        """Unix time of the first point, 0 before there is one."""
        return self._began_s

    def toggle_log(self) -> None:
        self._log.toggle()

    def fit(self) -> None:
        for panel in self._panels():
            panel.fit()

    def curve(self, name: str) -> CurveData | None:
        """The points of one metric, for those who test."""
        return self._data.get(name)

    def _show_curve(self, name: str) -> None:
        data = self._data[name]
        if name == "loss":
            self._loss.set_curve("loss", "train", data, 0)
        elif name == "validation/loss":
            self._loss.set_curve(name, "validation", data, 1, smooth=False, with_raw=False)
        else:
            base = name.removeprefix("validation/")
            plot = self._small.get(base)
            if plot is None:
                plot = _SmallPlot(_title(base), self._link)
                plot.panel.set_axis(self._axis)
                plot.panel.set_smoothing(self._smoothing.share())
                self._small[base] = plot
                self._lay_out()
            validation = name.startswith("validation/")
            plot.panel.set_curve(
                name,
                "validation" if validation else "train",
                data,
                1 if validation else 0,
                smooth=not validation and name != "learning_rate",
                with_raw=not validation and name != "learning_rate",
                fill=name == "learning_rate",
            )

    def _lay_out(self) -> None:
        """What the user measured comes before what is measured always."""
        order = sorted(self._small, key=lambda name: (name in _OWN, name))
        columns = max(1, min(3, self.width() // _SMALL_LEAST_W))
        self._columns = columns
        for index, name in enumerate(order):
            self._grid.addWidget(self._small[name], index // columns, index % columns)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._smoothing_word.setVisible(self.width() >= _NARROW_BELOW_W)
        if max(1, min(3, self.width() // _SMALL_LEAST_W)) != self._columns:
            self._lay_out()

    def _panels(self) -> list[CurvePanel]:
        return [self._loss, *(plot.panel for plot in self._small.values())]

    def _refresh(self) -> None:
        self._mark()
        for panel in self._panels():
            panel.refresh()
        for base, plot in self._small.items():
            for name in (f"validation/{base}", base):
                last = self._data[name].last() if name in self._data else None
                if last is not None:
                    plot.show_value(last.raw)
                    break

    def _mark(self) -> None:
        runs = [start for start in self._starts.values() if start.run > 1]
        boundaries = [
            Boundary(x, start.run)
            for start in runs
            if (x := self._x_of(start.first_step)) is not None
        ]
        posts = []
        if self._failed_step is not None:
            x = self._x_of(self._failed_step)
            posts = [Post(x, "failed here")] if x is not None else []
        spans = [one for one in map(self._placed, self._unwell) if one is not None]
        self._loss.set_marks(boundaries=boundaries, posts=posts, spans=spans)
        bare = tuple(replace(span, text="") for span in spans)
        for plot in self._small.values():
            plot.show_spans(bare)

    def _placed(self, span: Span) -> Span | None:
        """A stretch of time on the axis that is shown, None where the job made no step in it."""
        data = self._data.get("loss")
        if data is None or not len(data) or not self._began_s:
            return None
        times = data.times_s
        first, last = max(span.x0, float(times[0])), min(span.x1, float(times[-1]))
        if first >= last:
            return None
        places = data.x(self._axis)
        x0, x1 = (float(np.interp(at, times, places)) for at in (first, last))
        return replace(span, x0=x0, x1=x1) if x1 > x0 else None

    def _x_of(self, step: int) -> float | None:
        if self._axis is XAxis.STEP:
            return float(step)
        data = self._data.get("loss")
        if data is None or not len(data):
            return None
        sample = data.at(XAxis.STEP, step)
        if sample is None:
            return None
        first = float(data.times_s[0])
        return sample.epoch if self._axis is XAxis.EPOCH else sample.time_s - first

    @Slot(float)
    def _smooth(self, weight: float) -> None:
        for panel in self._panels():
            panel.set_smoothing(min(weight, 0.99))

    @Slot(bool)
    def _set_log(self, on: bool) -> None:
        self._loss.set_log_y(on)

    @Slot(str)
    def _set_axis(self, key: str) -> None:
        self._axis = XAxis(key)
        for panel in self._panels():
            panel.set_axis(self._axis)
        self._mark()

    @Slot()
    def _save_csv(self) -> None:
        plots = [("Loss", "train", "loss"), ("Loss", "validation", "validation/loss")]
        curves = [(plot, name, self._data[key]) for plot, name, key in plots if key in self._data]
        curves += [
            (_title(base), key, self._data[key])
            for base in self._small
            for key in (base, f"validation/{base}")
            if key in self._data
        ]
        self.save_requested.emit(f"{self._name}.csv", curves_csv(curves))

    @Slot()
    def _save_png(self) -> None:
        self.save_requested.emit(f"{self._name}.png", self._loss.png())

    @Slot()
    def _save_svg(self) -> None:
        self.save_requested.emit(f"{self._name}.svg", self._loss.svg())


def _title(name: str) -> str:
    """A metric as a heading; the user's own names keep their letters after the first."""
    return _TITLES.get(name, name[:1].upper() + name[1:])
