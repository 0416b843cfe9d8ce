"""The tab Checkpoints says by what each is judged, whether it is proved, and keeps one always."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt

from backend.records.jobs.config import CheckpointPolicy
from tests.asks import expect_request, open_menu_entries
from tests.widgets.jobs.detail.test_job_detail import LIVE, checkpoint
from tests.windows import find_button, find_only
from widgets.common import formats
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointsTab, CheckpointTable
from widgets.jobs.checkpoints.export_dialog import Exporter, checkpoint_title

BY_ACCURACY = CheckpointPolicy(best_metric="validation/accuracy", best_mode="max")
CHECKPOINTS = (
    replace(checkpoint(1), metrics={"validation/accuracy": 0.7}, sha256="ab" * 32, bytes=100),
    replace(
        checkpoint(2), metrics={"validation/accuracy": 0.9}, sha256="cd" * 32, bytes=100,
        is_latest=True, is_best=True,
    ),
)  # fmt: skip


def view_with_policy(policy):
    return replace(LIVE, config=replace(LIVE.config, checkpoint=policy))


@pytest.fixture
def tab(qtbot, theme_manager):
    actions = JobActions()
    tab = CheckpointsTab(actions, Exporter(actions, None))
    qtbot.addWidget(tab)
    tab.resize(1000, 600)
    tab.show()
    tab.show_checkpoints(view_with_policy(BY_ACCURACY), CHECKPOINTS)
    return tab


def cells(tab, title, role=Qt.ItemDataRole.DisplayRole):
    model = tab.model
    headers = [model.headerData(n, Qt.Orientation.Horizontal) for n in range(model.columnCount())]
    column = headers.index(title)
    return [model.index(row, column).data(role) for row in range(model.rowCount())]


def test_the_metric_by_which_checkpoints_are_judged_has_its_whole_name(tab):
    assert cells(tab, "Validation accuracy") == ["0.900", "0.700"]
    assert (
        "Kept: the 2 newest, the best by validation accuracy and the last, at most"
        in tab._policy_label.text()
    )


def test_an_unmeasured_metric_makes_no_checkpoint_the_best(tab):
    unmeasured = tuple(replace(checkpoint, is_best=False) for checkpoint in CHECKPOINTS)
    tab.show_checkpoints(
        view_with_policy(CheckpointPolicy(best_metric="validation/dice")), unmeasured
    )
    best_group = "the best by validation dice (not measured by this job yet)"
    assert best_group in tab._policy_label.text()


def test_the_hash_of_a_file_is_checked_on_demand(tab, qtbot):
    assert cells(tab, "") == ["latest, best", ""]
    with expect_request(tab._actions, job_actions.VERIFY_CHECKPOINT) as requested:
        open_menu_entries(tab.more_button)["Check file"].trigger()
    assert requested.args == [LIVE.id, CHECKPOINTS[1].name]
    with qtbot.waitSignal(tab.model.dataChanged):
        tab.show_file_check(CHECKPOINTS[1].name, "checked", "just read; its hash matches")
    assert cells(tab, "") == ["latest, best, checked", ""]
    tab.begin_reading()
    tab.show_checkpoints(view_with_policy(BY_ACCURACY), CHECKPOINTS)
    assert cells(tab, "") == ["latest, best", ""], "another job"


def test_a_checkpoint_can_be_tried(tab, qtbot):
    find_only(CheckpointTable, tab).selectRow(1)
    with expect_request(tab._actions, job_actions.TRY_CHECKPOINT) as request:
        find_button(tab, "Try it").click()
    view, checkpoints, name = request.args
    assert (view.id, checkpoints, name) == (LIVE.id, tab.model.rows, CHECKPOINTS[0].name)
    tab.model.set_records(())
    tab._update_buttons()
    assert not find_button(tab, "Try it").isEnabled()


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("epoch-0020-step-000440", "Epoch 20, step 440"),
        ("epoch-0000-step-000005", "Step 5"),
        ("epoch-12345-step-1234567", "Epoch 12 345, step 1 234 567"),
        ("epoch-3", "epoch-3"),
        ("latest", "latest"),
        ("", ""),
    ],
)
def test_a_checkpoint_has_one_name_everywhere(tab, name, label):
    checkpoints = (replace(CHECKPOINTS[0], name=name),)
    tab.show_checkpoints(view_with_policy(BY_ACCURACY), checkpoints)
    labels = [formats.checkpoint(name), *cells(tab, "Checkpoint"), checkpoint_title(checkpoints[0])]
    assert [text.replace(formats.THIN, " ") for text in labels] == [label] * 3


@pytest.mark.parametrize(
    ("epoch", "epoch_step", "live", "is_enabled"),
    [
        (20, 0, False, False),
        (20, 7, False, True),
        (19, 0, False, True),
        (1, 0, False, True),
        (19, 0, True, False),
        (20, 0, True, False),
    ],
)
def test_a_job_resumes_from_any_checkpoint_but_its_end(tab, epoch, epoch_step, live, is_enabled):
    view = view_with_policy(BY_ACCURACY)
    view = replace(view, config=replace(view.config, epochs=20))
    tab.show_checkpoints(view, (replace(CHECKPOINTS[0], epoch=epoch, epoch_step=epoch_step),))
    tab.set_live(live)
    assert find_button(tab, "Resume from this").isEnabled() is is_enabled
    assert bool(find_button(tab, "Resume from this").toolTip()) is not is_enabled
