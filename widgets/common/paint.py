"""Small painting helpers for widgets that draw themselves."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen

from widgets.common import theme
from widgets.common.theme import FOCUS_W, R_CONTROL, Role


def round_pen(colour: QColor, width: float) -> QPen:
    """A pen with round ends and corners."""
    pen = QPen(colour, width)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    return pen


def fill_round(painter: QPainter, rect: QRectF, colour: QColor, radius: float) -> None:
    """A filled rounded rectangle without an edge."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.drawRoundedRect(rect, radius, radius)


def paint_focus(painter: QPainter, rect: QRectF, radius: float = R_CONTROL) -> None:
    """The focus ring, inside `rect`."""
    half = FOCUS_W / 2
    painter.setPen(QPen(theme.current().q("focus"), FOCUS_W))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(rect.adjusted(half, half, -half, -half), radius, radius)


def paint_text(
    painter: QPainter,
    rect: QRectF,
    text: str,
    role: Role = "body",
    tone: str = "text",
    *,
    right: bool = False,
    center: bool = False,
    middle: bool = False,
) -> float:
    """Write one line, elided to `rect` (in the middle for paths); returns the width it took."""
    font = theme.font(role)
    metrics = QFontMetrics(font)
    mode = Qt.TextElideMode.ElideMiddle if middle else Qt.TextElideMode.ElideRight
    # One pixel of grace: a text measured with this very font is never cut by rounding.
    shown = metrics.elidedText(text, mode, int(rect.width()) + 1)
    side = Qt.AlignmentFlag.AlignLeft
    if right:
        side = Qt.AlignmentFlag.AlignRight
    elif center:
        side = Qt.AlignmentFlag.AlignHCenter
    painter.setFont(font)
    painter.setPen(theme.current().q(tone))
    painter.drawText(
        rect.adjusted(0, 0, 1, 0) if side is Qt.AlignmentFlag.AlignLeft else rect,
        side | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine,
        shown,
    )
    return float(metrics.horizontalAdvance(shown))


def text_width(text: str, role: Role = "body") -> int:
    """How wide one line of `text` is."""
    return QFontMetrics(theme.font(role)).horizontalAdvance(text)
