"""Several jobs are ticked in the list by mouse and by keys, and the bar says what fits them."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu

from backend.records.jobs.state import JobState
from tests.asks import expect_request, menu_entries
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import CREATED, LIVE
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import find_only
from widgets.common.buttons import SegmentedControl
from widgets.common.labels import Label
from widgets.jobs.actions import job_actions
from widgets.jobs.detail.job_tabs import JobTabs
from widgets.jobs.page.jobs_page import JobsPage

ENDED_VIEW = replace_fields(LIVE, state=JobState.FINISHED, updated_at="2026-11-20T11:00:00Z")
CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
NONE = Qt.KeyboardModifier.NoModifier


def views(count=6, first=LIVE):
    kinds = [first, *[ENDED_VIEW] * (count - 1)]
    return [replace(kind, id=f"job-{n}", name=f"job {n}") for n, kind in enumerate(kinds)]


@pytest.fixture
def page(qtbot):
    page = JobsPage()
    qtbot.addWidget(page)
    page.resize(1200, 800)
    page.show()
    show_jobs(page, views())
    return page


@pytest.fixture
def ids(page):
    return [page.model.summary_at(row).id for row in range(page.model.rowCount())]


def click(qtbot, page, row, modifier=NONE):
    view = page.list.view
    position = view.visualRect(page.model.index(row, 0)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, modifier, position)


def test_ctrl_click_ticks_rows_and_opens_none_of_them(qtbot, page, ids):
    click(qtbot, page, 1)
    assert page.open_id == ids[1]
    assert not page.list.selection_bar.isVisible()
    click(qtbot, page, 3, CTRL)
    assert page.model.ticked_ids() == (ids[1], ids[3]), "what was open is one of them"
    assert page.open_id == ids[1]
    assert page.list.selection_bar.isVisible()
    assert find_only(Label, page.list.selection_bar).text() == "2 jobs selected"
    click(qtbot, page, 3, CTRL)
    assert page.model.ticked_ids() == (ids[1],)
    # A plain click opens, and chooses that one alone.
    click(qtbot, page, 4)
    assert page.model.ticked_ids() == ()
    assert page.open_id == ids[4]
    assert not page.list.selection_bar.isVisible()
    click(qtbot, page, 4, CTRL)
    assert page.model.ticked_ids() == (ids[4],), "the release of the button opens nothing, either"


def test_shift_click_ticks_all_from_the_open_one_on(qtbot, page, ids):
    click(qtbot, page, 1)
    click(qtbot, page, 4, SHIFT)
    assert page.model.ticked_ids() == tuple(ids[1:5])
    click(qtbot, page, 0, SHIFT)
    assert page.model.ticked_ids() == tuple(ids[0:2]), "the same end stays"
    assert page.open_id == ids[1]


def test_space_ticks_and_keys_lead_on_without_losing_a_tick(qtbot, page, ids):
    view = page.list.view
    view.setFocus()
    click(qtbot, page, 0)
    qtbot.keyClick(view, Qt.Key.Key_Space)
    for _ in range(2):
        qtbot.keyClick(view, Qt.Key.Key_Down)
    qtbot.keyClick(view, Qt.Key.Key_Space)
    assert page.model.ticked_ids() == (ids[0], ids[2])
    qtbot.keyClick(view, Qt.Key.Key_Down, SHIFT)
    assert page.model.ticked_ids() == (ids[0], ids[2], ids[3])
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert page.model.ticked_ids() == ()


def test_ticks_stay_at_their_jobs_when_rows_move_and_go_with_them(page, ids):
    page.list.ticks.add((ids[2], ids[4]))
    show_jobs(page, [replace(view, id=view.id) for view in views() if view.id != ids[4]])
    assert list(page.list.ticks) == [ids[2]]
    states = {row: page.model.index(row, 0).data(Qt.ItemDataRole.CheckStateRole) for row in (1, 2)}
    assert states == {1: Qt.CheckState.Unchecked, 2: Qt.CheckState.Checked}


def test_the_bar_acts_on_all_ticked_rows(qtbot, page, ids):
    page.list.ticks.add(ids[1:4])
    bar = page.list.selection_bar
    for action in (
        job_actions.COMPARE_ALL,
        job_actions.TAG_ALL,
        job_actions.CSV_ALL,
        job_actions.CLONE_ALL,
        job_actions.TRASH_ALL,
    ):
        with expect_request(page.job_actions, action) as requested:
            bar._buttons[action].click()
        assert requested.args == [tuple(ids[1:4])]
    assert not bar._buttons[job_actions.STOP_ALL].isEnabled(), "none of them is running"
    page.list.ticks.add(ids[:1])
    assert bar._buttons[job_actions.STOP_ALL].isEnabled()
    assert not bar._buttons[job_actions.TRASH_ALL].isEnabled(), "one of them is running"


def test_del_asks_about_all_ticked_rows(qtbot, page, ids):
    page.list.ticks.add(ids[2:4])
    with expect_request(page.job_actions, job_actions.TRASH_ALL) as requested:
        qtbot.keyClick(page.list.view, Qt.Key.Key_Delete)
    assert requested.args == [tuple(ids[2:4])]


def test_nine_jobs_can_be_saved_as_csv_and_not_compared(qtbot, page):
    show_jobs(page, views(9))
    page.list.ticks.add(f"job-{n}" for n in range(9))
    acts = page.list.selection_bar._buttons
    assert acts[job_actions.CSV_ALL].isEnabled()
    assert not acts[job_actions.COMPARE_ALL].isEnabled()


def menu_of(qtbot, page, view, index):
    view.menu_requested.emit(index, page.mapToGlobal(QPoint(10, 10)))
    (menu,) = (menu for menu in page.findChildren(QMenu) if menu.isVisible())
    return menu


texts = menu_entries


def test_the_menu_of_a_row_offers_the_actions_of_the_header_of_its_job(qtbot, page, ids):
    # The first one trains, the second has finished.
    menu = menu_of(qtbot, page, page.list.view, page.model.index(0, 0))
    acts = texts(menu)
    assert acts["Stop"].isEnabled()
    assert not acts["Move to the trash"].isEnabled()
    with expect_request(page.detail.job_actions, job_actions.STOP) as requested:
        acts["Stop"].trigger()
    assert requested.args == [ids[0]]
    menu.close()
    qtbot.waitUntil(lambda: not [m for m in page.findChildren(QMenu) if m.isVisible()])
    acts = texts(menu_of(qtbot, page, page.list.view, page.model.index(1, 0)))
    with expect_request(page.detail.job_actions, job_actions.CLONE) as requested:
        acts["Clone"].trigger()
    assert requested.args == [ids[1]]
    with expect_request(page.detail.job_actions, job_actions.TRASH) as requested:
        acts["Move to the trash"].trigger()
    assert requested.args == [ids[1]]


def test_start_in_the_menu_of_a_row_opens_its_job_first(qtbot, page, ids):
    draft = replace(CREATED, id="draft", name="draft")
    # Rows stand still under a pointer, and other tests may have left that anywhere.
    page.model.hold_rows(False)
    show_jobs(page, [*views(), draft])
    qtbot.waitUntil(lambda: page.model.row_of("draft") >= 0)
    row = page.model.row_of("draft")
    acts = texts(menu_of(qtbot, page, page.list.view, page.model.index(row, 0)))
    with expect_request(page.detail.job_actions, job_actions.START) as requested:
        acts["Start"].trigger()
    assert requested.args == ["draft"]
    assert page.open_id == "draft"


def test_shift_f10_in_the_table_has_the_same_menu(qtbot, page, ids):
    page.show_table()
    row = page.table.model.row_of(ids[1])
    acts = texts(menu_of(qtbot, page, page.table.view, page.table.model.index(row, 1)))
    assert {"Open", "Rename", "Clone", "Compare", "Export…", "Copy id"} <= set(acts)
    with expect_request(page.job_actions, job_actions.TENSORBOARD) as request:
        acts["Open TensorBoard"].trigger()
    assert request.args == [ids[1]]
    acts["Export…"].trigger()
    assert page.open_id == ids[1]
    assert page.list.isVisible(), "it is asked about on the page of the job"


def test_the_menu_of_a_ticked_row_acts_on_all_ticked_rows(qtbot, page, ids):
    page.list.ticks.add(ids[1:4])
    acts = texts(menu_of(qtbot, page, page.list.view, page.model.index(2, 0)))
    with expect_request(page.job_actions, job_actions.COMPARE_ALL) as requested:
        acts["Compare"].trigger()
    assert requested.args == [tuple(ids[1:4])]


@pytest.mark.parametrize("action", job_actions.KEYED_BULK_ACTIONS, ids=lambda action: action.id)
def test_keys_act_on_the_row_of_the_table_or_on_all_chosen_rows(qtbot, page, ids, action):
    page.show_table()
    view = page.table.view
    view.setCurrentIndex(page.table.model.index(1, 1))
    view.clearSelection()
    number = Qt.Key(ord(action.shortcut[-1]))
    with expect_request(page.job_actions, action) as requested:
        qtbot.keyClick(view, number, CTRL)
    assert requested.args == [(ids[1],)]
    view.select_jobs(ids[2:4])
    with expect_request(page.job_actions, action) as requested:
        qtbot.keyClick(view, number, CTRL)
    assert requested.args == [tuple(ids[2:4])]


def test_ctrl_l_in_the_table_opens_the_log_of_the_row(qtbot, page, ids):
    page.show_table()
    page.table.view.setCurrentIndex(page.table.model.index(2, 1))
    qtbot.keyClick(page.table.view, Qt.Key.Key_L, CTRL)
    assert page.open_id == ids[2]
    assert find_only(JobTabs, page.detail).key() == "log"


def test_waiting_counts_queued_jobs_and_no_drafts(page):
    drafts = [replace(CREATED, id=f"draft-{n}", name="draft") for n in range(3)]
    queued = replace_fields(CREATED, state=JobState.QUEUED, id="queued", name="queued")
    show_jobs(page, [*views(), *drafts, queued])
    groups = find_only(SegmentedControl, page.list)
    assert groups._group.button(groups._keys.index("waiting")).label == "Waiting 1"
