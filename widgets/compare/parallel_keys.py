"""Brushes of parallel coordinates by keys: which end of a stretch goes where."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

_STEP = 0.05
_WHOLE = (0.0, 1.0)
_BY = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
_ASIDE = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
_REMOVES = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)

Ends = tuple[float, float]


def axis_step(event: QKeyEvent) -> int:
    """By how many axes Left and Right lead on, 0 for other keys."""
    plain = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return 0 if plain else _ASIDE.get(Qt.Key(event.key()), 0)


def brushed(event: QKeyEvent, ends: Ends | None) -> tuple[bool, Ends | None]:
    """What a key makes of the stretch that is brushed on an axis.

    Shift with Up and Down moves the upper end, Ctrl the lower one; Delete takes the brush away.

    Args:
        ends: The stretch of now, as shares from below; None without a brush.

    Returns:
        Whether the key is for brushes; and the new stretch, None for no brush.
    """
    if Qt.Key(event.key()) in _REMOVES:
        return True, None
    by = _BY.get(Qt.Key(event.key()), 0)
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    low, high = ends or _WHOLE
    if by and modifiers == Qt.KeyboardModifier.ShiftModifier:
        high = min(max(high + by * _STEP, low), 1.0)
    elif by and modifiers == Qt.KeyboardModifier.ControlModifier:
        low = max(min(low + by * _STEP, high), 0.0)
    else:
        return False, ends
    # Steps are added up, and a twentieth is none that a float can hold.
    found = (round(low, 6), round(high, 6))
    return True, None if found == _WHOLE else found
