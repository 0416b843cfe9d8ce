"""The poller reports what is new, loses nothing, and never reads twice at once."""

import re
import time
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from app.jobs.status_poller import _ROUNDS_PER_LIST, StatusPoller
from app.runtime import stale_data
from backend.base.errors import BackendError
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus, UnrecordedEnd
from backend.records.jobs.summary import JobListing
from backend.records.jobs.view import JobView, RunUpdate
from tests.job_views import replace_fields

NEVER = 3_600_000  # ms: a test polls by itself, without a timer

CONFIG = parse_job(
    {
        "name": "digits",
        "model": "digits",
        "dataset": "digits",
        "loader": "digits",
        "epochs": 2,
        "batch_size": 8,
        "optimizer": {"name": "sgd", "lr": 0.1},
        "placement": [{"node": "this-computer", "processes": 2}],
    }
).config
LIVE = JobView(
    "a", "digits", CONFIG, "2026-11-21T07:00:00Z", RunStatus(JobState.TRAINING, run=1, step=5)
)


class Jobs:
    """One job's folder as the service shows it."""

    def __init__(self):
        self.view = LIVE
        self.broken = ""
        self.cursors = []
        self.reaped = []
        self.is_read_only = False

    def poll(self, job_id, cursor):
        self.cursors.append(cursor)
        if self.broken:
            raise BackendError(self.broken)
        first = 0 if cursor is None else cursor
        points = tuple(range(first, self.view.step))
        return RunUpdate(self.view, HistoryUpdate(steps=points), self.view.step)

    def list(self):
        if self.broken:
            raise BackendError(self.broken)
        to_reap = (self.view.id,) if self.view.unrecorded_end else ()
        return JobListing((self.view,), total=1, reapable_ids=to_reap)

    def reap(self, job_id):
        """The ranks had all finished, unless the folder cannot be written."""
        self.reaped.append(job_id)
        if self.is_read_only:
            raise BackendError("The end of run 1 cannot be written: Read-only file system.")
        self.view = replace_fields(self.view, state=JobState.FINISHED, unrecorded_end=None)
        return UnrecordedEnd.SUPERVISOR_GONE


@pytest.fixture
def jobs():
    return Jobs()


@pytest.fixture
def poller(qapp, jobs, immediately):
    return StatusPoller(jobs.poll, jobs.list, jobs.reap, immediately, NEVER)


def poll_all(poller):
    """Jobs that are not open are polled every second time."""
    poller.poll()
    poller.poll()


def steps_of_one_poll(qtbot, poller):
    with qtbot.waitSignal(poller.updated) as blocker:
        poll_all(poller)
    return list(blocker.args[0].history.steps)


def test_a_live_job_of_the_list_is_watched_from_then_on(qtbot, poller):
    poller.poll_list()
    assert steps_of_one_poll(qtbot, poller) == [0, 1, 2, 3, 4]


def test_each_poll_brings_only_new_steps(qtbot, poller, jobs):
    poller.poll_list()
    steps_of_one_poll(qtbot, poller)
    jobs.view = replace_fields(LIVE, step=7)
    assert steps_of_one_poll(qtbot, poller) == [5, 6]


def test_opening_a_job_brings_its_history_from_the_beginning(qtbot, poller):
    poller.poll_list()
    steps_of_one_poll(qtbot, poller)
    with qtbot.waitSignal(poller.updated) as blocker:
        poller.open_job("a")
    assert len(blocker.args[0].history.steps) == 5


def test_a_poll_under_way_when_the_job_opens_does_not_double_its_points(qapp, jobs):
    tasks = []

    class Later:
        def run(self, queue_name, work, on_success, on_error):
            tasks.append((work, on_success))

    poller = StatusPoller(jobs.poll, jobs.list, jobs.reap, Later(), NEVER)
    steps = []
    poller.updated.connect(lambda update: steps.extend(update.history.steps))
    poller.take_change(LIVE)
    work, on_success = tasks.pop()
    on_success(work())
    jobs.view = replace_fields(LIVE, step=7)
    poller.poll()
    early_task = tasks.pop()
    steps.clear()
    poller.open_job("a")
    early_task[1](early_task[0]())
    while tasks:
        work, on_success = tasks.pop()
        on_success(work())
    assert steps == [0, 1, 2, 3, 4, 5, 6]


