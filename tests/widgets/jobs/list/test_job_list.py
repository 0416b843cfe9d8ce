"""Jobs as rows: found, grouped, and never reshuffled under the pointer."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QItemSelectionModel, QPersistentModelIndex, QPoint, QRectF, Qt
from PySide6.QtWidgets import QApplication

from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import summary_of
from backend.records.jobs.view import RunUpdate
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import CREATED, FAILED, LIVE
from tests.widgets.jobs.jobs_rig import rows_of, show_jobs
from tests.windows import finish_timers, show_widget
from widgets.common.painting import text_width
from widgets.common.theme import LIST_NARROW_W, LIST_W, LIST_WIDE_W
from widgets.jobs.list import job_delegate
from widgets.jobs.list.job_list_model import JOB_ROLE, JobListModel
from widgets.jobs.page.jobs_page import JobsPage

ENDED_VIEW = replace_fields(
    LIVE,
    state=JobState.FINISHED,
    started_at="2026-11-20T10:00:00Z",
    updated_at="2026-11-20T11:00:00Z",
)


def job(name, view, **changes):
    return replace_fields(view, id=name, name=name, **changes)


def shown_names(model):
    return [model.index(row, 0).data(JOB_ROLE).id for row in range(model.rowCount())]


@pytest.fixture
def model():
    return JobListModel()


@pytest.fixture
def page(qtbot):
    return show_widget(qtbot, JobsPage(), 1200, 800)


@pytest.mark.parametrize("in_columns", [False, True])
def test_rows_keep_the_promises_of_qt(in_columns, qtmodeltester):
    model = JobListModel(has_columns=in_columns)
    every = rows_of(job("a", LIVE), job("b", CREATED), job("c", FAILED), job("d", ENDED_VIEW))
    model.show_rows(every)
    qtmodeltester.check(model)
    # The tester keeps watching: each of these is signalled by Qt's rules.
    for slots in ([3, 2, 0], [], [1], [0, 1, 2, 3]):
        model.show_rows(replace(every, order=every.order[slots]))
        assert model.rowCount() == len(slots)


def test_a_change_of_one_row_signals_one_row(model, qtbot):
    model.show_rows(rows_of(job("a", LIVE), job("b", LIVE)))
    with qtbot.waitSignal(model.dataChanged) as emitted:
        model.emit_changed(1)
    assert emitted.args[0].row() == emitted.args[1].row() == 1


def test_live_jobs_come_first_then_waiting_then_ended_ones(page):
    show_jobs(page, (job("ended", ENDED_VIEW), job("draft", CREATED), job("live", LIVE)))
    assert shown_names(page.model) == ["live", "draft", "ended"]


def test_nothing_moves_while_the_pointer_is_over_the_list(page):
    show_jobs(page, (job("a", LIVE), job("b", CREATED)))
    page.model.hold_rows(True)
    show_jobs(page, (job("a", ENDED_VIEW), job("b", CREATED), job("c", LIVE)))
    assert shown_names(page.model) == ["a", "b"]
    assert page.model.index(0, 0).data(JOB_ROLE).state is JobState.FINISHED, "but it is signalled"
    page.model.hold_rows(False)
    assert shown_names(page.model) == ["c", "b", "a"]


def selected_name(page):
    return [index.data(JOB_ROLE).id for index in page.list.view.selectedIndexes()]


@pytest.mark.parametrize("opens_first", [True, False])
def test_the_job_just_started_is_listed_and_selected_while_the_pointer_rests(page, opens_first):
    views = (job("a", LIVE), job("b", CREATED))
    show_jobs(page, views)
    page.open_job("b")
    page.model.hold_rows(True)
    steps = [lambda: page.open_job("c"), lambda: show_jobs(page, (*views, job("c", LIVE)))]
    for step in steps if opens_first else steps[::-1]:
        step()
    assert "c" in shown_names(page.model)
    assert selected_name(page) == ["c"]


def test_no_row_is_selected_while_the_open_job_is_filtered_out(page):
    show_jobs(page, (job("apple", LIVE), job("kiwi", CREATED)))
    page.open_job("apple")
    page.list.search.setText("kiwi")
    finish_timers(page.list.search)
    assert (page.open_id, shown_names(page.model), selected_name(page)) == ("apple", ["kiwi"], [])
    page.list.view.setFocus(Qt.FocusReason.TabFocusReason)
    assert page.open_id == "apple"
    page.list.clear()
    assert selected_name(page) == ["apple"]


def test_a_search_moves_rows_under_the_pointer_too(page):
    show_jobs(page, (job("a", LIVE), job("kiwi", CREATED)))
    page.model.hold_rows(True)
    page.list.search.setText("kiwi")
    finish_timers(page.list.search)
    assert shown_names(page.model) == ["kiwi"]


def test_m16_a_job_is_found_by_a_word_of_its_notes_among_500(page):
    views = [job(f"job-{number}", ENDED_VIEW) for number in range(500)]
    views[321] = replace(views[321], notes="the one with the odd Learning rate")
    show_jobs(page, views)
    page.list.search.setText("odd learning")
    finish_timers(page.list.search)
    assert shown_names(page.model) == ["job-321"]


@given(st.lists(st.lists(st.sampled_from(range(12)), unique=True), min_size=1, max_size=12))
def test_each_pointer_stays_at_its_job_when_rows_come_go_and_move(steps):
    """Rows come, go and move by any of Qt's three ways, and none of them loses a selection."""
    views = [job(f"job-{number}", LIVE) for number in range(12)]
    every = rows_of(*views)
    model = JobListModel()
    pointers = {}
    for job_names in steps:
        random.Random(len(job_names)).shuffle(job_names)
        model.show_rows(replace(every, order=every.order[job_names]))
        names = [f"job-{slot}" for slot in job_names]
        assert shown_names(model) == names
        assert [model.row_of(name) for name in names] == list(range(len(names)))
        for name in set(pointers) - set(names):
            assert not pointers.pop(name).isValid()
        for name, pointer in pointers.items():
            assert pointer.data(JOB_ROLE).id == name
        for row, name in enumerate(names):
            pointers.setdefault(name, QPersistentModelIndex(model.index(row, 0)))


