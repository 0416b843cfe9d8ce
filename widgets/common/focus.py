"""Where the focus goes that a page or a pane is given."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QWidget


class FocusLead(QObject):
    """Hands the focus of a holder on to one of its parts.

    ``setFocusProxy`` would, too; but Qt (6.11) then takes the holder for one control, and Tab
    skips everything in it but that part.
    """

    def __init__(self, holder: QWidget, part: QWidget) -> None:
        super().__init__(holder)
        self._part = part
        holder.installEventFilter(self)

    def lead_to(self, part: QWidget) -> None:
        self._part = part

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QFocusEvent) and event.type() == QEvent.Type.FocusIn:
            self._part.setFocus(event.reason())
        return bool(super().eventFilter(watched, event))
