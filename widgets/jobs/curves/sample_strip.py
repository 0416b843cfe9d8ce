"""Ten fixed validation samples, and what the job said about them after each validation."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Slot
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from backend.records.base.layout import position_text
from backend.records.jobs.prediction import PredictedSample
from backend.records.jobs.sample_history import SampleHistory, answer_text, is_right
from widgets.common import formats
from widgets.common.cards import Card
from widgets.common.fields import Slider
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.painting import paint_text
from widgets.common.theme import HEADED_CARD, S1, S2
from widgets.jobs.checkpoints.precision_recall import ColourLegend, line_pen
from widgets.jobs.checkpoints.prediction_view import PREDICTED, TRUE, draw_boxes
from widgets.library.sample_parts import decode_thumbnail, draw_sketch, main_part, scale_thumbnail

_MAX_SIDE, _LINE_H = 72, 18
_COLOR_ROLES = {True: "good", False: "bad", None: "text"}


class _Pictures(QWidget):
    """The samples side by side, each with its target and the answer below."""

    def __init__(self) -> None:
        super().__init__()
        self._samples: tuple[PredictedSample, ...] = ()
        self.setFixedHeight(_MAX_SIDE + 2 * _LINE_H)
        self.setAccessibleName("Fixed validation samples")

    def show_samples(self, samples: tuple[PredictedSample, ...]) -> None:
        self._samples = samples
        texts = (f"{sample.sample.target}: {answer_text(sample)}" for sample in samples)
        self.setAccessibleDescription("; ".join(texts))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        width = min(_MAX_SIDE + S2, self.width() // max(1, len(self._samples)))
        side, ratio = width - S2, self.devicePixelRatioF()
        for number, sample in enumerate(self._samples):
            part = main_part(sample.sample)
            picture = scale_thumbnail(decode_thumbnail(part), side, ratio)
            if picture.isNull():
                picture = draw_sketch(part, side, ratio)
            draw_boxes(picture, sample.truth, line_pen(*TRUE[1:]))
            draw_boxes(picture, sample.boxes, line_pen(*PREDICTED[1:]))
            painter.drawPixmap(QPointF(number * width, 0), picture)
            line = QRectF(number * width, side, side, _LINE_H)
            paint_text(painter, line, sample.sample.target, "small", "text2")
            line.translate(0, _LINE_H)
            paint_text(painter, line, answer_text(sample), "small", _COLOR_ROLES[is_right(sample)])


class SampleStrip(Card):
    """The samples at the validation that the pointer on a plot, or else the slider, chooses."""

    def __init__(self) -> None:
        self._history = SampleHistory()
        self._step: float | None = None
        self._position = Label("", "small", "text2")
        self._legend = ColourLegend(TRUE, PREDICTED)
        self._slider = Slider(1.0, name="Validation")
        self._slider.share_changed.connect(self._show)
        self._pictures = _Pictures()
        title = Label("Samples over time", "strong")
        title.set_tip("Ten validation samples with their targets, and the answers of the job below")
        head = row(title, (self._legend, 4), STRETCH, self._position, self._slider)
        super().__init__(head, self._pictures, gap=S1, margins=HEADED_CARD)
        self.hide()

    def show_samples(self, history: SampleHistory) -> None:
        self._history = history
        self._legend.setVisible(any(sample.truth for sample in history.samples))
        self.setVisible(bool(history.validations))
        self._show()

    def show_step(self, step: float | None) -> None:
        """Show the last validation until a step; None for that of the slider."""
        self._step = step
        self._show()

    @Slot()
    def _show(self) -> None:
        validations = self._history.validations
        if not validations:
            return
        index = round(self._slider.share() * (len(validations) - 1))
        if self._step is not None:
            index = sum(validation.step <= self._step for validation in validations[1:])
        validation = validations[index]
        self._position.setText(position_text(validation.epoch, validation.step, formats.count))
        self._pictures.show_samples(self._history.at(index))
