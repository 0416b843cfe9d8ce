"""What another user did with a job of one's own is in the bell, with a way to the job."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QWidget

from app.notifications import notification_center
from app.notifications.notification_center import NotificationCenter
from app.notifications.notification_store import NotificationStore
from backend.records.jobs.audit_entry import OwnerNotice
from widgets.common.buttons import Button


@pytest.fixture
def center(qtbot, immediately, tmp_path, monkeypatch):
    path = tmp_path / "notices.json"
    monkeypatch.setattr(notification_center, "notices_file", lambda: path)
    window = QWidget()
    qtbot.addWidget(window)
    window.side_bar = SimpleNamespace(bell=Button("bell"), set_unread=lambda _count: None)
    tray = SimpleNamespace(notify=lambda notice: window.shown.append(notice))
    window.shown = []
    center = NotificationCenter(window, immediately, tray, lambda: True, window)
    center.take_data_root("/data")
    center.shown, center.path = window.shown, path
    return center


def test_a_notice_is_shown_kept_and_leads_to_the_job(center):
    message = "Stopped: the GPUs are needed (by ben on desk)"
    center.show_owner_notices((OwnerNotice("j1", "digits", message),))
    (notice,) = center.shown
    assert (notice.title, notice.text, notice.job_id) == ("Your job digits", message, "j1")
    assert NotificationStore(center.path).unread_count_of("/data") == 1
    center.show_owner_notices((OwnerNotice("j1", "digits", "It waits.", owner="anna"),))
    assert center.shown.pop().title == "Job digits of anna"
    center.show_owner_notices(())
    assert len(center.shown) == 1
