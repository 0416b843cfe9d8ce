"""The search for the learning rate of New job: its progress, its curve and its proposal."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.rate_search import RateSearch, RateStep
from widgets.common import formats, theme
from widgets.common.dialog import TaskDialog
from widgets.common.labels import Label
from widgets.common.painting import paint_text, round_pen
from widgets.common.theme import S1, S2, S4
from widgets.plots import ticks

TITLE = "Find a rate"
_HINT = (
    "Training in one process on this computer, with the batch of one process and a rate that rises "
    "from step to step, until the loss diverges. Nothing is saved."
)
_AXIS_W, _HEAD_H, _TICKS_H, _PLOT_H = 52, 22, 36, 220
_MARGIN, _RAW_OPACITY, _DOT = 0.06, 0.28, 4.0


class RatePlot(QWidget):
    """Loss over a logarithmic learning rate: smooth, with the raw loss behind, and the proposal."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._search = RateSearch(())
        self.setFixedHeight(_PLOT_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Loss by learning rate")

    def show_search(self, search: RateSearch) -> None:
        self._search = search
        self.setAccessibleDescription(search.message)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        steps = [step for step in self._search.steps if step.smooth_loss is not None]
        if len(steps) < 2:
            text = "The curve follows when the search has ended."
            paint_text(painter, QRectF(self.rect()), text, "small", "text3", center=True)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        width, height = self.width() - _AXIS_W - S4, self.height() - _HEAD_H - _TICKS_H
        _Axes(QRectF(_AXIS_W, _HEAD_H, width, height), steps).paint(painter, self._search.proposal)


class _Axes:
    """The axes of a search on an area of pixels. Their range is that of the smooth losses."""

    def __init__(self, area: QRectF, steps: list[RateStep]) -> None:
        self._area, self._steps = area, steps
        losses = [step.smooth_loss for step in steps if step.smooth_loss is not None]
        margin = (max(losses) - min(losses) or abs(max(losses)) or 1.0) * _MARGIN
        self._min_loss, self._max_loss = min(losses) - margin, max(losses) + margin
        self._min_power, self._max_power = (math.log10(steps[i].rate) for i in (0, -1))

    def _x(self, rate: float) -> float:
        span = self._max_power - self._min_power
        return self._area.left() + self._area.width() * (math.log10(rate) - self._min_power) / span

    def _y(self, loss: float) -> float:
        share = (loss - self._min_loss) / (self._max_loss - self._min_loss)
        return self._area.bottom() - self._area.height() * share

    def paint(self, painter: QPainter, proposal: float | None) -> None:
        area, palette = self._area, theme.current()
        paint_text(painter, QRectF(S2, 0, area.width(), 2 * S2), "Loss", "tiny", "text2")
        for loss, text in ticks.linear(self._min_loss, self._max_loss, 5):
            y = self._y(loss)
            painter.setPen(palette.q("grid"))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            label_box = QRectF(0, y - S2, _AXIS_W - S2, 2 * S2)
            paint_text(painter, label_box, text, "tiny", "text3", right=True)
        for power, text in ticks.logarithmic(self._min_power, self._max_power):
            label_box = QRectF(self._x(10**power) - 30, area.bottom() + S1, 60, 2 * S2)
            paint_text(painter, label_box, text, "tiny", "text3", center=True)
        title_box = QRectF(area.left(), area.bottom() + S1 + 2 * S2, area.width(), 2 * S2)
        paint_text(painter, title_box, "Learning rate", "tiny", "text3", center=True)
        painter.save()
        painter.setClipRect(area)
        for losses, opacity, width in (
            ([step.loss for step in self._steps], _RAW_OPACITY, 1.0),
            ([step.smooth_loss for step in self._steps], 1.0, 2.2),
        ):
            points = [
                QPointF(self._x(step.rate), self._y(loss))
                for step, loss in zip(self._steps, losses, strict=True)
                if loss is not None
            ]
            painter.setPen(round_pen(palette.curve(0, opacity), width))
            painter.drawPolyline(QPolygonF(points))
        painter.restore()
        if proposal is not None:
            self._paint_proposal(painter, proposal)

    def _paint_proposal(self, painter: QPainter, proposal: float) -> None:
        """Mark the proposal with a broken line, a dot on the curve, and its value above."""
        area, palette, x = self._area, theme.current(), self._x(proposal)
        painter.setPen(QPen(palette.q("text2"), 1.0, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
        nearest_step = min(self._steps, key=lambda step: abs(math.log(step.rate / proposal)))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(palette.curve(0))
        painter.drawEllipse(QPointF(x, self._y(nearest_step.smooth_loss or 0.0)), _DOT, _DOT)
        label_box = QRectF(x - 60, 0, 120, 2 * S2)
        paint_text(
            painter, label_box, formats.typed_number(proposal), "small_strong", "text", center=True
        )


class RateDialog(TaskDialog):
    """Shows a search for the learning rate.

    Signals:
        rate_chosen: The proposed rate, to put into the form.
    """

    rate_chosen = Signal(float)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(TITLE, parent)
        self._plot = RatePlot()
        self._proposal: float | None = None
        self._use_button = self.default_button("Use it", self._use)
        self._use_button.setEnabled(False)
        self.fill(
            Label(_HINT, "body", "text2", wrap=True),
            self._plot,
            self._status,
            foot=(self._close, self._use_button),
        )

    def show_search(self, search: RateSearch) -> None:
        """Show the result of a search."""
        self._proposal = search.proposal
        self._plot.show_search(search)
        self.show_result("text" if search.proposal is not None else "warn", search.message)
        self._use_button.setEnabled(search.proposal is not None)
        if search.proposal is not None:
            self._use_button.setText(f"Use {formats.typed_number(search.proposal)}")
            self._use_button.setFocus()

    def _use(self) -> None:
        if self._proposal is not None:
            self.rate_chosen.emit(self._proposal)
            self.accept()
