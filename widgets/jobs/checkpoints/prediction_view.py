"""The answers of one checkpoint: measures, confusion matrix, mistakes, single samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from PySide6.QtCore import QRectF, Qt, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QLayout, QSizePolicy, QTableView, QWidget

from backend.records.jobs.metric_labels import metric_words
from backend.records.jobs.prediction import (
    Box,
    ClassMeasures,
    DetectionMeasures,
    Guess,
    PredictedSample,
    Prediction,
)
from backend.records.library.preview import SamplePreview
from widgets.common import formats, theme
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import Card
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.painting import fill_round, paint_text
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import R_CELL, S1, S2, S3, S4, TABLE_ROW_H
from widgets.common.view_style import style_view, share_column_width
from widgets.jobs.checkpoints.confusion_matrix import ConfusionMatrix
from widgets.jobs.checkpoints.precision_recall import (
    MAX_CLASSES,
    ColourLegend,
    PrecisionRecall,
    line_pen,
)
from widgets.library.sample_grid import SampleGrid
from widgets.library.sample_parts import (
    PartSketch,
    decoded,
    main_part,
    path_title,
    scaled,
    shape_words,
)

T = TypeVar("T")
_PICTURE, _BOXED_PICTURE, _ANSWER_W = 136, 232, 272
_BAR_H, _NAME_SHARE, _FIGURE_W = 24, 0.34, 52
_PALEST = 0.2
_EDGE = QColor(255, 255, 255, 170)
"""Around lines over a picture, which may have their colour."""
_ROWS_SHOWN = 9
_PREDICTED, _TRUE = ("Prediction", 1, False), ("Target", 2, True)
_GROUPS = {"mistakes": "Mistakes", "shown": "Samples", "best": "Most confident"}


class GuessBars(QWidget):
    """The most probable classes of a sample, a bar each."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._guesses: tuple[Guess, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Most probable classes")

    def show_guesses(self, guesses: tuple[Guess, ...]) -> None:
        self._guesses = guesses
        self.setFixedHeight(len(guesses) * _BAR_H)
        words = (f"{one.name}: {formats.percent(one.confidence)}" for one in guesses)
        self.setAccessibleDescription(", ".join(words))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left = self.width() * _NAME_SHARE
        room = self.width() - left - _FIGURE_W
        for number, one in enumerate(self._guesses):
            line = QRectF(0, number * _BAR_H, self.width(), _BAR_H)
            name = line.adjusted(0, 0, left - line.width() - S2, 0)
            paint_text(painter, name, one.name, "small" if number else "strong")
            bar = QRectF(left, line.top() + 7, room, _BAR_H - 14)
            fill_round(painter, bar, theme.current().q("sunken"), R_CELL)
            figure = formats.percent(one.confidence)
            if figure != formats.percent(0.0):
                bar.setWidth(max(2.0, room * (one.confidence or 0.0)))
                fill_round(painter, bar, theme.current().curve(0), R_CELL)
            paint_text(painter, line, figure, "small", "text2", right=True)


