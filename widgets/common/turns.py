"""Work that need not be done at once, one piece a turn of the event loop.

News of 64 nodes go to many places of the window; each is quick, all together would be a stall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from PySide6.QtCore import QObject, QTimer, Slot


class Turns(QObject):
    """Keys and painting have their turn between two pieces."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pieces: Iterator[Callable[[], object]] = iter(())
        self._next = QTimer(self)
        self._next.timeout.connect(self._do)

    @property
    def is_done(self) -> bool:
        return not self._next.isActive()

    def put(self, pieces: Iterable[Callable[[], object]]) -> None:
        """Do these from the next turn on; they are newer than what is not done yet.

        They are taken one by one, so there may be one that is done until it calls `stop`.
        """
        self._pieces = iter(pieces)
        self._next.start()

    def stop(self) -> None:
        self._pieces = iter(())
        self._next.stop()

    @Slot()
    def _do(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            self._next.stop()
        else:
            piece()
