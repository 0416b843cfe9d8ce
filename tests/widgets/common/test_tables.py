"""Tables, trees and lists are dressed alike, and a table is as high as its rows."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRect
from PySide6.QtWidgets import QApplication, QListView, QTableView, QTreeView, QWidget
from pytestqt.qtbot import QtBot

from widgets.common import theme
from widgets.common.cards import Card
from widgets.common.labels import Label
from widgets.common.layout import SLACK, col
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.view_style import TableHeightLimit, style_view

pytestmark = pytest.mark.usefixtures("theme_manager")


@pytest.mark.parametrize("make", [QTableView, QTreeView, QListView])
def test_views_are_dressed_alike(qtbot: QtBot, make: type[QTableView]) -> None:
    view = make()
    qtbot.addWidget(view)
    style_view(view, "Jobs")
    assert view.accessibleName() == "Jobs"


def test_the_card_of_a_table_is_as_high_as_its_rows_and_never_scrolls_for_less(
    qtbot: QtBot,
) -> None:
    model = RowTableModel((TableColumn[str]("Name", str),))
    view = QTableView()
    view.setModel(model)
    style_view(view, "Names")
    card = Card((view, 1), margins=(0, 0, 0, 4))
    TableHeightLimit(view, card, 4)
    window = QWidget()
    qtbot.addWidget(window)
    window.setLayout(col((card, 1), Label("below"), SLACK))
    window.resize(400, 500)
    window.show()
    heights = []
    for count in (2, 3, 100):
        model.set_records([f"row {n}" for n in range(count)])
        QApplication.processEvents()
        heights.append(card.height())
        assert (view.verticalScrollBar().maximum() > 0) == (count == 100)
    row_h = view.verticalHeader().defaultSectionSize()
    assert heights[1] == heights[0] + row_h
    assert heights[2] > 400, "what does not fit has all the room there is"


def test_a_figure_stands_below_the_end_of_its_head(qtbot: QtBot) -> None:
    """To the pixel: a head has its own padding, and a cell has another."""
    column = TableColumn[str]("4096", str, is_figure=True)
    model = RowTableModel((column, TableColumn[str]("Name", str)))
    model.set_records(["4096"])
    view = QTableView()
    qtbot.addWidget(view)
    view.setModel(model)
    style_view(view, "Figures")
    view.setFont(theme.font("small"))
    view.resize(400, 200)
    view.show()
    QApplication.processEvents()
    head = inked(view.horizontalHeader().viewport(), QRect(0, 0, view.columnWidth(0), 30))
    cell = inked(view.viewport(), QRect(0, 0, view.columnWidth(0), 30))
    assert head == cell


def inked(widget: QWidget, part: QRect) -> int:
    """The column of pixels in which the last ink stands."""
    image = widget.grab(part).toImage()
    background = image.pixel(0, 0)
    return max(
        x
        for x in range(image.width())
        if any(image.pixel(x, y) != background for y in range(4, image.height() - 4))
    )