class SampleAnswer(Card):
    """One sample and the answer for it; a wide one has the answer next to the picture."""

    def __init__(self, is_wide: bool = False, parent: QWidget | None = None) -> None:
        self._title = Label("", "strong", elide="middle")
        self._picture = Label()
        self._sketch = PartSketch()
        self._target = Label("", "small", "text2", wrap=True)
        self._bars = GuessBars()
        self._outputs = col(gap=S2)
        answer = col(self._target, self._bars, self._outputs, STRETCH, gap=S2)
        self._keys = ColourLegend(_TRUE, _PREDICTED)
        sample = col(self._picture, self._keys, self._sketch, STRETCH, gap=S2)
        parts = row(sample, (answer, 1), gap=S4, top=True) if is_wide else col(sample, answer)
        super().__init__(self._title, parts, gap=S2, parent=parent)
        self.setFixedWidth(2 * _ANSWER_W if is_wide else _ANSWER_W)

    def show_sample(self, one: PredictedSample) -> None:
        self._title.setText(one.file.rpartition("/")[2] or f"Sample {one.sample.index}")
        self._title.set_tip(one.file)
        main = main_part(one.sample)
        side = _BOXED_PICTURE if one.boxes or one.truth else _PICTURE
        picture = scaled(decoded(main), side, self.devicePixelRatioF())
        _draw_boxes(picture, one.truth, line_pen(*_TRUE[1:]))
        _draw_boxes(picture, one.boxes, line_pen(*_PREDICTED[1:]))
        self._keys.setVisible(bool(one.truth) and not picture.isNull())
        self._picture.setPixmap(picture)
        self._picture.setVisible(not picture.isNull())
        can_be_drawn = main is not None and bool(len(main.values) > 1 or main.rows)
        self._sketch.show_part(main)
        self._sketch.setVisible(picture.isNull() and can_be_drawn)
        self._target.setText(f"Target: {one.sample.target}")
        self._target.setVisible(bool(one.sample.target))
        self._bars.show_guesses(one.guesses)
        clear(self._outputs)
        for box in one.boxes[:8]:
            words = f"{box.name}, {formats.percent(box.confidence)}"
            self._outputs.addWidget(Label(words, "small", elide="right"))
        for part in one.output[:6]:
            title = f"{path_title(part.path)}, {shape_words(part)}"
            self._outputs.addWidget(Label(title, "tiny", "text3", elide="right"))
            image = scaled(decoded(part), _PICTURE, self.devicePixelRatioF())
            if not image.isNull():
                shown = Label()
                shown.setPixmap(image)
                self._outputs.addWidget(shown)
            elif len(part.values) > 1 or part.rows:
                sketch = PartSketch()
                sketch.show_part(part)
                self._outputs.addWidget(sketch)
            if len(part.values) == 1:
                self._outputs.addWidget(Label(formats.metric(part.values[0]), "strong"))


def _draw_boxes(picture: QPixmap, boxes: tuple[Box, ...], pen: QPen) -> None:
    if picture.isNull() or not boxes:
        return
    size = picture.deviceIndependentSize()
    painter = QPainter(picture)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    # The most certain boxes are drawn last, over paler ones.
    for box in reversed(boxes):
        if None in box.corners or len(box.corners) != 4:
            continue
        x1, y1, x2, y2 = (corner or 0.0 for corner in box.corners)
        left, top = x1 * size.width(), y1 * size.height()
        rect = QRectF(left, top, (x2 - x1) * size.width(), (y2 - y1) * size.height())
        painter.setOpacity(max(_PALEST, box.confidence or 0.0))
        for one in (QPen(_EDGE, 4), pen):
            painter.setPen(one)
            painter.drawRect(rect)
    painter.end()


def _measure(of: Callable[[ClassMeasures], float | None]) -> Callable[[ClassMeasures], str]:
    return lambda one: formats.percent(of(one))


