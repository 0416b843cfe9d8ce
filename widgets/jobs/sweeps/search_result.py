"""The result of a search in the pane of its sweep: best values, plots, and importance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QImage, QPainter, QPaintEvent, qRgb
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.metric_names import metric_label
from backend.records.jobs.settings import label
from backend.records.sweeps.parallel_coordinates import AxisMark, setting_axis
from backend.records.sweeps.search import COMPLETE, Proposal, SearchResult
from backend.records.sweeps.values import value_text
from widgets.common import formats, theme
from widgets.common.buttons import Button
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.fields import ComboBox
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, col, row
from widgets.common.painting import paint_text, round_pen
from widgets.common.theme import HEADED_CARD, S1, S2, S3, S4
from widgets.plots import ticks

_HISTORY, _GOAL = "history", "goal"
_AXIS_W, _TICKS_H, _PLOT_H = 56, 22, 200
_DOT, _LINE_W, _MARGIN = 3.5, 2.0, 0.06
_ROW_H, _NAME_W, _SHARE_W, _BAR_H = 24, 150, 48, 8
_WORST_SHARE, _MANY = 0.9, 10
"""From so many trials on, the values beyond this share are at the edge of a plot: one trial that
diverged must not flatten the others."""
_COLUMNS, _ROWS, _BANDS = 120, 60, 7
_CONTOUR_TIP = (
    "The stronger the colour, the better. A point is a trial; between them it is the mean of all "
    "finished trials, weighted by 1 / distance² on the axes"
)


def _value_limits(values: Sequence[float], sign: float) -> tuple[float, float]:
    """Return the lowest and the highest value of a plot."""
    ordered_values = sorted(values, key=lambda value: sign * value)
    is_cut = len(ordered_values) >= _MANY
    worst_value = (
        ordered_values[int(_WORST_SHARE * (len(ordered_values) - 1))]
        if is_cut
        else ordered_values[-1]
    )
    return min(ordered_values[0], worst_value), max(ordered_values[0], worst_value)


def _trial_axis(trials: Sequence[Proposal], key: str) -> tuple[list[float | None], list[AxisMark]]:
    """Return the position of each trial on the axis of a setting, and the marks of the axis."""
    texts = [value_text(trial.values[key]) if key in trial.values else None for trial in trials]
    axis, column = setting_axis(key, texts)
    return [position for position, _ in column], list(axis.marks)


def _paint_x_marks(painter: QPainter, area: QRectF, marks: Sequence[AxisMark]) -> None:
    for mark in marks:
        x = area.left() + area.width() * mark.position
        box = QRectF(x - S4 * 2, area.bottom() + S1, S4 * 4, 2 * S2)
        paint_text(painter, box, mark.text, "tiny", "text3", center=True)


class TrialPlot(QWidget):
    """The goal of each trial over a position, with the best until then as a line in a history."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._trials: Sequence[Proposal] = ()
        self._positions: Sequence[float | None] = ()
        self._marks: Sequence[AxisMark] = ()
        self._mode, self._is_history = "min", True
        self.setFixedHeight(_PLOT_H)
        self.setAccessibleName("Plot of the trials")

    def show_trials(self, result: SearchResult, key: str) -> None:
        """Show the trials over a setting, or over their numbers with `_HISTORY`."""
        self._is_history = key == _HISTORY
        self._trials = [trial for trial in result.trials if trial.value is not None]
        if self._is_history:
            last_number = max(2, *(trial.number for trial in result.trials), 2)
            self._positions = [(trial.number - 1) / (last_number - 1) for trial in self._trials]
            numbers = [number for number, _ in ticks.linear(1, last_number) if number.is_integer()]
            self._marks = [AxisMark((n - 1) / (last_number - 1), formats.tick(n)) for n in numbers]
        else:
            self._positions, self._marks = _trial_axis(self._trials, key)
        self._mode = result.search.mode
        self.setAccessibleDescription(f"{len(self._trials)} trials")
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self._trials:
            text = "The plot begins with the first value of a trial."
            paint_text(painter, QRectF(self.rect()), text, "small", "text3", center=True)
            return
        area = QRectF(_AXIS_W, S3, self.width() - _AXIS_W - S4, self.height() - S3 - _TICKS_H)
        sign = -1.0 if self._mode == "max" else 1.0
        low, high = _value_limits([trial.value or 0.0 for trial in self._trials], sign)
        margin = (high - low or abs(high) or 1.0) * _MARGIN
        low, high = low - margin, high + margin

        def y(value: float) -> float:
            share = (min(max(value, low), high) - low) / (high - low)
            return area.bottom() - area.height() * share

        t = theme.current()
        for value, text in ticks.linear(low, high, 5):
            painter.setPen(t.q("grid"))
            painter.drawLine(QPointF(area.left(), y(value)), QPointF(area.right(), y(value)))
            box = QRectF(0, y(value) - S2, _AXIS_W - S2, 2 * S2)
            paint_text(painter, box, text, "tiny", "text3", right=True)
        _paint_x_marks(painter, area, self._marks)
        best_value: float | None = None
        previous_point: QPointF | None = None
        for trial, position in zip(self._trials, self._positions, strict=True):
            if position is None or trial.value is None:
                continue
            point = QPointF(area.left() + area.width() * position, y(trial.value))
            is_complete = trial.state == COMPLETE
            if is_complete and (best_value is None or sign * trial.value < sign * best_value):
                best_value = trial.value
            if best_value is not None and self._is_history:
                best_point = QPointF(point.x(), y(best_value))
                if previous_point is not None:
                    painter.setPen(round_pen(t.curve(0), _LINE_W))
                    corner = QPointF(best_point.x(), previous_point.y())
                    painter.drawPolyline([previous_point, corner, best_point])
                previous_point = best_point
            painter.setPen(round_pen(t.curve(0) if is_complete else t.q("text3"), 1.4))
            painter.setBrush(t.curve(0) if is_complete else Qt.BrushStyle.NoBrush)
            painter.drawEllipse(point, _DOT, _DOT)


