"""Keyboard control of a plot, equal to pointer, wheel and drag.

Left and Right move the read-out along the curves, with Shift they pan, + and - zoom around the
read-out, Home and End go to the ends. Esc hides the read-out.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent

from widgets.plots.zoomable_plot import RangedPlot

_STEP, _LEAP, _PAN = 0.01, 0.1, 0.25
"""Shares of the visible range."""
_ZOOM = 0.6


class PlotKeys(QObject):
    """The keys of one plot, active while it has the focus.

    Args:
        pointed, point_at: Get and set where it is read out; None for nowhere.
    """

    def __init__(
        self,
        panel: RangedPlot,
        pointed: Callable[[], float | None],
        point_at: Callable[[float | None], object],
    ) -> None:
        super().__init__(panel)
        self._panel = panel
        self._pointed, self._point_at = pointed, point_at
        panel.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        panel.installEventFilter(self)
        keys = Qt.Key
        self._acts: dict[int, Callable[[bool], object]] = {
            keys.Key_Left: lambda shift: self._aside(-1, shift),
            keys.Key_Right: lambda shift: self._aside(1, shift),
            keys.Key_PageUp: lambda _: self._point(-_LEAP),
            keys.Key_PageDown: lambda _: self._point(_LEAP),
            keys.Key_Home: lambda _: self._point_at(self._begin()),
            keys.Key_End: lambda _: self._point_at(self._end()),
            keys.Key_Plus: lambda _: self._zoom(_ZOOM),
            keys.Key_Equal: lambda _: self._zoom(_ZOOM),
            keys.Key_Minus: lambda _: self._zoom(1 / _ZOOM),
        }

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            return self._press(event)
        return bool(super().eventFilter(watched, event))

    def _press(self, event: QKeyEvent) -> bool:
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        shift = modifiers == Qt.KeyboardModifier.ShiftModifier
        if modifiers and not shift:
            return False
        if event.key() == Qt.Key.Key_Escape and self._pointed() is not None:
            self._point_at(None)
            return True
        act = self._acts.get(event.key())
        if act is None:
            return False
        act(shift)
        return True

    def _aside(self, by: int, pans: bool) -> None:
        if not pans:
            self._point(by * _STEP)
            return
        low, high = self._panel.x_range()
        shift = by * _PAN * (high - low)
        self._panel.move_to(low + shift, high + shift)

    def _point(self, share: float) -> None:
        """Move by a share of the view; start in the middle."""
        low, high = self._panel.x_range()
        end = self._end()
        at = self._pointed()
        if at is None or not low <= at <= high:
            self._point_at((low + end) / 2)
            return
        self._point_at(min(max(at + share * (high - low), self._begin()), end))

    def _begin(self) -> float:
        return max(self._panel.x_range()[0], self._panel.data_begin())

    def _end(self) -> float:
        return min(self._panel.x_range()[1], self._panel.data_end())

    def _zoom(self, factor: float) -> None:
        low, high = self._panel.x_range()
        at = self._pointed()
        if at is None or not low <= at <= high:
            at = (low + high) / 2
        self._panel.move_to(at - (at - low) * factor, at + (high - at) * factor)
