"""One part of a sample in visible form: its picture, or a sketch of its numbers."""

from __future__ import annotations

import base64
import math

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.library.preview import SamplePart, SamplePreview
from widgets.common import formats, theme
from widgets.common.painting import draw_thin_line, fill_round, paint_text
from widgets.common.theme import R_CELL, S1, S2

_SKETCH_H = 96
_BAR_ROW_H, _MAX_BAR_ROWS = 20, 16
_NAME_SHARE, _VALUE_W = 0.42, 60
"""The width of the names of bars as a share, and of their values."""
_LINE_W, _MIN_OPACITY = 1.4, 0.12


class PartSketch(QWidget):
    """The numbers of the selected sample, in the full width."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._part: SamplePart | None = None
        self.setFixedHeight(_SKETCH_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_part(self, part: SamplePart | None) -> None:
        self._part = part
        name = f"Sketch of {part.path}" if part is not None else ""
        row_count = min(len(part.names), _MAX_BAR_ROWS) if part is not None else 0
        if part is not None and row_count:
            values = zip(part.names, part.values, strict=False)
            name = ", ".join(f"{title} {formats.metric(value)}" for title, value in values)
        self.setFixedHeight(row_count * _BAR_ROW_H + 2 * S2 if row_count else _SKETCH_H)
        self.setAccessibleName(name)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._part is not None:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            if self._part.names:
                _paint_named_bars(painter, QRectF(self.rect()), self._part)
            else:
                paint_part(painter, QRectF(self.rect()), self._part)


def paint_part(painter: QPainter, box: QRectF, part: SamplePart | None) -> None:
    """Sketch a part that is no picture: wave as line, numbers as bars, table as shades, or text."""
    fill_round(painter, box, theme.current().q("sunken"), R_CELL)
    area = box.adjusted(S2, S2, -S2, -S2)
    if part is not None and part.display_kind == "wave" and len(part.values) > 1:
        _paint_wave(painter, area, part.values)
    elif part is not None and part.display_kind == "values" and len(part.values) > 1:
        _paint_bars(painter, area, part.scaled_values or part.values)
    elif part is not None and part.display_kind == "table" and part.rows:
        _paint_table(painter, area, part.rows)
    elif part is not None and part.display_kind == "values" and part.values:
        paint_text(painter, area, formats.metric(part.values[0]), "strong", center=True)
    else:
        text = shape_text(part)
        paint_text(painter, box.adjusted(S1, 0, -S1, 0), text, "tiny", center=True)


def decode_thumbnail(part: SamplePart | None) -> QImage:
    """Return the thumbnail of a part; a null image if the part has none."""
    image = QImage()
    if part is not None and part.png:
        # PNG made by the tool; the format is given so that no other reader is tried.
        image.loadFromData(base64.b64decode(part.png), "PNG")
    return image


def draw_sketch(part: SamplePart | None, side: int, ratio: float) -> QPixmap:
    """Draw a part that is no image, ``side`` pixels square; ``ratio`` as in `scale_thumbnail`."""
    side_px = round(side * ratio)
    pixmap = QPixmap(side_px, side_px)
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    paint_part(painter, QRectF(0, 0, side, side), part)
    painter.end()
    return pixmap


def scale_thumbnail(image: QImage, side: int, ratio: float) -> QPixmap:
    """Scale a thumbnail to ``side`` pixels at most; a null image becomes a null pixmap.

    Args:
        ratio: Device pixels per pixel of the target, for a sharp picture.
    """
    if image.isNull():
        return QPixmap()
    side_px = round(side * ratio)
    mode = (
        Qt.TransformationMode.FastTransformation
        if image.width() < side_px
        else Qt.TransformationMode.SmoothTransformation
    )
    scaled_image = image.scaled(QSize(side_px, side_px), Qt.AspectRatioMode.KeepAspectRatio, mode)
    scaled_image.setDevicePixelRatio(ratio)
    return QPixmap.fromImage(scaled_image)


def shape_text(part: SamplePart | None) -> str:
    """Return ``float32, 1 × 8 × 8``, or a text itself."""
    if part is None:
        return "–"
    if part.display_kind == "text":
        return part.text
    if part.shape is None:
        return part.dtype
    return f"{part.dtype}, {formats.shape(part.shape)}" if part.shape else part.dtype


def main_part(sample: SamplePreview) -> SamplePart | None:
    """Return the part that represents the sample: its first picture, otherwise its first part."""
    pictures = [part for part in sample.parts if part.png]
    return next(iter(pictures or sample.parts), None)


def path_title(path: str) -> str:
    """Return ``data.image`` as a heading."""
    return path[:1].upper() + path[1:]


def _value_range(values: tuple[float | None, ...], *, with_zero: bool) -> tuple[float, float]:
    finite = [value for value in values if value is not None]
    if with_zero:
        finite.append(0.0)
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    return (low, high) if high > low and math.isfinite(high - low) else (low - 0.5, low + 0.5)


def _paint_wave(painter: QPainter, box: QRectF, values: tuple[float | None, ...]) -> None:
    low, high = _value_range(values, with_zero=False)
    step = box.width() / (len(values) - 1)
    painter.setPen(QPen(theme.current().curve(0), _LINE_W))
    segment: list[QPointF] = []
    for index, value in enumerate((*values, None)):
        if value is not None:
            y = box.bottom() - box.height() * (value - low) / (high - low)
            segment.append(QPointF(box.left() + index * step, y))
            continue
        draw_thin_line(painter, segment)
        segment.clear()


def _paint_bars(painter: QPainter, box: QRectF, values: tuple[float | None, ...]) -> None:
    low, high = _value_range(values, with_zero=True)
    slot_w = box.width() / len(values)
    gap = min(2.0, slot_w * 0.25)
    zero = box.bottom() + box.height() * low / (high - low)
    for index, value in enumerate(values):
        if value is None:
            continue
        y = box.bottom() - box.height() * (value - low) / (high - low)
        top, bar_h = min(y, zero), max(1.0, abs(zero - y))
        bar = QRectF(box.left() + index * slot_w + gap / 2, top, slot_w - gap, bar_h)
        painter.fillRect(bar, theme.current().curve(0))


def _paint_named_bars(painter: QPainter, box: QRectF, part: SamplePart) -> None:
    """A row for each value: name, bar, and the value in its own unit.

    The bars are those of the values as the model gets them: they have one scale.
    """
    fill_round(painter, box, theme.current().q("sunken"), R_CELL)
    area = box.adjusted(S2, S2, -S2, -S2)
    name_w = area.width() * _NAME_SHARE
    low, high = _value_range(part.scaled_values, with_zero=True)
    bars = QRectF(
        area.left() + name_w + S2, 0, area.width() - name_w - _VALUE_W - 2 * S2, _BAR_ROW_H
    )
    zero = bars.left() - bars.width() * low / (high - low)
    rows = zip(part.names, part.values, part.scaled_values, strict=False)
    for number, (name, value, scaled_value) in enumerate(rows):
        if number == _MAX_BAR_ROWS:
            break
        top = area.top() + number * _BAR_ROW_H
        name_box = QRectF(area.left(), top, name_w, _BAR_ROW_H)
        paint_text(painter, name_box, name, "small", "text2", elide_middle=True)
        value_box = QRectF(area.right() - _VALUE_W, top, _VALUE_W, _BAR_ROW_H)
        paint_text(painter, value_box, formats.metric(value), "small_strong", right=True)
        if scaled_value is not None:
            x = bars.left() + bars.width() * (scaled_value - low) / (high - low)
            bar = QRectF(min(x, zero), top + S1, max(1.0, abs(x - zero)), _BAR_ROW_H - 2 * S1)
            painter.fillRect(bar, theme.current().curve(0))


def _paint_table(
    painter: QPainter, box: QRectF, rows: tuple[tuple[float | None, ...], ...]
) -> None:
    low, high = _value_range(
        tuple(value for row_values in rows for value in row_values), with_zero=False
    )
    cell_h = box.height() / len(rows)
    for row_number, row_values in enumerate(rows):
        cell_w = box.width() / max(1, len(row_values))
        for index, value in enumerate(row_values):
            if value is None:
                continue
            share = _MIN_OPACITY + (1 - _MIN_OPACITY) * (value - low) / (high - low)
            cell = QRectF(
                box.left() + index * cell_w, box.top() + row_number * cell_h, cell_w - 1, cell_h - 1
            )
            painter.fillRect(cell, theme.current().curve(0, share))
