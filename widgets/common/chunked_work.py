"""Deferred work, done one piece per turn of the event loop.

Updates of 64 nodes go to many parts of the window; each is quick, all together would be a stall.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, QObject, Qt, QTimer, Slot
from shiboken6 import isValid

T = TypeVar("T")


def lots(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in chunks of this size, in order: the work of one turn."""
    return (items[begin : begin + size] for begin in range(0, len(items), size))


class ChunkedWork(QObject):
    """Work in pieces; key events and painting run between two pieces."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pieces: Iterator[Callable[[], object]] | None = None

    @property
    def is_done(self) -> bool:
        return self._pieces is None

    def put(self, pieces: Iterable[Callable[[], object]]) -> None:
        """Do these from the next turn on; they precede work that is still waiting.

        The iterable is consumed step by step, so it may be endless until a piece calls `stop`.
        """
        self._pieces = iter(pieces)
        _Wheel.of_program().add(self)

    def do(self, pieces: Iterable[Callable[[], object]], *, at_once: bool) -> None:
        """Do these now if they are few, otherwise from the next turn on."""
        self.put(pieces)
        while at_once and not self.is_done:
            self.do_one()

    def stop(self) -> None:
        self._pieces = None

    def do_one(self) -> None:
        """Do the next piece now."""
        piece = next(self._pieces, None) if self._pieces else None
        if piece is None:
            self._pieces = None
        else:
            piece()


class _Wheel(QObject):
    """The round-robin of all waiting work. With a timer for each Qt would serve all in one turn."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._waiting: deque[ChunkedWork] = deque()
        self._next = QTimer(self)
        # A single-shot timer, restarted before each piece: a piece may open a dialog with its own
        # event loop, and Qt serves no timer that it is already serving.
        self._next.setSingleShot(True)
        self._next.timeout.connect(self._turn)

    @classmethod
    def of_program(cls) -> _Wheel:
        """The instance of the one event loop."""
        program = QCoreApplication.instance()
        assert program is not None
        found = program.findChild(cls, options=Qt.FindChildOption.FindDirectChildrenOnly)
        return found or cls(program)

    def add(self, turns: ChunkedWork) -> None:
        if turns not in self._waiting:
            self._waiting.append(turns)
        if not self._next.isActive():
            self._next.start()

    @Slot()
    def _turn(self) -> None:
        while self._waiting:
            turns = self._waiting.popleft()
            if isValid(turns) and not turns.is_done:
                self._waiting.append(turns)
                self._next.start()
                turns.do_one()
                return
