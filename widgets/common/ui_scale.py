"""How large everything is drawn, in per cent of what the system says."""

from __future__ import annotations

SCALES = (100, 110, 125, 150, 175, 200)
SCALE_VARIABLE = "QT_SCALE_FACTOR"


def scale_for(percent: int) -> str:
    """Qt's factor, over what the system says; it is read once, when the application is made."""
    return f"{(percent if percent in SCALES else 100) / 100:g}"
