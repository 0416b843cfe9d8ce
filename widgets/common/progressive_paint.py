"""Paint a new page in pieces, one per turn; the old pixels stay until their turn.

Painting a whole page with 64 nodes in one turn takes 15 ms on an idle machine and 60 on a busy one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtWidgets import QWidget

from widgets.common.chunked_work import ChunkedWork

_PIECES = 5
_LEAST_SHARE = 0.01
"""Share of the page: a smaller widget is painted with its background."""


class ProgressivePaint(QObject):
    """An overlay on a widget that is about to be painted, removed piece by piece.

    A piece is opaque and paints nothing, so Qt paints nothing beneath it, and the previous pixels
    stay on the screen.
    """

    def __init__(self, over: QWidget) -> None:
        super().__init__(over)
        self._over = over
        self._pieces: list[_Piece] = []
        self._turns = ChunkedWork(self)
        over.installEventFilter(self)

    def hang(self, page: QWidget) -> None:
        """Cover a page of the widget, and begin to remove the cover."""
        groups = _groups(page, self._over)
        rects = [rect for group in groups for rect in group]
        while len(self._pieces) < len(rects):
            self._pieces.append(_Piece(self._over))
        self._fall()
        rest = iter(self._pieces)
        hung: list[Callable[[], object]] = []
        for group in groups:
            pieces = [next(rest) for _ in group]
            for piece, rect in zip(pieces, group, strict=True):
                piece.hang(rect)
            hung.append(partial(_take_down, pieces))
        self._turns.put(hung)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # The previous pixels are lost with the old size.
        is_lost = event.type() in (QEvent.Type.Resize, QEvent.Type.Hide)
        if is_lost and not self._turns.is_done:
            self._fall()
        return super().eventFilter(watched, event)

    def _fall(self) -> None:
        self._turns.stop()
        _take_down(self._pieces)


class _Piece(QWidget):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def hang(self, rect: QRect) -> None:
        self.setGeometry(rect)
        self.raise_()
        self.show()
        # A style sheet resets it when it styles the widget, which is when it is shown.
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)


def _take_down(pieces: list[_Piece]) -> None:
    for piece in pieces:
        piece.hide()


def _groups(page: QWidget, over: QWidget) -> list[list[QRect]]:
    """The page in pieces of similar size, from top to bottom."""
    area = _area(over.rect())
    rects = sorted(
        _rects(page, over, over.rect(), area), key=lambda rect: (rect.top(), rect.left())
    )
    groups: list[list[QRect]] = []
    filled = area
    for rect in rects:
        if filled >= area / _PIECES:
            groups.append([])
            filled = 0
        groups[-1].append(rect)
        filled += _area(rect)
    return groups


def _rects(widget: QWidget, over: QWidget, room: QRect, area: int) -> Iterator[QRect]:
    rect = QRect(widget.mapTo(over, QPoint()), widget.size()) & room
    if _area(rect) < _LEAST_SHARE * area:
        return
    parts = [child for child in widget.children() if _is_part(child)]
    if _area(rect) <= area / _PIECES:
        yield rect
    elif parts:
        for part in parts:
            assert isinstance(part, QWidget)
            yield from _rects(part, over, rect, area)
    else:
        yield from _bands(rect, -(-_area(rect) * _PIECES // area))


def _bands(rect: QRect, count: int) -> Iterator[QRect]:
    height = -(-rect.height() // count)
    for top in range(rect.top(), rect.bottom() + 1, height):
        yield QRect(rect.left(), top, rect.width(), height) & rect


def _is_part(child: QObject) -> bool:
    if not isinstance(child, QWidget) or isinstance(child, _Piece):
        return False
    return child.isVisible() and not child.isWindow()


def _area(rect: QRect) -> int:
    return max(rect.width(), 0) * max(rect.height(), 0)
