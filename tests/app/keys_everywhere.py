"""The keys that are heard everywhere."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

from tests.app.key_desk import presses
from tests.app.used_data_root import FALLING
from tests.fakes import trained
from tests.windows import find_only
from widgets.common.labels import Label
from widgets.shell.shortcuts import SHORTCUTS


@presses("Command palette")
def _(desk, press):
    press()
    assert desk.program.frame.palette.isVisible()
    desk.press("Esc")


def _page(key):
    def check(desk, press):
        desk.window.open_page("settings")
        press()
        desk.wait(lambda: desk.window.page_key == key)

    return check


for _label in ("Jobs", "Compare", "Datasets", "Models", "Loaders", "Nodes", "Scripts"):
    presses(_label)(_page(_label.lower()))


@presses("Back")
def _(desk, press):
    desk.window.open_page("models")
    press()
    assert desk.window.page_key == "jobs"


@presses("Forward")
def _(desk, press):
    desk.window.open_page("models")
    desk.window.back()
    press()
    assert desk.window.page_key == "models"


@presses("Search this page")
def _(desk, press):
    press()
    assert desk.jobs.list.search.hasFocus()
    desk.window.open_page("models")
    press()
    assert desk.hands.name() == "Search: Name"


@presses("Refresh")
def _(desk, press):
    """A job of another desktop is listed, though no poll was due."""
    poller = desk.program._job_controllers.poller
    poller.stop()
    try:
        desk.wait(lambda: poller._list_started_s is None)
        root = desk.program._services.data_root.path
        job_id = trained.job(root, f"made elsewhere {desk.jobs.job_count}", FALLING[:10])
        desk.window.toast.hide()
        press()
        assert find_only(Label, desk.window.toast).text() == "Refreshing…"
        desk.wait(lambda: desk.jobs.model.summary(job_id) is not None)
    finally:
        poller.start()


@presses("Menu of the row or field")
def _(desk, press):
    desk.queue()
    press()
    assert "Remove from queue" in [a.text() for a in desk.hands.focus().actions()]


@presses("Settings")
def _(desk, press):
    press()
    assert desk.window.page_key == "settings"


def _scale(steps, old_percent, new_percent):
    def check(desk, press):
        desk.program.frame._choose_scale(old_percent)
        press()
        assert desk.program._settings_writer.preferences.scale_percent == new_percent
        desk.program.frame._choose_scale(100)

    presses(steps)(check)


_scale("Zoom in", 100, 110)
_scale("Zoom out", 125, 110)
_scale("Reset zoom", 150, 100)


@presses("Full screen")
def _(desk, press):
    press()
    desk.wait(desk.window.isFullScreen)
    press()
    desk.wait(lambda: not desk.window.isFullScreen())


@presses("Help")
def _(desk, press):
    press()
    assert desk.window.page_key == "help"


@presses("Keyboard shortcuts")
def _(desk, press):
    press()
    desk.wait(lambda: QApplication.activeModalWidget() is not None)
    assert QApplication.activeModalWidget().windowTitle() == "Keyboard shortcuts"


def _new_job(desk, press):
    press()
    desk.wait(lambda: desk.window.page_key == "new-job")


for _page_title in ("", "Jobs"):
    if (_page_title, "New job") in {(key.page_title, key.label) for key in SHORTCUTS}:
        presses("New job", _page_title)(_new_job)
