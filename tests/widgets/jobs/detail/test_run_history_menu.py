"""The runs of a job: a list behind the number in its header, and the view of an earlier run."""

from datetime import UTC, datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobRun
from tests.asks import expect_request
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import FAILED, LIVE, checkpoint, update
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import find_only, shows_text
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.jobs.actions import job_actions
from widgets.jobs.detail.job_tabs import JobTabs
from widgets.jobs.detail.run_history_menu import run_label
from widgets.jobs.page.jobs_page import JobsPage

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
THIRD = replace_fields(LIVE, run=3)
RUNS = (
    JobRun(3, JobState.TRAINING, first_step=1, last_step=3),
    JobRun(
        2,
        JobState.INTERRUPTED,
        put_away=2,
        message="Stopped by ben. Saved at epoch 2, step 20.",
        started_at="2026-11-12T13:00:00Z",
        ended_at="2026-11-12T14:04:00Z",
        first_step=11,
        last_step=1200,
    ),
    JobRun(1, JobState.ERROR, put_away=2, ended_at="2026-11-12T10:00:00Z"),
)
EARLIER_VIEW = replace_fields(FAILED, run=2, state=JobState.INTERRUPTED, error=None)


@pytest.fixture
def page(qtbot):
    page = JobsPage()
    qtbot.addWidget(page)
    page.resize(1200, 900)
    page.show()
    show_jobs(page, (THIRD,))
    page.show_update(update(THIRD, 1, [0.9, 0.8, 0.7], run=3))
    return page


def losses(detail):
    data = detail.curves.curve("loss")
    return [] if data is None else [round(float(value), 3) for value in data.raw]


def choose(page, number):
    detail = page.detail
    detail.show_runs("a", RUNS)
    (menu,) = (menu for menu in detail.findChildren(QMenu) if menu.isVisible())
    (act,) = (act for act in menu.actions() if act.text().startswith(f"Run {number} "))
    act.trigger()
    menu.close()


def test_a_run_is_described_in_one_line():
    assert run_label(RUNS[0], NOW) == "Run 3 · Training · steps 1 to 3"
    assert run_label(RUNS[1], NOW).startswith("Run 2 · Stopped by ben · 12 Nov ")
    assert run_label(RUNS[1], NOW).endswith(f" · steps 11 to {formats.count(1200)}")
    assert run_label(RUNS[2], NOW).endswith(" · no steps")


def test_the_number_in_the_head_asks_which_runs_there_were(qtbot, page):
    runs = page.detail.header.runs_button
    assert runs.text() == "Run 3"
    with expect_request(page.detail.job_actions, job_actions.READ_RUNS) as requested:
        qtbot.mouseClick(runs, Qt.MouseButton.LeftButton)
    assert requested.args == ["a"]
    page.detail.show_view(replace_fields(LIVE, run=1))
    assert not runs.isVisible(), "one run has no others beside it"


def test_an_earlier_run_is_requested_and_shows_its_own_curves_and_log(qtbot, page):
    detail = page.detail
    with expect_request(detail.job_actions, job_actions.SHOW_EARLIER_RUN) as requested:
        choose(page, 2)
    assert requested.args == ["a", 2]
    detail.show_earlier_run("a", 2, update(EARLIER_VIEW, 1, [5.0, 4.0], run=2))
    assert losses(detail) == [5.0, 4.0]
    assert shows_text(find_only(Banner, detail), "Runs 1 and 2 of 3, of 12 Nov ")
    assert detail.log._job_id == "a/runs/2"
    # Updates of the newest run appear in its header and change no curve of the earlier one.
    page.show_update(update(replace_fields(THIRD, epoch=7), 4, [0.6], run=3))
    detail.show_checkpoints("a", (checkpoint(20),))
    assert losses(detail) == [5.0, 4.0]
    assert shows_text(find_only(Banner, detail), "Runs 1 and 2 of 3")


def test_the_newest_run_comes_back_from_its_beginning(qtbot, page):
    detail = page.detail
    choose(page, 1)
    detail.show_earlier_run("a", 1, update(EARLIER_VIEW, 1, [5.0], run=2))
    (back,) = (
        b for b in find_only(Banner, detail).findChildren(Button) if b.text() == "Show newest run"
    )
    with qtbot.waitSignal(page.job_opened) as signal:
        qtbot.mouseClick(back, Qt.MouseButton.LeftButton)
    assert signal.args == ["a"]
    assert losses(detail) == []
    page.show_update(update(THIRD, 1, [0.9, 0.8], run=3))
    assert losses(detail) == [0.9, 0.8]
    assert detail.log._job_id == "a"
    assert not find_only(Banner, detail).isVisible()


def test_an_open_earlier_run_stays_when_the_job_fails(page):
    detail = page.detail
    choose(page, 2)
    detail.show_earlier_run("a", 2, update(EARLIER_VIEW, 1, [5.0], run=2))
    detail.show_view(replace_fields(FAILED, run=3))
    assert losses(detail) == [5.0]
    assert find_only(JobTabs, detail).key() == "curves"


def test_a_run_requested_too_late_shows_nothing(page):
    page.detail.show_runs("another", RUNS)
    page.detail.show_earlier_run("another", 2, update(EARLIER_VIEW, 1, [5.0], run=2))
    assert losses(page.detail) == [0.9, 0.8, 0.7]
