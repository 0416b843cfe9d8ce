"""Painting helpers for widgets that draw themselves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise, starmap

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen, QStaticText

from widgets.common import theme
from widgets.common.theme import FOCUS_W, R_CONTROL, Role

_TEXT_CACHE_SIZE = 1024
"""Cache size: a tour through a window with 64 nodes writes 800 texts in a minute, 1.6 kB each."""


def round_pen(colour: QColor, width: float) -> QPen:
    """A pen with round ends and corners."""
    pen = QPen(colour, width)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    return pen


def draw_thin_line(painter: QPainter, points: Iterable[QPointF]) -> None:
    """Draw a thin line through many points, its corners not rounded.

    One stroke with rounded corners takes Qt up to fifteen times as long: 1.5 ms for 180 points.
    """
    painter.drawLines(list(starmap(QLineF, pairwise(points))))


def fill_round(painter: QPainter, rect: QRectF, colour: QColor, radius: float) -> None:
    """Fill a rounded rectangle without an edge."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.drawRoundedRect(rect, radius, radius)


def paint_background(
    painter: QPainter, rect: QRectF, *, is_selected: bool, is_hovered: bool
) -> None:
    """Paint the background of a selectable item; none in its normal state.

    Args:
        is_selected: The item is selected.
        is_hovered: The pointer is on the item.
    """
    if is_selected or is_hovered:
        t = theme.current()
        fill_round(painter, rect, t.q("selected" if is_selected else "hover"), R_CONTROL)
        if is_selected and t.high_contrast:
            _paint_edge(painter, rect, R_CONTROL, "text")


def paint_focus(painter: QPainter, rect: QRectF, radius: float = R_CONTROL) -> None:
    """Paint the focus ring inside `rect`."""
    _paint_edge(painter, rect, radius, "focus")


def paint_error(painter: QPainter, rect: QRectF, radius: float) -> None:
    """Paint the edge of a control whose value is an error."""
    _paint_edge(painter, rect, radius, "bad")


def _paint_edge(painter: QPainter, rect: QRectF, radius: float, color_role: str) -> None:
    inset = FOCUS_W / 2
    painter.setPen(QPen(theme.current().q(color_role), FOCUS_W))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(rect.adjusted(inset, inset, -inset, -inset), radius, radius)


def paint_text(
    painter: QPainter,
    rect: QRectF,
    text: str,
    role: Role = "body",
    color_role: str = "text",
    *,
    right: bool = False,
    center: bool = False,
    elide_middle: bool = False,
) -> float:
    """Write one line, elided to `rect` (in the middle for paths); return its width."""
    # One pixel of tolerance: text measured with this font is never cut by rounding.
    line, width = _static_text(text, role, int(rect.width()) + 1, elide_middle)
    painter.setFont(_font(role))
    painter.setPen(theme.current().q(color_role))
    free_space = rect.size() - line.size()
    share = 1.0 if right else 0.5 if center else 0.0
    position = QPointF(
        rect.left() + share * free_space.width(), rect.top() + free_space.height() / 2
    )
    painter.drawStaticText(position, line)
    return width


def text_width(text: str, role: Role = "body") -> int:
    """The width of `text` in one line."""
    return _metrics(role).horizontalAdvance(text)


def elide(text: str, width: int, role: Role = "body") -> str:
    """Return ``text`` as it fits into ``width`` pixels, with "…" if it was cut."""
    return _elide_text(text, role, width, elide_middle=False)[0]


@cache
def _font(role: Role) -> QFont:
    return theme.font(role)


@cache
def _metrics(role: Role) -> QFontMetrics:
    return QFontMetrics(theme.font(role))


@lru_cache(maxsize=_TEXT_CACHE_SIZE)
def _static_text(
    text: str, role: Role, width: int, elide_middle: bool
) -> tuple[QStaticText, float]:
    """Lay out one line, cached: a rack of nodes writes the same figures twice a second.

    Laying a line of text out takes Qt three times as long as painting it.
    """
    visible_text, visible_w = _elide_text(text, role, width, elide_middle)
    line = QStaticText(visible_text.replace("\n", " "))
    line.setTextFormat(Qt.TextFormat.PlainText)
    line.prepare(font=_font(role))
    return line, visible_w


@lru_cache(maxsize=_TEXT_CACHE_SIZE)
def _elide_text(text: str, role: Role, width: int, elide_middle: bool) -> tuple[str, float]:
    mode = Qt.TextElideMode.ElideMiddle if elide_middle else Qt.TextElideMode.ElideRight
    visible_text = _metrics(role).elidedText(text, mode, width)
    return visible_text, float(_metrics(role).horizontalAdvance(visible_text))
