"""Small painting helpers for widgets that draw themselves."""

from __future__ import annotations

from functools import cache, lru_cache

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen

from widgets.common import theme
from widgets.common.theme import FOCUS_W, R_CONTROL, Role

_LINE = Qt.AlignmentFlag.AlignVCenter.value | Qt.TextFlag.TextSingleLine.value
_LEFT = Qt.AlignmentFlag.AlignLeft.value | _LINE
_RIGHT = Qt.AlignmentFlag.AlignRight.value | _LINE
_CENTER = Qt.AlignmentFlag.AlignHCenter.value | _LINE


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


def paint_ground(painter: QPainter, rect: QRectF, *, chosen: bool, pointed: bool) -> None:
    """The ground of one of several things to choose from; none where it is just there.

    Args:
        chosen: It is the one.
        pointed: The pointer is on it.
    """
    if chosen or pointed:
        fill_round(painter, rect, theme.current().q("selected" if chosen else "hover"), R_CONTROL)


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
    # One pixel of grace: a text measured with this very font is never cut by rounding.
    shown, width = _elided(text, role, int(rect.width()) + 1, middle)
    flags = _RIGHT if right else _CENTER if center else _LEFT
    painter.setFont(theme.font(role))
    painter.setPen(theme.current().q(tone))
    painter.drawText(rect.adjusted(0, 0, 1, 0) if flags is _LEFT else rect, flags, shown)
    return width


def text_width(text: str, role: Role = "body") -> int:
    """How wide one line of `text` is."""
    return _metrics(role).horizontalAdvance(text)


def elided(text: str, width: int, role: Role = "body") -> str:
    """``text`` as far as ``width`` pixels hold it, with "…" where it was cut."""
    return _elided(text, role, width, middle=False)[0]


@cache
def _metrics(role: Role) -> QFontMetrics:
    return QFontMetrics(theme.font(role))


@lru_cache(maxsize=8192)
def _elided(text: str, role: Role, width: int, middle: bool) -> tuple[str, float]:
    """Kept, because a rack of nodes writes the same few hundred figures twice a second."""
    mode = Qt.TextElideMode.ElideMiddle if middle else Qt.TextElideMode.ElideRight
    shown = _metrics(role).elidedText(text, mode, width)
    return shown, float(_metrics(role).horizontalAdvance(shown))
