"""The answers of one checkpoint: measures, confusion matrix, mistakes, single samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from PySide6.QtCore import QRectF, Qt, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QLayout, QSizePolicy, QTableView, QWidget

from backend.records.jobs.metric_names import metric_label
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
from widgets.common.view_style import share_column_width, style_view
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
    decode_thumbnail,
    main_part,
    path_title,
    scale_thumbnail,
    shape_text,
)

T = TypeVar("T")
_PICTURE, _BOXED_PICTURE, _ANSWER_W = 136, 232, 272
_BAR_H, _NAME_SHARE, _FIGURE_W = 24, 0.34, 52
_MIN_OPACITY = 0.2
_EDGE = QColor(255, 255, 255, 170)
"""Around lines over a picture, which may have their colour."""
_ROWS_SHOWN = 9
PREDICTED, TRUE = ("Prediction", 1, False), ("Target", 2, True)
_GROUPS = {"mistakes": "Mistakes", "examples": "Samples", "best": "Most confident"}


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
        labels = (f"{guess.name}: {formats.percent(guess.confidence)}" for guess in guesses)
        self.setAccessibleDescription(", ".join(labels))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        bar_x = self.width() * _NAME_SHARE
        bar_width = self.width() - bar_x - _FIGURE_W
        for number, guess in enumerate(self._guesses):
            row_box = QRectF(0, number * _BAR_H, self.width(), _BAR_H)
            name_box = row_box.adjusted(0, 0, bar_x - row_box.width() - S2, 0)
            paint_text(painter, name_box, guess.name, "small" if number else "strong")
            bar = QRectF(bar_x, row_box.top() + 7, bar_width, _BAR_H - 14)
            fill_round(painter, bar, theme.current().q("sunken"), R_CELL)
            figure = formats.percent(guess.confidence)
            if figure != formats.percent(0.0):
                bar.setWidth(max(2.0, bar_width * (guess.confidence or 0.0)))
                fill_round(painter, bar, theme.current().curve(0), R_CELL)
            paint_text(painter, row_box, figure, "small", "text2", right=True)


class SampleAnswer(Card):
    """A sample and its answer; a wide card has the answer next to the picture."""

    def __init__(self, is_wide: bool = False, parent: QWidget | None = None) -> None:
        self._title = Label("", "strong", elide="middle")
        self._picture = Label()
        self._sketch = PartSketch()
        self._target = Label("", "small", "text2", wrap=True)
        self._bars = GuessBars()
        self._outputs = col(gap=S2)
        answer = col(self._target, self._bars, self._outputs, STRETCH, gap=S2)
        self._legend = ColourLegend(TRUE, PREDICTED)
        sample = col(self._picture, self._legend, self._sketch, STRETCH, gap=S2)
        parts = row(sample, (answer, 1), gap=S4, top=True) if is_wide else col(sample, answer)
        super().__init__(self._title, parts, gap=S2, parent=parent)
        self.setFixedWidth(2 * _ANSWER_W if is_wide else _ANSWER_W)

    def show_sample(self, sample: PredictedSample) -> None:
        self._title.setText(sample.file.rpartition("/")[2] or f"Sample {sample.sample.index}")
        self._title.set_tip(sample.file)
        data_part = main_part(sample.sample)
        side = _BOXED_PICTURE if sample.boxes or sample.truth else _PICTURE
        picture = scale_thumbnail(decode_thumbnail(data_part), side, self.devicePixelRatioF())
        draw_boxes(picture, sample.truth, line_pen(*TRUE[1:]))
        draw_boxes(picture, sample.boxes, line_pen(*PREDICTED[1:]))
        self._legend.setVisible(bool(sample.truth) and not picture.isNull())
        self._picture.setPixmap(picture)
        self._picture.setVisible(not picture.isNull())
        can_be_drawn = data_part is not None and bool(len(data_part.values) > 1 or data_part.rows)
        self._sketch.show_part(data_part)
        self._sketch.setVisible(picture.isNull() and can_be_drawn)
        self._target.setText(f"Target: {sample.sample.target}")
        self._target.setVisible(bool(sample.sample.target))
        self._bars.show_guesses(sample.guesses)
        clear(self._outputs)
        for box in sample.boxes[:8]:
            box_label = f"{box.name}, {formats.percent(box.confidence)}"
            self._outputs.addWidget(Label(box_label, "small", elide="right"))
        for part in sample.output[:6]:
            title = f"{path_title(part.path)}, {shape_text(part)}"
            self._outputs.addWidget(Label(title, "tiny", "text3", elide="right"))
            image = scale_thumbnail(decode_thumbnail(part), _PICTURE, self.devicePixelRatioF())
            if not image.isNull():
                output_picture = Label()
                output_picture.setPixmap(image)
                self._outputs.addWidget(output_picture)
            elif len(part.values) > 1 or part.rows:
                sketch = PartSketch()
                sketch.show_part(part)
                self._outputs.addWidget(sketch)
            if len(part.values) == 1:
                self._outputs.addWidget(Label(formats.metric(part.values[0]), "strong"))


def draw_boxes(picture: QPixmap, boxes: tuple[Box, ...], pen: QPen) -> None:
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
        x, y = x1 * size.width(), y1 * size.height()
        rect = QRectF(x, y, (x2 - x1) * size.width(), (y2 - y1) * size.height())
        painter.setOpacity(max(_MIN_OPACITY, box.confidence or 0.0))
        for layer_pen in (QPen(_EDGE, 4), pen):
            painter.setPen(layer_pen)
            painter.drawRect(rect)
    painter.end()


def _percent_formatter(
    get_value: Callable[[ClassMeasures], float | None],
) -> Callable[[ClassMeasures], str]:
    return lambda measures: formats.percent(get_value(measures))


class PredictionView(QWidget):
    """The measures and samples of one `Prediction`.

    Args:
        is_half: The view is next to another view.
    """

    def __init__(self, title: str, prediction: Prediction, is_half: bool) -> None:
        super().__init__()
        self._prediction = prediction
        self._by_index: dict[int, PredictedSample] = {}
        self._matrix = ConfusionMatrix()
        self._matrix.cell_chosen.connect(self._show_cell)
        names = tuple(measures.name for measures in prediction.classes)
        self._matrix.show_counts(names, prediction.confusion)
        keys = [key for key in _GROUPS if getattr(prediction, key)]
        groups = [(key, f"{_GROUPS[key]} {len(getattr(prediction, key))}") for key in keys]
        self._groups = SegmentedControl(groups, name="Samples to show")
        self._groups.key_chosen.connect(self._show_group)
        if len(groups) < 2 or prediction.sample_count == 1:
            self._groups.hide()
        self._cell_note = Label("", "small", "text3", wrap=True)
        self._cell_note.hide()
        # A single sample needs no grid to choose from.
        is_single_sample = prediction.sample_count == 1
        self._answer = SampleAnswer(is_single_sample)
        self._grid = SampleGrid()
        self._grid.sample_chosen.connect(
            lambda sample: self._answer.show_sample(self._by_index[sample.index])
        )
        figures = [f"{metric_label(n)} {formats.metric(v)}" for n, v in prediction.metrics.items()]
        figures.append(formats.plural(prediction.sample_count, "sample"))
        notes = (Label(note, "small", "warn", wrap=True) for note in prediction.notes)
        cards = (self._matrix_card(), self._class_card())
        if prediction.detections:
            cards = (self._curve_card(), self._detection_card())
        elif not prediction.classes:
            for card in cards:
                card.hide()
        samples = row(self._answer, STRETCH) if is_single_sample else self._chooser()
        self.setLayout(
            col(
                Label(title, "heading", elide="right"),
                Label(", ".join(figures), "body", "text2", wrap=True),
                *notes,
                col(*cards, gap=S3) if is_half else row(cards[0], (cards[1], 1), gap=S3),
                row(self._groups, STRETCH),
                self._cell_note,
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
            TableColumn[ClassMeasures]("Class", lambda measures: measures.name),
            TableColumn[ClassMeasures](
                "Samples", lambda measures: formats.count(measures.count), is_figure=True
            ),
            TableColumn[ClassMeasures](
                "Precision", _percent_formatter(lambda measures: measures.precision), is_figure=True
            ),
            TableColumn[ClassMeasures](
                "Recall", _percent_formatter(lambda measures: measures.recall), is_figure=True
            ),
            TableColumn[ClassMeasures](
                "F1", _percent_formatter(lambda measures: measures.f1), is_figure=True
            ),
        )
        return _table_card(columns, self._prediction.classes)

    def _curve_card(self) -> Card:
        classes = self._prediction.detections
        entries = [("Overlap 0.50", -1, False), ("Overlap 0.75", -1, True)]
        if len(classes) > 1:
            entries += [
                (measures.name, n, False) for n, measures in enumerate(classes[:MAX_CLASSES])
            ]
        title = Label("Precision by recall", "strong")
        return Card(title, PrecisionRecall(classes), ColourLegend(*entries), STRETCH, gap=S1)

    def _detection_card(self) -> Card:
        percent = formats.percent
        columns = (
            TableColumn[DetectionMeasures]("Class", lambda measures: measures.name),
            TableColumn[DetectionMeasures](
                "Boxes", lambda measures: formats.count(measures.count), is_figure=True
            ),
            TableColumn[DetectionMeasures](
                "AP50", lambda measures: percent(measures.ap50), is_figure=True
            ),
            TableColumn[DetectionMeasures](
                "AP75", lambda measures: percent(measures.ap75), is_figure=True
            ),
        )
        return _table_card(columns, self._prediction.detections)

    @Slot(str)
    def _show_group(self, key: str) -> None:
        self._cell_note.hide()
        self._show_samples(getattr(self._prediction, key))

    @Slot(int, int)
    def _show_cell(self, target: int, predicted_class: int) -> None:
        names = [measures.name for measures in self._prediction.classes]
        class_pair = names[target], names[predicted_class]
        stored_samples = (
            *self._prediction.mistakes,
            *self._prediction.best,
            *self._prediction.examples,
        )
        self._cell_note.setText(f"{self._matrix.cell_label(target, predicted_class)}.")
        self._cell_note.show()
        samples = {s.sample.index: s for s in stored_samples}
        self._show_samples(
            tuple(s for s in samples.values() if (s.sample.target, s.prediction) == class_pair)
        )

    def _show_samples(self, samples: tuple[PredictedSample, ...]) -> None:
        self._by_index = {sample.sample.index: sample for sample in samples}
        self._grid.show_samples(
            tuple(map(_captioned_preview, samples)), "None of these samples is kept"
        )
        self._answer.setVisible(bool(samples))
        if samples:
            self._answer.show_sample(samples[0])


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


def _captioned_preview(sample: PredictedSample) -> SamplePreview:
    """Return a sample whose caption has the answer, below the target if they differ."""
    target = sample.sample.target
    is_class = bool(sample.guesses)
    caption = (
        f"{target}\n→ {sample.prediction}"
        if target != sample.prediction and target
        else sample.prediction
    )
    return replace(sample.sample, target=caption if is_class else target)
