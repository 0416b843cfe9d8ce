"""A sweep is one row among the jobs: it folds, it says how its jobs are, and it acts on all."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QMenu

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobQuery, summary_of
from backend.records.sweeps.summary import FoldState
from backend.services.jobs.index import JobIndex
from tests.asks import expect_request
from tests.job_views import replace_fields
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.list.test_jobs_table import VIEWS, click_head
from tests.widgets.jobs.sweep_samples import ALL_JOBS, LR, LR_JOBS
from tests.windows import find_button, find_only, finish_timers, visible_texts
from widgets.common import formats
from widgets.common.labels import Label
from widgets.common.state_badge import StateBadge
from widgets.common.theme import ONE_PANE_BELOW_W, RAIL_W
from widgets.jobs.actions import job_actions
from widgets.jobs.list.job_columns import JobColumn
from widgets.jobs.list.job_list_model import JOB_ROLE, OPEN_ROLE, JobListModel, JobRows
from widgets.jobs.list.sweep_text import count_message
from widgets.jobs.page.jobs_page import LIST, TABLE, JobsPage

OTHER_VIEWS = VIEWS[:6]
IDS = tuple(job.id for job in LR_JOBS)


@pytest.fixture
def page(qtbot):
    page = JobsPage()
    qtbot.addWidget(page)
    page.resize(1200, 800)
    page.show()
    show_jobs(page, (*OTHER_VIEWS, *LR_JOBS))
    return page


def ids(model):
    return [model.index(row, 0).data(JOB_ROLE).id for row in range(model.rowCount())]


def names_below(model, tag=LR):
    """The ids of the jobs that stand under a sweep."""
    rows = range(model.row_of(tag) + 1, model.rowCount())
    names = []
    for row in rows:
        if not model.is_member(row):
            break
        names.append(model.index(row, 0).data(JOB_ROLE).id)
    return names


def head(model, column=0):
    return model.index(model.row_of(LR), column)


def press(qtbot, view, key, row=None):
    if row is not None:
        view.setCurrentIndex(view.model().index(row, view.currentIndex().column()))
    qtbot.keyClick(view, key)


def click(qtbot, view, index, dx=40):
    box = view.visualRect(index)
    qtbot.mouseClick(
        view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(box.left() + dx, box.center().y())
    )


@pytest.mark.parametrize("in_columns", [False, True])
def test_rows_of_sweeps_keep_the_promises_of_qt(in_columns, qtmodeltester):
    index = JobIndex()
    index.update(map(summary_of, ALL_JOBS))
    model = JobListModel(has_columns=in_columns)

    def show(query=JobQuery(), **folds):  # noqa: B008 - frozen
        rows = index.fold(index.find(query), query, FoldState(folds))
        model.show_rows(
            JobRows(
                rows.summaries, rows.order, index.slot, rows.total_count,
                hit_count=rows.match_count, sweep_slots=rows.sweep_slots,
            )
        )  # fmt: skip

    show()
    qtmodeltester.check(model)
    # The tester keeps watching: folding, unfolding and searching are signalled by Qt's rules.
    for query, folded in ((JobQuery(), False), (JobQuery("lr=0.1"), True), (JobQuery(), True)):
        show(query, **{LR: folded})
        assert (model.row_of(IDS[1]) >= 0) is (query.text != "" or not folded)


def test_a_sweep_says_how_many_are_how_and_which_is_the_best(page):
    accessible_text = head(page.model).data(Qt.ItemDataRole.AccessibleTextRole)
    assert accessible_text == (
        f"digits lr, sweep, folded, 69{formats.GAP}%. 6 jobs: 2 live, 3 finished, 1 failed. "
        "Best: validation loss 0.0412 of lr=0.1."
    )
    assert "2 live, 3 finished, 1 failed" in head(page.model).data(Qt.ItemDataRole.ToolTipRole)


def test_a_sweep_is_folded_at_first_and_a_click_toggles_it(page, qtbot):
    assert names_below(page.model) == []
    click(qtbot, page.list.view, head(page.model))
    assert sorted(names_below(page.model)) == sorted(IDS)
    assert head(page.model).data(OPEN_ROLE) is True
    click(qtbot, page.list.view, head(page.model))
    assert names_below(page.model) == []


def test_right_and_left_unfold_fold_and_walk_as_in_a_tree(page, qtbot):
    view = page.list.view
    press(qtbot, view, Qt.Key.Key_Right, page.model.row_of(LR))
    assert len(names_below(page.model)) == 6
    press(qtbot, view, Qt.Key.Key_Right)
    assert view.currentIndex().data(JOB_ROLE).id == names_below(page.model)[0]
    press(qtbot, view, Qt.Key.Key_Down)
    press(qtbot, view, Qt.Key.Key_Left)
    assert view.currentIndex().data(JOB_ROLE).id == LR
    press(qtbot, view, Qt.Key.Key_Left)
    assert names_below(page.model) == []
    press(qtbot, view, Qt.Key.Key_Return)
    assert len(names_below(page.model)) == 6


def test_folded_sweeps_are_signalled_once_and_can_be_restored(page, qtbot):
    with qtbot.waitSignal(page.sweeps.folds_changed) as folded:
        page.sweeps.fold(LIST, LR, False)
    other_page = JobsPage()
    qtbot.addWidget(other_page)
    other_page.sweeps.restore({**folded.args[0], "sweep:spoiled": "by hand"})
    show_jobs(other_page, (*OTHER_VIEWS, *LR_JOBS))
    assert len(names_below(other_page.model)) == 6


def test_a_search_shows_the_hits_of_a_folded_sweep_and_folding_them_holds_for_that_search(page):
    page.list.search.setText("0.05")
    finish_timers(page.list.search)
    assert names_below(page.model) == [IDS[2]]
    page.sweeps.fold(LIST, LR, True)
    assert names_below(page.model) == []
    page.list.search.setText("lr=0.1")
    finish_timers(page.list.search)
    assert names_below(page.model) == [IDS[1]]
    page.list.clear()
    assert names_below(page.model) == [], "as it was before the search"


def test_folding_moves_rows_under_the_pointer_and_updates_do_not(page):
    page.model.hold_rows(True)
    page.sweeps.fold(LIST, LR, False)
    assert len(names_below(page.model)) == 6
    page.sweeps.fold(LIST, LR, True)
    show_jobs(page, (*OTHER_VIEWS, *LR_JOBS[:3]))
    assert names_below(page.model) == []


def test_the_open_job_stays_open_when_its_sweep_is_folded_and_the_sweep_is_marked(page):
    page.sweeps.fold(LIST, LR, False)
    page.open_job(IDS[1])
    page.sweeps.fold(LIST, LR, True)
    assert page.open_id == IDS[1]
    assert page.list.view.currentIndex().data(JOB_ROLE).id == LR


def test_a_chosen_sweep_is_shown_on_the_right_with_its_best_job_first(page, qtbot):
    page.list.view.setCurrentIndex(head(page.model))
    pane = page.sweep
    assert pane.isVisible()
    assert not page.detail.isVisible()
    assert ids(pane.model)[:3] == [IDS[1], IDS[2], IDS[3]]
    assert "6 jobs: 2 live, 3 finished, 1 failed" in visible_texts(find_only(StateBadge, pane))
    with qtbot.waitSignal(page.job_opened) as signal:
        pane.view.job_opened.emit(IDS[2])
    assert signal.args == [IDS[2]]
    assert page.detail.isVisible()


@pytest.mark.parametrize(("answer", "best"), [("Lower", 1), ("Higher", 4)])
def test_a_metric_whose_name_says_no_direction_is_asked_for_once(page, qtbot, answer, best):
    scored = [
        replace_fields(job, best_metric=("score", job.best_metric[1])) if job.best_metric else job
        for job in LR_JOBS
    ]
    show_jobs(page, scored)
    page.open_sweep(LR)
    pane = page.sweep
    assert "Which values of “score” are better?" in visible_texts(pane)
    assert "Best job" not in visible_texts(pane), "nothing is ranked by a guess"
    with qtbot.waitSignal(pane.modes_changed) as modes:
        find_button(pane, answer).click()
    assert ids(pane.model)[0] == IDS[best]
    assert pane._question.isHidden()
    assert f"lr={('', 0.1, 0, 0, 0.01)[best]}" in visible_texts(pane)
    other_page = JobsPage()
    qtbot.addWidget(other_page)
    other_page.sweep.restore_modes({**modes.args[0], "spoiled": 7})
    show_jobs(other_page, scored)
    other_page.open_sweep(LR)
    assert other_page.sweep._question.isHidden()
    assert ids(other_page.sweep.model)[0] == IDS[best]


def test_an_update_of_a_job_reaches_its_open_sweep(page):
    page.open_sweep(LR)
    done = replace_fields(
        LR_JOBS[5], state=JobState.FINISHED, best_metric=("validation/loss", 0.001)
    )
    show_jobs(page, (*OTHER_VIEWS, *LR_JOBS[:5], done))
    assert ids(page.sweep.model)[0] == IDS[5]
    assert "6 jobs: 1 live, 4 finished, 1 failed" in visible_texts(
        find_only(StateBadge, page.sweep)
    )


def test_a_sweep_without_jobs_is_closed(page):
    page.open_sweep(LR)
    show_jobs(page, OTHER_VIEWS)
    assert not page.sweep.isVisible()
    assert page.open_id == ids(page.model)[0]


@pytest.mark.parametrize(
    "action",
    [job_actions.COMPARE_ALL, job_actions.TAG_ALL, job_actions.EXPORT_ALL, job_actions.CSV_ALL],
    ids=lambda action: action.id,
)
def test_acts_on_a_sweep_are_those_on_several_chosen_jobs(page, action):
    page.open_sweep(LR)
    with expect_request(page.job_actions, action) as requested:
        page.sweep.run_action(action)
    assert sorted(requested.args[0]) == sorted(IDS)


QUEUED, DRAFT, FINISHED = JobState.QUEUED, JobState.CREATED, JobState.FINISHED


@pytest.mark.parametrize(
    ("states", "title", "stop"),
    [
        ([QUEUED] * 3, "3 jobs, all waiting", "Remove 3 from queue"),
        ([JobState.TRAINING, QUEUED, QUEUED], "3 jobs: 1 live, 2 waiting", "Stop 1 and 2 waiting"),
        ([JobState.TRAINING, DRAFT, DRAFT], "3 jobs: 1 live, 2 drafts", "Stop"),
        ([FINISHED, DRAFT, DRAFT], "3 jobs: 2 drafts, 1 finished", ""),
        (
            [FINISHED, QUEUED, DRAFT],
            "3 jobs: 1 waiting, 1 draft, 1 finished",
            "Remove 1 from queue",
        ),
        ([FINISHED] * 3, "3 jobs, all finished", ""),
        ([JobState.INTERRUPTED, DRAFT, DRAFT], "3 jobs: 2 drafts, 1 stopped", ""),
    ],
)
def test_stop_ends_running_and_waiting_jobs_and_no_drafts(page, qtbot, states, title, stop):
    jobs = [
        replace_fields(job, state=state) for job, state in zip(LR_JOBS[:3], states, strict=True)
    ]
    show_jobs(page, (*OTHER_VIEWS, *jobs))
    page.open_sweep(LR)
    stopper = page.sweep._buttons[job_actions.STOP_ALL]
    assert count_message(head(page.model).data(JOB_ROLE).sweep) == title
    assert stopper.isEnabled() is bool(stop)
    assert stopper.text() == (stop or "Stop")
    rests = not stop
    resume = page.sweep.study._resume_button
    assert stopper.isHidden() or resume.isHidden(), "never Stop beside Resume study"
    assert find_button(page.sweep.study, "Resume study").isEnabled() is (
        rests and set(states) != {FINISHED}
    )


def test_a_sweep_that_still_runs_does_not_go_to_the_trash(page, qtbot):
    page.open_sweep(LR)
    requests = []
    page.job_actions.add_handler(job_actions.TRASH_ALL, requests.append)
    page.sweep.run_action(job_actions.TRASH_ALL)
    assert requests == []
    ended_jobs = tuple(replace_fields(job, state=JobState.FINISHED) for job in LR_JOBS)
    show_jobs(page, (*OTHER_VIEWS, *ended_jobs))
    with expect_request(page.job_actions, job_actions.TRASH_ALL) as requested:
        page.sweep.run_action(job_actions.TRASH_ALL)
    assert requested.args[0] == IDS


def test_the_menu_of_its_row_acts_on_all_its_jobs(page, qtbot):
    menu = QMenu()
    qtbot.addWidget(menu)
    line = head(page.model).data(JOB_ROLE)
    page.sweeps.add_actions(menu, LIST, line, page.job_actions, is_open=False)
    acts = {action.text(): action for action in menu.actions()}
    assert next(iter(acts)) == "Unfold"
    assert not acts["Move to trash…"].isEnabled()
    with expect_request(page.job_actions, job_actions.STOP_ALL) as requested:
        acts["Stop 2"].trigger()
    assert requested.args[0] == IDS


def test_the_keys_that_stop_and_export_a_job_do_so_with_the_sweep(page, qtbot):
    page.open_sweep(LR)
    requests = []
    for action in (job_actions.STOP, job_actions.CLONE, job_actions.CLONE_ALL):
        page.job_actions.add_handler(action, requests.append)
    with expect_request(page.job_actions, job_actions.STOP_ALL):
        qtbot.keyClick(page.list.view, Qt.Key.Key_Period, Qt.KeyboardModifier.ControlModifier)
    with expect_request(page.job_actions, job_actions.EXPORT_ALL):
        qtbot.keyClick(page.list.view, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(page.list.view, Qt.Key.Key_D, Qt.KeyboardModifier.ControlModifier)
    assert requests == []


# The wide table.


@pytest.fixture
def table(page):
    page.show_table()
    return page.table


def test_in_the_table_a_chosen_sweep_is_all_its_jobs_each_once(table, qtbot):
    table.view.selectRow(table.model.row_of(LR))
    assert sorted(table.view.selected_ids()) == sorted(IDS)
    assert find_only(Label, table.selection_bar).text() == "6 jobs selected"
    table.view.selectAll()
    assert len(table.view.selected_ids()) == len(OTHER_VIEWS) + len(IDS)


def test_in_the_table_the_caret_folds_and_chooses_nothing(table, qtbot):
    name = head(table.model, JobColumn.NAME)
    click(qtbot, table.view, name, dx=18)
    assert len(names_below(table.model)) == 6
    assert table.view.selected_ids() == ()
    click(qtbot, table.view, head(table.model, JobColumn.NAME), dx=90)
    assert len(names_below(table.model)) == 6, "beside the caret it is chosen"
    assert len(table.view.selected_ids()) == 6


def test_in_the_table_enter_right_and_left_fold_and_no_cell_of_a_sweep_is_edited(table, qtbot):
    table.view.setCurrentIndex(head(table.model, JobColumn.NAME))
    press(qtbot, table.view, Qt.Key.Key_Right)
    assert len(names_below(table.model)) == 6
    press(qtbot, table.view, Qt.Key.Key_Left)
    assert names_below(table.model) == []
    press(qtbot, table.view, Qt.Key.Key_Return)
    assert len(names_below(table.model)) == 6
    press(qtbot, table.view, Qt.Key.Key_F2)
    assert not table.view._is_editing()
    assert not table.model.setData(head(table.model, JobColumn.NAME), "another name")


def test_the_table_counts_jobs_and_not_rows(table):
    assert f"{len(OTHER_VIEWS) + len(IDS)} jobs" in visible_texts(table)


def test_a_sorted_table_moves_the_sweep_with_its_jobs(page, table):
    click_head(page, JobColumn.BEST)
    order = ids(table.model)
    assert order.index(OTHER_VIEWS[1].id) < order.index(LR)
    assert names_below(table.model) == []


def test_a_list_and_its_table_fold_alike_but_search_alone(page):
    page.show_table()
    page.sweeps.fold(TABLE, LR, False)
    assert len(names_below(page.table.model)) == len(names_below(page.model)) == 6
    QApplication.processEvents()


@pytest.mark.parametrize(
    ("live", "queued_count", "text"),
    [
        (0, 0, ""),
        (1, 0, "Stop"),
        (2, 0, "Stop 2"),
        (2, 5, "Stop 2 and 5 waiting"),
        (1, 1, "Stop 1 and 1 waiting"),
        (0, 5, "Remove 5 from queue"),
    ],
)
def test_stop_says_how_many_run_and_how_many_wait_everywhere(page, qtbot, live, queued_count, text):
    states = [JobState.TRAINING] * live + [JobState.QUEUED] * queued_count
    states += [JobState.FINISHED] * (len(LR_JOBS) - len(states))
    jobs = (LR_JOBS * 2)[: len(states)]
    jobs = tuple(replace_fields(job, id=f"s{n}", state=state)
                 for n, (job, state) in enumerate(zip(jobs, states, strict=True)))  # fmt: skip
    show_jobs(page, jobs)
    page.open_sweep(LR)
    menu = QMenu()
    qtbot.addWidget(menu)
    line = head(page.model).data(JOB_ROLE)
    page.sweeps.add_actions(menu, LIST, line, page.job_actions, is_open=False)
    (act,) = (
        menu_action
        for menu_action in menu.actions()
        if menu_action.text().startswith(text or "Stop")
    )
    button = page.sweep._buttons[job_actions.STOP_ALL]
    page.show_table()
    page.table.view.selectAll()
    bar = page.table.selection_bar._buttons[job_actions.STOP_ALL]
    assert {act.text(), button.text(), bar.text()} == {text or "Stop"}
    assert {act.isEnabled(), button.isEnabled(), bar.isEnabled()} == {bool(text)}


@pytest.mark.parametrize("width", [828, 900, 1200])
@pytest.mark.parametrize("page_name", ["job", "sweep"])
def test_a_narrow_window_shows_the_list_or_the_open_job_and_has_a_way_back(page, page_name, width):
    page.resize(width, 600)
    page.job_actions.ask(job_actions.BACK)
    assert page.list.isVisible()
    if page_name == "job":
        page.open_job(OTHER_VIEWS[0].id)
    else:
        page.open_sweep(LR)
    is_narrow = width < ONE_PANE_BELOW_W - RAIL_W
    pane = page.sweep if page_name == "sweep" else page.detail
    back = page.sweep.back_button if page_name == "sweep" else page.detail.header._back_button
    assert pane.isVisible()
    assert page.list.isVisible() is not is_narrow
    assert back.isVisible() is is_narrow
    back.click()
    assert page.list.isVisible()
    assert pane.isVisible() is not is_narrow
