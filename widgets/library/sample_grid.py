"""Small samples side by side."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.library.preview import SamplePreview
from widgets.common import theme
from widgets.common.painting import paint_focus, paint_text, text_width
from widgets.common.theme import R_CELL, S1, S2, S3
from widgets.library.sample_parts import decoded, main_part, scaled, sketched

_CAPTION_H = 18
_CELL, _LARGE_CELL, _LARGE_FROM_W = 68, 128, 900
"""The least side of a sample, and the side if there is more room."""
_MORE = 1.25
"""A few samples do not grow until they fill the row."""
_EDGE = 2
"""Room for the frame around the selected one."""


class SampleGrid(QWidget):
    """Thumbnails with target and number; arrow keys move, a click selects.

    Signals:
        chosen: The selected `SamplePreview`.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._samples: tuple[SamplePreview, ...] = ()
        self._images: list[QImage] = []
        self._pictures: dict[int, QPixmap] = {}
        self._pictures_for = (0, 0.0, theme.current())
        self._at = 0
        self._together = 1
        self._caption_h = _CAPTION_H
        self._empty_words = ""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Samples")
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    @property
    def samples(self) -> tuple[SamplePreview, ...]:
        return self._samples

    def show_samples(
        self, samples: tuple[SamplePreview, ...], empty_words: str = "", together: int = 1
    ) -> None:
        """Show these, the first one selected; ``empty_words`` if there are none.

        So many as are ``together`` stay in one row. A target may have several lines.
        """
        self._samples = samples
        self._together = together
        self._caption_h = _CAPTION_H * max((s.target.count("\n") + 1 for s in samples), default=1)
        self._images = [decoded(main_part(sample)) for sample in samples]
        self._pictures.clear()
        self._at = 0
        self._empty_words = empty_words
        self._describe()
        self.updateGeometry()
        self.update()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        columns, side = self._fitted(width)
        rows = -(-len(self._samples) // columns) if self._samples else 1
        return rows * (side + self._caption_h + S2)

    def sizeHint(self) -> QSize:
        return QSize(6 * (_CELL + S2), self.heightForWidth(6 * (_CELL + S2)))

    def minimumSizeHint(self) -> QSize:
        return QSize(2 * (_CELL + S2), _CELL + self._caption_h)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        for index in range(len(self._samples)):
            if self._cell(index).contains(event.position()):
                self._go(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        columns, _ = self._fitted(self.width())
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
        if not self._samples:
            first = QRectF(0, 0, self.width(), _CELL)
            paint_text(painter, first, self._empty_words, "body", "text2", center=True)
        for index, sample in enumerate(self._samples):
            cell = self._cell(index)
            if not cell.intersects(QRectF(event.rect())):
                continue
            square = QRectF(cell.left(), cell.top(), cell.width(), cell.width())
            shown = self._picture(index, int(cell.width()))
            # A sample that is not square keeps its shape.
            size = shown.deviceIndependentSize()
            beside = square.width() - size.width(), square.height() - size.height()
            painter.drawPixmap(square.topLeft() + QPointF(*beside) / 2, shown)
            caption = QRectF(cell.left(), square.bottom(), cell.width(), _CAPTION_H)
            number = f"#{sample.index}"
            number_w = text_width(number, "tiny") + S1
            for position, line in enumerate(sample.target.split("\n")):
                line_box = caption.translated(0, position * _CAPTION_H)
                # A name is worth more than the number, which the selected sample shows, too.
                if not position and text_width(line, "small_strong") + number_w <= line_box.width():
                    paint_text(painter, line_box, number, "tiny", "text3", right=True)
                paint_text(painter, line_box, line, "small_strong")
            if index == self._at:
                painter.setPen(theme.current().q("text"))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(square.adjusted(-1.5, -1.5, 1.5, 1.5))
                if self.hasFocus():
                    paint_focus(painter, square.adjusted(-2, -2, 2, 2), R_CELL)

    def _picture(self, index: int, side: int) -> QPixmap:
        """Draw a sample when it first becomes visible, and again for another size or theme."""
        ratio = self.devicePixelRatioF()
        now = side, ratio, theme.current()
        if now != self._pictures_for:
            self._pictures.clear()
            self._pictures_for = now
        if index not in self._pictures:
            image = self._images[index]
            self._pictures[index] = (
                sketched(main_part(self._samples[index]), side, ratio)
                if image.isNull()
                else scaled(image, side, ratio)
            )
        return self._pictures[index]

    def _fitted(self, width: int) -> tuple[int, int]:
        """The number per row, and their side: together as wide as the grid."""
        least = _LARGE_CELL if width >= _LARGE_FROM_W else _CELL
        room = width - 2 * _EDGE + S2
        columns = max(1, room // (least + S2 + self._apart() // self._together))
        columns = max(1, columns - columns % self._together)
        room -= self._apart() * (columns // self._together - 1)
        return columns, max(least, min(room // columns - S2, int(_MORE * least)))

    def _apart(self) -> int:
        """The additional space between samples that do not belong together."""
        return S3 if self._together > 1 else 0

    def _cell(self, index: int) -> QRectF:
        columns, side = self._fitted(self.width())
        place = index % columns
        x = place * (side + S2) + place // self._together * self._apart() + _EDGE
        y = index // columns * (side + self._caption_h + S2) + _EDGE
        return QRectF(x, y, side, side + self._caption_h)

    def _go(self, index: int) -> None:
        self._at = index
        self._describe()
        self.update()
        self.chosen.emit(self._samples[index])

    def _describe(self) -> None:
        if not self._samples:
            self.setAccessibleDescription(self._empty_words)
            return
        one = self._samples[self._at]
        target = f", {' '.join(one.target.split())}" if one.target else ""
        self.setAccessibleDescription(
            f"Sample {one.index}{target}; {self._at + 1} of {len(self._samples)} shown"
        )
