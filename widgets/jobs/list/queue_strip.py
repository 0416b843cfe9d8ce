"""What the list of jobs says about the queue as a whole, and the button that holds it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.queue.entry import Queue
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.cards import StyledFrame
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import S2, S3, S4


class QueueStrip(QWidget):
    """A sentence; hidden while nothing waits and nothing is paused.

    Signals:
        pause_requested: Whether the queue shall be paused from now on.
    """

    pause_requested = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_paused = False
        self._told = Label("", "small", "text2", wrap=True)
        self._button = Button("", kind="quiet")
        self._button.clicked.connect(self._wish)
        # Two lines at most in a narrow list; one stands in the middle.
        self._told.setAlignment(Qt.AlignmentFlag.AlignVCenter)
        line = row((self._told, 1), self._button, gap=S2, margins=(S3, 2, 2, 2))
        self.setLayout(col(StyledFrame("sunken", line), margins=(S4, 0, S4, S2)))
        self.show_queue(Queue())

    def show_queue(self, queue: Queue) -> None:
        self._is_paused = bool(queue.paused)
        count = len(queue.places)
        waits = (
            "1 job waits, and starts by itself."
            if count == 1
            else f"{formats.count(count)} jobs wait, and start by themselves."
        )
        self._told.setText(queue.paused or waits)
        self._told.set_tone("warn" if self._is_paused else "text2")
        self._button.setText("Resume" if self._is_paused else "Pause")
        self._button.set_icon("play" if self._is_paused else "pause")
        self._button.set_tip(
            "Start jobs from the queue again"
            if self._is_paused
            else "Start no more jobs from the queue; those that run go on"
        )
        self.setVisible(bool(count) or self._is_paused)

    @Slot()
    def _wish(self) -> None:
        self.pause_requested.emit(not self._is_paused)
