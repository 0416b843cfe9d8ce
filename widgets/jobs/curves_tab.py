"""Loss large, then what else was measured: validation metrics, speed, learning rate."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat

import numpy as np
from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.alarm import Alarm
from backend.records.checkpoint import Checkpoint
from backend.records.job_view import JobView
from backend.records.series import HistoryUpdate
from backend.records.state import JobState
from widgets.common.buttons import IconButton, SegmentedControl, Switch
from widgets.common.cards import Card, Scroll
from widgets.common.fields import Slider
from widgets.common.layout import STRETCH, col, row
from widgets.common.text import Label, plain_tip
from widgets.common.theme import HEADED_CARD, PAGE_MARGIN, S2
from widgets.common.turns import Turns
from widgets.curves.axis_marks import AxisMark, MarkKind
from widgets.curves.curve_data import CurveData, XAxis
from widgets.curves.curve_panel import CurvePanel
from widgets.curves.hover_link import HoverLink
from widgets.curves.marks import Boundary, Post, Span
from widgets.curves.picture_menu import add_pictures
from widgets.curves.run_curves import (
    OWN_METRICS,
    VALIDATION,
    RunCurves,
    in_pieces,
    metric_title,
)
from widgets.jobs.curve_cards import LargePlot, SmallPlot
from widgets.jobs.curves_body import CurvesBody
from widgets.jobs.rank_strip import RankStrip

_NARROW_BELOW_W = 600
_LARGE_MOST_H = 1100
_SPARE_MOST = 12
_POINTS_A_TURN = 10_000
_BEFORE_STEPS = "The first points come with the first steps"
_USUAL = ("accuracy", "learning_rate", "samples_per_second")


class CurvesTab(QWidget):
    """All curves of the open job.

    Signals:
        save_requested: A suggested file name, and the bytes to put there.
        csv_requested: All curves of the job are wished for as a table.
    """

    save_requested = Signal(str, object)
    csv_requested = Signal()

    def __init__(self, smoothing: float = 0.6, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = "curves"
        self._link = HoverLink(self)
        self._drawing = Turns(self)
        self._to_come: deque[HistoryUpdate] = deque()
        self._taking = Turns(self)
        self._to_show: deque[str] = deque()
        self._showing = Turns(self)
        self._averaging = Turns(self)
        self._curves = RunCurves()
        self._small: dict[str, SmallPlot] = {}
        # Jobs mostly have the same metrics, and to make a plot takes 10 ms.
        self._spare: dict[str, SmallPlot] = {}
        self._axis = XAxis.STEP
        self._checkpoints: tuple[Checkpoint, ...] = ()
        self._ever_kept: dict[int, str] = {}
        self._end: tuple[int, JobState] | None = None
        self._alarms: tuple[Alarm, ...] = ()
        self._unwell: tuple[Span, ...] = ()
        self._smoothing = Slider(smoothing, name="Smoothing")
        self._smoothing.setToolTip(plain_tip("Smoothing", "S"))
        self._smoothing.moved.connect(self._smooth)
        self._log = Switch(name="Log y")
        self._log.setToolTip(plain_tip("Log y", "L"))
        self._log.toggled.connect(self._set_log)
        axes = [("step", "Step"), ("epoch", "Epoch"), ("time", "Time")]
        self._axes = SegmentedControl(axes, "step", name="What stands below the curves")
        self._axes.chosen.connect(self._set_axis)
        save = IconButton("download-simple", "Save the curves")
        menu = QMenu(save)
        menu.addAction("All curves as CSV…", self.csv_requested.emit)
        save.setMenu(menu)
        self._loss = LargePlot("Loss", link=self._link)
        add_pictures(menu, self._loss, self._save)
        self._loss.set_empty_text(_BEFORE_STEPS)
        self._smoothing_word = Label("Smoothing", "small", "text2")
        title = Label("Loss", "heading")
        title.set_tip("The wheel zooms, dragging pans, a double click fits", "F")
        head = row(
            title,
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
        self.ranks = RankStrip()
        loss_card = Card(head, (self._loss, 1), gap=S2, margins=HEADED_CARD)
        loss_card.setMaximumHeight(_LARGE_MOST_H)
        self._body = CurvesBody(self._problem, loss_card, self.ranks)
        self._scroll = Scroll(self._body, gutter=PAGE_MARGIN)
        self.setLayout(col((self._scroll, 1), gap=0))
        self._smooth()
        # A plot takes 15 ms to make; nobody waits for these when a first job is opened.
        self._spare = {base: self._make_plot(base) for base in _USUAL}

    def clear(self, name: str) -> None:
        """Another job is open now."""
        self._name = name
        self._drawing.stop()
        self._taking.stop()
        self._to_come.clear()
        self._showing.stop()
        self._to_show.clear()
        self._averaging.stop()
        self._curves.clear()
        self._checkpoints, self._ever_kept = (), {}
        self._end, self._alarms, self._unwell = None, (), ()
        self._loss.clear()
        self._loss.set_marks(posts=(), boundaries=(), on_axis=(), spans=())
        for plot in self._small.values():
            plot.hide()
            plot.clear()
        self._spare |= self._small
        self._small.clear()
        while len(self._spare) > _SPARE_MOST:
            oldest = self._spare.pop(next(iter(self._spare)))
            self._body.forget(oldest)
            oldest.deleteLater()
        self._body.place([])
        self._problem.hide()
        self._loss.fit()

    def append(self, history: HistoryUpdate) -> None:
        """New points; what a resumed run wrote again replaces what stood there.

        Of a long history the rest comes behind the first points, a piece a turn.
        """
        self._to_come.extend(in_pieces(history, _POINTS_A_TURN))
        if self._taking.is_done:
            self._taking.put(repeat(self._take_piece))
            self._take_piece()

    def _take_piece(self) -> None:
        history = self._to_come.popleft()
        if not self._to_come:
            self._taking.stop()
        if history.drop_from is not None:
            self._ever_kept = {
                step: name for step, name in self._ever_kept.items() if step < history.drop_from
            }
        came = self._curves.append(history)
        if self._to_come and not came:
            return
        with self._loss.drawn_once():
            for name in came:
                self._make_room(name)
            if self._missing() is None:
                self._place(self._new())
            self._mark()
        # All plots painted in one turn are 50 ms of each look at a job that trains.
        if self._to_show:
            self._showing.put(repeat(self._show_next))
        if not came:
            self._drawing.put([plot.panel.refresh for plot in self._small.values()])
        self._problem.setText(" ".join(history.problems))
        self._problem.setVisible(bool(history.problems))
        self._show_values()

    def show_view(self, view: JobView) -> None:
        """Where it ended, what it warned of, and how fast each rank is."""
        is_without = view.state.is_over and view.step == 0
        self._loss.set_empty_text("It ended before its first step" if is_without else _BEFORE_STEPS)
        ended = view.state in (JobState.ERROR, JobState.LOST, JobState.INTERRUPTED)
        end = (view.step, view.state) if ended else None
        if (end, view.alarms) != (self._end, self._alarms):
            self._end, self._alarms = end, view.alarms
            self._mark()
        self.ranks.show_view(view)

    def show_checkpoints(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Those there are; of those there were the place is kept."""
        self._checkpoints = checkpoints
        self._ever_kept |= {each.step: each.name for each in checkpoints}
        self._mark()

    def show_unwell(self, spans: Sequence[Span]) -> None:
        """When GPUs of the job were unwell; the places are Unix times."""
        if tuple(spans) != self._unwell:
            self._unwell = tuple(spans)
            self._mark()

    @property
    def began_s(self) -> float:
        """Unix time of the first point, 0 before there is one."""
        return self._curves.began_s

    @property
    def run_curves(self) -> RunCurves:
        """All points of the open job, for other tabs that draw some of them."""
        return self._curves

    def toggle_log(self) -> None:
        self._log.toggle()

    def focus_smoothing(self) -> None:
        self._smoothing.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def fit(self) -> None:
        for panel in self._panels():
            panel.fit()

    def curve(self, name: str) -> CurveData | None:
        """The points of one metric, for those who test."""
        return self._curves.get(name)

    def _make_room(self, name: str) -> None:
        """For a metric that is new: the loss is drawn at once, the others in turns."""
        data = self._curves.get(name)
        if data is None:
            return
        base = name.removeprefix(VALIDATION)
        if name == "loss":
            self._loss.set_curve("loss", "train", data, 0)
        elif base == "loss":
            self._loss.set_curve(name, "validation", data, 1, smooth=False, with_raw=False)
        else:
            self._to_show.append(name)

    def _new(self) -> list[str]:
        """The plots of what is to be shown that have no place yet."""
        bases = dict.fromkeys(name.removeprefix(VALIDATION) for name in self._to_show)
        return [base for base in bases if base not in self._small]

    def _missing(self) -> str | None:
        return next((base for base in self._new() if base not in self._spare), None)

    def _show_next(self) -> None:
        """A plot is made, or all that are made get their places, or a curve is drawn."""
        missing, new = self._missing(), self._new()
        if missing is not None:
            self._spare[missing] = self._make_plot(missing)
        elif new:
            self._place(new)
            self._mark()
            self._show_values()
        else:
            self._draw_next()

    def _place(self, bases: Sequence[str]) -> None:
        """All at once: what is seen already moves once."""
        if not bases:
            return
        for base in bases:
            plot = self._small[base] = self._spare.pop(base)
            plot.panel.set_axis(self._axis)
            plot.panel.set_smoothing(self._weight())
        self._lay_out()
        for base in bases:
            # Not before: what has no place yet would be a window of its own.
            self._small[base].show()

    def _draw_next(self) -> None:
        name = self._to_show.popleft()
        if not self._to_show:
            self._showing.stop()
        data = self._curves.get(name)
        if data is None:
            return
        is_validation = name.startswith(VALIDATION)
        is_rate = name == "learning_rate"
        self._small[name.removeprefix(VALIDATION)].panel.set_curve(
            name,
            "validation" if is_validation else "train",
            data,
            1 if is_validation else 0,
            smooth=not is_validation and not is_rate,
            with_raw=not is_validation and not is_rate,
            fill=is_rate,
        )

    def _make_plot(self, base: str) -> SmallPlot:
        plot = SmallPlot(metric_title(base), self._link)
        plot.pictures.saved.connect(self._save)
        return plot

    def _lay_out(self) -> None:
        """What the user measured comes before what is measured always."""
        order = sorted(self._small, key=lambda name: (name in OWN_METRICS, name))
        self._body.place([self._small[name] for name in order])

    def showEvent(self, event: QShowEvent) -> None:
        """What came while nobody looked has its place only now: nothing is squeezed for it."""
        super().showEvent(event)
        self._body.updateGeometry()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._smoothing_word.setVisible(self.width() >= _NARROW_BELOW_W)
        self._body.fit(self.width(), self._scroll)

    def _panels(self) -> list[CurvePanel]:
        return [self._loss, *(plot.panel for plot in self._small.values())]

    def _refresh(self) -> None:
        self._mark()
        for panel in self._panels():
            panel.refresh()
        self._show_values()

    def _show_values(self) -> None:
        for base, plot in self._small.items():
            for name in (f"{VALIDATION}{base}", base):
                data = self._curves.get(name)
                last = data.last() if data is not None else None
                if last is not None:
                    plot.show_value(last.raw)
                    break

    def _mark(self) -> None:
        starts = {start.first_step: start.run for start in self._curves.starts() if start.run > 1}
        boundaries = [Boundary(x, starts[round(step)]) for step, x in self._placed(starts)]
        spans = self._spans()
        self._loss.set_marks(
            boundaries=boundaries, posts=self._posts(), on_axis=self._on_axis(), spans=spans
        )
        bare = tuple(replace(span, text="") for span in spans)
        for plot in self._small.values():
            plot.show_spans(bare)

    def _spans(self) -> list[Span]:
        """When GPUs were unwell, as far as the job made steps meanwhile."""
        found = []
        for span in self._unwell:
            stretch = self._curves.stretch(span.x0, span.x1, self._axis)
            if stretch is not None:
                found.append(replace(span, x0=stretch[0], x1=stretch[1]))
        return found

    def _posts(self) -> list[Post]:
        """Where it failed, and what it warned of, at one step in one post."""
        failed = self._end[0] if self._end and self._end[1] is not JobState.INTERRUPTED else None
        words: dict[int, list[str]] = {} if failed is None else {failed: ["failed here"]}
        for alarm in self._alarms:
            words.setdefault(alarm.step, []).append(alarm.short)
        posts = []
        for number, x in self._placed(words):
            step = round(number)
            text = ", ".join(words[step])
            posts.append(Post(x, text) if step == failed else Post(x, text, "warn", dashed=True))
        return posts

    def _on_axis(self) -> list[AxisMark]:
        on_axis: list[AxisMark] = []
        if self._end is not None and self._end[1] is JobState.INTERRUPTED:
            step = self._end[0]
            told = f"stopped after step {step}"
            on_axis += [AxisMark(x, MarkKind.STOP, told) for _, x in self._placed([step])]
        kept = {each.step for each in self._checkpoints}
        for number, x in self._placed(self._ever_kept):
            step = round(number)
            is_there = step in kept
            kind = MarkKind.CHECKPOINT if is_there else MarkKind.CHECKPOINT_GONE
            words = f"checkpoint {self._ever_kept[step]}{'' if is_there else ', removed since'}"
            on_axis.append(AxisMark(x, kind, words))
        for kind, steps in (
            (MarkKind.EVALUATION, self._curves.evaluations()),
            (MarkKind.RATE_STEP, self._curves.rate_steps()),
        ):
            on_axis += [AxisMark(x, kind) for _, x in self._placed(steps.tolist())]
        return on_axis

    def _placed(self, steps: Iterable[float]) -> list[tuple[float, float]]:
        """Steps, and where they are on the x axis; without those that have no place there."""
        wanted = np.asarray(sorted(steps), np.float64)
        places = self._curves.places(wanted, self._axis)
        return [
            (step, x)
            for step, x in zip(wanted.tolist(), places.tolist(), strict=True)
            if math.isfinite(x)
        ]

    @Slot()
    def _smooth(self) -> None:
        """The loss at once, of the others one a turn: an average of a million points is 40 ms."""
        self._loss.set_smoothing(self._weight())
        self._averaging.put([partial(self._smooth_plot, plot) for plot in self._small.values()])

    def _smooth_plot(self, plot: SmallPlot) -> None:
        plot.panel.set_smoothing(self._weight())

    def _weight(self) -> float:
        return min(self._smoothing.share(), 0.99)

    @Slot(bool)
    def _set_log(self, on: bool) -> None:
        self._loss.set_log_y(on)

    @Slot(str)
    def _set_axis(self, key: str) -> None:
        self._axis = XAxis(key)
        for panel in self._panels():
            panel.set_axis(self._axis)
        self._mark()

    @Slot(str, object)
    def _save(self, plot: str, content: bytes) -> None:
        self.save_requested.emit(f"{self._name} {plot}", content)
