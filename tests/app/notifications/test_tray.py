"""The icon in the tray: the ring of the oldest job, a menu of all, and a way to each place."""

from dataclasses import replace
from datetime import datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon, QPixmap
from PySide6.QtWidgets import QSystemTrayIcon

from app.notifications.notification_rules import Notice
from app.notifications.tray import Tray, ring_icon
from backend.records.jobs.state import JobState
from tests.app.jobs.test_status_poller import LIVE
from tests.job_views import replace_fields

# The offscreen platform has no windows of a tray, and says so when an icon is shown.
pytestmark = pytest.mark.qt_log_ignore("systemTrayWindowChanged")
NOTICE = Notice("Failed: digits", "Why.", datetime.now().astimezone(), job_id="a")
HALF_DONE_VIEW = replace_fields(LIVE, step=50, total_steps=100, eta_s=2460.0)


@pytest.fixture
def mark(qapp):
    pixmap = QPixmap(64, 64)
    pixmap.fill()
    return QIcon(pixmap)


@pytest.fixture
def tray(mark):
    tray = Tray(mark, lambda: True)
    yield tray
    tray.close()


def texts(tray):
    return [action.text().replace("\xa0", " ") for action in tray._menu.actions() if action.text()]


def test_the_menu_has_the_running_jobs_and_the_ways_out(tray, qtbot):
    tray.show_live(
        (HALF_DONE_VIEW, replace_fields(HALF_DONE_VIEW, eta_s=None, id="b", name="R&D, <b>"))
    )
    assert texts(tray) == [
        "digits, 50 %, 41 min left",
        "R&&D, <b>, 50 %",
        "Open Ringmaster",
        "Quit; jobs keep running",
    ]
    with qtbot.waitSignal(tray.job_opened) as signal:
        tray._menu.actions()[1].trigger()
    assert signal.args == ["b"]
    with qtbot.waitSignal(tray.quit_requested):
        tray._menu.actions()[-1].trigger()
    assert tray._icon.toolTip().endswith("and 1 more")
    tray.show_live(())
    assert texts(tray)[0] == "Nothing is running"


def test_nothing_runs_only_once_the_jobs_were_read(tray):
    assert texts(tray) == ["Open Ringmaster", "Quit; jobs keep running"]
    assert tray._icon.toolTip() == "Ringmaster"
    tray.show_live(())
    assert texts(tray)[0] == "Nothing is running"
    assert "nothing is running" in tray._icon.toolTip()


def test_many_jobs_do_not_make_the_menu_higher_than_the_screen(tray):
    tray.show_live(tuple(replace(HALF_DONE_VIEW, id=f"{n}") for n in range(40)))
    assert "and 32 more" in texts(tray)
    assert len(texts(tray)) == 11


def test_the_icon_is_the_ring_and_changes_with_its_percent_alone(tray):
    def pixels(view):
        return ring_icon(view).pixmap(64).toImage()

    assert pixels(HALF_DONE_VIEW) != pixels(replace_fields(HALF_DONE_VIEW, step=60))
    assert pixels(HALF_DONE_VIEW) != pixels(replace_fields(HALF_DONE_VIEW, state=JobState.STOPPING))
    tray.show_live((HALF_DONE_VIEW,))
    key = tray._icon.icon().cacheKey()
    tray.show_live((replace_fields(HALF_DONE_VIEW, metrics={"loss": 1.0}),))
    assert tray._icon.icon().cacheKey() == key
    tray.show_live((replace_fields(HALF_DONE_VIEW, step=51),))
    assert tray._icon.icon().cacheKey() != key


def test_a_click_on_a_message_opens_its_subject(tray, qtbot):
    tray.notify(NOTICE)
    with qtbot.waitSignal(tray.notice_opened) as signal:
        tray._icon.messageClicked.emit()
    assert signal.args == [NOTICE]
    with qtbot.waitSignal(tray.window_requested):
        tray._icon.activated.emit(QSystemTrayIcon.ActivationReason.Trigger)


def test_a_desktop_without_a_tray_shows_nothing_and_raises_nothing(mark):
    tray = Tray(mark, lambda: False)
    tray.show_live((HALF_DONE_VIEW,))
    tray.notify(NOTICE)
    assert not tray._icon.isVisible()
    tray.close()


def test_f58_a_name_is_no_markup_in_tool_tip_and_message(tray, monkeypatch):
    tray.show_live((replace(HALF_DONE_VIEW, name="<img src=x><b>bold"),))
    assert "bold" in tray._icon.toolTip()
    assert not Qt.mightBeRichText(tray._icon.toolTip())
    texts = []
    monkeypatch.setattr(tray._icon, "showMessage", lambda *args: texts.extend(args[:2]))
    tray.notify(replace(NOTICE, title="Failed: <b>bold", text="<img src=x> raised."))
    assert texts == ["Failed: ‹b>bold", "‹img src=x> raised."]
