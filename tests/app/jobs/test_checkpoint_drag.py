"""A checkpoint that is dragged out of the window is exported, and the window does not freeze."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt, QTimer

from app.jobs.checkpoint_drag import CheckpointDragSource
from app.runtime.background import Background
from backend.base.errors import BackendError
from tests.waiting import LIMIT_MS, wait_for
from tests.widgets.jobs.detail.test_job_detail import FAILED, checkpoint
from tests.windows import the
from widgets.common import lazy_file_drag
from widgets.common.buttons import SegmentedControl
from widgets.common.lazy_file_drag import FilePromise, PromisedFile
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointTable
from widgets.jobs.detail.job_detail import JobDetail

ONE, OTHER = checkpoint(10), checkpoint(20, is_best=True)


class Jobs:
    """Exports a few bytes, once it may."""

    def __init__(self):
        self.may = threading.Event()
        self.may.set()
        self.fault = None
        self.asked = []

    def export(self, job_id, name, kind, target, progress):
        self.asked.append((job_id, name, kind, target.name))
        wait_for(lambda: progress.step(0, 1, "waiting") or self.may.is_set())
        progress.step(0, 1, "writing")
        if self.fault:
            raise self.fault
        target.write_bytes(b"exported")
        return target


@pytest.fixture
def jobs():
    jobs = Jobs()
    yield jobs
    jobs.may.set()


@pytest.fixture
def background(qapp):
    background = Background(2)
    yield background
    background.close()


@pytest.fixture
def detail(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(FAILED)
    detail.show_checkpoints(FAILED.id, (ONE, OTHER))
    return detail


@pytest.fixture
def carry(jobs, background, detail, monkeypatch):
    # A busy machine may take longer than a drop waits.
    monkeypatch.setattr(lazy_file_drag, "WAIT_MS", LIMIT_MS)
    carry = CheckpointDragSource(jobs, background, detail.job_actions)
    carry.heard = []
    background.notified.connect(carry.heard.append)
    yield carry
    jobs.may.set()
    carry.close()


def hold(monkeypatch, is_held):
    buttons = Qt.MouseButton.LeftButton if is_held else Qt.MouseButton.NoButton
    monkeypatch.setattr(
        lazy_file_drag, "QGuiApplication", SimpleNamespace(mouseButtons=lambda: buttons)
    )


def take(detail, one=ONE):
    """The drag begins."""
    promise = FilePromise()
    the(CheckpointTable, detail.checkpoints).drag_started.emit(one, promise)
    return promise


def dropped(promise):
    """What another program gets."""
    promise.is_let_go = True
    return [Path(url.toLocalFile()) for url in PromisedFile(promise).urls()]


def test_a_dragged_checkpoint_has_the_format_and_name_of_the_last_export(carry, detail, jobs):
    (path,) = dropped(take(detail))
    assert (path.name, path.read_bytes()) == ("digits.zip", b"exported")
    kinds = []
    detail.job_actions.on(job_actions.EXPORT_FORMAT, kinds.append)
    detail.export()
    the(SegmentedControl, detail.exports.dialog.now).choose("pt")
    detail.exports.dialog.now._request()
    (path,) = dropped(take(detail, OTHER))
    assert path.name == "digits.pt"
    assert kinds == ["pt"]
    assert jobs.asked == [
        ("a", ONE.name, "zip", "digits.zip"),
        ("a", OTHER.name, "pt", "digits.pt"),
    ]
    tip = detail.checkpoints.model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "export it (PyTorch, the last format used)" in tip
    assert stat.S_IMODE(path.parents[1].stat().st_mode) == 0o700


def test_an_unknown_format_is_not_remembered(detail):
    detail.exports.restore_kind("docx")
    detail.export()
    assert the(SegmentedControl, detail.exports.dialog.now).key() == "zip"


def test_other_programs_see_the_address_of_a_held_checkpoint_at_once(
    carry, detail, jobs, monkeypatch
):
    jobs.may.clear()
    hold(monkeypatch, True)
    promise = take(detail)
    content = PromisedFile(promise)
    assert (content.hasUrls(), content.hasText(), content.hasHtml()) == (True, True, False)
    assert [url.toLocalFile() for url in content.urls()] == [promise.path]
    assert not Path(promise.path).exists()
    assert not promise.is_settled


def test_an_early_drop_waits_for_its_file_without_blocking_the_window(
    carry, detail, jobs, monkeypatch
):
    jobs.may.clear()
    hold(monkeypatch, False)
    ticks = []
    ticking = QTimer()
    ticking.setInterval(5)
    ticking.timeout.connect(lambda: ticks.append(1))
    ticking.timeout.connect(lambda: len(ticks) == 10 and jobs.may.set())
    promise = take(detail)
    ticking.start()
    (path,) = dropped(promise)
    assert path.read_bytes() == b"exported"
    assert len(ticks) >= 10
    assert carry.heard == ["Making “digits.zip”…"]


def test_a_message_says_when_a_slow_export_can_be_dragged_again(
    carry, detail, jobs, monkeypatch, qtbot
):
    jobs.may.clear()
    monkeypatch.setattr(lazy_file_drag, "WAIT_MS", 30)
    assert dropped(take(detail)) == []
    assert carry.heard[1:] == [
        "“digits.zip” was not ready yet; a message will say when to drag it again"
    ]
    jobs.may.set()
    qtbot.waitUntil(lambda: len(carry.heard) == 3)
    assert carry.heard[2] == "“digits.zip” is ready: drag it again"
    jobs.may.clear()
    (path,) = dropped(take(detail))
    assert path.read_bytes() == b"exported"
    assert len(jobs.asked) == 1


def test_a_message_says_that_an_export_still_held_is_ready(carry, detail, qtbot):
    promise = take(detail)
    with qtbot.waitSignal(promise.settled):
        pass
    assert carry.heard == [
        "Making “digits.zip”…",
        "“digits.zip” is ready: drop it in a folder",
    ]


def test_a_failed_export_shows_one_sentence_and_drops_nothing(carry, detail, jobs):
    jobs.fault = BackendError("The checkpoint is gone.", "Choose another.")
    assert dropped(take(detail)) == []
    assert carry.heard[1:] == ["The checkpoint is gone. Choose another."]


def test_an_unaccepted_drop_cancels_the_export(carry, detail, jobs, qtbot):
    jobs.may.clear()
    promise = take(detail)
    promise.is_drag_over = True
    with qtbot.waitSignal(promise.settled):
        promise.abandoned.emit()
    assert not promise.is_fulfilled
    assert carry.heard == ["Making “digits.zip”…"]


def test_the_last_three_exports_are_kept_until_the_window_closes(carry, detail):
    paths = [dropped(take(detail))[0] for _ in range(5)]
    assert [path.exists() for path in paths] == [False, False, True, True, True]
    carry.close()
    assert not paths[-1].parents[1].exists()