def test_f32_a_job_whose_read_hangs_is_stale_until_the_read_returns(qtbot, qapp, jobs, monkeypatch):
    tasks = []

    class HangingRunner:
        def run(self, queue_name, work, on_success, on_error):
            tasks.append((work, on_success))

    poller = StatusPoller(jobs.poll, jobs.list, jobs.reap, HangingRunner(), NEVER)
    updates = []
    poller.updated.connect(lambda update: updates.append(update))
    poller.take_change(LIVE)
    poll_all(poller)
    assert not updates, "it may only be slow"
    monkeypatch.setattr(stale_data, "HANGS_S", -1.0)
    for _ in range(3):
        poll_all(poller)
    (update,) = updates
    assert re.fullmatch(r"no news since \d\d:\d\d", update.view.contact_warning)
    assert (update.view.state, len(update.history.steps)) == (JobState.TRAINING, 0)
    assert poller.live_views() == (update.view,)
    work, on_success = tasks[0]
    on_success(work())
    assert (updates[1].view.contact_warning, len(updates[1].history.steps)) == ("", 5)


def test_the_end_of_a_job_is_reported_once(qtbot, poller, jobs):
    poller.poll_list()
    jobs.view = replace_fields(LIVE, state=JobState.FINISHED)
    steps_of_one_poll(qtbot, poller)
    with qtbot.assertNotEmitted(poller.updated):
        poll_all(poller)


def test_nothing_is_kept_of_a_job_that_rests_and_is_not_open(poller, jobs):
    poll_all(poller)
    poller.start()
    poll_all(poller)
    assert set(poller._cursors) == {"a"}
    jobs.view = replace_fields(LIVE, state=JobState.FINISHED)
    poll_all(poller)
    assert not poller._cursors
    poller.open_job("a")
    assert set(poller._cursors) == {"a"}, "a job that goes on is drawn on from where it was"
    poller.open_job("b")
    assert "a" not in poller._cursors


def test_a_job_that_cannot_be_read_stays_watched(qtbot, poller, jobs):
    poller.poll_list()
    jobs.broken = "The data root does not answer."
    with qtbot.waitSignal(poller.job_failed) as blocker:
        poll_all(poller)
    assert blocker.args == ["a", "The data root does not answer."]
    jobs.broken = ""
    assert steps_of_one_poll(qtbot, poller) == [0, 1, 2, 3, 4]


def test_an_open_job_that_could_not_be_read_is_read_again_with_each_list(poller, jobs):
    jobs.view = replace_fields(LIVE, state=JobState.FINISHED)
    jobs.broken = "config.toml is gone."
    poller.open_job("a")
    for _ in range(2 * _ROUNDS_PER_LIST):
        poller.poll()
    assert len(jobs.cursors) == 1 + 2, "once with each list"
    jobs.broken = ""
    for _ in range(2 * _ROUNDS_PER_LIST):
        poller.poll()
    assert len(jobs.cursors) == 1 + 2 + 1


def test_a_list_that_cannot_be_read_is_a_sentence(qtbot, poller, jobs):
    jobs.broken = "The data root does not answer."
    with qtbot.waitSignal(poller.list_failed):
        poller.poll_list()


def test_m20_a_list_newer_than_the_read_does_not_report_the_end(qtbot, poller, jobs):
    poller.poll_list()
    jobs.view = replace_fields(LIVE, state=JobState.FINISHED)
    with qtbot.waitSignal(poller.jobs_listed) as signal:
        poller.poll_list()
    assert [view.state for view in signal.args[0]] == [JobState.TRAINING]
    steps_of_one_poll(qtbot, poller)
    with qtbot.waitSignal(poller.jobs_listed) as signal:
        poller.poll_list()
    assert [view.state for view in signal.args[0]] == [JobState.FINISHED]


