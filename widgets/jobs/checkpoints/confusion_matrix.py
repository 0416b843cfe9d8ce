"""A confusion matrix: the classes of the targets in rows, the predicted ones in columns."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from widgets.common import formats, theme
from widgets.common.labels import plain_tip
from widgets.common.painting import paint_focus, paint_text, text_width
from widgets.common.theme import R_CELL, S1, S2

_LARGEST_CELL, _SMALLEST_CELL = 36, 2
_SIDE = 340
_NAMES_W, _NAME_H, _NAMED_FROM, _COUNTED_FROM = 72, 18, 14, 18
_PALEST, _DARKEST = 0.35, 0.45
"""Text on the darkest cell still has contrast."""
_RIGHT, _WRONG = 0, 1
_STEPS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}


class ConfusionMatrix(QWidget):
    """Each cell is shaded by its share of the row; a click or the arrow keys choose one.

    Signals:
        chosen: Row and column of the chosen cell.
    """

    cell_chosen = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names: tuple[str, ...] = ()
        self._counts: tuple[tuple[int, ...], ...] = ()
        self._at: tuple[int, int] | None = None
        self._widest_name = 0
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Confusion matrix")

    def show_counts(self, names: tuple[str, ...], counts: tuple[tuple[int, ...], ...]) -> None:
        self._names, self._counts, self._at = names, counts, None
        self._widest_name = max((text_width(name, "tiny") for name in names), default=0)
        self.updateGeometry()
        self._describe()
        self.update()

    def sizeHint(self) -> QSize:
        side = round(self._cell * len(self._counts)) + 1
        return QSize(self._left + side, side + self._top)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        darkest = _DARKEST if self._cell >= _COUNTED_FROM else 1.0
        for row, counts in enumerate(self._counts):
            total = sum(counts) or 1
            for column, count in enumerate(counts):
                box = self._box(row, column)
                if count:
                    # One mistake in a hundred is seen, too.
                    share = darkest * max(_PALEST, (count / total) ** 0.5)
                    series = _RIGHT if row == column else _WRONG
                    painter.fillRect(box, theme.current().curve(series, share))
                if self._cell >= _COUNTED_FROM:
                    tone = "text" if count else "text3"
                    paint_text(painter, box, formats.count(count), "tiny", tone, center=True)
        if self._cell >= _NAMED_FROM:
            self._paint_names(painter)
        if self._at is not None:
            painter.setPen(theme.current().q("text"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self._box(*self._at))
        if self.hasFocus():
            paint_focus(painter, QRectF(self.rect()), R_CELL)

    def _paint_names(self, painter: QPainter) -> None:
        for number, name in enumerate(self._names):
            row = QRectF(0, self._box(number, 0).top(), self._left - S1, self._cell)
            paint_text(painter, row, name, "tiny", "text2", right=True)
            left = self._box(0, number).left()
            if self._top == _NAME_H:
                column = QRectF(left, 0, self._cell, _NAME_H)
                paint_text(painter, column, name, "tiny", "text2", center=True)
                continue
            painter.save()
            painter.translate(left, self._top - S1)
            painter.rotate(-90)
            upright = QRectF(0, 0, self._top - S1, self._cell)
            paint_text(painter, upright, name, "tiny", "text2")
            painter.restore()

    @property
    def _cell(self) -> float:
        side = _SIDE / max(1, len(self._counts))
        return min(_LARGEST_CELL, max(_SMALLEST_CELL, side))

    @property
    def _left(self) -> int:
        if self._cell < _NAMED_FROM:
            return 0
        return min(_NAMES_W, self._widest_name + S2)

    @property
    def _top(self) -> int:
        """The height above the cells; names wider than a column stand upright."""
        if self._cell < _NAMED_FROM or self._widest_name <= self._cell:
            return _NAME_H
        return min(_NAMES_W, self._widest_name + S2)

    def _box(self, row: int, column: int) -> QRectF:
        side = self._cell
        inner = side - 1 if side >= _NAMED_FROM else side
        return QRectF(self._left + column * side, self._top + row * side, inner, inner)

    def _cell_at(self, point: QPointF) -> tuple[int, int] | None:
        row = int((point.y() - self._top) // self._cell)
        column = int((point.x() - self._left) // self._cell)
        size = len(self._counts)
        return (row, column) if 0 <= row < size and 0 <= column < size else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self._cell_at(event.position())
        if at is not None:
            self._go(at)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = _STEPS.get(Qt.Key(event.key()))
        if step is None or not self._counts:
            super().keyPressEvent(event)
            return
        row, column = self._at or (0, 0)
        last = len(self._counts) - 1
        if self._at is not None:
            row, column = row + step[0], column + step[1]
        self._go((min(last, max(0, row)), min(last, max(0, column))))

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip:
            at = self._cell_at(QPointF(self.mapFromGlobal(self.cursor().pos())))
            words = plain_tip(self.cell_label(*at)) if at is not None else ""
            QToolTip.showText(self.cursor().pos(), words, self)
            return True
        return super().event(event)

    def cell_label(self, row: int, column: int) -> str:
        """Return a cell as text."""
        counts = self._counts[row]
        of_row = f"{formats.count_of(counts[column], sum(counts))} samples of {self._names[row]}"
        return f"{of_row} predicted as {self._names[column]}"

    def _go(self, at: tuple[int, int]) -> None:
        self._at = at
        self._describe()
        self.update()
        self.cell_chosen.emit(*at)

    def _describe(self) -> None:
        self.setAccessibleDescription(self.cell_label(*self._at) if self._at is not None else "")
