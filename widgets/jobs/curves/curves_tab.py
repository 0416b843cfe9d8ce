"""The tab Curves: loss large, then the other metrics: validation, speed, learning rate.

Of a job without a metric of that name another one is large.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history_update import HistoryUpdate
from backend.records.jobs.metric_names import OF_NO_DATA, STALENESS, VALIDATION
from backend.records.jobs.view import JobView
from widgets.common.buttons import IconButton
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.fields import Slider
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import HEADED_CARD, PAGE_MARGIN, S2
from widgets.jobs.actions.job_actions import SAVE_CSV, SAVE_FILE, JobActions
from widgets.jobs.curves.curve_cards import LargePlot, SmallPlot
from widgets.jobs.curves.curve_marks import CurveMarks
from widgets.jobs.curves.curves_layout import CurvesBody
from widgets.jobs.detail.slow_node import SlowNode
from widgets.jobs.ranks.rank_strip import RankStrip
from widgets.plots.annotations import AxisSpan
from widgets.plots.axis_choice import axis_choice
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.export_menu import add_export_actions
from widgets.plots.linked_cursor import HoverLink
from widgets.plots.run_curves import LOSS, RunCurves, split_history, metric_title, plot_and_line
from widgets.plots.scale_button import ScaleButton

_NARROW_BELOW_W = 600
_SLIDER_W, _SLIDER_NARROW_W = 88, 48
_LARGE_MOST_H = 1100
_SPARE_MOST = 12
_STALE = plot_and_line(STALENESS[0])[0]
_LAST = (*OF_NO_DATA, _STALE)
_POINTS_A_TURN = 10_000
_BEFORE_STEPS = "Curves appear after the first step."
_OF_SCRIPT = (
    "Curves appear when the script writes values with a step or an epoch: TensorBoard, CSV or "
    "JSON, in any file, or in a line of its log. For other lines, right-click a number in Log and "
    "choose “Draw …”."
)
_WITHOUT_STEPS = "No curves: the job ended before its first step."
_READING = "Reading curves…"
_NO_HISTORY = "No curves: the history of this job has no steps."


class CurvesTab(QWidget):
    """All curves of the open job.

    Signals:
        completed: All appended points are in the curves.
    """

    completed = Signal()

    def __init__(self, actions: JobActions, smoothing: float = 0.6) -> None:
        super().__init__()
        self._actions = actions
        self._job_id, self._name = "", "curves"
        self._link = HoverLink(self)
        self._to_come: deque[HistoryUpdate] = deque()
        self._is_read = False
        """Whether an update of the open job came."""
        self._taking = QTimer(self)
        self._taking.timeout.connect(self._take_piece)
        self._curves = RunCurves()
        self._small: dict[str, SmallPlot] = {}
        # Most jobs have the same metrics, and creating a plot takes 10 ms.
        self._spare: dict[str, SmallPlot] = {}
        self._axis = XAxis.STEP
        self._log_x = self._log_y = False
        self._marks = CurveMarks(self._curves)
        self._smoothing = Slider(smoothing, name="Smoothing")
        self._smoothing.setToolTip(plain_tip("Smoothing", "S"))
        self._smoothing.share_changed.connect(self._smooth)
        self._scale = ScaleButton()
        self._scale.log_x_changed.connect(self._set_log_x)
        self._scale.log_y_changed.connect(self._set_log_y)
        self._axes = axis_choice(XAxis.STEP)
        self._axes.key_chosen.connect(self._set_axis)
        save = IconButton("download-simple", "Save the curves")
        menu = QMenu(save)
        menu.addAction("All curves as CSV…", lambda: actions.ask(SAVE_CSV, self._job_id))
        save.setMenu(menu)
        self._large = LargePlot(metric_title(LOSS), link=self._link)
        add_export_actions(menu, lambda: self._large, self._save)
        self._large.set_empty_text(_BEFORE_STEPS)
        self._smoothing_word = Label("Smoothing", "small", "text2")
        self._large_base = LOSS
        self._title = Label(metric_title(LOSS), "heading")
        self._title.set_tip("Wheel zooms, drag pans, double-click fits", "F")
        head = row(
            self._title,
            STRETCH,
            self._smoothing_word,
            self._smoothing,
            self._scale,
            self._axes,
            save,
        )
        self._problem = Label("", "small", "warn", wrap=True)
        self._problem.hide()
        self.ranks = RankStrip()
        large_card = Card(head, (self._large, 1), gap=S2, margins=HEADED_CARD)
        large_card.setMaximumHeight(_LARGE_MOST_H)
        self._body = CurvesBody(self._problem, large_card, self.ranks)
        self._scroll = VerticalScrollArea(self._body, gutter=PAGE_MARGIN)
        self.setLayout(col((self._scroll, 1), gap=0))
        self._smooth()

    def clear(self, name: str, job_id: str = "") -> None:
        """Remove the curves for another job, or another run."""
        self._job_id, self._name = job_id, name
        self._taking.stop()
        self._to_come.clear()
        self._is_read = False
        self._curves.clear()
        self._marks.clear()
        self._large.clear()
        self._large.set_marks(vertical_markers=(), boundaries=(), axis_marks=(), spans=())
        for plot in self._small.values():
            plot.hide()
            plot.clear()
        self._spare |= self._small
        self._small.clear()
        while len(self._spare) > _SPARE_MOST:
            oldest = self._spare.pop(next(iter(self._spare)))
            self._body.remove(oldest)
            oldest.deleteLater()
        self._body.place_plots([])
        self._problem.hide()
        self._set_large(LOSS)
        self._large.fit()

    def append(self, history: HistoryUpdate) -> None:
        """Append new points; those of a resumed run replace the earlier ones of the same steps.

        A long history is read in pieces, one per event loop iteration: a million steps take 0.9 s.
        """
        self._is_read = True
        self._to_come.extend(split_history(history, _POINTS_A_TURN))
        if not self._taking.isActive():
            self._taking.start(0)
            self._take_piece()

    @Slot()
    def _take_piece(self) -> None:
        history = self._to_come.popleft()
        if not self._to_come:
            self._taking.stop()
        self._marks.drop_repeated_steps(history)
        came = self._curves.append(history)
        if self._to_come and not came:
            return
        fresh = dict.fromkeys((*came, *self._choose_large()))
        self._place({plot_and_line(name)[0] for name in fresh} - {self._large_base, *self._small})
        with self._large.batch_redraws():
            for name in fresh:
                self._draw(name)
            self._mark()
        if not came:
            for plot in self._small.values():
                plot.panel.refresh()
        self._problem.setText(" ".join(history.problems))
        self._problem.setVisible(bool(history.problems))
        self._show_values()
        if not self._to_come:
            self.completed.emit()

    def show_view(self, view: JobView, slow: SlowNode | None = None) -> None:
        """Show where the job ended, its warnings, and the speed of each rank."""
        self._large.set_empty_text(self._empty_text(view))
        if self._marks.show_view(view):
            self._mark()
        self.ranks.show_view(view, slow.reasons if slow is not None else {})

    def _empty_text(self, view: JobView) -> str:
        if view.step and not self._is_read:
            return _READING
        if view.config.script and not view.step:
            return _OF_SCRIPT
        if not view.state.is_over:
            return _BEFORE_STEPS
        return _NO_HISTORY if view.step else _WITHOUT_STEPS

    def show_checkpoints(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Mark the existing checkpoints; deleted ones keep their mark."""
        self._marks.show_checkpoints(checkpoints)
        self._mark()

    def show_problems(self, spans: Sequence[AxisSpan]) -> None:
        """Mark when GPUs of the job had problems, in Unix time."""
        if self._marks.show_problems(spans):
            self._mark()

    @property
    def started_s(self) -> float:
        """Return the Unix time of the first point, 0 before there is one."""
        return self._curves.started_s

    @property
    def run_curves(self) -> RunCurves:
        """Return all points of the open job, for other tabs that draw some of them."""
        return self._curves

    def toggle_log_y(self) -> None:
        self._scale.toggle_log_y()

    def toggle_log_x(self) -> None:
        self._scale.toggle_log_x()

    def focus_smoothing(self) -> None:
        self._smoothing.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def fit(self) -> None:
        for panel in self._panels():
            panel.fit()

    def curve(self, name: str) -> CurveData | None:
        """Return the points of one metric, for tests."""
        return self._curves.get(name)

    def _choose_large(self) -> tuple[str, ...]:
        """Give the large plot to the loss; if a job writes none, to another loss or metric.

        Returns:
            The metrics that must be drawn again.
        """
        bases = {plot_and_line(name)[0] for name in self._curves.names()} - set(_LAST)
        before = self._large_base
        first = min(bases, key=lambda base: (LOSS not in base.lower(), base), default=LOSS)
        kept = before if before in bases else first
        chosen = LOSS if LOSS in bases else kept
        if chosen == before:
            return ()
        self._set_large(chosen)
        if chosen in self._small:
            self._put_aside(chosen)
        return tuple(name for name in self._curves.names() if plot_and_line(name)[0] in (chosen, before))

    def _set_large(self, base: str) -> None:
        if base != self._large_base:
            self._large_base = base
            self._large.clear()
            self._large.set_title(metric_title(base))
            self._title.setText(metric_title(base))

    def _put_aside(self, base: str) -> None:
        """Keep a small plot for another job."""
        plot = self._spare[base] = self._small.pop(base)
        plot.hide()
        plot.clear()
        self._lay_out()

    def _place(self, bases: Set[str]) -> None:
        """Place the plots of new metrics."""
        for base in bases:
            is_there = base in self._spare
            plot = self._spare.pop(base) if is_there else self._make_plot(base)
            self._small[base] = plot
            self._scale_as_all(plot.panel)
            plot.panel.set_smoothing(self._weight())
        if bases:
            self._lay_out()
        for base in bases:
            # Not earlier: a plot without a parent would be a window.
            self._small[base].show()

    def _draw(self, name: str) -> None:
        """Draw a new metric."""
        data = self._curves.get(name)
        if data is None:
            return
        base, line = plot_and_line(name)
        is_validation, is_stale = name.startswith(VALIDATION), name in STALENESS
        is_rate = name == "learning_rate"
        panel = self._large if base == self._large_base else self._small[base].panel
        is_raw = not is_validation and not is_stale and not is_rate
        panel.set_curve(
            name,
            line,
            data,
            STALENESS.index(name) if is_stale else int(is_validation),
            smooth=is_raw,
            with_raw=is_raw,
            fill=is_rate,
        )

    def _make_plot(self, base: str) -> SmallPlot:
        plot = SmallPlot(metric_title(base), self._link, end_names=base == _STALE)
        plot.pictures.saved.connect(self._save)
        return plot

    def _lay_out(self) -> None:
        """Order the plots: the user's metrics come before the built-in ones."""
        order = sorted(self._small, key=lambda name: (name in _LAST, name))
        self._body.place_plots([self._small[name] for name in order])

    def showEvent(self, event: QShowEvent) -> None:
        """Lay out what changed while the tab was hidden."""
        super().showEvent(event)
        self._body.updateGeometry()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < _NARROW_BELOW_W
        self._smoothing_word.setVisible(not is_narrow)
        self._smoothing.setFixedWidth(_SLIDER_NARROW_W if is_narrow else _SLIDER_W)
        self._body.fit(self.width(), self._scroll)

    def _panels(self) -> list[CurvePanel]:
        return [self._large, *(plot.panel for plot in self._small.values())]

    def _refresh(self) -> None:
        self._mark()
        for panel in self._panels():
            panel.refresh()
        self._show_values()

    def _show_values(self) -> None:
        for base, plot in self._small.items():
            both = STALENESS[:1] if base == _STALE else (f"{VALIDATION}{base}", base)
            lasts = [
                (last.raw, _kind(name))
                for name in both
                if (data := self._curves.get(name)) is not None and (last := data.last_point())
            ]
            plot.show_value(*(lasts[0] if lasts else (None, "")))

    def _mark(self) -> None:
        spans = self._marks.spans(self._axis)
        self._large.set_marks(
            boundaries=self._marks.boundaries(self._axis),
            vertical_markers=self._marks.vertical_markers(self._axis),
            axis_marks=self._marks.axis_marks(self._axis),
            spans=spans,
        )
        bare = tuple(replace(span, text="") for span in spans)
        for plot in self._small.values():
            plot.show_spans(bare)

    @Slot()
    def _smooth(self) -> None:
        for panel in self._panels():
            panel.set_smoothing(self._weight())

    def _weight(self) -> float:
        return min(self._smoothing.share(), 0.99)

    @Slot(bool)
    def _set_log_y(self, on: bool) -> None:
        self._log_y = on
        self._scale_all()

    @Slot(bool)
    def _set_log_x(self, on: bool) -> None:
        self._log_x = on
        self._scale_all()

    @Slot(str)
    def _set_axis(self, key: str) -> None:
        self._axis = XAxis(key)
        self._scale.set_has_log_x(self._axis is not XAxis.CLOCK)
        self._scale_all()
        self._mark()

    def _scale_all(self) -> None:
        for panel in self._panels():
            self._scale_as_all(panel)

    def _scale_as_all(self, panel: CurvePanel) -> None:
        with panel.batch_redraws():
            panel.set_axis(self._axis)
            panel.set_log_x(self._log_x)
            panel.set_log_y(self._log_y)

    @Slot(str, object)
    def _save(self, plot: str, content: bytes) -> None:
        self._actions.ask(SAVE_FILE, f"{self._name} {plot}", content)


def _kind(name: str) -> str:
    """Return the kind of a value, where its plot also shows other values."""
    if name.startswith(VALIDATION):
        # Abbreviated as in the lists; the whole word cut the title of a small plot.
        return "val."
    if name in STALENESS:
        return plot_and_line(name)[1]
    return "" if name in OF_NO_DATA else "raw"
