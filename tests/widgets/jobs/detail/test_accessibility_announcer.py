"""A screen reader announces the progress of the open job: each state once, each ten percent."""

from dataclasses import replace

import pytest
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent

from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError
from tests.job_views import replace_fields
from tests.pictures import lab
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.detail.job_detail import JobDetail


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