class PredictionView(QWidget):
    """Everything about one `Prediction`.

    Args:
        is_half: It stands next to another one.
    """

    def __init__(self, title: str, found: Prediction, is_half: bool) -> None:
        super().__init__()
        self._found = found
        self._by_index: dict[int, PredictedSample] = {}
        self._matrix = ConfusionMatrix()
        self._matrix.cell_chosen.connect(self._show_cell)
        names = tuple(one.name for one in found.classes)
        self._matrix.show_counts(names, found.confusion)
        keys = [key for key in _GROUPS if getattr(found, key)]
        groups = [(key, f"{_GROUPS[key]} {len(getattr(found, key))}") for key in keys]
        self._groups = SegmentedControl(groups, name="Samples to show")
        self._groups.key_chosen.connect(self._show_group)
        if len(groups) < 2 or found.samples == 1:
            self._groups.hide()
        self._words = Label("", "small", "text3", wrap=True)
        self._words.hide()
        self._grid = SampleGrid()
        self._grid.chosen.connect(self._show_sample)
        # A single sample needs no grid to choose from.
        is_one = found.samples == 1
        self._answer = SampleAnswer(is_one)
        facts = [f"{metric_words(n)} {formats.metric(v)}" for n, v in found.metrics.items()]
        facts.append(formats.plural(found.samples, "sample"))
        notes = (Label(note, "small", "warn", wrap=True) for note in found.notes)
        measured = (self._matrix_card(), self._class_card())
        if found.detections:
            measured = (self._curve_card(), self._detection_card())
        elif not found.classes:
            for card in measured:
                card.hide()
        samples = row(self._answer, STRETCH) if is_one else self._chooser()
        self.setLayout(
            col(
                Label(title, "heading", elide="right"),
                Label(", ".join(facts), "body", "text2", wrap=True),
                *notes,
                col(*measured, gap=S3) if is_half else row(measured[0], (measured[1], 1), gap=S3),
                row(self._groups, STRETCH),
                self._words,
                samples,
                STRETCH,
                gap=S2,
            )
        )
        if groups:
            self._show_group(keys[0])
        else:
            self._answer.hide()

    def _chooser(self) -> QLayout:
        return row((col(self._grid, STRETCH), 1), self._answer, gap=S3, top=True)

    def _matrix_card(self) -> Card:
        title = Label("Target by predicted class", "strong")
        return Card(title, self._matrix, STRETCH, gap=S1)

    def _class_card(self) -> Card:
        columns = (
            TableColumn[ClassMeasures]("Class", lambda one: one.name),
            TableColumn[ClassMeasures](
                "Samples", lambda one: formats.count(one.count), is_figure=True
            ),
            TableColumn[ClassMeasures](
                "Precision", _measure(lambda one: one.precision), is_figure=True
            ),
            TableColumn[ClassMeasures]("Recall", _measure(lambda one: one.recall), is_figure=True),
            TableColumn[ClassMeasures]("F1", _measure(lambda one: one.f1), is_figure=True),
        )
        return _table_card(columns, self._found.classes)

    def _curve_card(self) -> Card:
        classes = self._found.detections
        keys = [("Overlap 0.50", -1, False), ("Overlap 0.75", -1, True)]
        if len(classes) > 1:
            keys += [(one.name, n, False) for n, one in enumerate(classes[:MAX_CLASSES])]
        title = Label("Precision by recall", "strong")
        return Card(title, PrecisionRecall(classes), ColourLegend(*keys), STRETCH, gap=S1)

    def _detection_card(self) -> Card:
        percent = formats.percent
        columns = (
            TableColumn[DetectionMeasures]("Class", lambda one: one.name),
            TableColumn[DetectionMeasures](
                "Boxes", lambda one: formats.count(one.count), is_figure=True
            ),
            TableColumn[DetectionMeasures]("AP50", lambda one: percent(one.ap50), is_figure=True),
            TableColumn[DetectionMeasures]("AP75", lambda one: percent(one.ap75), is_figure=True),
        )
        return _table_card(columns, self._found.detections)

    @Slot(str)
    def _show_group(self, key: str) -> None:
        self._words.hide()
        self._show(getattr(self._found, key))

    @Slot(int, int)
    def _show_cell(self, target: int, predicted: int) -> None:
        names = [one.name for one in self._found.classes]
        wanted = names[target], names[predicted]
        kept = (*self._found.mistakes, *self._found.best, *self._found.shown)
        self._words.setText(f"{self._matrix.cell_label(target, predicted)}.")
        self._words.show()
        samples = {one.sample.index: one for one in kept}
        self._show(
            tuple(one for one in samples.values() if (one.sample.target, one.prediction) == wanted)
        )

    def _show(self, samples: tuple[PredictedSample, ...]) -> None:
        self._by_index = {one.sample.index: one for one in samples}
        self._grid.show_samples(tuple(map(_captioned, samples)), "None of these samples is kept")
        self._answer.setVisible(bool(samples))
        if samples:
            self._answer.show_sample(samples[0])

    @Slot(object)
    def _show_sample(self, sample: SamplePreview) -> None:
        self._answer.show_sample(self._by_index[sample.index])


def _table_card(columns: Sequence[TableColumn[T]], rows: Sequence[T]) -> Card:
    table = QTableView()
    model = RowTableModel(columns)
    model.setParent(table)
    table.setModel(model)
    style_view(table, "Classes")
    share_column_width(table, 0)
    model.set_records(rows)
    table.setMinimumHeight((min(_ROWS_SHOWN, len(rows)) + 1) * TABLE_ROW_H)
    return Card((table, 1), margins=(0, 0, 0, S1))


def _captioned(one: PredictedSample) -> SamplePreview:
    """Return a sample whose caption has the answer, below the target if they differ."""
    target = one.sample.target
    is_class = bool(one.guesses)
    words = (
        f"{target}\n→ {one.prediction}" if target != one.prediction and target else one.prediction
    )
    return replace(one.sample, target=words if is_class else target)
