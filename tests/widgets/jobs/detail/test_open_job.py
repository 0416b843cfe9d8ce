"""The open job during a start, in a small window, and for a screen reader."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QStackedWidget, QTableView, QWidget
from pytestqt.qtbot import QtBot

from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError
from backend.records.jobs.view import JobCheck, JobCommand
from backend.records.queue.entry import Queue
from tests.asks import expect_request, open_menu_entries
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.widgets.jobs.detail.test_job_detail import CREATED, FAILED, LIVE
from tests.widgets.jobs.form.test_job_form import DIGITS, form  # noqa: F401 - a fixture
from tests.windows import find_button, find_only, start_buttons, visible_texts
from widgets.common.labels import Label
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointsTab
from widgets.jobs.checkpoints.export_dialog import Exporter
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.detail.job_header import JobName
from widgets.jobs.detail.job_progress import JobProgress
from widgets.jobs.detail.settings_tab import SettingsTab
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.list.job_list_pane import QueueStrip

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


pytestmark = pytest.mark.usefixtures("theme_manager")


def test_a_name_without_room_is_smaller_before_it_is_cut(qtbot: QtBot) -> None:
    name = JobName()
    qtbot.addWidget(name)
    name.show_name("retinanet-r50 · lr 0.09")
    name.show()
    name.resize(400, 32)
    large = name._label.font().pixelSize()
    name.resize(200, 32)
    assert name._label.font().pixelSize() < large
    assert "…" not in super(Label, name._label).text()
    name.resize(400, 32)
    assert name._label.font().pixelSize() == large


def test_a_narrow_list_shows_the_whole_sentence_of_the_queue(qtbot: QtBot) -> None:
    strip = QueueStrip(JobActions())
    qtbot.addWidget(strip)
    strip.show_queue(Queue((), "Paused by mai: no job starts by itself."))
    strip.resize(300, 60)
    strip.show()
    label = find_only(Label, strip)
    assert super(Label, label).text() == "Paused by mai: no job starts by itself."
    qtbot.waitUntil(lambda: label.height() >= label.heightForWidth(label.width()))


def test_redundant_columns_of_checkpoints_are_hidden_before_the_table_scrolls(
    qtbot: QtBot,
) -> None:
    actions = JobActions()
    window = QWidget()
    qtbot.addWidget(window)
    tab = CheckpointsTab(actions, Exporter(actions, window))
    qtbot.addWidget(tab)
    # No moment is written with more words than one of another year.
    old_checkpoints = (
        replace(checkpoint, created="2020-11-20T07:30:00Z") for checkpoint in lab.checkpoints()
    )
    tab.show_checkpoints(lab.LIVE, tuple(old_checkpoints))
    tab.show()
    table = tab.findChild(QTableView)
    assert isinstance(table, QTableView)
    for width, hidden in (
        (1400, []),
        (780, []),
        (680, ["SHA-256"]),
        (560, ["Size", "SHA-256"]),
    ):
        tab.resize(width, 500)
        columns = range(tab.model.columnCount())
        headers = [tab.model.headerData(n, table.horizontalHeader().orientation()) for n in columns]
        hidden_titles = [head for n, head in enumerate(headers) if table.isColumnHidden(n)]
        assert hidden_titles == hidden
        qtbot.waitUntil(lambda: table.horizontalScrollBar().maximum() == 0)


def test_the_command_stands_right_below_a_short_job_file(qtbot: QtBot) -> None:
    tab = SettingsTab()
    qtbot.addWidget(tab)
    tab.show_job(lab.LIVE)
    tab.resize(900, 1400)
    tab.show()
    qtbot.waitUntil(lambda: tab._file_card.height() == tab._file_card.maximumHeight())
    scroll = find_only(QStackedWidget, tab).widget(0)
    assert scroll.verticalScrollBar().maximum() == 0, "all of it is seen"
    assert tab._file_card.height() < 1000
    tab.show_file("epochs = 50\n", JobCommand())
    tab._show_format(True)
    qtbot.waitUntil(lambda: tab._file_card.height() < 300)


@pytest.fixture
def heard(monkeypatch):
    """What Qt was asked to announce, and about which widget."""
    heard = []

    def record(event):
        assert isinstance(event, QAccessibleAnnouncementEvent)
        assert event.type() is QAccessible.Event.Announcement
        heard.append((event.message().replace("\xa0", " "), event.object()))

    monkeypatch.setattr("widgets.jobs.detail.job_detail.QAccessible.updateAccessibility", record)
    return heard


@pytest.fixture
def detail(qtbot, heard):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(view_at(0.2))
    assert heard == [], "who opens it reads how it is"
    return detail


def view_at(progress, state=JobState.TRAINING, **changes):
    step = round(progress * lab.TOTAL)
    return replace_fields(
        lab.LIVE, state=state, step=step, total_steps=lab.TOTAL, name="digits", **changes
    )


def messages(heard):
    return [message for message, _ in heard]


def test_each_ten_percent_is_said_once(detail, heard):
    for percent in (21, 25, 29, 30, 30, 34, 39, 40, 52, 61):
        detail.show_view(view_at(percent / 100))
    assert messages(heard) == ["digits: 30 %", "digits: 40 %", "digits: 50 %", "digits: 60 %"]
    assert heard[0][1] is detail


def test_each_state_is_said_once_and_a_failure_with_its_cause(detail, heard):
    error = RankError("Rank 1 on gpu07 ran out of memory.", 1, "gpu07")
    for state, changes in (
        (JobState.EVALUATING, {}),
        (JobState.EVALUATING, {}),
        (JobState.TRAINING, {}),
        (JobState.ERROR, {"error": error}),
        (JobState.ERROR, {"error": error}),
    ):
        detail.show_view(view_at(0.21, state, **changes))
    assert messages(heard) == [
        f"digits: {JobState.EVALUATING.label}.",
        f"digits: {JobState.TRAINING.label}.",
        f"digits: {JobState.ERROR.label}. Rank 1 on gpu07 ran out of memory.",
    ]


def test_a_closed_job_is_not_announced(detail, heard):
    detail.show_view(replace(view_at(0.9), id="another"))
    detail.open_job(replace(view_at(0.9), id="another"))
    assert heard == []
