"""Keys that change the brushes of parallel coordinates."""

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
    """Return the number of axes to move for Left and Right, 0 for other keys."""
    plain = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return 0 if plain else _ASIDE.get(Qt.Key(event.key()), 0)


def brushed(event: QKeyEvent, ends: Ends | None) -> tuple[bool, Ends | None]:
    """Return the brush of an axis after a key press.

    Shift with Up and Down moves the upper end, Ctrl the lower one; Delete removes the brush.

    Args:
        ends: The current brush, as shares from below; None without a brush.

    Returns:
        Whether the key changes brushes; and the new brush, None for no brush.
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
    # Steps are summed, and a float cannot hold one twentieth exactly.
    found = (round(low, 6), round(high, 6))
    return True, None if found == _WHOLE else found
