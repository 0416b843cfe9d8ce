"""Work that need not be done at once, one piece a turn of the event loop.

News of 64 nodes go to many places of the window; each is quick, all together would be a stall.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, QTimer, Slot


class Turns(QObject):
    """Keys and painting have their turn between two pieces."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pieces: deque[Callable[[], object]] = deque()
        self._next = QTimer(self)
        self._next.timeout.connect(self._do)

    def put(self, pieces: Iterable[Callable[[], object]]) -> None:
        """Do these from the next turn on; they are newer than what is not done yet."""
        self._pieces = deque(pieces)
        self._next.start()

    def stop(self) -> None:
        self._pieces.clear()
        self._next.stop()

    @Slot()
    def _do(self) -> None:
        if self._pieces:
            self._pieces.popleft()()
        if not self._pieces:
            self._next.stop()