class ContourPlot(QWidget):
    """The goal over two settings as bands of colour, and the trials as points."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._points: list[tuple[float, float, Proposal]] = []
        self._marks: tuple[list[AxisMark], list[AxisMark]] = ([], [])
        self._mode = "min"
        self.setFixedHeight(int(1.5 * _PLOT_H))
        self.setToolTip(plain_tip(_CONTOUR_TIP))
        self.setAccessibleName("Contour plot of the trials")

    def show_trials(self, result: SearchResult, keys: tuple[str, str]) -> None:
        """Show the trials over two settings; those without a value are left out."""
        trials = [trial for trial in result.trials if trial.value is not None]
        (xs, x_marks), (ys, y_marks) = (_trial_axis(trials, key) for key in keys)
        self._marks, self._mode = (x_marks, y_marks), result.search.mode
        triples = zip(xs, ys, trials, strict=True)
        self._points = [(x, y, t) for x, y, t in triples if x is not None and y is not None]
        self.setAccessibleDescription(f"{len(self._points)} trials")
        self.update()

    def _bands(self) -> QImage:
        """Return the goal between the finished trials, as Shepard (1968) interpolates."""
        trials = [(x, y, t.value or 0.0) for x, y, t in self._points if t.state == COMPLETE]
        if not trials:
            return QImage()
        x, y, values = np.array(trials).T
        sign = -1.0 if self._mode == "max" else 1.0
        low, high = _value_limits(values.tolist(), sign)
        shares = (values.clip(low, high) - low) / ((high - low) or 1.0)
        columns, rows = np.linspace(0, 1, _COLUMNS), np.linspace(1, 0, _ROWS)
        distances = (columns[None, :, None] - x) ** 2 + (rows[:, None, None] - y) ** 2
        weights = 1 / (distances + 1e-6)
        mean = (weights * shares).sum(2) / weights.sum(2)
        band = np.round((mean if sign < 0 else 1 - mean) * (_BANDS - 1)).astype(np.uint8)
        image = QImage(band.tobytes(), _COLUMNS, _ROWS, _COLUMNS, QImage.Format.Format_Indexed8)
        end_colors = (theme.current().q("sunken"), theme.current().curve(0))
        worst_color, best_color = (
            (color.red(), color.green(), color.blue()) for color in end_colors
        )
        colors = np.linspace(worst_color, best_color, _BANDS).round().astype(int)
        image.setColorTable([qRgb(*map(int, color)) for color in colors])
        return image.copy()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        area = QRectF(
            2 * _AXIS_W, S3, self.width() - 2 * _AXIS_W - S4, self.height() - S3 - _TICKS_H
        )
        painter.drawImage(area, self._bands())
        _paint_x_marks(painter, area, self._marks[0])
        for mark in self._marks[1]:
            y = area.bottom() - area.height() * mark.position
            box = QRectF(0, y - S2, 2 * _AXIS_W - S2, 2 * S2)
            paint_text(painter, box, mark.text, "tiny", "text3", right=True)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        for x, y, trial in self._points:
            is_complete = trial.state == COMPLETE
            painter.setPen(round_pen(t.q("surface" if is_complete else "text"), 1.4))
            painter.setBrush(t.q("text") if is_complete else Qt.BrushStyle.NoBrush)
            point = QPointF(area.left() + area.width() * x, area.bottom() - area.height() * y)
            painter.drawEllipse(point, _DOT, _DOT)


class ImportanceBars(QWidget):
    """The share of each setting in the differences of the goal, largest first."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shares: list[tuple[str, float]] = []
        self._message = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Importance of the settings")

    def show_result(self, result: SearchResult) -> None:
        ordered_shares = sorted(result.importance.items(), key=lambda item: -item[1])
        self._shares = [(label(path), share) for path, share in ordered_shares]
        self._message = result.importance_message
        self.setFixedHeight(max(1, len(ordered_shares)) * _ROW_H)
        self.setAccessibleDescription(self._message)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        if not self._shares:
            paint_text(painter, QRectF(self.rect()), self._message, "small", "text3")
        for number, (name, share) in enumerate(self._shares):
            top, t = number * _ROW_H, theme.current()
            box = QRectF(0, top, _NAME_W, _ROW_H)
            paint_text(painter, box, name, "small", "text")
            width = max(0.0, self.width() - _NAME_W - _SHARE_W - S2)
            bar = QRectF(_NAME_W + S2, top + (_ROW_H - _BAR_H) / 2, width, _BAR_H)
            painter.fillRect(bar, t.q("grid"))
            bar.setWidth(width * share)
            painter.fillRect(bar, t.curve(0))
            box = QRectF(self.width() - _SHARE_W, top, _SHARE_W, _ROW_H)
            paint_text(painter, box, f"{share:.0%}", "small", "text2", right=True)


