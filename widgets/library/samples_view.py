"""Samples of a dataset as its loader gives them: a grid, the classes, one sample large."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.preview import ClassCount, Part, Preview, Sample
from widgets.common import formats, theme
from widgets.common.cards import Card, Scroll
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.paint import fill_round, paint_focus, paint_text
from widgets.common.text import Label
from widgets.common.theme import R_CELL, S1, S2, S3, S4

_CELL, _CAPTION_H = 68, 18
_SIDE_W, _BAR_W = 292, 12
_RARE_SHARE = 0.25
"""A class with less than this share of the mean is rare: amber in the histogram."""


class SampleGrid(QWidget):
    """Thumbnails with target and number; arrows walk, a click chooses.

    Signals:
        chosen: The `Sample` a person points out.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._samples: tuple[Sample, ...] = ()
        self._pictures: list[QPixmap] = []
        self._at = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Samples")
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_samples(self, samples: tuple[Sample, ...]) -> None:
        self._samples = samples
        self._pictures = [picture(_main_part(sample)) for sample in samples]
        self._at = 0
        self.updateGeometry()
        self.update()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        rows = -(-len(self._samples) // self._columns(width)) if self._samples else 1
        return rows * (_CELL + _CAPTION_H + S2)

    def sizeHint(self) -> QSize:
        return QSize(6 * (_CELL + S2), self.heightForWidth(6 * (_CELL + S2)))

    def minimumSizeHint(self) -> QSize:
        return QSize(2 * (_CELL + S2), _CELL + _CAPTION_H)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        for index in range(len(self._samples)):
            if self._cell(index).contains(event.position()):
                self._go(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        columns = self._columns(self.width())
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: -columns,
            Qt.Key.Key_Down: columns,
        }
        step = steps.get(Qt.Key(event.key()))
        if step is not None and 0 <= self._at + step < len(self._samples):
            self._go(self._at + step)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for index, sample in enumerate(self._samples):
            cell = self._cell(index)
            if not cell.intersects(QRectF(event.rect())):
                continue
            square = QRectF(cell.left(), cell.top(), _CELL, _CELL)
            if self._pictures[index].isNull():
                fill_round(painter, square, theme.current().q("sunken"), R_CELL)
                words = shape_words(_main_part(sample))
                paint_text(painter, square.adjusted(S1, 0, -S1, 0), words, "tiny", center=True)
            else:
                painter.drawPixmap(square.toRect(), self._pictures[index])
            caption = QRectF(cell.left(), square.bottom(), _CELL, _CAPTION_H)
            number = f"#{sample.index}"
            paint_text(painter, caption, number, "tiny", "text3", right=True)
            paint_text(painter, caption.adjusted(0, 0, -30, 0), sample.target, "small_strong")
            if index == self._at:
                painter.setPen(theme.current().q("text"))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(square.adjusted(-1.5, -1.5, 1.5, 1.5))
                if self.hasFocus():
                    paint_focus(painter, square.adjusted(-2, -2, 2, 2), R_CELL)

    def _columns(self, width: int) -> int:
        return max(1, (width + S2) // (_CELL + S2))

    def _cell(self, index: int) -> QRectF:
        columns = self._columns(self.width())
        at = index % columns, index // columns
        x, y = at[0] * (_CELL + S2) + 2, at[1] * (_CELL + _CAPTION_H + S2) + 2
        return QRectF(x, y, _CELL, _CELL + _CAPTION_H)

    def _go(self, index: int) -> None:
        self._at = index
        self.update()
        self.chosen.emit(self._samples[index])


class ClassHistogram(QWidget):
    """Samples by class; a rare class is amber."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._classes: tuple[ClassCount, ...] = ()
        self.setMinimumHeight(150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName("Samples by class")

    def show_classes(self, classes: tuple[ClassCount, ...]) -> None:
        self._classes = classes
        words = ", ".join(f"{c.name}: {formats.count(c.count)}" for c in classes[:40])
        self.setAccessibleDescription(words)
        self.setToolTip("")
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self._classes:
            return
        painter = QPainter(self)
        t = theme.current()
        most = max(c.count for c in self._classes)
        mean = sum(c.count for c in self._classes) / len(self._classes)
        each = self.width() / len(self._classes)
        with_words = each >= 22
        foot = 18 if with_words else 2
        tall = self.height() - foot - 18
        for index, one in enumerate(self._classes):
            rare = one.count < _RARE_SHARE * mean
            height = max(1.0, tall * one.count / most) if most else 0.0
            gap = min(6.0, each * 0.2)
            bar = QRectF(index * each + gap / 2, 18 + tall - height, each - gap, height)
            painter.fillRect(bar, t.q("warn_fill") if rare else t.curve(0))
            if with_words:
                above = QRectF(index * each - 2, bar.top() - 17, each + 4, 16)
                tone = "warn" if rare else "text2"
                paint_text(painter, above, formats.count(one.count), "tiny", tone, center=True)
                below = QRectF(index * each, self.height() - 16, each, 16)
                paint_text(painter, below, one.name, "tiny", "text3", center=True)


class SamplesView(QWidget):
    """The tab Samples: grid left, classes and the chosen sample right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._grid = SampleGrid()
        self._grid.chosen.connect(self._show_sample)
        self._histogram = ClassHistogram()
        self._classes_word = Label("", "small", "text3")
        self._classes_card = Card(
            row(Label("Samples by class", "strong"), STRETCH, self._classes_word), self._histogram
        )
        self._sample_title = Label("", "strong")
        self._large = Label()
        self._sample_facts = col(gap=S2)
        large = row(self._large, (self._sample_facts, 1), gap=S4, top=True)
        self._sample_card = Card(self._sample_title, large)
        self._statistics = col(gap=S1)
        self._statistics_card = Card(Label("Values", "strong"), self._statistics)
        holder = QWidget()
        holder.setLayout(col(self._grid, STRETCH, margins=(S4, S4, S4, S4)))
        grid_card = Card((Scroll(holder), 1), margins=(0, 0, 0, 0))
        side = QWidget()
        side.setLayout(
            col(self._classes_card, self._sample_card, self._statistics_card, STRETCH, gap=S3)
        )
        side.setFixedWidth(_SIDE_W)
        scroll = Scroll(side, gutter=_BAR_W)
        scroll.setFixedWidth(_SIDE_W + _BAR_W)
        self.setLayout(row((grid_card, 1), scroll, gap=S3))

    def show_preview(self, preview: Preview) -> None:
        self._grid.show_samples(preview.samples)
        self._classes_card.setVisible(bool(preview.classes))
        self._histogram.show_classes(preview.classes)
        self._classes_word.setText(formats.plural(len(preview.classes), "class", "classes"))
        self._sample_card.setVisible(bool(preview.samples))
        if preview.samples:
            self._show_sample(preview.samples[0])
        self._show_statistics(preview)

    def _show_sample(self, sample: Sample) -> None:
        self._sample_title.setText(f"Sample {sample.index}")
        large = picture(_main_part(sample), 136)
        self._large.setPixmap(large)
        self._large.setVisible(not large.isNull())
        clear(self._sample_facts)
        facts: list[tuple[str, str]] = [("Target", sample.target)] if sample.target else []
        shown = [part for part in sample.parts if not (sample.target and part.path == "target")]
        facts += [(_title(part), shape_words(part)) for part in shown]
        facts += [(f"{_title(part)}, first values", values) for part, values in _values(shown)]
        facts.append(("Load time", formats.milliseconds(sample.time_ms)))
        for caption, value in facts:
            self._sample_facts.addLayout(
                col(Label(caption, "tiny", "text3"), Label(value, "strong", elide="right"), gap=2)
            )
        self._sample_facts.addStretch(1)

    def _show_statistics(self, preview: Preview) -> None:
        clear(self._statistics)
        self._statistics_card.setVisible(bool(preview.statistics))
        for channel in preview.statistics[:8]:
            name = _path_title(channel.path)
            if sum(other.path == channel.path for other in preview.statistics) > 1:
                name = f"{name}, channel {channel.channel}"
            low, high = formats.metric(channel.low), formats.metric(channel.high)
            spread = f"{formats.metric(channel.mean)} ± {formats.metric(channel.std)}"
            words = f"{low} to {high}, mean {spread}"
            odd = channel.nan_count + channel.inf_count
            tail = f", {formats.count(odd)} not finite" if odd else ""
            tone: theme.Tone = "warn" if odd else "text"
            self._statistics.addLayout(
                col(
                    Label(name, "tiny", "text3"),
                    Label(words + tail, "body", tone, wrap=True),
                    gap=2,
                )
            )


def picture(part: Part | None, side: int = _CELL) -> QPixmap:
    """The thumbnail of a part, `side` pixels square at most; a null pixmap when there is none."""
    if part is None or not part.png:
        return QPixmap()
    image = QImage()
    # Bytes that the tool made from numbers; a format is named so that no other reader is tried.
    if not image.loadFromData(base64.b64decode(part.png), "PNG"):
        return QPixmap()
    small = image.width() < side
    mode = (
        Qt.TransformationMode.FastTransformation
        if small
        else Qt.TransformationMode.SmoothTransformation
    )
    scaled = image.scaled(QSize(side, side), Qt.AspectRatioMode.KeepAspectRatio, mode)
    return QPixmap.fromImage(scaled)


def shape_words(part: Part | None) -> str:
    """``float32, 1 × 8 × 8``; a text is shown itself."""
    if part is None:
        return "–"
    if part.look == "text":
        return part.text
    if part.shape is None:
        return part.dtype
    return f"{part.dtype}, {formats.shape(part.shape)}" if part.shape else part.dtype


def _main_part(sample: Sample) -> Part | None:
    pictures = [part for part in sample.parts if part.png]
    return next(iter(pictures or sample.parts), None)


def _values(parts: Sequence[Part]) -> Sequence[tuple[Part, str]]:
    return [
        (part, ", ".join(formats.metric(value) for value in part.values[:6]))
        for part in parts
        if part.look in ("values", "wave") and part.values
    ]


def _title(part: Part) -> str:
    return _path_title(part.path)


def _path_title(path: str) -> str:
    return path[:1].upper() + path[1:]
