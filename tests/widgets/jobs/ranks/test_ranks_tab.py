"""The tab Ranks has the columns that its job can fill, and no empty rows."""

import pytest
from PySide6.QtWidgets import QApplication, QTableView

from tests.job_views import replace_fields
from tests.pictures import lab
from tests.windows import find_only, show_widget
from widgets.jobs.ranks.ranks_tab import RanksTab

OF_GPUS = {"GPU", "Process", "Memory", "Use"}


@pytest.fixture
def tab(qtbot, theme_manager):
    return show_widget(qtbot, RanksTab(), 1000, 700)


def titles(tab):
    model, table = tab._model, find_only(QTableView, tab)
    headers = [
        model.headerData(n, table.horizontalHeader().orientation())
        for n in range(model.columnCount())
    ]
    return {head for n, head in enumerate(headers) if not table.isColumnHidden(n)}


def test_a_job_on_cpus_has_no_columns_of_gpus(tab):
    for view, has_gpus in (
        (lab.FINISHED, False),
        (lab.LIVE, True),
        (lab.FINISHED, False),
        (replace_fields(lab.LIVE, rank_step_ms=()), True),
    ):
        assert view.config.uses_gpus is has_gpus
        tab.show_view(view)
        assert (titles(tab) & OF_GPUS == OF_GPUS) is has_gpus
        assert bool(titles(tab) & OF_GPUS) is has_gpus
        assert {"Rank", "Where", "Step", "Heartbeat"} <= titles(tab)


def test_a_table_of_two_ranks_has_the_room_of_two(tab):
    tab.show_view(lab.FINISHED)
    QApplication.processEvents()
    table = find_only(QTableView, tab)
    rows = tab._model.rowCount() * table.verticalHeader().defaultSectionSize()
    assert table.viewport().height() < rows + table.verticalHeader().defaultSectionSize()
