"""One pointer for all plots of a page: where it is on the x axis, or nowhere."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal


class HoverLink(QObject):
    """Joins the plots of a page. Make one per page and give it to each `CurvePanel`.

    Signals:
        moved: x under the pointer, in the unit of the x axis.
        left: The pointer left the plots.
    """

    moved = Signal(float)
    left = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._x: float | None = None

    @property
    def x(self) -> float | None:
        """Where the pointer is, None when it is nowhere."""
        return self._x

    def point(self, x: float) -> None:
        """The pointer is at `x` now."""
        if x != self._x:
            self._x = x
            self.moved.emit(x)

    def leave(self) -> None:
        """The pointer is on no plot now."""
        if self._x is not None:
            self._x = None
            self.left.emit()
