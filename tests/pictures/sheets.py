"""Contact sheets: many pictures on one, each with its name, to see what falls out of line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QImage, QPainter

from widgets.common import theme

_COLUMNS, _ROWS = 3, 3
_CELL_W, _CAPTION_H, _GAP = 640, 22, 12


def small_picture(image: QImage) -> QImage:
    """The picture in the size it has on a sheet: hundreds of whole ones would fill the memory."""
    copy = image.copy()
    copy.setDevicePixelRatio(1.0)
    return copy.scaledToWidth(_CELL_W, Qt.TransformationMode.SmoothTransformation)


def sheets(pictures: Sequence[tuple[str, QImage]]) -> Iterator[QImage]:
    """Nine on each, in their order; all of one size."""
    sheet_size = _COLUMNS * _ROWS
    for start in range(0, len(pictures), sheet_size):
        sheet_pictures = pictures[start : start + sheet_size]
        picture_size = sheet_pictures[0][1].size()
        cell_h = round(_CELL_W * picture_size.height() / picture_size.width())
        cell_width, cell_height = _CELL_W + _GAP, cell_h + _CAPTION_H + _GAP
        rows = -(-len(sheet_pictures) // _COLUMNS)
        sheet = QImage(QSize(_COLUMNS * cell_width, rows * cell_height), QImage.Format.Format_RGB32)
        sheet.fill(theme.LIGHT.q("line_strong"))
        painter = QPainter(sheet)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.setFont(theme.font("small_strong"))
        painter.setPen(theme.LIGHT.q("on_ink"))
        for n, (name, image) in enumerate(sheet_pictures):
            x, y = n % _COLUMNS * cell_width + _GAP // 2, n // _COLUMNS * cell_height
            painter.drawText(QRect(x, y, _CELL_W, _CAPTION_H), Qt.AlignmentFlag.AlignVCenter, name)
            painter.drawImage(x, y + _CAPTION_H, image)
        painter.end()
        yield sheet


def write_sheets(folder: Path, title: str, pictures: Sequence[tuple[str, QImage]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, sheet in enumerate(sheets(pictures), 1):
        sheet.save(str(folder / f"{title}-{number}.png"))
