"""Small samples side by side."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.library.preview import SamplePreview
from widgets.common import theme
from widgets.common.painting import paint_focus, paint_text, text_width
from widgets.common.theme import R_CELL, S1, S2, S3
from widgets.library.sample_parts import decode_thumbnail, draw_sketch, main_part, scale_thumbnail

_CAPTION_H = 18
_CELL, _LARGE_CELL, _LARGE_MIN_W = 68, 128, 900
"""The minimum side of a sample, the side in a wide grid, and the width of a wide grid."""
_MAX_GROWTH = 1.25
"""A few samples do not grow until they fill the row."""
_EDGE = 2
"""The margin for the frame around the selected sample."""


class SampleGrid(QWidget):
    """Thumbnails with target and number; arrow keys move, a click selects.

    Signals:
        sample_chosen: The selected `SamplePreview`.
    """

    sample_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.samples: tuple[SamplePreview, ...] = ()
        self._images: list[QImage] = []
        self._pictures: dict[int, QPixmap] = {}
        self._pictures_key = (0, 0.0, theme.current())
        self._selected_index = 0
        self._group_size = 1
        self._caption_h = _CAPTION_H
        self._empty_text = ""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Samples")
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_samples(
        self, samples: tuple[SamplePreview, ...], empty_text: str = "", group_size: int = 1
    ) -> None:
        """Show these samples, with the first selected; ``empty_text`` if there are none.

        The samples of a group (``group_size``) stay in one row. A target may have several lines.
        """
        self.samples = samples
        self._group_size = group_size
        self._caption_h = _CAPTION_H * max((s.target.count("\n") + 1 for s in samples), default=1)
        self._images = [decode_thumbnail(main_part(sample)) for sample in samples]
        self._pictures.clear()
        self._selected_index = 0
        self._empty_text = empty_text
        self._describe()
        self.updateGeometry()
        self.update()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        columns, side = self._columns_and_side(width)
        rows = -(-len(self.samples) // columns) if self.samples else 1
        return rows * (side + self._caption_h + S2)

    def sizeHint(self) -> QSize:
        return QSize(6 * (_CELL + S2), self.heightForWidth(6 * (_CELL + S2)))

    def minimumSizeHint(self) -> QSize:
        return QSize(2 * (_CELL + S2), _CELL + self._caption_h)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        for index in range(len(self.samples)):
            if self._cell_rect(index).contains(event.position()):
                self._select(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        columns, _ = self._columns_and_side(self.width())
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: -columns,
            Qt.Key.Key_Down: columns,
        }
        step = steps.get(Qt.Key(event.key()))
        if step is not None and 0 <= self._selected_index + step < len(self.samples):
            self._select(self._selected_index + step)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.samples:
            text_rect = QRectF(0, 0, self.width(), _CELL)
            paint_text(painter, text_rect, self._empty_text, "body", "text2", center=True)
        for index, sample in enumerate(self.samples):
            cell = self._cell_rect(index)
            if not cell.intersects(QRectF(event.rect())):
                continue
            sample_rect = QRectF(cell.left(), cell.top(), cell.width(), cell.width())
            pixmap = self._sample_pixmap(index, int(cell.width()))
            # A sample that is not square keeps its shape.
            size = pixmap.deviceIndependentSize()
            margins = sample_rect.width() - size.width(), sample_rect.height() - size.height()
            painter.drawPixmap(sample_rect.topLeft() + QPointF(*margins) / 2, pixmap)
            caption = QRectF(cell.left(), sample_rect.bottom(), cell.width(), _CAPTION_H)
            number = f"#{sample.index}"
            number_w = text_width(number, "tiny") + S1
            for position, line in enumerate(sample.target.split("\n")):
                line_rect = caption.translated(0, position * _CAPTION_H)
                # A name is worth more than the number, which the selected sample shows, too.
                if (
                    not position
                    and text_width(line, "small_strong") + number_w <= line_rect.width()
                ):
                    paint_text(painter, line_rect, number, "tiny", "text3", right=True)
                paint_text(painter, line_rect, line, "small_strong")
            if index == self._selected_index:
                painter.setPen(theme.current().q("text"))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(sample_rect.adjusted(-1.5, -1.5, 1.5, 1.5))
                if self.hasFocus():
                    paint_focus(painter, sample_rect.adjusted(-2, -2, 2, 2), R_CELL)

    def _sample_pixmap(self, index: int, side: int) -> QPixmap:
        """Draw a sample when it first becomes visible, and again for another size or theme."""
        ratio = self.devicePixelRatioF()
        key = side, ratio, theme.current()
        if key != self._pictures_key:
            self._pictures.clear()
            self._pictures_key = key
        if index not in self._pictures:
            image = self._images[index]
            self._pictures[index] = (
                draw_sketch(main_part(self.samples[index]), side, ratio)
                if image.isNull()
                else scale_thumbnail(image, side, ratio)
            )
        return self._pictures[index]

    def _columns_and_side(self, width: int) -> tuple[int, int]:
        """Return the number of columns and the side of a sample; the columns fill the grid."""
        min_side = _LARGE_CELL if width >= _LARGE_MIN_W else _CELL
        free_w = width - 2 * _EDGE + S2
        columns = max(1, free_w // (min_side + S2 + self._group_gap() // self._group_size))
        columns = max(1, columns - columns % self._group_size)
        free_w -= self._group_gap() * (columns // self._group_size - 1)
        return columns, max(min_side, min(free_w // columns - S2, int(_MAX_GROWTH * min_side)))

    def _group_gap(self) -> int:
        """Return the additional space between groups of samples."""
        return S3 if self._group_size > 1 else 0

    def _cell_rect(self, index: int) -> QRectF:
        columns, side = self._columns_and_side(self.width())
        column = index % columns
        x = column * (side + S2) + column // self._group_size * self._group_gap() + _EDGE
        y = index // columns * (side + self._caption_h + S2) + _EDGE
        return QRectF(x, y, side, side + self._caption_h)

    def _select(self, index: int) -> None:
        self._selected_index = index
        self._describe()
        self.update()
        self.sample_chosen.emit(self.samples[index])

    def _describe(self) -> None:
        if not self.samples:
            self.setAccessibleDescription(self._empty_text)
            return
        sample = self.samples[self._selected_index]
        target = f", {' '.join(sample.target.split())}" if sample.target else ""
        self.setAccessibleDescription(
            f"Sample {sample.index}{target}; "
            f"{self._selected_index + 1} of {len(self.samples)} shown"
        )
