"""Limit frequent updates: heartbeats of 64 nodes, but a repaint twice a second.

Also defer updates of invisible widgets.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot
from PySide6.QtWidgets import QWidget


def is_on_hidden_page(widget: QWidget) -> bool:
    """Return True if the window shows another page, so that updates can wait."""
    return widget.window().isVisible() and not widget.isVisible()


class Throttle(QObject):
    """Make at most one call per interval: the first at once, and never drop the last.

    ``self._repaint = Throttle(500, self.update, self)``, then ``self._repaint.request()``.
    """

    def __init__(self, interval_ms: int, call: Callable[[], object], parent: QObject) -> None:
        super().__init__(parent)
        self._call = call
        self._is_pending = False
        self._pause = QTimer(self, singleShot=True, interval=interval_ms)
        self._pause.timeout.connect(self._end_pause)

    def request(self) -> None:
        """Call now, or when the pause after the last call is over."""
        if self._pause.isActive():
            self._is_pending = True
        else:
            self._call_now()

    def stop(self) -> None:
        """Drop the pending call: its receiver may be deleted."""
        self._pause.stop()
        self._is_pending = False

    @Slot()
    def _end_pause(self) -> None:
        if self._is_pending:
            self._call_now()

    def _call_now(self) -> None:
        self._is_pending = False
        self._pause.start()
        self._call()
