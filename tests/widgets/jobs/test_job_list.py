"""Jobs as rows: found, grouped, and never reshuffled under the pointer."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.state import JobState
from tests.widgets.jobs.test_job_detail import CREATED, FAILED, LIVE
from widgets.jobs.job_list_model import JOB_ROLE, JobColumn, JobFilter, JobListModel
from widgets.jobs.jobs_page import JobsPage

ENDED = replace(
    LIVE, state=JobState.FINISHED, started="2026-11-20T10:00:00Z", ended="2026-11-20T11:00:00Z"
)


def job(name, view, **more):
    return replace(view, id=name, name=name, **more)


def shown(rows):
    return [rows.index(row, 0).data(JOB_ROLE).id for row in range(rows.rowCount())]


@pytest.fixture
def model():
    return JobListModel()


def test_rows_keep_the_promises_of_qt(model, qtmodeltester):
    model.replace_all((job("a", LIVE), job("b", CREATED), job("c", FAILED)))
    qtmodeltester.check(model)


def test_one_row_changed_is_one_row_told(model, qtbot):
    model.replace_all((job("a", LIVE), job("b", LIVE)))
    with qtbot.waitSignal(model.dataChanged) as told:
        model.put(job("b", LIVE, step=31))
    assert told.args[0].row() == told.args[1].row() == 1


def test_live_comes_first_then_waiting_then_ended(model):
    rows = JobFilter(model, in_groups=True)
    model.replace_all((job("ended", ENDED), job("draft", CREATED), job("live", LIVE)))
    assert shown(rows) == ["live", "draft", "ended"]


def test_nothing_moves_while_the_pointer_is_over_the_list(model):
    rows = JobFilter(model, in_groups=True)
    model.replace_all((job("a", LIVE), job("b", CREATED)))
    rows.hold(True)
    model.put(job("a", ENDED))
    assert shown(rows) == ["a", "b"]
    rows.hold(False)
    rows.sort(0)
    assert shown(rows) == ["b", "a"]


def test_m16_a_job_is_found_by_a_word_of_its_notes_among_500(model):
    rows = JobFilter(model, in_groups=True)
    views = [job(f"job-{number}", ENDED) for number in range(500)]
    views[321] = replace(views[321], notes="the one with the odd Learning rate")
    model.replace_all(tuple(views))
    rows.search("odd learning")
    assert shown(rows) == ["job-321"]


def test_numbers_sort_as_numbers(model):
    rows = JobFilter(model, in_groups=False)
    views = [job(name, LIVE, step=step) for name, step in (("a", 9), ("b", 80), ("c", 10))]
    model.replace_all(tuple(views))
    rows.sort(JobColumn.PROGRESS)
    assert shown(rows) == ["a", "c", "b"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=30))
def test_whatever_comes_and_goes_the_model_holds_just_what_was_put(steps):
    model, kept = JobListModel(), {}
    for name, stays in steps:
        if stays:
            kept[name] = job(name, LIVE)
            model.put(kept[name])
        else:
            kept.pop(name, None)
            model.replace_all(tuple(kept.values()))
    assert {view.id for view in model.views()} == set(kept)
    assert all(model.view(name).id == name for name in kept)


def test_without_jobs_the_first_start_is_shown_and_with_one_the_list(qtbot):
    page = JobsPage()
    qtbot.addWidget(page)
    page.resize(1200, 800)
    page.show()
    page.show_jobs(())
    assert page.first_start.isVisible()
    page.show_jobs((job("a", LIVE),))
    assert page.detail.isVisible()
    assert page.open_id == "a"


def test_a_search_that_finds_nothing_says_so_and_can_be_cleared(qtbot):
    page = JobsPage()
    qtbot.addWidget(page)
    page.resize(1200, 800)
    page.show()
    page.show_jobs((job("a", LIVE),))
    page._searched("resnt")
    assert page._no_match.isVisible()
    assert "No job matches “resnt”." in page._no_match.accessibleName()
