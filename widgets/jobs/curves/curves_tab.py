"""The tab Curves: loss large, then the other metrics: validation, speed, learning rate.

For a job without a loss, another metric is large.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.metric_names import OF_NO_DATA, STALENESS, VALIDATION
from backend.records.jobs.sample_history import SampleHistory
from backend.records.jobs.view import JobView
from widgets.common.buttons import IconButton
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.fields import Slider
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import HEADED_CARD, PAGE_MARGIN, S2
from widgets.jobs.actions.job_actions import SAVE_CSV, SAVE_FILE, JobActions
from widgets.jobs.curves.curve_marks import CurveMarks
from widgets.jobs.curves.curves_layout import CurvesBody, LargePlot, SmallPlot
from widgets.jobs.curves.sample_strip import SampleStrip
from widgets.jobs.detail.warning import SlowNode
from widgets.jobs.ranks.rank_strip import RankStrip
from widgets.plots.annotations import AxisSpan
from widgets.plots.axis_choice import ScaleButton, axis_choice
from widgets.plots.cursor_readout import HoverLink
from widgets.plots.curve_data import AxisMapping, CurveData, XAxis
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.image_export import add_export_actions
from widgets.plots.run_curves import LOSS, RunCurves, metric_title, plot_and_line, split_history

_NARROW_BELOW_W = 600
_SLIDER_W, _SLIDER_NARROW_W = 88, 48
_LARGE_MAX_H = 1100
_MAX_SPARE_PLOTS = 12
_STALENESS_BASE = plot_and_line(STALENESS[0])[0]
_LAST_BASES = (*OF_NO_DATA, _STALENESS_BASE)
_CHUNK_POINTS = 10_000
_BEFORE_STEPS = "Curves appear after the first step."
_NO_SCRIPT_VALUES = (
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
        self._pending_updates: deque[HistoryUpdate] = deque()
        self._has_update = False
        """Whether an update of the open job has arrived."""
        self._update_timer = QTimer(self)
        self._update_timer.timeout.connect(self._append_next)
        self._curves = RunCurves()
        self._small_plots: dict[str, SmallPlot] = {}
        # Most jobs have the same metrics, and creating a plot takes 10 ms.
        self._spare_plots: dict[str, SmallPlot] = {}
        self._axis = XAxis.STEP
        self._is_log_x = self._is_log_y = False
        self._marks = CurveMarks(self._curves)
        self._smoothing = Slider(smoothing, name="Smoothing")
        self._smoothing.setToolTip(plain_tip("Smoothing", "S"))
        self._smoothing.share_changed.connect(self._apply_smoothing)
        self._scale_button = ScaleButton()
        self._scale_button.log_x_changed.connect(self._set_log_x)
        self._scale_button.log_y_changed.connect(self._set_log_y)
        self._axis_choice = axis_choice(XAxis.STEP)
        self._axis_choice.key_chosen.connect(self._set_axis)
        save_button = IconButton("download-simple", "Save the curves")
        menu = QMenu(save_button)
        menu.addAction("All curves as CSV…", lambda: actions.ask(SAVE_CSV, self._job_id))
        save_button.setMenu(menu)
        self._large_plot = LargePlot(metric_title(LOSS), link=self._link)
        add_export_actions(menu, lambda: self._large_plot, self._save_picture)
        self._large_plot.set_empty_text(_BEFORE_STEPS)
        self._smoothing_label = Label("Smoothing", "small", "text2")
        self._large_base = LOSS
        self._title = Label(metric_title(LOSS), "heading")
        self._title.set_tip("Wheel zooms, drag pans, double-click fits", "F")
        head = row(
            *(self._title, STRETCH, self._smoothing_label, self._smoothing),
            *(self._scale_button, self._axis_choice, save_button),
        )
        self._problem_label = Label("", "small", "warn", wrap=True)
        self._problem_label.hide()
        self.ranks = RankStrip()
        large_card = Card(head, (self._large_plot, 1), gap=S2, margins=HEADED_CARD)
        large_card.setMaximumHeight(_LARGE_MAX_H)
        self.samples = SampleStrip()
        self._link.pointer_moved.connect(self._follow_pointer)
        self._link.pointer_left.connect(lambda: self.samples.show_step(None))
        self._body = CurvesBody(self._problem_label, large_card, self.samples, self.ranks)
        self._scroll = VerticalScrollArea(self._body, gutter=PAGE_MARGIN)
        self.setLayout(col((self._scroll, 1), gap=0))
        self._apply_smoothing()

    def clear(self, name: str, job_id: str = "") -> None:
        """Remove the curves for another job, or another run."""
        self._job_id, self._name = job_id, name
        self._update_timer.stop()
        self._pending_updates.clear()
        self._has_update = False
        self._curves.clear()
        self._marks.clear()
        self.samples.show_samples(SampleHistory())
        self._large_plot.clear()
        self._large_plot.set_marks(vertical_markers=(), boundaries=(), axis_marks=(), spans=())
        for plot in self._small_plots.values():
            plot.hide()
            plot.clear()
        self._spare_plots |= self._small_plots
        self._small_plots.clear()
        while len(self._spare_plots) > _MAX_SPARE_PLOTS:
            oldest_plot = self._spare_plots.pop(next(iter(self._spare_plots)))
            self._body.remove(oldest_plot)
            oldest_plot.deleteLater()
        self._body.place_plots([])
        self._problem_label.hide()
        self._set_large(LOSS)
        self._large_plot.fit()

    def append(self, history: HistoryUpdate) -> None:
        """Append new points; points of a resumed run replace earlier points of the same steps.

        A long history is read in chunks, one per event loop iteration: a million steps take 0.9 s.
        """
        self._has_update = True
        self._pending_updates.extend(split_history(history, _CHUNK_POINTS))
        if not self._update_timer.isActive():
            self._update_timer.start(0)
            self._append_next()

    @Slot()
    def _append_next(self) -> None:
        history = self._pending_updates.popleft()
        if not self._pending_updates:
            self._update_timer.stop()
        self._marks.drop_repeated_steps(history)
        changed_names = self._curves.append(history)
        if self._pending_updates and not changed_names:
            return
        drawn_names = dict.fromkeys((*changed_names, *self._choose_large()))
        for base in self._small_plots.keys() - self._bases():
            self._spare_plot(base)
        self._place_plots(
            {plot_and_line(name)[0] for name in drawn_names}
            - {self._large_base, *self._small_plots}
        )
        with self._large_plot.batch_redraws():
            for name in drawn_names:
                self._draw_metric(name)
            self._show_marks()
        if not changed_names:
            for plot in self._small_plots.values():
                plot.panel.refresh()
        self._problem_label.setText(" ".join(history.problems))
        self._problem_label.setVisible(bool(history.problems))
        self._show_values()
        if not self._pending_updates:
            self.completed.emit()

    def show_view(self, view: JobView, slow_node: SlowNode | None = None) -> None:
        """Show where the job ended, its warnings, and the speed of each rank."""
        self._large_plot.set_empty_text(self._empty_text(view))
        if self._marks.show_view(view):
            self._show_marks()
        self.ranks.show_view(view, slow_node.reasons if slow_node is not None else {})

    def _empty_text(self, view: JobView) -> str:
        if view.step and not self._has_update:
            return _READING
        if view.config.script and not view.step:
            return _NO_SCRIPT_VALUES
        if not view.state.is_over:
            return _BEFORE_STEPS
        return _NO_HISTORY if view.step else _WITHOUT_STEPS

    def show_checkpoints(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Mark the existing checkpoints; deleted checkpoints keep their mark."""
        self._marks.show_checkpoints(checkpoints)
        self._show_marks()

    def show_problems(self, spans: Sequence[AxisSpan]) -> None:
        """Mark the problems of the job's GPUs, in Unix time."""
        if self._marks.show_problems(spans):
            self._show_marks()

    @Slot(float)
    def _follow_pointer(self, x: float) -> None:
        curve, mapping = self._curves.get(self._large_base), AxisMapping(self._axis, self._is_log_x)
        point = curve.nearest_point(self._axis, mapping.x_at(x)) if curve is not None else None
        self.samples.show_step(point.step if point is not None else None)

    @property
    def started_s(self) -> float:
        """Return the Unix time of the first point, 0 before there is one."""
        return self._curves.started_s

    @property
    def run_curves(self) -> RunCurves:
        """Return all points of the open job, for the curves of other tabs."""
        return self._curves

    def toggle_log_y(self) -> None:
        self._scale_button.toggle_log_y()

    def toggle_log_x(self) -> None:
        self._scale_button.toggle_log_x()

    def focus_smoothing(self) -> None:
        self._smoothing.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def fit(self) -> None:
        for panel in self._panels():
            panel.fit()

    def curve(self, name: str) -> CurveData | None:
        """Return the points of one metric, for tests."""
        return self._curves.get(name)

    def _choose_large(self) -> tuple[str, ...]:
        """Give the large plot to the loss; in a job without "loss", to another loss or metric.

        Returns:
            The metrics that must be drawn again.
        """
        bases = self._bases() - set(_LAST_BASES)
        previous_base = self._large_base
        first_base = min(bases, key=lambda base: (LOSS not in base.lower(), base), default=LOSS)
        fallback_base = previous_base if previous_base in bases else first_base
        large_base = LOSS if LOSS in bases else fallback_base
        if large_base == previous_base:
            return ()
        self._set_large(large_base)
        if large_base in self._small_plots:
            self._spare_plot(large_base)
        return tuple(
            name
            for name in self._curves.names()
            if plot_and_line(name)[0] in (large_base, previous_base)
        )

    def _bases(self) -> set[str]:
        """Return the metrics that have a plot each."""
        return {plot_and_line(name)[0] for name in self._curves.names()}

    def _set_large(self, base: str) -> None:
        if base != self._large_base:
            self._large_base = base
            self._large_plot.clear()
            self._large_plot.set_title(metric_title(base))
            self._title.setText(metric_title(base))

    def _spare_plot(self, base: str) -> None:
        """Keep a small plot for another job."""
        plot = self._spare_plots[base] = self._small_plots.pop(base)
        plot.hide()
        plot.clear()
        self._lay_out()

    def _place_plots(self, bases: Set[str]) -> None:
        """Place the plots of new metrics."""
        for base in bases:
            is_spare = base in self._spare_plots
            plot = self._spare_plots.pop(base) if is_spare else self._make_plot(base)
            self._small_plots[base] = plot
            self._scale_panel(plot.panel)
            plot.panel.set_smoothing(self._weight())
        if bases:
            self._lay_out()
        for base in bases:
            # Not earlier: a plot without a parent would be a window.
            self._small_plots[base].show()

    def _draw_metric(self, name: str) -> None:
        """Draw a new metric."""
        data = self._curves.get(name)
        if data is None:
            return
        base, line = plot_and_line(name)
        is_validation, is_stale = name.startswith(VALIDATION), name in STALENESS
        is_rate = name == "learning_rate"
        panel = self._large_plot if base == self._large_base else self._small_plots[base].panel
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
        plot = SmallPlot(metric_title(base), self._link, end_names=base == _STALENESS_BASE)
        plot.picture_button.saved.connect(self._save_picture)
        return plot

    def _lay_out(self) -> None:
        """Order the plots: the user's metrics come before the built-in ones."""
        order = sorted(self._small_plots, key=lambda name: (name in _LAST_BASES, name))
        self._body.place_plots([self._small_plots[name] for name in order])

    def showEvent(self, event: QShowEvent) -> None:
        """Lay out the plots that changed while the tab was hidden."""
        super().showEvent(event)
        self._body.updateGeometry()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < _NARROW_BELOW_W
        self._smoothing_label.setVisible(not is_narrow)
        self._smoothing.setFixedWidth(_SLIDER_NARROW_W if is_narrow else _SLIDER_W)
        self._body.fit_width(self.width(), self._scroll)

    def _panels(self) -> list[CurvePanel]:
        return [self._large_plot, *(plot.panel for plot in self._small_plots.values())]

    def _refresh(self) -> None:
        self._show_marks()
        for panel in self._panels():
            panel.refresh()
        self._show_values()

    def _show_values(self) -> None:
        for base, plot in self._small_plots.items():
            names = STALENESS[:1] if base == _STALENESS_BASE else (f"{VALIDATION}{base}", base)
            last_values = [
                (point.raw, _value_kind(name))
                for name in names
                if (data := self._curves.get(name)) is not None and (point := data.last_point())
            ]
            plot.show_value(*(last_values[0] if last_values else (None, "")))

    def _show_marks(self) -> None:
        spans = self._marks.spans(self._axis)
        self._large_plot.set_marks(
            boundaries=self._marks.boundaries(self._axis),
            vertical_markers=self._marks.vertical_markers(self._axis),
            axis_marks=self._marks.axis_marks(self._axis),
            spans=spans,
        )
        unlabeled_spans = tuple(replace(span, text="") for span in spans)
        for plot in self._small_plots.values():
            plot.show_spans(unlabeled_spans)

    @Slot()
    def _apply_smoothing(self) -> None:
        for panel in self._panels():
            panel.set_smoothing(self._weight())

    def _weight(self) -> float:
        return min(self._smoothing.share(), 0.99)

    @Slot(bool)
    def _set_log_y(self, is_log: bool) -> None:
        self._is_log_y = is_log
        self._scale_panels()

    @Slot(bool)
    def _set_log_x(self, is_log: bool) -> None:
        self._is_log_x = is_log
        self._scale_panels()

    @Slot(str)
    def _set_axis(self, key: str) -> None:
        self._axis = XAxis(key)
        self._scale_button.set_has_log_x(self._axis is not XAxis.CLOCK)
        self._scale_panels()
        self._show_marks()

    def _scale_panels(self) -> None:
        for panel in self._panels():
            self._scale_panel(panel)

    def _scale_panel(self, panel: CurvePanel) -> None:
        with panel.batch_redraws():
            panel.set_axis(self._axis)
            panel.set_log_x(self._is_log_x)
            panel.set_log_y(self._is_log_y)

    @Slot(str, object)
    def _save_picture(self, plot_name: str, content: bytes) -> None:
        self._actions.ask(SAVE_FILE, f"{self._name} {plot_name}", content)


def _value_kind(name: str) -> str:
    """Return the kind of a value, where its plot also shows other values."""
    if name.startswith(VALIDATION):
        # Abbreviated as in the lists; the whole word cut the title of a small plot.
        return "val."
    if name in STALENESS:
        return plot_and_line(name)[1]
    return "" if name in OF_NO_DATA else "raw"
