"""What a drop on the window would do, over the whole window while something is dragged there."""

from __future__ import annotations

from pathlib import PurePath

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from backend.records.bundle import SUFFIX
from backend.records.values import printable
from widgets.common import icons, theme
from widgets.common.paint import fill_round, paint_focus, paint_text, text_width
from widgets.common.theme import ICON_NAV, R_CARD, S2, S4, S6

_PLATE_H = 56
_VEIL = 0.55
_NAME_CHARS = 48


def words_for(path: str) -> str:
    """What dropping this would do, by its name alone: nothing is read while it is dragged."""
    name = printable(PurePath(path).name, _NAME_CHARS)
    suffix = PurePath(path).suffix.lower()
    if suffix == SUFFIX:
        return f"Bring in the job of “{name}”"
    if suffix == ".toml":
        return f"Open “{name}” as a new job"
    return f"Import “{name}”"


class DropSheet(QWidget):
    """The pointer goes through it."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._words = ""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def open(self, path: str) -> None:
        self._words = words_for(path)
        self.setAccessibleName(self._words)
        self.setGeometry(self._window.rect())
        self.show()
        self.raise_()

    def paintEvent(self, _event: QPaintEvent) -> None:
        t = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        whole = QRectF(self.rect())
        painter.fillRect(whole, t.q("canvas", _VEIL))
        paint_focus(painter, whole, 0)
        room = whole.width() - 2 * S6
        width = min(text_width(self._words, "heading") + ICON_NAV + S2 + 2 * S4 + 2, room)
        plate = QRectF(0, 0, width, _PLATE_H)
        plate.moveCenter(whole.center())
        fill_round(painter, plate, t.q("surface"), R_CARD)
        paint_focus(painter, plate, R_CARD)
        square = QRectF(plate.left() + S4, plate.center().y() - ICON_NAV / 2, ICON_NAV, ICON_NAV)
        icons.paint_icon(painter, square, "download-simple", "text")
        text = plate.adjusted(S4 + ICON_NAV + S2, 0, -S4, 0)
        paint_text(painter, text, self._words, "heading", "text", middle=True)
