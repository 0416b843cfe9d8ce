"""Only the last request counts, and an outcome is shown while its dialog is open."""

import pytest
from PySide6.QtWidgets import QWidget

from app.runtime.controller import DialogController, LatestRequest
from backend.base.errors import BackendError, Cancelled
from tests.conftest import SynchronousRunner
from widgets.common.dialog import ProgressDialog


class LateRunner(SynchronousRunner):
    """Runs nothing before `finish`."""

    def __init__(self):
        super().__init__()
        self.tasks = []
        self.computed_values = []

    def run(self, queue_name, *task):
        self.tasks.append(task)

    def finish(self):
        while self.tasks:
            super().run("", *self.tasks.pop(0))


@pytest.fixture
def runner():
    return LateRunner()


@pytest.fixture
def shown_values():
    return []


@pytest.fixture
def request_of(runner, shown_values):
    """Start a request with a value that is reported, then returned."""
    latest = LatestRequest(runner)

    def start(value):
        def work(progress):
            progress.step(0, 0, f"reading {value}")
            runner.computed_values.append(value)
            return value

        def show_step(_share, step):
            shown_values.append(step)

        latest.run("queue", work, shown_values.append, shown_values.append, show_step)
        return latest

    return start


def test_of_two_requests_the_second_is_shown_and_the_first_is_cancelled(
    request_of, runner, shown_values
):
    request_of("a")
    latest = request_of("b")
    assert latest.is_open
    runner.finish()
    assert shown_values == ["reading b", "b"]
    assert runner.computed_values == ["b"]
    assert not latest.is_open


def test_the_end_of_a_cancelled_request_is_shown_but_not_of_a_dropped_one(
    request_of, runner, shown_values
):
    request_of("a").cancel()
    runner.finish()
    (error,) = shown_values
    assert isinstance(error, Cancelled)
    request_of("b").drop()
    runner.finish()
    assert shown_values == [error]


def test_a_request_may_follow_in_the_outcome_of_another(runner, shown_values):
    latest = LatestRequest(runner)

    def follow(value):
        shown_values.append(value)
        if value < 3:
            latest.run("queue", lambda _: value + 1, follow, pytest.fail)

    follow(1)
    runner.finish()
    assert shown_values == [1, 2, 3]


@pytest.fixture
def controller(qtbot, runner):
    window = QWidget()
    qtbot.addWidget(window)
    return DialogController(runner, window, window)


@pytest.fixture
def dialog(controller):
    dialog = ProgressDialog("Task", parent=controller.parent())
    controller.open(dialog)
    return dialog


def fail():
    raise BackendError("No disk.", "Mount it.")


def test_an_error_goes_to_the_open_dialog_or_becomes_a_message(controller, dialog, runner):
    controller.serve("queue", fail)
    runner.finish()
    assert dialog._status.message.text() == "No disk. Mount it."
    dialog.reject()
    controller.serve("queue", fail)
    runner.finish()
    assert runner.notifications == ["No disk. Mount it."]


def test_closing_a_dialog_cancels_its_task_and_shows_nothing_more(
    controller, dialog, runner, shown_values
):
    steps = []

    def work(progress):
        progress.step(0, 0, "too late")
        steps.append("done")

    controller.run_task(dialog, "queue", work, shown_values.append, dialog.show_progress)
    controller.serve_dialog(dialog, "queue", lambda: "read", shown_values.append)
    dialog.reject()
    runner.finish()
    assert (steps, shown_values, runner.notifications) == ([], [], [])
    assert controller.dialog is None