def test_a_selection_and_the_current_row_survive_a_listing(page):
    show_jobs(page, [job(f"job-{number}", ENDED_VIEW) for number in range(40)])
    page.show_table()
    table = page.table.view
    flags = QItemSelectionModel.SelectionFlag
    row = page.table.model.row_of("job-7")
    table.selectionModel().setCurrentIndex(
        page.table.model.index(row, 1), flags.ClearAndSelect | flags.Rows
    )
    show_jobs(page, [job(f"job-{number}", ENDED_VIEW) for number in (*range(4, 40), 50, 51)])
    assert table.selected_ids() == ("job-7",)
    assert table.currentIndex().data(JOB_ROLE).id == "job-7"


def test_without_jobs_the_first_start_is_shown_and_with_one_the_list(page):
    show_jobs(page, ())
    assert page.welcome_page.isVisible()
    show_jobs(page, (job("a", LIVE),))
    assert page.detail.isVisible()
    assert page.open_id == "a"


def test_a_search_that_finds_nothing_says_so_and_can_be_cleared(page):
    show_jobs(page, (job("a", LIVE),))
    page.list.search.setText("resnt")
    finish_timers(page.list.search)
    assert page.list.no_match.isVisible()
    assert "No job matches “resnt”." in page.list.no_match.accessibleName()
    page.list.no_match.pressed.emit()
    assert shown_names(page.model) == ["a"]
    assert page.list.view.isVisible()


def test_a_job_that_is_only_a_line_is_opened_as_soon_as_it_is_known_whole(page, qtbot):
    show_jobs(page, (job("new", LIVE),), lines=(summary_of(job("old", ENDED_VIEW)),))
    with qtbot.waitSignal(page.job_opened) as signal:
        page.open_job("old")
    assert (signal.args, page.open_view) == (["old"], None)
    shown_names = page._right_pages.currentWidget()
    assert (shown_names, shown_names.accessibleName()) == (page._opening_state, "Opening “old”…")
    page.show_update(RunUpdate(job("old", ENDED_VIEW), HistoryUpdate()))
    assert page.detail._view.id == "old"


