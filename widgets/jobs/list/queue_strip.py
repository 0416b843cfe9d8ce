"""The state of the queue above the list of jobs, with the button that pauses it."""

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
    """A sentence; hidden while no job waits and the queue is not paused.

    Signals:
        pause_requested: Whether to pause or resume the queue.
    """

    pause_requested = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_paused = False
        self._told = Label("", "small", "text2", wrap=True)
        self._button = Button("", kind="quiet")
        self._button.clicked.connect(self._wish)
        # At most two lines in a narrow list; a single line is centred.
        self._told.setAlignment(Qt.AlignmentFlag.AlignVCenter)
        line = row((self._told, 1), self._button, gap=S2, margins=(S3, 2, 2, 2))
        self.setLayout(col(StyledFrame("sunken", line), margins=(S4, 0, S4, S2)))
        self.show_queue(Queue())

    def show_queue(self, queue: Queue) -> None:
        self._is_paused = bool(queue.paused)
        count = len(queue.places)
        waits = (
            "1 job is queued and will start automatically."
            if count == 1
            else f"{formats.count(count)} jobs are queued and will start automatically."
        )
        self._told.setText(queue.paused or waits)
        self._told.set_tone("warn" if self._is_paused else "text2")
        self._button.setText("Resume" if self._is_paused else "Pause")
        self._button.set_icon("play" if self._is_paused else "pause")
        self._button.set_tip(
            "Start jobs from the queue again"
            if self._is_paused
            else "Start no more jobs from the queue; running jobs continue"
        )
        self.setVisible(bool(count) or self._is_paused)

    @Slot()
    def _wish(self) -> None:
        self.pause_requested.emit(not self._is_paused)