class SearchView(QWidget):
    """A view of the result of a search.

    Signals:
        use_requested: The id of the job whose values the user wants in the form.
    """

    use_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._result: SearchResult | None = None
        self._best_label = Label("", "strong", wrap=True)
        self._progress = Label("", "small", "text2", wrap=True)
        self._use_button = Button("Use these values", icon="copy")
        self._use_button.set_tip("Begin a new job with the values of the best trial")
        self._use_button.clicked.connect(self._use)
        self._axes = ComboBox(name="What the plot shows")
        self._axes.currentIndexChanged.connect(self._show_plot)
        self._second_axes = ComboBox(name="The other axis of the plot")
        self._second_axes.currentIndexChanged.connect(self._show_plot)
        self._goal = Label("", "small", "text2", elide="right")
        self._plot, self._contour, self._bars = TrialPlot(), ContourPlot(), ImportanceBars()
        head = row(
            (col(self._best_label, self._progress, gap=2), 1), self._use_button, gap=S3, top=True
        )
        plot = Card(
            row((self._goal, 1), self._axes, self._second_axes, gap=S3),
            self._plot,
            self._contour,
            gap=S2,
            margins=HEADED_CARD,
        )
        importance = Card(Label("Importance", "strong"), self._bars, gap=S2, margins=HEADED_CARD)
        content = QWidget()
        content.setLayout(col(head, plot, importance, STRETCH, gap=S3))
        self.setLayout(col((VerticalScrollArea(content), 1)))

    def show_result(self, result: SearchResult) -> None:
        self._result = result
        search, best_trial = result.search, result.best
        metric = metric_label(search.metric)
        self._best_label.setText("No trial has finished yet.")
        if best_trial is not None and best_trial.value is not None:
            number = f"Trial {best_trial.number}: {metric} {formats.metric(best_trial.value)}"
            self._best_label.setText(f"{number}, with {best_trial.message}")
        self._use_button.setEnabled(best_trial is not None)
        self._progress.setText(f"{result.progress_message} {result.error}".strip())
        direction = "lower" if search.mode == "min" else "higher"
        self._goal.setText(f"{metric}, {direction} is better; rings were given up")
        options = [(_HISTORY, "By trial"), *((a.path, f"By {label(a.path)}") for a in result.axes)]
        self._axes.set_options(options, self._axes.key() or _HISTORY)
        options = [(_GOAL, "and goal"), *((a.path, f"and {label(a.path)}") for a in result.axes)]
        self._second_axes.set_options(options, self._second_axes.key() or _GOAL)
        self._bars.show_result(result)
        self._show_plot()

    @Slot()
    def _show_plot(self) -> None:
        if self._result is None:
            return
        key, second_key = self._axes.key() or _HISTORY, self._second_axes.key() or _GOAL
        self._second_axes.setVisible(key != _HISTORY and len(self._result.axes) > 1)
        is_contour = len({_HISTORY, _GOAL, key, second_key}) == 4
        self._plot.setVisible(not is_contour)
        self._contour.setVisible(is_contour)
        if is_contour:
            self._contour.show_trials(self._result, (key, second_key))
        else:
            self._plot.show_trials(self._result, key)

    @Slot()
    def _use(self) -> None:
        best_trial = self._result.best if self._result is not None else None
        if best_trial is not None:
            self.use_requested.emit(best_trial.job)