def test_an_unreadable_job_is_opened_once_and_the_page_says_why(qtbot, page):
    opened_ids = []
    page.job_opened.connect(opened_ids.append)
    lines = [summary_of(job(name, ENDED_VIEW)) for name in ("damaged", "well")]
    show_jobs(page, (), lines=lines)
    first, other_id = opened_ids[0], ({"damaged", "well"} - set(opened_ids)).pop()
    page.show_open_error(first, "config.toml of the job is gone.")
    show_jobs(page, (), lines=lines)
    assert (opened_ids, page.open_id) == ([first], "")
    assert page.shows_unreadable
    assert page._unreadable_state.accessibleName() == (
        "This job cannot be opened config.toml of the job is gone."
    )
    page.open_job(first)
    assert opened_ids == [first, first], "a click tries again"
    page.show_open_error(first, "config.toml of the job is gone.")
    page.show_update(RunUpdate(job(first, ENDED_VIEW), HistoryUpdate()))
    assert page.open_id == first, "it can be read again"
    assert page.detail.isVisible()
    page.open_job(other_id)
    page.show_open_error(other_id, "config.toml of the job is gone.")
    page.remove_job(other_id)
    assert page.open_id == first


def test_while_many_jobs_are_read_the_page_says_so_and_why_when_they_cannot_be(page, qtbot):
    page.begin_reading()
    qtbot.waitUntil(page._reading_state.isVisible)
    assert page._reading_state.accessibleName() == "Reading jobs…"
    page.show_error("/lab/ring does not answer.")
    assert page._reading_state.accessibleName() == (
        "Could not read the jobs /lab/ring does not answer."
    )
    show_jobs(page, (job("a", LIVE),))
    page.show_error("/lab/ring does not answer.")
    assert page.detail.isVisible(), "what is known stays"


def test_a_window_that_becomes_narrow_takes_the_room_from_the_list(qtbot):
    page = show_widget(qtbot, JobsPage(), 1176, 840)
    show_jobs(page, (LIVE,))
    assert page.list.width() == LIST_W
    page.resize(928, 600)
    assert page.list.width() == LIST_NARROW_W
    page.resize(2296, 1400)
    assert page.list.width() == LIST_WIDE_W


def test_a_row_is_as_wide_as_the_list_with_a_scroll_bar_and_without(page):
    view = page.list.view
    for count, width in ((1, 1200), (40, 1200), (40, 1500)):
        show_jobs(page, [job(f"job-{number}", ENDED_VIEW) for number in range(count)])
        page.resize(width, 800)
        QApplication.processEvents()
        assert view.columnWidth(0) == view.viewport().width(), "else figures at its end are lost"


def test_a_list_sized_by_hand_keeps_its_width(qtbot):
    page = show_widget(qtbot, JobsPage(), 1176, 840)
    show_jobs(page, (LIVE,))
    page.split.setSizes([420, 756])
    page.split.splitterMoved.emit(420, 1)
    page.resize(1000, 840)
    assert page.list.width() > LIST_W


@pytest.mark.parametrize("row", [0, 1, 50, 100, 150, 199])
def test_a_search_begins_at_its_first_hit(page, row):
    views = [replace(LIVE, id=f"j{n:03}", name=f"kiwi {n}") for n in range(200)]
    show_jobs(page, views)
    page.open_job(page.model.summary_at(row).id)
    page.list.view.scrollToBottom()
    page.list.search.setText("kiwi")
    finish_timers(page.list.search)
    QApplication.processEvents()
    assert page.list.view.indexAt(QPoint(20, 20)).row() == 0


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("width", [240, 280, 300, 360, 440])
@pytest.mark.parametrize(
    "name", ["mlp 1", "Sigmoid* seed=3 of a study", "my-training 1 (copy 2)", "n" * 60]
)
def test_a_row_cuts_the_name_of_the_job_or_that_of_its_metric_but_not_both(
    model, width, name, monkeypatch
):
    painted = {}

    def paint(_painter, rect, text, role="body", *_color_roles, elide_middle=False, **_edges):
        painted[text] = (text_width(text, role) > rect.width() + 1, elide_middle)

    monkeypatch.setattr(job_delegate, "paint_text", paint)
    delegate = job_delegate.JobDelegate(model, model)
    line = summary_of(replace_fields(LIVE, best_metric=("validation/accuracy of all", 0.961)))
    delegate._paint_first_line(None, QRectF(0, 0, width, 20), line, None, name)
    is_name_cut, is_cut_in_its_middle = painted[name]
    captions = [cut for text, (cut, _) in painted.items() if text not in ("", name, "0.961")]
    assert not (is_name_cut and captions)
    assert is_cut_in_its_middle, "names differ at their ends"
    assert not painted["0.961"][0]
