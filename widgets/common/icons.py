"""Phosphor icons in the colours of the theme.

Names are Phosphor's, without a prefix: ``icon("play")``, ``icon("warning-fill", "warn")``.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import qtawesome
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QIcon, QPainter, QPixmap

from widgets.common import theme

FAMILY_ICONS: dict[str, str] = {
    "good": "check-circle-fill",
    "warn": "warning-fill",
    "bad": "x-circle-fill",
    "live": "info-fill",
    "idle": "info-fill",
    "rest": "info-fill",
}
"""The icon next to a message of a family."""

_PREFIX = "ph"
GAP_RIGHT = 4
"""Pixels that an icon next to a button's text has free on its right."""


def icon(name: str, color_role: str = "text", *, with_text: bool = False) -> QIcon:
    """An icon in the colour of a theme token, grey when its control is disabled.

    With `with_text` the icon is made for `button_icon_size()`: Qt's gap between the icon and the
    text of a button is too small and cannot be set in a style sheet.
    """
    t = theme.current()
    options: dict[str, object] = {"color": t.hex(color_role), "color_disabled": t.text3}
    if with_text:
        width = theme.ICON + GAP_RIGHT
        options["offset"] = (-GAP_RIGHT / 2 / width, 0.0)
    result = _phosphor().icon(f"{_PREFIX}.{name}", **options)
    assert isinstance(result, QIcon)
    return result


@lru_cache(maxsize=1)
def _phosphor() -> qtawesome.IconicFont:
    """Load one font, because ``qtawesome.icon`` would load all twelve: 10 MB."""
    folder, names = qtawesome.get_fonts_info()
    font = next(name for name in names if name.startswith("phosphor"))
    charmap = next(Path(folder).glob("phosphor-charmap*.json"))
    return qtawesome.IconicFont((_PREFIX, font, charmap.name))


def button_icon_size() -> QSize:
    """The icon size of a button that has text."""
    return QSize(theme.ICON + GAP_RIGHT, theme.ICON)


def pixmap(
    name: str, color_role: str = "text", size: int = theme.ICON, ratio: float = 1.0
) -> QPixmap:
    """An icon as a picture, sharp on a screen with `ratio` device pixels per pixel."""
    return _cached_pixmap(name, theme.current().hex(color_role), color_role, size, ratio)


@lru_cache(maxsize=512)
def _cached_pixmap(name: str, _colour: str, color_role: str, size: int, ratio: float) -> QPixmap:
    """Draw an icon, cached: styling a page draws hundreds of few kinds."""
    return icon(name, color_role).pixmap(QSize(size, size), ratio)


def paint_icon(painter: QPainter, rect: QRectF, name: str, color_role: str = "text") -> None:
    """Paint an icon into the middle of `rect`, as large as fits."""
    side = int(min(rect.width(), rect.height()))
    target = QRectF(0, 0, side, side)
    target.moveCenter(rect.center())
    ratio = painter.device().devicePixelRatioF()
    painter.drawPixmap(target.toRect(), pixmap(name, color_role, side, ratio))
