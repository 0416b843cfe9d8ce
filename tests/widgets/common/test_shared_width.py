"""Columns are as wide as what stands in them, and are measured only when that is another."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QTableView

from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.view_style import SharedWidth, dress


class Measured(QTableView):
    """Counts how often a column is measured."""

    measured = 0

    def sizeHintForColumn(self, column: int) -> int:
        self.measured += 1
        return super().sizeHintForColumn(column)


@pytest.fixture
def model() -> RowTableModel[tuple[str, str]]:
    columns = (
        TableColumn[tuple[str, str]]("Name", lambda row: row[0]),
        TableColumn[tuple[str, str]]("Step", lambda row: row[1], is_figure=True),
    )
    return RowTableModel(columns)


@pytest.fixture
def view(qtbot, model) -> Measured:
    view = Measured()
    qtbot.addWidget(view)
    view.setModel(model)
    dress(view, "Ranks")
    view.resize(600, 300)
    return view


def test_a_longer_text_has_room_and_the_taker_has_the_rest(view, model, qtbot):
    SharedWidth(view, 0)
    view.show()
    model.put([("a", "1"), ("b", "2")])
    narrow = view.columnWidth(1)
    model.put([("a", "1"), ("b", "2,000,000,000")])
    assert view.columnWidth(1) > narrow
    qtbot.waitUntil(lambda: view.columnWidth(0) + view.columnWidth(1) == view.viewport().width())
    model.put([("a", "1"), ("b", "2")])
    assert view.columnWidth(1) == narrow


def test_figures_as_wide_as_before_are_not_measured(view, model):
    SharedWidth(view, 0)
    view.show()
    model.put([("a", "10,001"), ("b", "10,002")])
    before = view.measured
    for step in range(10_100, 10_200):
        model.put([("a", f"{step:,}"), ("b", f"{step + 1:,}")])
    assert view.measured == before
    model.put([("a", "100,000"), ("b", "100,001")])
    assert view.measured > before


def test_in_a_wide_table_all_have_the_same(view, model, qtbot):
    widths = SharedWidth(view, 0)
    view.show()
    model.put([("a", "1"), ("b", "2")])
    widths.share(equally=True)
    qtbot.waitUntil(lambda: abs(view.columnWidth(0) - view.columnWidth(1)) <= 1)
    widths.share(equally=False)
    assert view.columnWidth(1) < view.columnWidth(0) / 2


def test_a_column_that_comes_back_is_as_wide_as_its_head(view, model):
    widths = SharedWidth(view, 0)
    view.show()
    widths.hide({1: True})
    model.put([("a", "1"), ("b", "2")])
    widths.hide({1: False})
    assert view.columnWidth(1) >= view.horizontalHeader().sectionSizeHint(1) > 0
