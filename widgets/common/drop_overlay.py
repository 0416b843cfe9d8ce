"""An overlay on a widget that describes the effect of a drop there."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from widgets.common import icons, theme
from widgets.common.painting import fill_round, paint_focus, paint_text, text_width
from widgets.common.theme import ICON_NAV, R_CARD, S2, S4, S6

_PLATE_H = 56
_VEIL_ALPHA = 0.55


class DropOverlay(QWidget):
    """An overlay that ignores the pointer."""

    def __init__(self, target: QWidget) -> None:
        super().__init__(target)
        self._target = target
        self._message = ""
        self._icon = ""
        self._is_accepted = True
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        target.installEventFilter(self)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._target.rect())
        return super().eventFilter(watched, event)

    def open(
        self, message: str, icon: str = "download-simple", *, is_accepted: bool = True
    ) -> None:
        """Show the effect of a drop; ``is_accepted`` is false if it would do nothing."""
        self._message, self._icon, self._is_accepted = (
            message,
            icon if is_accepted else "prohibit",
            is_accepted,
        )
        self.setAccessibleName(message)
        self.setGeometry(self._target.rect())
        self.show()
        self.raise_()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        t = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(self.rect())
        painter.fillRect(rect, t.q("canvas", _VEIL_ALPHA))
        if self._is_accepted:
            paint_focus(painter, rect, 0)
        max_width = rect.width() - 2 * S6
        width = min(text_width(self._message, "heading") + ICON_NAV + S2 + 2 * S4 + 2, max_width)
        plate = QRectF(0, 0, width, _PLATE_H)
        plate.moveCenter(rect.center())
        fill_round(painter, plate, t.q("surface"), R_CARD)
        if self._is_accepted:
            paint_focus(painter, plate, R_CARD)
        else:
            painter.setPen(t.q("line_strong"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(plate, R_CARD, R_CARD)
        square = QRectF(plate.left() + S4, plate.center().y() - ICON_NAV / 2, ICON_NAV, ICON_NAV)
        icons.paint_icon(painter, square, self._icon, "text")
        text = plate.adjusted(S4 + ICON_NAV + S2, 0, -S4, 0)
        paint_text(painter, text, self._message, "heading", "text", elide_middle=True)
