"""The queue in the window: who stands where and why, and how that is changed by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt
from PySide6.QtGui import QDrag, QDragEnterEvent, QDragMoveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu

from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobCheck
from backend.records.queue.entry import Cause, Queue, QueuedJob, QueueEntry, WaitReason
from tests.asks import expect_request
from tests.job_views import replace_fields
from tests.widgets import drags
from tests.widgets.jobs.detail.test_job_detail import CREATED, FAILED, LIVE
from tests.widgets.jobs.form.test_job_form import DIGITS, form  # noqa: F401 - a fixture
from tests.widgets.jobs.jobs_rig import rows_of, show_jobs
from tests.windows import find_button, find_field, find_only, start_buttons, visible_texts
from widgets.common.actions import fill_menu
from widgets.common.banner import Banner
from widgets.common.fields import LineEdit, SpinBox
from widgets.common.labels import Label
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_questions import queue_question
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.list.job_list_model import JOB_ROLE, JobListModel
from widgets.jobs.list.job_list_view import MIME
from widgets.jobs.page.jobs_page import JobsPage
from widgets.shell.main_window import MainWindow

QUEUED = replace_fields(CREATED, state=JobState.QUEUED)
LONG = "a name that goes on and on, because nobody told its owner where a name is to end"
REASONS = {
    "retinanet-r50": WaitReason(Cause.BUSY, "“unet-cells” is on GPU 0 of gpu06."),
    "vit-s16 lr 0.08": WaitReason(
        Cause.TURN, "Waiting for “retinanet-r50”, which is before it in the queue on gpu06."
    ),
    LONG: WaitReason(Cause.FOREIGN, "GPU 1 of gpu03 is in use by alice: python (pid 4711)."),
    "nightly": WaitReason(Cause.NOT_BEFORE, "Not before 02:00 on 22 November."),
}


def queued_job(name, number, *, priority=0, starts_in_s=None, **changes):
    entry = QueueEntry(
        name, name, 1, (Placement("this-computer", 2),), "m1", priority=priority, **changes
    )
    return QueuedJob(entry, number, REASONS.get(name), starts_in_s)


def queue(*names, paused=""):
    return Queue(tuple(queued_job(name, n) for n, name in enumerate(names, 1)), paused)


def job(name, view=QUEUED, **changes):
    return replace_fields(view, id=name, name=name, **changes)


NAMES = tuple(REASONS)


@pytest.fixture
def page(qtbot):
    page = JobsPage()
    qtbot.addWidget(page)
    page.resize(1200, 800)
    page.show()
    show_jobs(page, (job("live", LIVE), *(job(name) for name in NAMES), job("draft", CREATED)))
    # Wherever the pointer stands.
    page.show_queue(queue(*NAMES), is_immediate=True)
    return page


def rows(page):
    model = page.model
    return [model.index(row, 0).data(JOB_ROLE).name for row in range(model.rowCount())]


def test_the_queue_stands_in_its_order_between_running_jobs_and_drafts(page):
    assert rows(page) == ["live", *NAMES, "draft"]
    page.show_queue(queue(*reversed(NAMES)), is_immediate=True)
    assert rows(page) == ["live", *reversed(NAMES), "draft"]


def test_a_queue_that_is_known_before_its_jobs_orders_them_too(qtbot):
    """What is asked for rows was asked without the queue then, and has to be asked again."""
    page = JobsPage()
    qtbot.addWidget(page)
    with qtbot.waitSignal(page.queue_moved):
        page.show_queue(queue(*NAMES))
    with qtbot.assertNotEmitted(page.queue_moved):
        page.show_queue(queue(*NAMES))


def test_a_screen_reader_hears_place_and_reason(page):
    index = page.model.index(2, 0)
    assert "is before it in the queue on gpu06" in index.data(Qt.ItemDataRole.ToolTipRole)
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == (
        "vit-s16 lr 0.08, Queued, place 2. Waiting for “retinanet-r50”, which "
        "is before it in the queue on gpu06."
    )


def test_the_promises_of_qt_hold_for_a_queue_that_changes(qtmodeltester):
    model = JobListModel()
    model.show_rows(rows_of(*(job(name) for name in NAMES)))
    model.show_queue(queue(*NAMES))
    qtmodeltester.check(model)


def test_only_rows_with_another_place_are_signalled_and_at_once(page):
    changes = []
    page.model.dataChanged.connect(lambda first, last: changes.append((first.row(), last.row())))
    page.show_queue(queue(*NAMES))
    assert changes == []
    page.model.hold_rows(True)
    page.show_queue(queue(NAMES[1], NAMES[0], *NAMES[2:]))
    assert changes == [(1, 2)]


def drag(page, name, row, upper):
    view = page.list.view
    content = QMimeData()
    content.setData(MIME, name.encode())
    box = view.visualRect(page.model.index(row, 0))
    position = QPoint(box.center().x(), box.top() + 4 if upper else box.bottom() - 4)
    event_args = (Qt.DropAction.MoveAction, content, Qt.MouseButton.LeftButton, Qt.NoModifier)
    enter = QDragEnterEvent(position, *event_args)
    view.dragEnterEvent(enter)
    move = QDragMoveEvent(position, *event_args)
    view.dragMoveEvent(move)
    return move.isAccepted(), lambda: view.dropEvent(QDropEvent(QPointF(position), *event_args))


def test_a_row_is_dragged_before_or_after_another(qtbot, page):
    is_accepted, drop = drag(page, "nightly", 1, upper=True)
    assert is_accepted
    with expect_request(page.job_actions, job_actions.MOVE_QUEUED) as request:
        drop()
    assert request.args == ["nightly", "retinanet-r50", ""]
    _, drop = drag(page, "nightly", 2, upper=False)
    with expect_request(page.job_actions, job_actions.MOVE_QUEUED) as request:
        drop()
    assert request.args == ["nightly", "", "vit-s16 lr 0.08"]


def test_a_dragged_row_does_not_open(page, monkeypatch):
    view, hot_spots = page.list.view, []
    for row, open_id in product((1, 2, 4), ("live", NAMES[0], NAMES[3], "draft")):
        hot_spots.clear()
        monkeypatch.setattr(QDrag, "exec", lambda drag, *_: hot_spots.append(drag.hotSpot()))
        page.open_job(open_id)
        position = view.visualRect(page.model.index(row, 0)).center()
        QTest.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=position)
        assert page.open_id == open_id
        view.startDrag(Qt.DropAction.MoveAction)
        QTest.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
        assert page.open_id == open_id
        assert view.currentIndex().data(JOB_ROLE).name == open_id
        [spot] = hot_spots
        assert (spot.x() < 0, spot.y() < 0) == (True, True), "it hides the line at which it lands"
        QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=position)
        assert page.open_id == page.model.index(row, 0).data(JOB_ROLE).id


@pytest.mark.parametrize("row", [0, 4, 5])
def test_no_row_is_dropped_on_a_running_job_a_draft_or_itself(page, row):
    is_accepted, drop = drag(page, "nightly", row, upper=True)
    moves = []
    page.job_actions.add_handler(job_actions.MOVE_QUEUED, lambda *args: moves.append(args))
    drop()
    assert not is_accepted
    assert moves == []


def test_a_file_held_over_the_list_is_left_to_the_window(page, tmp_path):
    assert not drags.drag_over(page.list.view.viewport(), drags.file(tmp_path))


def test_a_row_moves_by_key_too(qtbot, page):
    page.open_job("vit-s16 lr 0.08")
    with expect_request(page.job_actions, job_actions.MOVE_QUEUED) as request:
        qtbot.keyClick(page.list.view, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert request.args == ["vit-s16 lr 0.08", "retinanet-r50", ""]


def test_a_row_moved_by_hand_moves_under_the_pointer(page):
    page.model.hold_rows(True)
    page.show_queue(queue(*reversed(NAMES)), is_immediate=True)
    assert rows(page)[1] == "nightly"


def acts(page, view, queued_job):
    menu = QMenu(page)
    subject = job_actions.JobSubject(view, None, queued_job)
    fill_menu(
        menu,
        [job_actions.QUEUE_ACTIONS],
        subject,
        lambda action: page.job_actions.ask(action, view.id),
    )
    return {action.text(): action for action in menu.actions()}, menu


def test_the_menu_offers_suitable_actions(qtbot, page):
    assert set(acts(page, job("live", LIVE), None)[0]) == set()
    assert set(acts(page, job("draft", CREATED), None)[0]) == {"Queue", "Queue for later…"}
    assert set(acts(page, job("failed", FAILED), None)[0]) == {"Queue resume"}
    assert set(acts(page, job("failed", FAILED, step=0), None)[0]) == set()
    entries, _menu = acts(page, job("nightly"), queued_job("nightly", 4))
    assert set(entries) == {"Move to the top", "Priority and time…", "Remove from queue"}
    with expect_request(page.job_actions, job_actions.LEAVE_QUEUE) as requested:
        entries["Remove from queue"].trigger()
    assert requested.args == ["nightly"]
    first, _menu = acts(page, job("a"), queued_job("a", 1))
    assert not first["Move to the top"].isEnabled()


def test_the_detail_says_why_a_job_waits_and_removes_it_from_the_queue(qtbot, page):
    page.open_job("vit-s16 lr 0.08")
    assert "Place 2. Waiting for “retinanet-r50”" in find_only(Banner, page.detail).accessibleName()
    assert find_button(page.detail.header, "Remove from queue").text() == "Remove from queue"
    with expect_request(page.job_actions, job_actions.LEAVE_QUEUE):
        find_button(page.detail.header, "Remove from queue").click()
    page.open_job("draft")
    assert find_button(page.detail.header, "Queue").text() == "Queue"
    with expect_request(page.job_actions, job_actions.QUEUE):
        find_button(page.detail.header, "Queue").click()
    page.open_job("live")
    assert not find_button(page.detail.header, "Queue resume").isVisible()
    assert not find_only(Banner, page.detail).isVisible()


def test_the_detail_shows_state_and_place_in_either_order(page):
    page.open_job("draft")
    page.show_queue(queue(*NAMES, "draft"))
    assert not find_only(Banner, page.detail).isVisible()
    page.show_view(job("draft"))
    assert find_only(Banner, page.detail).accessibleName() == "Place 5. Starts in a moment."


def test_the_strip_holds_and_frees_the_queue(qtbot, page):
    strip = page.list.queue_strip
    assert find_only(Label, strip).text() == "4 jobs are queued and will start automatically."
    with expect_request(page.job_actions, job_actions.PAUSE_QUEUE) as requested:
        find_button(strip, "Pause").click()
    assert requested.args == [True]
    page.show_queue(queue(*NAMES, paused="The queue is paused by ben."))
    assert find_only(Label, strip).text() == "The queue is paused by ben."
    with expect_request(page.job_actions, job_actions.PAUSE_QUEUE) as requested:
        find_button(strip, "Resume").click()
    assert requested.args == [False]
    page.show_queue(Queue())
    assert not strip.isVisible()


def test_priority_and_hour_are_asked_in_the_words_of_the_command_line(qtbot):
    entry = queued_job("nightly", 1, not_before="2026-12-24T05:00:00Z").entry
    answers = []
    dialog = queue_question(entry, lambda *answer: answers.append(answer))
    qtbot.addWidget(dialog)
    edit, hours_edit = dialog.findChildren(LineEdit)
    edit.setText("soon")
    assert "“soon” is not a time" in find_field(dialog, "Not before").error()
    assert not find_button(dialog, "Save").isEnabled()
    edit.setText("+2h")
    for text in ("-1", "long", "nan", "8785"):
        hours_edit.setText(text)
        assert not find_button(dialog, "Save").isEnabled()
    hours_edit.setText("1,5")
    find_only(SpinBox, dialog).setValue(7)
    earliest = datetime.now().astimezone()
    find_button(dialog, "Save").click()
    latest = datetime.now().astimezone()
    priority, not_before, hours = answers.pop()
    assert (priority, hours) == (7, 1.5)
    request_time = not_before - timedelta(hours=2)
    assert earliest - timedelta(minutes=1) < request_time <= latest, "seconds are left out"
    edit.clear()
    hours_edit.clear()
    find_button(dialog, "Save").click()
    assert answers == [(7, None, 0.0)]


def test_the_form_queues_a_job_that_may_start(qtbot, form):  # noqa: F811
    form.show()
    form.show_draft(JobDraft(DIGITS))
    assert not start_buttons(form).queue.isEnabled()
    form.show_check(JobCheck(global_batch=8))
    with qtbot.waitSignal(form.queue_requested):
        start_buttons(form).queue.click()
    with qtbot.waitSignal(form.queue_later_requested):
        start_buttons(form).queue_later.click()


def test_the_side_bar_names_the_next_one_while_nothing_runs(qtbot):
    window = MainWindow()
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.show()
    bar = window.side_bar
    bar.show_queue(queue(*NAMES))
    assert "Next: retinanet-r50" in visible_texts(bar)
    assert bar._next_label.isVisible()
    bar.show_live((job("live", LIVE),))
    assert not bar._next_label.isVisible()
    bar.show_live(())
    bar.show_queue(Queue())
    assert not bar._next_label.isVisible()
