"""A checkpoint that is dragged out of the window is exported, and the window does not freeze."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt, QTimer

from app.jobs.checkpoint_controllers import CheckpointDragSource
from app.runtime.background import Background
from backend.base.errors import BackendError
from tests.waiting import LIMIT_MS, wait_for
from tests.widgets.jobs.detail.test_job_detail import FAILED, checkpoint
from tests.windows import find_only
from widgets.common import drag_and_drop
from widgets.common.buttons import SegmentedControl
from widgets.common.drag_and_drop import FilePromise, PromisedFile
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointTable
from widgets.jobs.detail.job_detail import JobDetail

LATEST, BEST = checkpoint(10), checkpoint(20, is_best=True)


class Jobs:
    """Exports a few bytes, once it may."""

    def __init__(self):
        self.may_export = threading.Event()
        self.may_export.set()
        self.error = None
        self.exports = []

    def export(self, job_id, name, kind, target, progress):
        self.exports.append((job_id, name, kind, target.name))
        wait_for(lambda: progress.step(0, 1, "waiting") or self.may_export.is_set())
        progress.step(0, 1, "writing")
        if self.error:
            raise self.error
        target.write_bytes(b"exported")
        return target


@pytest.fixture
def jobs():
    jobs = Jobs()
    yield jobs
    jobs.may_export.set()


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
    detail.show_checkpoints(FAILED.id, (LATEST, BEST))
    return detail


@pytest.fixture
def drag_source(jobs, background, detail, monkeypatch):
    # A busy machine may take longer than a drop waits.
    monkeypatch.setattr(drag_and_drop, "WAIT_MS", LIMIT_MS)
    drag_source = CheckpointDragSource(jobs, background, detail.job_actions)
    drag_source.notifications = []
    background.notified.connect(drag_source.notifications.append)
    yield drag_source
    jobs.may_export.set()
    drag_source.close()


def hold(monkeypatch, is_held):
    buttons = Qt.MouseButton.LeftButton if is_held else Qt.MouseButton.NoButton
    monkeypatch.setattr(
        drag_and_drop, "QGuiApplication", SimpleNamespace(mouseButtons=lambda: buttons)
    )


def start_drag(detail, shown_checkpoint=LATEST):
    """The drag begins."""
    promise = FilePromise()
    find_only(CheckpointTable, detail.checkpoints).drag_started.emit(shown_checkpoint, promise)
    return promise


def drop_paths(promise):
    """What another program gets."""
    promise.is_drag_over = True
    return [Path(url.toLocalFile()) for url in PromisedFile(promise).urls()]


def test_a_dragged_checkpoint_has_the_format_and_name_of_the_last_export(drag_source, detail, jobs):
    (path,) = drop_paths(start_drag(detail))
    assert (path.name, path.read_bytes()) == ("digits.zip", b"exported")
    kinds = []
    detail.job_actions.add_handler(job_actions.EXPORT_FORMAT, kinds.append)
    detail.export()
    find_only(SegmentedControl, detail.exporter.dialog.dialog).choose("pt")
    detail.exporter.dialog.dialog._request_export()
    (path,) = drop_paths(start_drag(detail, BEST))
    assert path.name == "digits.pt"
    assert kinds == ["pt"]
    assert jobs.exports == [
        ("a", LATEST.name, "zip", "digits.zip"),
        ("a", BEST.name, "pt", "digits.pt"),
    ]
    tip = detail.checkpoints.model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "export it (PyTorch, the last format used)" in tip
    assert stat.S_IMODE(path.parents[1].stat().st_mode) == 0o700


def test_an_unknown_format_is_not_remembered(detail):
    detail.exporter.restore_kind("docx")
    detail.export()
    assert find_only(SegmentedControl, detail.exporter.dialog.dialog).key() == "zip"


def test_other_programs_see_the_address_of_a_held_checkpoint_at_once(
    drag_source, detail, jobs, monkeypatch
):
    jobs.may_export.clear()
    hold(monkeypatch, True)
    promise = start_drag(detail)
    content = PromisedFile(promise)
    assert (content.hasUrls(), content.hasText(), content.hasHtml()) == (True, True, False)
    assert [url.toLocalFile() for url in content.urls()] == [promise.path]
    assert not Path(promise.path).exists()
    assert not promise.is_settled


def test_an_early_drop_waits_for_its_file_without_blocking_the_window(
    drag_source, detail, jobs, monkeypatch
):
    jobs.may_export.clear()
    hold(monkeypatch, False)
    ticks = []
    ticking = QTimer()
    ticking.setInterval(5)
    ticking.timeout.connect(lambda: ticks.append(1))
    ticking.timeout.connect(lambda: len(ticks) == 10 and jobs.may_export.set())
    promise = start_drag(detail)
    ticking.start()
    (path,) = drop_paths(promise)
    assert path.read_bytes() == b"exported"
    assert len(ticks) >= 10
    assert drag_source.notifications == ["Making “digits.zip”…"]


def test_a_message_says_when_a_slow_export_can_be_dragged_again(
    drag_source, detail, jobs, monkeypatch, qtbot
):
    jobs.may_export.clear()
    monkeypatch.setattr(drag_and_drop, "WAIT_MS", 30)
    assert drop_paths(start_drag(detail)) == []
    assert drag_source.notifications[1:] == [
        "“digits.zip” was not ready yet; a message will say when to drag it again"
    ]
    jobs.may_export.set()
    qtbot.waitUntil(lambda: len(drag_source.notifications) == 3)
    assert drag_source.notifications[2] == "“digits.zip” is ready: drag it again"
    jobs.may_export.clear()
    (path,) = drop_paths(start_drag(detail))
    assert path.read_bytes() == b"exported"
    assert len(jobs.exports) == 1


def test_a_message_says_that_an_export_still_held_is_ready(drag_source, detail, qtbot):
    promise = start_drag(detail)
    with qtbot.waitSignal(promise.settled):
        pass
    assert drag_source.notifications == [
        "Making “digits.zip”…",
        "“digits.zip” is ready: drop it in a folder",
    ]


def test_a_failed_export_shows_one_sentence_and_drops_nothing(drag_source, detail, jobs):
    jobs.error = BackendError("The checkpoint is gone.", "Choose another.")
    assert drop_paths(start_drag(detail)) == []
    assert drag_source.notifications[1:] == ["The checkpoint is gone. Choose another."]


def test_an_unaccepted_drop_cancels_the_export(drag_source, detail, jobs, qtbot):
    jobs.may_export.clear()
    promise = start_drag(detail)
    promise.is_drag_over = True
    with qtbot.waitSignal(promise.settled):
        promise.abandoned.emit()
    assert not promise.is_fulfilled
    assert drag_source.notifications == ["Making “digits.zip”…"]


def test_the_last_three_exports_are_kept_until_the_window_closes(drag_source, detail):
    paths = [drop_paths(start_drag(detail))[0] for _ in range(5)]
    assert [path.exists() for path in paths] == [False, False, True, True, True]
    drag_source.close()
    assert not paths[-1].parents[1].exists()
