"""A start under way: what is done stands there, and it can be cancelled until it has begun."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from backend.records.jobs.view import JobCheck
from tests.asks import expect_request, open_menu_entries
from tests.widgets.jobs.detail.test_job_detail import CREATED, FAILED, LIVE
from tests.widgets.jobs.form.test_job_form import DIGITS, form  # noqa: F401 - a fixture
from tests.windows import find_button, find_only, start_buttons, visible_texts
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.detail.job_progress import JobProgress
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm

LEFT_BUTTON = Qt.MouseButton.LeftButton


def test_a_start_can_be_cancelled_where_it_was_pressed(qtbot: QtBot) -> None:
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(CREATED)
    detail.show_starting("a", "Checking 2 nodes…")
    assert detail.header.main_button.text() == "Cancel"
    assert "Checking 2 nodes…" in visible_texts(find_only(JobProgress, detail))
    with expect_request(detail.job_actions, job_actions.CANCEL) as requested:
        qtbot.mouseClick(detail.header.main_button, LEFT_BUTTON)
    assert requested.args == ["a"]
    detail.show_starting("a", "")
    assert detail.header.main_button.text() == "Start"
    detail.show_busy("a", "Stopping…")
    assert not detail.header.main_button.isEnabled()


def test_the_menu_of_a_job_that_does_not_run_offers_the_preflight_check(qtbot: QtBot) -> None:
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    offers = {}
    for view in (CREATED, FAILED, LIVE):
        detail.open_job(view)
        offers[view.state.value] = "Preflight check…" in open_menu_entries(
            detail.header.menu_button
        )
    assert offers == {"CREATED": True, "ERROR": True, "TRAINING": False}
    detail.open_job(CREATED)
    with expect_request(detail.job_actions, job_actions.PREFLIGHT) as requested:
        open_menu_entries(detail.header.menu_button)["Preflight check…"].trigger()
    assert requested.args == ["a"]


def test_a_new_job_can_be_cancelled_while_its_nodes_are_checked(
    qtbot: QtBot,
    form: JobForm,  # noqa: F811
) -> None:
    form.show_draft(JobDraft(DIGITS))
    form.show_check(JobCheck(global_batch=16))
    start_text = start_buttons(form).start.text()
    form.set_busy("Checking 2 nodes…")
    assert start_buttons(form).start.text() == "Checking 2 nodes…"
    assert start_buttons(form).queue.text() == "Cancel"
    assert not find_button(form, "Save draft").isEnabled()
    with qtbot.waitSignal(form.start_cancelled), qtbot.assertNotEmitted(form.queue_requested):
        qtbot.mouseClick(start_buttons(form).queue, LEFT_BUTTON)
    form.set_busy("")
    assert start_buttons(form).start.text() == start_text
    with qtbot.waitSignal(form.queue_requested):
        qtbot.mouseClick(start_buttons(form).queue, LEFT_BUTTON)
