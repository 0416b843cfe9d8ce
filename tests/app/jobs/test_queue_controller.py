"""The queue in the window: requests become actions, and what is shown is what the service says."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QObject, Signal

from app.jobs.queue_controller import QueueController
from backend.base.errors import BackendError
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.state import JobState
from backend.records.jobs.view import RunUpdate
from backend.records.queue.entry import Queue
from tests.job_views import replace_fields
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.list.test_queue_list import NAMES, QUEUED, job, queue
from tests.windows import find_only
from widgets.common.banner import Banner
from widgets.jobs.actions import job_actions
from widgets.jobs.page.jobs_page import JobsPage


class Service:
    """Remembers what it was asked for."""

    def __init__(self):
        self.calls = []
        self.queue = queue(*NAMES)
        self.refusal = None

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self.calls.append((name, *args, *sorted(kwargs.items())))
            if self.refusal is not None:
                raise self.refusal
            return self.queue

        return call


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def page(qtbot):
    page = JobsPage()
    qtbot.addWidget(page)
    page.show()
    show_jobs(page, tuple(job(name) for name in NAMES))
    page.open_job(NAMES[0])
    return page


@pytest.fixture
def lists():
    return []


class Poller(QObject):
    updated = Signal(object)


@pytest.fixture
def controller(service, immediately, page, lists):
    poller = Poller(page)
    poller.poll_list = lambda: lists.append(True)
    controller = QueueController(service, immediately, poller, page)
    controller.poller = poller
    return controller


def action_titles(service):
    return [call for call in service.calls if call[0] not in ("read", "ensure_keeper")]


def test_the_queue_is_read_as_long_as_a_job_waits(controller, service, page, qtbot):
    controller.show_jobs(())
    assert service.calls == []
    with qtbot.waitSignal(controller.queue_shown) as signal:
        controller.show_jobs((QUEUED,))
    assert signal.args == [service.queue]
    # After a reboot the queue service runs only after this call.
    assert service.calls == [("ensure_keeper",), ("read",)]
    assert page.model.queued_job(NAMES[1]).number == 2
    service.queue = Queue()
    controller.show_jobs(())
    assert page.model.queued_job(NAMES[1]) is None
    controller.show_jobs(())
    assert len(service.calls) == 4


def test_a_slow_read_is_not_begun_twice(service, page):
    tasks = []
    runner = SimpleNamespace(
        run=lambda queue_name, work, on_success, on_error: tasks.append((work, on_success))
    )
    controller = QueueController(service, runner, Poller(page), page)
    controller.refresh()
    controller.refresh()
    assert len(tasks) == 1
    work, on_success = tasks[0]
    on_success(work())
    controller.refresh()
    assert len(tasks) == 2


def test_each_request_is_one_act_and_the_list_is_read_again(controller, service, page, lists):
    actions = page.job_actions
    start_time = datetime(2026, 12, 24, 5, tzinfo=UTC)
    actions.ask(job_actions.QUEUE, "a")
    actions.ask(job_actions.LEAVE_QUEUE, "a")
    actions.ask(job_actions.MOVE_TO_TOP, "a")
    actions.ask(job_actions.CHANGE_QUEUED, "a", 7, start_time, 2.5)
    actions.ask(job_actions.CHANGE_QUEUED, "a", 7, None, 0.0)
    actions.ask(job_actions.MOVE_QUEUED, "a", "b", "")
    actions.ask(job_actions.PAUSE_QUEUE, True)
    actions.ask(job_actions.PAUSE_QUEUE, False)
    assert action_titles(service) == [
        ("enqueue", "a"),
        ("dequeue", "a"),
        ("to_top", "a"),
        ("enqueue", "a", 7, start_time, ("length_s", 9000.0), ("start_now", False)),
        ("enqueue", "a", 7, None, ("length_s", 0.0), ("start_now", True)),
        ("reorder", "a", ("after_id", ""), ("before_id", "b")),
        ("pause",),
        ("resume",),
    ]
    assert len(lists) == 6


def test_a_refusal_is_shown_in_the_open_job_or_in_a_toast(controller, service, page, immediately):
    service.refusal = BackendError("It can never fit.", "Choose another place.")
    page.job_actions.ask(job_actions.QUEUE, NAMES[0])
    assert (
        find_only(Banner, page.detail).accessibleName() == "It can never fit. Choose another place."
    )
    page.job_actions.ask(job_actions.MOVE_TO_TOP, NAMES[1])
    assert immediately.notifications == ["It can never fit. Choose another place."]


def test_a_failed_read_leaves_the_shown_queue(controller, service, page):
    controller.show_jobs((QUEUED,))
    service.refusal = BackendError("Away.")
    controller.refresh()
    assert page.model.queued_job(NAMES[1]).number == 2
    service.refusal = None
    controller.refresh()
    assert service.calls[-1] == ("read",)


@pytest.mark.parametrize("state", list(JobState))
def test_the_end_of_a_job_reads_the_queue_at_once(controller, service, state):
    controller.show_jobs((QUEUED,))
    service.queue = queue(NAMES[1])
    reads = service.calls.count(("read",))
    update = RunUpdate(replace_fields(job(NAMES[0]), state=state), HistoryUpdate(), None)
    controller.poller.updated.emit(update)
    assert service.calls.count(("read",)) - reads == state.is_over


def test_a_job_that_ends_during_a_read_makes_another_one(controller, service, immediately):
    controller.show_jobs((QUEUED,))
    reads = []

    def read():
        reads.append(True)
        if len(reads) == 1:
            controller.refresh()
        return service.queue

    service.read = read
    controller.refresh()
    assert len(reads) == 2