@pytest.mark.parametrize("state", [JobState.TRAINING, JobState.FINISHED])
def test_a_read_before_a_local_change_does_not_undo_the_change(qapp, jobs, state):
    """A name that is back for a moment would also hide a second change."""
    jobs.view = previous_view = replace_fields(LIVE, state=state)
    answers = []

    class AnsweredLater:
        def run(self, queue_name, work, on_success, on_error):
            answers.append(partial(on_success, work()))

    poller = StatusPoller(jobs.poll, jobs.list, jobs.reap, AnsweredLater(), NEVER)
    names = []
    poller.updated.connect(lambda update: names.append(update.view.name))
    poller.jobs_listed.connect(lambda views: names.extend(view.name for view in views))
    poller.open_job("a")
    poller.poll_list()
    jobs.view = replace(previous_view, name="renamed")
    poller.take_change(jobs.view)
    while answers:
        answers.pop(0)()
    assert set(names) == {"renamed"}


class ManualRunner:
    """A runner whose work ends when the test says so."""

    def __init__(self):
        self.tasks = []

    def run(self, queue_name, work, on_success, on_error):
        self.tasks.append((queue_name, lambda: on_success(work())))

    def end(self, number):
        self.tasks[number][1]()


def views(count):
    return tuple(replace(LIVE, id=f"job{number:02d}") for number in range(count))


@pytest.fixture
def manual_poller(qapp, monkeypatch):
    """A poller of six live jobs, and the runner that it asks; its clock stands still."""
    now = time.monotonic()
    monkeypatch.setattr("app.jobs.status_poller.time.monotonic", lambda: now)
    runner = ManualRunner()
    listing = JobListing(views(6), total=6)
    by_id = {view.id: view for view in listing.views}

    def poll_job(job_id, _cursor):
        return RunUpdate(by_id[job_id], HistoryUpdate(), 0)

    poller = StatusPoller(poll_job, lambda: listing, pytest.fail, runner, NEVER)
    poller.poll_list()
    runner.end(0)
    runner.tasks.clear()
    return poller, runner


def test_the_open_job_is_polled_each_time_and_the_others_every_second_time(
    qtbot, jobs, immediately
):
    listing = JobListing(views(3), total=3)
    polled = []

    def poll_job(job_id, _cursor):
        polled.append(job_id)
        return RunUpdate(replace(LIVE, id=job_id), HistoryUpdate(), 0)

    poller = StatusPoller(poll_job, lambda: listing, pytest.fail, immediately, NEVER)
    poller.poll_list()
    poller.open_job("job01")
    polled.clear()
    for _ in range(4):
        poller.poll()
    assert Counter(polled) == {"job00": 2, "job01": 4, "job02": 2}


def test_at_most_two_polls_run_at_a_time(manual_poller):
    poller, runner = manual_poller
    poller.poll()
    assert [queue_name for queue_name, _ in runner.tasks] == ["look job00", "look job01"]
    for number in range(6):
        assert len(runner.tasks) == min(number + 2, 6)
        runner.end(number)
    assert [queue_name for queue_name, _ in runner.tasks] == [
        f"look job{number:02d}" for number in range(6)
    ]


def test_a_poll_that_hangs_delays_no_poll_of_another_job(manual_poller, monkeypatch):
    poller, runner = manual_poller
    poller.poll()
    started_s = time.monotonic()
    monkeypatch.setattr("app.jobs.status_poller.time.monotonic", lambda: started_s + 5.0)
    poller.poll()
    assert [queue_name for queue_name, _ in runner.tasks[2:]] == ["look job02", "look job03"]


