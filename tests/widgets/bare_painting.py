"""What Qt alone takes to paint lines: what a plot's own work is held against."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QLineF, QSize
from PySide6.QtGui import QImage, QPainter, QPen


def bare_lines_s(lines: Sequence[QLineF], pen: QPen, size: QSize, *, smooth: bool) -> float:
    """The least of several processor times, on this machine and now."""
    image = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    times_s = []
    for _ in range(5):
        painter = QPainter(image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, smooth)
        painter.setPen(pen)
        begin = time.thread_time()
        painter.drawLines(lines)
        times_s.append(time.thread_time() - begin)
        painter.end()
    return min(times_s)
