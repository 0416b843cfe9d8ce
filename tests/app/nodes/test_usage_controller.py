"""Who used what in the window: each choice is a table with its plot, and can be saved."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.nodes.usage_controller import UsageController
from backend.base.errors import BackendError
from backend.records.jobs.ledger import LedgerKey, UsageTable, month_names
from tests.pictures.screens.nodes import usage_table
from tests.windows import find_button, find_only, visible_texts
from widgets.common.buttons import SegmentedControl
from widgets.nodes.page.usage_plot import UsagePlot


@pytest.fixture
def saved():
    return []


@pytest.fixture
def usage():
    requests = []

    def table(key: LedgerKey, month_count: int) -> UsageTable:
        requests.append((key, month_count))
        return usage_table(key, month_count)

    return SimpleNamespace(requests=requests, table=table)


@pytest.fixture
def controller(qtbot, immediately, usage, saved):
    window = QWidget()
    qtbot.addWidget(window)
    services = SimpleNamespace(usage=usage)
    return UsageController(services, immediately, lambda *file: saved.append(file), window)


def cells(dialog):
    model = dialog.model
    columns = range(model.columnCount())
    return [[model.index(n, k).data() for k in columns] for n in range(model.rowCount())]


def test_rows_and_period_are_chosen_and_the_last_row_is_the_total(controller, usage):
    controller.choose()
    dialog = controller.dialog
    assert [row[0] for row in cells(dialog)] == ["anna", "ben", "emil", "Total"]
    assert cells(dialog)[-1][1] == "119"
    assert all(row[4].startswith("≥ ") for row in cells(dialog)), "not all energy is known"
    assert any("3 runs without a record" in text for text in visible_texts(dialog))
    choices = {c.accessibleName(): c for c in dialog.findChildren(SegmentedControl)}
    for name, text in (("Rows", "Node"), ("Period", "This month")):
        button = next(b for b in choices[name]._group.buttons() if b.label == text)
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert usage.requests == [
        (LedgerKey.USER, 12),
        (LedgerKey.NODE, 12),
        (LedgerKey.NODE, 1),
    ]
    assert cells(dialog)[0][0] == "gpu01"
    assert dialog.model.headerData(0, Qt.Orientation.Horizontal) == "Node"


def test_the_plot_has_every_month_and_says_it_to_those_who_do_not_see_it(controller):
    controller.choose()
    plot = find_only(UsagePlot, controller.dialog)
    assert plot.accessibleDescription().startswith("GPU hours. 2026-01: ")
    assert plot.accessibleDescription().count(";") == 10


@pytest.mark.parametrize(
    ("months", "names"),
    [
        ((), []),
        (("2026-12",), ["2026-12"]),
        (("2026-11", "2026-11", "2027-02"), ["2026-11", "2026-12", "2027-01", "2027-02"]),
    ],
)
def test_a_month_without_a_run_has_its_room(months, names):
    assert month_names(*months) == names


def test_the_table_is_saved_by_month_and_adds_up(controller, saved):
    controller.choose()
    QTest.mouseClick(find_button(controller.dialog, "Save CSV…"), Qt.MouseButton.LeftButton)
    ((name, content),) = saved
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert (name, list(rows[0])[:2]) == ("usage by user.csv", ["month", "user"])
    (total,) = usage_table().total
    assert sum(float(row["gpu_hours"]) for row in rows) == pytest.approx(total.gpu_s / 3600)


def test_a_ledger_that_cannot_be_read_says_so_in_the_dialog(controller, usage, monkeypatch):
    def fail(*_: object) -> None:
        raise BackendError("The ledger of the data root could not be read: no route to host.")

    monkeypatch.setattr(usage, "table", fail)
    controller.choose()
    assert any("could not be read" in text for text in visible_texts(controller.dialog))
    assert not find_button(controller.dialog, "Save CSV…").isEnabled()
