"""The tab Checkpoints says by what each is judged, whether it is proved, and keeps one always."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt

from backend.records.jobs.config import CheckpointPolicy
from tests.widgets.jobs.detail.test_job_detail import checkpoint
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointsTab, marks

BY_ACCURACY = CheckpointPolicy(best_metric="validation/accuracy", best_mode="max")
MADE = (
    replace(checkpoint(1), metrics={"validation/accuracy": 0.7}, sha256="ab" * 32, bytes=100),
    replace(
        checkpoint(2), metrics={"validation/accuracy": 0.9}, sha256="cd" * 32, bytes=100,
        is_latest=True, is_best=True,
    ),
)  # fmt: skip


@pytest.fixture
def tab(qtbot, look):
    tab = CheckpointsTab()
    qtbot.addWidget(tab)
    tab.resize(1000, 600)
    tab.show()
    tab.show_checkpoints(MADE, BY_ACCURACY)
    return tab


def cells(tab, title):
    model = tab.model
    heads = [model.headerData(n, Qt.Orientation.Horizontal) for n in range(model.columnCount())]
    column = heads.index(title)
    return [model.index(row, column).data() for row in range(model.rowCount())]


def test_the_metric_by_which_checkpoints_are_judged_has_its_whole_name(tab):
    assert cells(tab, "Validation accuracy") == ["0.900", "0.700"]
    assert "the best 1 by validation accuracy, and the last epoch always" in tab._policy.text()


def test_a_metric_that_is_not_measured_makes_none_the_best(tab):
    none = tuple(replace(one, is_best=False) for one in MADE)
    tab.show_checkpoints(none, CheckpointPolicy(best_metric="validation/dice"))
    said = "the best 1 by validation dice (not measured by this job yet)"
    assert said in tab._policy.text()


def test_a_checkpoint_is_kept_for_ever_and_no_more(tab, qtbot):
    tab._table.selectRow(1)
    with qtbot.waitSignal(tab.keep_requested) as told:
        tab._keep.click()
    assert told.args == [MADE[0].name, True]
    tab.show_checkpoints((replace(MADE[0], is_kept=True), MADE[1]), BY_ACCURACY)
    assert marks(replace(MADE[0], is_kept=True)) == "kept"
    assert "and 1 that you chose" in tab._policy.text()
    assert tab._keep.text() == "Stop keeping"
    with qtbot.waitSignal(tab.keep_requested) as told:
        tab._keep.click()
    assert told.args == [MADE[0].name, False]


def test_the_hash_of_a_file_is_checked_on_demand(tab, qtbot):
    assert cells(tab, "") == ["latest, best", ""]
    with qtbot.waitSignal(tab.verify_requested) as told:
        tab._verify.click()
    assert told.args == [MADE[1].name]
    with qtbot.waitSignal(tab.model.dataChanged):
        tab.show_verified(MADE[1].name, "checked", "just read; its hash matches")
    assert cells(tab, "") == ["latest, best, checked", ""]
    tab.begin_reading()
    tab.show_checkpoints(MADE, BY_ACCURACY)
    assert cells(tab, "") == ["latest, best", ""], "another job"
