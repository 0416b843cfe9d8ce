"""A confusion matrix: the classes of the targets in rows, the predicted classes in columns."""

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
_NAMES_W, _NAME_H, _MIN_NAMED_CELL, _MIN_COUNTED_CELL = 72, 18, 14, 18
_MIN_OPACITY, _MAX_OPACITY = 0.35, 0.45
"""Text on the darkest cell still has contrast."""
_CORRECT_SERIES, _MISTAKE_SERIES = 0, 1
_STEPS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}


class ConfusionMatrix(QWidget):
    """A matrix of cells shaded by their share of the row; a click or the arrow keys choose a cell.

    Signals:
        cell_chosen: Row and column of the chosen cell.
    """

    cell_chosen = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names: tuple[str, ...] = ()
        self._counts: tuple[tuple[int, ...], ...] = ()
        self._selected_cell: tuple[int, int] | None = None
        self._widest_name = 0
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Confusion matrix")

    def show_counts(self, names: tuple[str, ...], counts: tuple[tuple[int, ...], ...]) -> None:
        self._names, self._counts, self._selected_cell = names, counts, None
        self._widest_name = max((text_width(name, "tiny") for name in names), default=0)
        self.updateGeometry()
        self._describe()
        self.update()

    def sizeHint(self) -> QSize:
        side = round(self._cell_side * len(self._counts)) + 1
        return QSize(self._names_width + side, side + self._names_height)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        max_opacity = _MAX_OPACITY if self._cell_side >= _MIN_COUNTED_CELL else 1.0
        for row, counts in enumerate(self._counts):
            total = sum(counts) or 1
            for column, count in enumerate(counts):
                box = self._cell_box(row, column)
                if count:
                    # One mistake in a hundred is seen, too.
                    opacity = max_opacity * max(_MIN_OPACITY, (count / total) ** 0.5)
                    series = _CORRECT_SERIES if row == column else _MISTAKE_SERIES
                    painter.fillRect(box, theme.current().curve(series, opacity))
                if self._cell_side >= _MIN_COUNTED_CELL:
                    color_role = "text" if count else "text3"
                    paint_text(painter, box, formats.count(count), "tiny", color_role, center=True)
        if self._cell_side >= _MIN_NAMED_CELL:
            self._paint_names(painter)
        if self._selected_cell is not None:
            painter.setPen(theme.current().q("text"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self._cell_box(*self._selected_cell))
        if self.hasFocus():
            paint_focus(painter, QRectF(self.rect()), R_CELL)

    def _paint_names(self, painter: QPainter) -> None:
        for number, name in enumerate(self._names):
            row = QRectF(
                0, self._cell_box(number, 0).top(), self._names_width - S1, self._cell_side
            )
            paint_text(painter, row, name, "tiny", "text2", right=True)
            column_x = self._cell_box(0, number).left()
            if self._names_height == _NAME_H:
                column = QRectF(column_x, 0, self._cell_side, _NAME_H)
                paint_text(painter, column, name, "tiny", "text2", center=True)
                continue
            painter.save()
            painter.translate(column_x, self._names_height - S1)
            painter.rotate(-90)
            name_box = QRectF(0, 0, self._names_height - S1, self._cell_side)
            paint_text(painter, name_box, name, "tiny", "text2")
            painter.restore()

    @property
    def _cell_side(self) -> float:
        side = _SIDE / max(1, len(self._counts))
        return min(_LARGEST_CELL, max(_SMALLEST_CELL, side))

    @property
    def _names_width(self) -> int:
        if self._cell_side < _MIN_NAMED_CELL:
            return 0
        return min(_NAMES_W, self._widest_name + S2)

    @property
    def _names_height(self) -> int:
        """The height above the cells; names wider than a column stand upright."""
        if self._cell_side < _MIN_NAMED_CELL or self._widest_name <= self._cell_side:
            return _NAME_H
        return min(_NAMES_W, self._widest_name + S2)

    def _cell_box(self, row: int, column: int) -> QRectF:
        side = self._cell_side
        shaded_side = side - 1 if side >= _MIN_NAMED_CELL else side
        return QRectF(
            self._names_width + column * side,
            self._names_height + row * side,
            shaded_side,
            shaded_side,
        )

    def _cell_at(self, point: QPointF) -> tuple[int, int] | None:
        row = int((point.y() - self._names_height) // self._cell_side)
        column = int((point.x() - self._names_width) // self._cell_side)
        size = len(self._counts)
        return (row, column) if 0 <= row < size and 0 <= column < size else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position())
        if cell is not None:
            self._select_cell(cell)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = _STEPS.get(Qt.Key(event.key()))
        if step is None or not self._counts:
            super().keyPressEvent(event)
            return
        row, column = self._selected_cell or (0, 0)
        last_index = len(self._counts) - 1
        if self._selected_cell is not None:
            row, column = row + step[0], column + step[1]
        self._select_cell((min(last_index, max(0, row)), min(last_index, max(0, column))))

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip:
            cell = self._cell_at(QPointF(self.mapFromGlobal(self.cursor().pos())))
            tip = plain_tip(self.cell_label(*cell)) if cell is not None else ""
            QToolTip.showText(self.cursor().pos(), tip, self)
            return True
        return super().event(event)

    def cell_label(self, row: int, column: int) -> str:
        """Return a cell as text."""
        counts = self._counts[row]
        row_label = f"{formats.count_of(counts[column], sum(counts))} samples of {self._names[row]}"
        return f"{row_label} predicted as {self._names[column]}"

    def _select_cell(self, cell: tuple[int, int]) -> None:
        self._selected_cell = cell
        self._describe()
        self.update()
        self.cell_chosen.emit(*cell)

    def _describe(self) -> None:
        cell = self._selected_cell
        self.setAccessibleDescription(self.cell_label(*cell) if cell is not None else "")
