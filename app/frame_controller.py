"""What belongs to the window as a whole: settings, notices, the palette, the keys, the size."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QProcess, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices, QIcon, QKeySequence, QShortcut
from PySide6.QtWidgets import QFileDialog, QMenu, QSystemTrayIcon

from app.background import Background
from app.go_to import Act, GoTo
from app.notices import Notice, Notices
from app.paths import log_file, settings_file
from app.settings import Settings
from backend.errors import BackendError
from backend.records.node import Finding
from widgets.common.look import Look, ThemeChoice
from widgets.common.text import literal
from widgets.frame.keys import KEYS
from widgets.frame.keys_sheet import KeysSheet
from widgets.frame.palette import Palette, Target
from widgets.frame.places import PLACES
from widgets.frame.settings_page import SCALES, Places, SettingsPage
from widgets.main_window import MainWindow

if TYPE_CHECKING:
    from backend.services.workplace import Services

_SAVE_AFTER_MS = 1000
_NOTICES_SHOWN = 20
SCALE_VARIABLE = "QT_SCALE_FACTOR"


def scale_for(percent: int) -> str:
    """Qt's factor, over what the system says; it is read once, when the application is made."""
    return f"{(percent if percent in SCALES else 100) / 100:g}"


class FrameController(QObject):
    """The side bar's foot and everything behind it.

    Signals:
        job_opened: Id of a job that a notice is about.
    """

    job_opened = Signal(str)

    def __init__(
        self,
        settings: Settings,
        look: Look,
        window: MainWindow,
        background: Background,
        icon: QIcon,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._settings = settings
        self._look = look
        self._window = window
        self._background = background
        self._services: Services | None = None
        self._save_soon = QTimer(self)
        self._save_soon.setSingleShot(True)
        self._save_soon.setInterval(_SAVE_AFTER_MS)
        self._save_soon.timeout.connect(self._save)
        self.notices = Notices(lambda: settings.preferences.tell_finished, parent=self)
        self.notices.told.connect(self._notify)
        self._tray = QSystemTrayIcon(icon, self)
        self._tray.messageClicked.connect(self._open_newest_notice)
        self._unread = 0
        self.go_to = GoTo()
        self._palette: Palette | None = None
        self._page: SettingsPage | None = None
        side_bar = window.side_bar
        side_bar.theme_toggled.connect(look.toggle)
        side_bar.notices_wished.connect(self._show_notices)
        side_bar.settings_wished.connect(self.open_settings)
        look.changed.connect(self._look_changed)
        window.resized.connect(self._resized)
        side_bar.set_dark(look.is_dark)
        self._make_keys()
        self._make_acts()

    # -- keys and acts

    def _make_keys(self) -> None:
        for key, act in (
            ("Ctrl+K", self.open_palette),
            ("Ctrl+,", self.open_settings),
            ("F1", self.show_keys),
            ("Ctrl++", partial(self._step_scale, 1)),
            ("Ctrl+-", partial(self._step_scale, -1)),
            ("Ctrl+0", partial(self._choose_scale, 100)),
        ):
            QShortcut(QKeySequence(key), self._window, act)

    def _make_acts(self) -> None:
        window = self._window
        for place in PLACES:
            self.add_act(place.title, place.icon, partial(window.go, place.key))
        self.add_act("Settings", "gear", self.open_settings)
        self.add_act("Keys and help", "keyboard", self.show_keys)
        self.add_act("Dark or light", "moon", self._look.toggle)
        self.add_act("Report a problem…", "first-aid", self.report)
        self.add_act("Full screen", "arrows-out", window.toggle_full_screen)
        self.add_act("Back", "arrow-left", window.back)

    def add_act(
        self,
        title: str,
        icon: str,
        do: Callable[[], object],
        is_able: Callable[[], bool] = lambda: True,
        aside: str = "",
    ) -> None:
        """An act that the palette offers, with the key that the table of keys has for it."""
        key = next((known.key for known in KEYS if known.does == title), "")
        target = Target("act", title, title, aside, icon, key)
        self.go_to.add_act(Act(target, do, is_able))

    @property
    def palette(self) -> Palette:
        """Made when it is first asked for: the first frame of the window does not need it."""
        if self._palette is None:
            self._palette = Palette(self._window)
            self._palette.searched.connect(self._search)
            self._palette.chosen.connect(self.go_to.open)
        return self._palette

    @Slot()
    def open_palette(self) -> None:
        self.palette.open()

    @Slot(str)
    def _search(self, text: str) -> None:
        self.go_to.ask(text, self.palette.show_targets)

    @Slot()
    def show_keys(self) -> None:
        sheet = KeysSheet(self._window)
        sheet.finished.connect(sheet.deleteLater)
        sheet.open()

    # -- settings

    def take_page(self, page: SettingsPage) -> None:
        """The page was built: fill and wire it."""
        self._page = page
        page.set_scale_now(self._settings.preferences.scale_percent)
        page.theme_chosen.connect(lambda key: self._look.choose(ThemeChoice(key)))
        page.scale_chosen.connect(self._choose_scale)
        page.restart_requested.connect(self._restart)
        page.motion_chosen.connect(self._choose_motion)
        page.finished_chosen.connect(lambda on: self._remember(tell_finished=on))
        page.place_opened.connect(_open)
        page.checks_requested.connect(self.check)
        page.report_requested.connect(self.report)
        page.keys_requested.connect(self.show_keys)
        self._show_choices()

    def furnish(self, services: Services) -> None:
        """The services are there."""
        self._services = services
        if self._page is not None:
            self._page.show_places(
                Places(
                    data_root=services.data_root.name,
                    catalogue=str(services.catalogue.path),
                    settings=str(settings_file()),
                    known_hosts=str(services.cluster.known_hosts_path),
                    log=str(log_file()),
                )
            )

    def show_checks(self, findings: tuple[Finding, ...]) -> None:
        if self._page is not None:
            self._page.show_checks(findings)

    @Slot()
    def check(self) -> None:
        """Look at what is installed here, for the settings page."""
        services = self._services
        if services is not None:
            self._background.run("doctor", services.nodes.doctor, self.show_checks, self._tell)

    @Slot()
    def open_settings(self) -> None:
        self._window.go("settings")

    def _show_choices(self) -> None:
        preferences = self._settings.preferences
        if self._page is not None:
            self._page.show_choices(
                preferences.theme,
                preferences.scale_percent,
                preferences.reduced_motion,
                preferences.tell_finished,
            )

    def remember(self, **changes: Any) -> None:
        """Keep these preferences; they are written a little later."""
        self._remember(**changes)

    def _remember(self, **changes: Any) -> None:
        if self._settings.change(**changes):
            self._save_soon.start()
            self._show_choices()

    @Slot()
    def _save(self) -> None:
        self._background.run("settings", self._settings.save, lambda _: None, lambda _: None)

    @Slot()
    def _look_changed(self) -> None:
        self._window.side_bar.set_dark(self._look.is_dark)
        self._remember(theme=self._look.choice.value)

    @Slot(bool)
    def _choose_motion(self, reduced: bool) -> None:
        self._look.reduce_motion(reduced)
        self._remember(reduced_motion=reduced)

    @Slot(int, int)
    def _resized(self, width: int, height: int) -> None:
        if not self._window.isFullScreen():
            self._remember(width=width, height=height)

    def _step_scale(self, by: int) -> None:
        now = self._settings.preferences.scale_percent
        at = SCALES.index(now) if now in SCALES else 0
        self._choose_scale(SCALES[max(0, min(at + by, len(SCALES) - 1))])

    @Slot(int)
    def _choose_scale(self, percent: int) -> None:
        if percent != self._settings.preferences.scale_percent:
            self._remember(scale_percent=percent)
            self._window.toast.tell(f"{percent} % from the next start of the window on")

    @Slot()
    def _restart(self) -> None:
        """Open the window anew in another process; no job hangs on this one."""
        self._settings.save()
        os.environ.pop(SCALE_VARIABLE, None)
        QProcess.startDetached(sys.executable, sys.orig_argv[1:])
        self._window.close()

    # -- a report for whoever is to help

    @Slot()
    def report(self) -> None:
        """One file with logs and versions, where the person wants it."""
        services = self._services
        if services is None:
            return
        suggested = str(Path.home() / "ringmaster-report.zip")
        path, _ = QFileDialog.getSaveFileName(
            self._window, "Report a problem", suggested, "Zip (*.zip)"
        )
        if not path:
            return

        def write() -> Path:
            from backend.services.report import write_report

            return write_report(services, Path(path), log_file())

        self._background.run("report", write, self._reported, self._tell)

    def _reported(self, path: Path) -> None:
        self._window.toast.tell(f"The report is in {path}")

    def _tell(self, error: BackendError) -> None:
        self._window.toast.tell(f"{error} {error.remedy}".strip())

    # -- notices

    @Slot(Notice)
    def _notify(self, notice: Notice) -> None:
        self._unread += 1
        self._window.side_bar.set_unread(self._unread)
        if QSystemTrayIcon.isSystemTrayAvailable():
            self._tray.show()
            self._tray.showMessage(notice.title, notice.text)

    @Slot()
    def _open_newest_notice(self) -> None:
        """A click on the tray's message, which is always about the newest notice."""
        if self.notices.past and self.notices.past[0].job_id:
            self.job_opened.emit(self.notices.past[0].job_id)
            self._window.activateWindow()

    @Slot()
    def _show_notices(self) -> None:
        self._unread = 0
        side_bar = self._window.side_bar
        side_bar.set_unread(0)
        menu = QMenu(self._window)
        for notice in self.notices.past[:_NOTICES_SHOWN]:
            action = menu.addAction(literal(f"{notice.when:%H:%M}  {notice.title}"))
            action.setToolTip(notice.text)
            if notice.job_id:
                action.triggered.connect(partial(self.job_opened.emit, notice.job_id))
        if not self.notices.past:
            menu.addAction("Nothing has ended yet").setEnabled(False)
        menu.popup(side_bar.mapToGlobal(side_bar.rect().bottomLeft()))


def _open(path: str) -> None:
    place = Path(path)
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(place if place.is_dir() else place.parent)))
