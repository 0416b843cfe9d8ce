"""A shared pointer position for all plots of a page, on the x axis."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal


class HoverLink(QObject):
    """Join the plots of a page. Make one link per page and pass it to each `CurvePanel`.

    Signals:
        pointer_moved: x under the pointer, in the unit of the x axis.
        pointer_left: The pointer left the plots.
    """

    pointer_moved = Signal(float)
    pointer_left = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._x: float | None = None

    @property
    def x(self) -> float | None:
        """The pointer's x, None if it is on no plot."""
        return self._x

    def point(self, x: float) -> None:
        """Set the pointer to `x`."""
        if x != self._x:
            self._x = x
            self.pointer_moved.emit(x)

    def leave(self) -> None:
        """Report that the pointer is on no plot."""
        if self._x is not None:
            self._x = None
            self.pointer_left.emit()
