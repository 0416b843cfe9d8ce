"""Check everything from the settings: progress, cancel, findings, and a repair once confirmed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QApplication, QWidget

from app.shell.verify_controller import VerifyController
from backend.base.errors import BackendError, Cancelled
from backend.records.base.program_name import COMMAND
from backend.records.verify.finding import RepairResult, Verification, VerifyFinding
from widgets.common.buttons import Button
from widgets.common.labels import Label
from widgets.shell.verify_section import VerifySection

CUT = VerifyFinding("checkpoints", "job a", "It is cut.", "Moves it.", "", ("jobs/a/x.pt",))
TORN = VerifyFinding("small records", "job b", "It is torn.", "Moves it.", "", ("jobs/b/s",))
MISSING_FILE = VerifyFinding(
    "version files", "dataset d@1", "A file is missing.", "", "Restore it."
)


def verification(*findings: VerifyFinding, hashed: int | None = None) -> Verification:
    return Verification(2, 1, 3, hashed, 0, findings, ("gpu7 is silent.",))


@pytest.fixture
def service():
    """Answers are taken from ``answers``; an exception is raised. ``calls`` has each call."""
    answers, calls = [], []

    def answer(*args, **kwargs):
        calls.append((args, kwargs))
        next_answer = answers.pop(0)
        if isinstance(next_answer, Exception):
            raise next_answer
        return next_answer

    return SimpleNamespace(verify=answer, repair=answer, answers=answers, calls=calls)


@pytest.fixture
def section(qtbot, service, immediately):
    window = QWidget()
    qtbot.addWidget(window)
    section = VerifySection(window)
    section.resize(700, 600)
    window.show()
    section.controller = VerifyController(service, immediately, section, window)
    section.notifications = immediately.notifications
    return section


def texts(section: QWidget) -> list[str]:
    QApplication.processEvents()
    return [w.text() for w in section.findChildren(Label) if w.isVisible()]


def button(section: QWidget, text: str) -> Button:
    QApplication.processEvents()
    buttons = section.findChildren(Button)
    return next(b for b in buttons if b.isVisible() and b.text() == text)


def repair(section: VerifySection, press: Callable[[], None]) -> tuple[str, ...]:
    press()
    dialog = section.controller.dialog
    shown_texts = tuple(texts(dialog))
    button(dialog, "Repair").click()
    return shown_texts


def test_findings_are_rows_and_a_confirmed_repair_removes_its_own(section, service):
    service.answers += [
        verification(CUT, TORN, MISSING_FILE, hashed=9),
        RepairResult((CUT,), (), "/r/trash/repaired"),
    ]
    section.contents.setChecked(True)
    section.check.click()
    assert service.calls[0][1]["hashes"] is True
    shown_texts = texts(section)
    assert {"It is cut.", "It is torn.", "A file is missing.", "Restore it."} <= set(shown_texts)
    assert "gpu7 is silent." in shown_texts
    dialog_texts = repair(section, button(section, "Repair…").click)
    assert "jobs/a/x.pt" in dialog_texts
    assert "jobs/b/s" not in dialog_texts
    assert service.calls[1][0] == ((CUT,),)
    assert service.calls[1][1]["hashes"] is True
    assert "It is cut." not in texts(section)
    assert "It is torn." in texts(section)
    assert section.notifications == ["Repaired 1 finding. What was moved is in /r/trash/repaired."]


def test_all_are_repaired_together_and_one_that_fails_stays(section, service):
    service.answers += [
        verification(CUT, TORN, MISSING_FILE),
        RepairResult((TORN,), (CUT,), "/r/trash/repaired"),
    ]
    section.check.click()
    dialog_texts = repair(section, button(section, "Repair all…").click)
    assert {"jobs/a/x.pt", "jobs/b/s"} <= set(dialog_texts)
    assert service.calls[1][0] == ((CUT, TORN),)
    assert "It is cut." in texts(section)
    assert "It is torn." not in texts(section)


def test_nothing_is_repaired_without_a_confirmation(section, service):
    service.answers += [verification(CUT)]
    section.check.click()
    button(section, "Repair…").click()
    button(section.controller.dialog, "Cancel").click()
    assert len(service.calls) == 1
    assert "It is cut." in texts(section)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BackendError("The data root is away.", "Mount it."), "The data root is away. Mount it."),
        (Cancelled(), ""),
    ],
)
def test_a_check_that_ends_early_says_why_and_can_begin_again(section, service, error, message):
    service.answers += [error, verification()]
    section.check.click()
    assert section.check.isEnabled()
    assert section.status.message.text() == message
    section.check.click()
    assert "Checked 2 jobs, 1 version and 3 checkpoints. No findings." in texts(section)


def test_cancel_reaches_the_check(section, service, immediately):
    def verify(*, hashes, progress):
        progress.step(1, 2, "Reading jobs")
        assert not section.check.isEnabled()
        section.status.progress.cancelled.emit()
        progress.step(2, 2, "Reading jobs")
        raise AssertionError("cancelled before")

    service.verify = verify
    section.check.click()
    assert section.check.isEnabled()
    assert section.status.isHidden()


def test_many_findings_are_not_many_widgets(section, service):
    many = [VerifyFinding("small records", f"job {n}", f"{n}") for n in range(1000)]
    service.answers += [verification(*many)]
    section.check.click()
    assert f"900 findings more: {COMMAND} verify lists all." in texts(section)
