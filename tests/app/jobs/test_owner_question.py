"""The job of another user is stopped or removed after a question; one's own without."""

from __future__ import annotations

from functools import partial

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.jobs.owner_question import OwnerQuestion
from backend.records.base.account import user_name
from backend.records.jobs.summary import summary_of
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.windows import find_button, find_only, visible_texts
from widgets.common.fields import LineEdit


def job_of(user: str, name: str = "digits"):
    return summary_of(replace_fields(lab.LIVE, user=user, name=name))


@pytest.fixture
def reasons():
    return []


@pytest.fixture
def question(qtbot, immediately):
    window = QWidget()
    qtbot.addWidget(window)
    return OwnerQuestion(immediately, window)


@pytest.mark.parametrize("jobs", [(), (None,), (job_of(""),), (job_of(user_name()),)])
def test_no_question_is_asked_about_the_own_job(question, reasons, jobs):
    question.ask(jobs, "Stop", reasons.append)
    assert reasons == [""]
    assert question.dialog is None


@pytest.mark.parametrize(
    ("jobs", "title"),
    [
        ((job_of("ben"),), "Stop a job of ben?"),
        ((job_of("ben"), job_of("ben", "b"), job_of(user_name())), "Stop 2 jobs of ben?"),
        ((job_of("ben"), job_of("chen")), "Stop 2 jobs of ben and chen?"),
    ],
)
def test_the_reason_goes_to_the_owners(question, reasons, qtbot, jobs, title):
    question.ask(jobs, "Stop", reasons.append)
    dialog = question.dialog
    assert title in visible_texts(dialog)
    assert reasons == []
    find_only(LineEdit, dialog).setText("the GPUs are needed")
    qtbot.mouseClick(find_button(dialog, "Stop"), Qt.MouseButton.LeftButton)
    assert reasons == ["the GPUs are needed"]
    assert question.dialog is None


def test_nothing_happens_when_the_question_is_closed(question, reasons, qtbot):
    question.ask((job_of("ben"),), "Remove", partial(reasons.append))
    qtbot.mouseClick(find_button(question.dialog, "Close"), Qt.MouseButton.LeftButton)
    assert reasons == []
