"""The scale of the window, in per cent of the system's."""

from __future__ import annotations

SCALES = (100, 110, 125, 150, 175, 200)
SCALE_VARIABLE = "QT_SCALE_FACTOR"


def scale_for(percent: int) -> str:
    """Qt's factor on top of the system's scale; read once, when the application starts."""
    return f"{(percent if percent in SCALES else 100) / 100:g}"
