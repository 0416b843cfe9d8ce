"""The small history on a card."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from widgets.plots.growable_array import Floats
from widgets.plots.sparkline import paint_sparkline

pytestmark = pytest.mark.usefixtures("theme_manager")
WIDTH, HEIGHT = 240, 40


def rows_with_line(values: Floats) -> list[list[int]]:
    """The rows of each column that are as dark as the line."""
    image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    paint_sparkline(painter, QRectF(0, 0, WIDTH, HEIGHT), values, 0.0, 100.0)
    painter.end()
    return [
        [y for y in range(HEIGHT) if image.pixelColor(x, y).lightness() < 180] for x in range(WIDTH)
    ]


@pytest.mark.parametrize("count", [2, 5, 20, 120])
def test_a_flat_history_is_a_straight_line_from_its_first_value_to_its_last(count: int) -> None:
    columns = rows_with_line(np.full(count, 50.0))
    assert {row for rows in columns for row in rows} <= {19, 20}
    assert all(columns)


def test_a_missing_value_is_a_gap() -> None:
    values = np.full(121, 50.0)
    values[50:71] = np.nan
    columns = rows_with_line(values)
    assert all(columns[:97])
    assert not any(columns[102:138])
    assert all(columns[143:])
