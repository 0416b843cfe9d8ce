"""Columns are as wide as what stands in them."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QTableView

from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.view_style import share_column_width, style_view


@pytest.fixture
def model() -> RowTableModel[tuple[str, str]]:
    columns = (
        TableColumn[tuple[str, str]]("Name", lambda row: row[0]),
        TableColumn[tuple[str, str]]("Step", lambda row: row[1], is_figure=True),
    )
    return RowTableModel(columns)


@pytest.fixture
def view(qtbot, model) -> QTableView:
    view = QTableView()
    qtbot.addWidget(view)
    view.setModel(model)
    style_view(view, "Ranks")
    view.resize(600, 300)
    return view


def test_a_longer_text_has_room_and_the_taker_has_the_rest(view, model, qtbot):
    share_column_width(view, 0)
    view.show()
    model.set_records([("a", "1"), ("b", "2")])
    narrow = view.columnWidth(1)
    model.set_records([("a", "1"), ("b", "2,000,000,000")])
    assert view.columnWidth(1) > narrow
    qtbot.waitUntil(lambda: view.columnWidth(0) + view.columnWidth(1) == view.viewport().width())
    model.set_records([("a", "1"), ("b", "2")])
    assert view.columnWidth(1) == narrow


def test_all_columns_of_a_wide_table_are_equally_wide(view, model, qtbot):
    share_column_width(view, 0)
    view.show()
    model.set_records([("a", "1"), ("b", "2")])
    share_column_width(view, 0, equally=True)
    qtbot.waitUntil(lambda: abs(view.columnWidth(0) - view.columnWidth(1)) <= 1)
    share_column_width(view, 0)
    assert view.columnWidth(1) < view.columnWidth(0) / 2


def test_the_whole_row_under_the_pointer_is_highlighted(view, model, qtbot, theme_manager):
    share_column_width(view, 0)
    view.show()
    model.set_records([("a", "1"), ("b", "2")])
    viewport = view.viewport()

    def backgrounds() -> list[QColor]:
        """The colours of the empty parts of both cells of the first row."""
        image = viewport.grab().toImage()
        edges = (view.columnWidth(0) - 4, viewport.width() - 2)
        return [image.pixelColor(x, view.rowHeight(0) // 2) for x in edges]

    (plain,) = set(map(QColor.name, backgrounds()))
    QTest.mouseMove(viewport, QPoint(10, view.rowHeight(0) // 2))
    (hovered_colour,) = set(map(QColor.name, backgrounds()))
    assert hovered_colour != plain
    QTest.mouseMove(viewport, QPoint(10, view.rowHeight(0) + 5))
    assert set(map(QColor.name, backgrounds())) == {plain}
