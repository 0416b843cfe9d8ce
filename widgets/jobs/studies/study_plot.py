"""The plot of a study: mean and standard deviation of each row, and the published values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.studies.table import StudyTable, TableRow, spread_text
from widgets.common import formats, theme
from widgets.common.painting import paint_text, round_pen, text_width
from widgets.common.theme import S1, S2, S3, S4
from widgets.plots import ticks
from widgets.plots.image_export import Picture

PUBLISHED = "published"
_AXIS_W, _HEAD_H = 48, 26
_TICKS_H, _TITLE_H = 22, 18
_LINE_W, _BAR_W, _DOT, _CAP = 2.0, 1.4, 4.0, 4.0
_MARGIN = 0.08
_MIN_H, _MAX_H = 190, 320
_EMPTY_TEXT = "The plot begins with the first finished job."


class StudyPlot(QWidget):
    """Points with error bars, a line for each series, and a ring for each published value."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._table: StudyTable | None = None
        self.setMinimumHeight(_MIN_H)
        self.setMaximumHeight(_MAX_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Plot of the study")

    def show_table(self, table: StudyTable) -> None:
        if table != self._table:
            self._table = table
            descriptions = (
                f"{row.name}: {spread_text(row.value) or formats.NONE}" for row in table.rows
            )
            self.setAccessibleDescription("; ".join(descriptions))
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint(painter)

    def as_picture(self) -> Picture:
        """Return the plot as a picture."""
        return Picture("" if self._table is None else self._table.title, self.size(), self._paint)

    def _paint(self, painter: QPainter) -> None:
        table = self._table
        if table is None or not any(row.value.n for row in table.rows):
            paint_text(painter, QRectF(self.rect()), _EMPTY_TEXT, "small", "text3", center=True)
            return
        bottom = _TICKS_H + (_TITLE_H if table.x else 0)
        area = QRectF(
            _AXIS_W, _HEAD_H, self.width() - _AXIS_W - S4, self.height() - _HEAD_H - bottom
        )
        frame = _Frame(table, area)
        frame.paint_axes(painter)
        for colour, name in enumerate(frame.series):
            frame.paint_series(painter, [row for row in table.rows if row.series == name], colour)
        frame.paint_legend(painter)


class _Frame:
    """The axes of a table on an area of pixels."""

    def __init__(self, table: StudyTable, area: QRectF) -> None:
        self._table, self._area = table, area
        self.series = tuple(dict.fromkeys(row.series for row in table.rows))
        values = [value for row in table.rows for value in _row_values(row)]
        margin = (max(values) - min(values) or abs(max(values)) or 1.0) * _MARGIN
        self._min_value, self._max_value = min(values) - margin, max(values) + margin
        self._row_positions = {
            row.name: row.plot_x if table.x else float(number)
            for number, row in enumerate(table.rows)
        }
        first_position, last_position = (
            min(self._row_positions.values()),
            max(self._row_positions.values()),
        )
        # Half a row is free at both ends of rows without numbers.
        side_margin = (
            (last_position - first_position) * _MARGIN
            if table.x and last_position > first_position
            else 0.5
        )
        self._min_position, self._max_position = (
            first_position - side_margin,
            last_position + side_margin,
        )

    def _point(self, row: TableRow, value: float) -> QPointF:
        return QPointF(self._x(self._row_positions[row.name]), self._y(value))

    def _x(self, position: float) -> float:
        share = (position - self._min_position) / (self._max_position - self._min_position)
        return self._area.left() + self._area.width() * share

    def _y(self, value: float) -> float:
        share = (value - self._min_value) / (self._max_value - self._min_value)
        return self._area.bottom() - self._area.height() * share

    def paint_axes(self, painter: QPainter) -> None:
        area, table = self._area, self._table
        for value, text in ticks.linear(self._min_value, self._max_value, 5):
            y = self._y(value)
            painter.setPen(theme.current().q("grid"))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            paint_text(
                painter, QRectF(0, y - S2, _AXIS_W - S2, 2 * S2), text, "tiny", "text3", right=True
            )
        texts = {
            self._row_positions[row.name]: formats.tick(row.plot_x) if table.x else row.name
            for row in table.rows
        }
        width = (
            area.width() / (self._max_position - self._min_position) - S2
            if not table.x
            else 3.0 * S4
        )
        for position, text in texts.items():
            label_box = QRectF(self._x(position) - width / 2, area.bottom() + S1, width, 2 * S2)
            paint_text(painter, label_box, text, "tiny", "text3", center=True)
        if table.x:
            title_box = QRectF(area.left(), area.bottom() + _TICKS_H, area.width(), 2 * S2)
            paint_text(painter, title_box, table.x, "tiny", "text3", center=True)

    def paint_series(self, painter: QPainter, rows: Sequence[TableRow], colour: int) -> None:
        t = theme.current()
        means = [self._point(row, row.value.mean) for row in rows if row.value.mean is not None]
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if self._table.x:
            painter.setPen(round_pen(t.curve(colour), _LINE_W))
            painter.drawPolyline(QPolygonF(means))
        for row in rows:
            if row.value.mean is not None and row.value.sd:
                bar_bottom, bar_top = (self._point(row, end) for end in _error_bar(row))
                cap = QPointF(_CAP, 0)
                painter.setPen(round_pen(t.curve(colour), _BAR_W))
                for start, end in (
                    (bar_bottom, bar_top),
                    (bar_bottom - cap, bar_bottom + cap),
                    (bar_top - cap, bar_top + cap),
                ):
                    painter.drawLine(start, end)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(t.curve(colour))
        for point in means:
            painter.drawEllipse(point, _DOT, _DOT)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for row in rows:
            if row.published is not None:
                painter.setPen(round_pen(t.curve(colour), _BAR_W))
                painter.drawEllipse(self._point(row, row.published), _DOT + 2, _DOT + 2)

    def paint_legend(self, painter: QPainter) -> None:
        """Paint the measure at the left above the plot, and the legend at the right."""
        t, column = theme.current(), self._table.value
        measure = f"{column.label}, {column.unit}" if column.unit else column.label
        measure_end = S2 + paint_text(painter, QRectF(S2, 0, 200, 2 * S2), measure, "tiny", "text2")
        x = self._area.right()
        legend = [(number, name) for number, name in enumerate(self.series) if name]
        if any(row.published is not None for row in self._table.rows):
            legend.append((-1, PUBLISHED))
        for colour, name in reversed(legend):
            x -= text_width(name, "tiny")
            if x < measure_end + S4:
                break
            paint_text(painter, QRectF(x, 0, self._area.width(), 2 * S2), name, "tiny", "text2")
            x -= S3
            is_ring = colour < 0
            painter.setPen(round_pen(t.q("text2"), _BAR_W) if is_ring else Qt.PenStyle.NoPen)
            painter.setBrush(Qt.BrushStyle.NoBrush if is_ring else t.curve(colour))
            painter.drawEllipse(QPointF(x + S1, S2), _DOT, _DOT)
            x -= S3


def _error_bar(row: TableRow) -> tuple[float, float]:
    mean, sd = row.value.mean or 0.0, row.value.sd or 0.0
    return mean - sd, mean + sd


def _row_values(row: TableRow) -> Iterator[float]:
    if row.value.mean is not None:
        yield from _error_bar(row)
    if row.published is not None:
        yield row.published