def test_a_long_silence_is_reported_except_for_the_first_list(manual_poller, monkeypatch):
    poller, runner = manual_poller
    reports = []
    poller.updated.connect(
        lambda update: reports.append((update.view.id, update.view.contact_warning))
    )
    poller.list_failed.connect(lambda message: reports.append(("", message)))
    poller.poll()
    poller.poll_list()
    started_s = time.monotonic()
    monkeypatch.setattr("app.jobs.status_poller.time.monotonic", lambda: started_s + 29.0)
    poller.poll()
    assert reports == []
    monkeypatch.setattr("app.jobs.status_poller.time.monotonic", lambda: started_s + 31.0)
    poller.poll()
    jobs = [(job_id, message[:14]) for job_id, message in reports if job_id]
    assert jobs == [("job00", "no news since "), ("job01", "no news since ")]
    assert reports[-1][1].startswith("The data root does not respond: no news since ")
    new_poller = StatusPoller(pytest.fail, pytest.fail, pytest.fail, runner, NEVER)
    new_poller.list_failed.connect(pytest.fail)
    new_poller.poll_list()
    monkeypatch.setattr("app.jobs.status_poller.time.monotonic", lambda: started_s + 99.0)
    new_poller.poll()


def test_polls_that_hang_leave_threads_to_others(qapp, monkeypatch):
    runner = ManualRunner()
    poller = StatusPoller(
        pytest.fail, lambda: JobListing(views(40), total=40), pytest.fail, runner, NEVER
    )
    poller.poll_list()
    runner.end(0)
    now = time.monotonic()
    for _ in range(40):
        poller.poll()
        now += 5.0
        monkeypatch.setattr("app.jobs.status_poller.time.monotonic", lambda now_s=now: now_s)
    assert len([queue_name for queue_name, _ in runner.tasks if queue_name.startswith("look")]) == 8


def test_f04_a_run_that_recorded_no_end_is_reaped_before_its_end_is_shown(poller, jobs):
    poller.poll_list()
    updated_states, listed_states = [], []
    poller.updated.connect(lambda update: updated_states.append(update.view.state))
    poller.jobs_listed.connect(lambda views: listed_states.extend(view.state for view in views))
    jobs.view = replace_fields(
        LIVE, state=JobState.ERROR, unrecorded_end=UnrecordedEnd.SUPERVISOR_GONE
    )
    poll_all(poller)
    assert jobs.reaped == ["a"]
    assert updated_states == [JobState.FINISHED]
    poller.poll_list()
    assert JobState.ERROR not in listed_states
    assert jobs.reaped == ["a"]


def test_a_run_that_cannot_be_reaped_is_shown_as_it_was_read(poller, jobs):
    poller.poll_list()
    states, messages = [], []
    poller.updated.connect(lambda update: states.append(update.view.state))
    poller.job_failed.connect(lambda _job, message: messages.append(message))
    jobs.is_read_only = True
    jobs.view = replace_fields(
        LIVE, state=JobState.ERROR, unrecorded_end=UnrecordedEnd.SUPERVISOR_GONE
    )
    poll_all(poller)
    poller.poll_list()
    assert jobs.reaped == ["a"]
    assert states == [JobState.ERROR]
    assert messages == ["The end of run 1 cannot be written: Read-only file system."]


def test_a_run_that_could_not_be_reaped_is_tried_again_later(poller, jobs, monkeypatch):
    now = time.monotonic()
    poller.poll_list()
    jobs.is_read_only = True
    jobs.view = replace_fields(
        LIVE, state=JobState.ERROR, unrecorded_end=UnrecordedEnd.SUPERVISOR_GONE
    )
    poll_all(poller)
    assert jobs.reaped == ["a"]
    jobs.is_read_only = False
    monkeypatch.setattr("app.jobs.status_poller.time.monotonic", lambda: now + 3600.0)
    poller.poll_list()
    assert jobs.reaped == ["a", "a"]
    assert jobs.view.state is JobState.FINISHED
