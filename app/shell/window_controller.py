"""The window as a whole: settings, notifications, palette, shortcuts, zoom."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QProcess, Qt, QUrl, Signal, Slot
from PySide6.QtGui import QAction, QDesktopServices, QGuiApplication, QIcon, QKeySequence, QShortcut
from PySide6.QtWidgets import QFileDialog

from app.nodes.ssh_controller import SshController
from app.notifications.channels_controller import NoticeController
from app.notifications.notification_center import NotificationCenter
from app.notifications.notification_rules import Notice
from app.notifications.tray import Tray
from app.runtime.background import Background
from app.runtime.paths import log_file, settings_file
from app.runtime.settings_writer import SettingsWriter
from app.shell.command_search import CommandSearch
from app.shell.help import DOCS, TOPICS, read_topics
from app.shell.page_commands import PRESS, PageActs
from app.shell.verify_controller import VerifyController
from backend.base.errors import BackendError
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import Finding
from widgets.common.formats import Units
from widgets.common.theme_manager import ThemeChoice, ThemeManager
from widgets.common.ui_scale import SCALE_VARIABLE, SCALES
from widgets.shell.command_palette import Palette
from widgets.shell.help_page import HelpPage
from widgets.shell.main_window import MainWindow
from widgets.shell.pages import PLACES
from widgets.shell.settings_page import SettingsPage, SettingsPaths, SettingsValues
from widgets.shell.shortcuts import KEYS
from widgets.shell.shortcuts_dialog import ShortcutsDialog

if TYPE_CHECKING:
    from backend.services.context.container import Services


class FrameController(QObject):
    """Serve the foot of the side bar and everything behind it.

    Signals:
        job_opened: Id of a job that a notice is about.
        node_opened: Name of a node that a notice is about.
        brought_up: The window was brought to the front.

    Attributes:
        bell, notices, tray: The history of notifications, the rules for them, and the tray icon.
        go_to, page_acts: The palette, and the actions of the visible page.
    """

    job_opened = Signal(str)
    node_opened = Signal(str)
    brought_up = Signal()

    def __init__(
        self,
        keeping: SettingsWriter,
        themes: ThemeManager,
        window: MainWindow,
        background: Background,
        icon: QIcon,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._keeping = keeping
        self._themes = themes
        self._window = window
        self._background = background
        self._services: Services | None = None
        keeping.changed.connect(self._show_choices)
        self.tray = Tray(icon, parent=self)
        self.tray.job_opened.connect(self._open_job)
        self.tray.notice_opened.connect(self._open_notice)
        self.tray.window_requested.connect(self.bring_up)
        self.tray.end_requested.connect(self.end)
        self.bell = NotificationCenter(
            window, background, self.tray, lambda: keeping.preferences.tell_finished, self
        )
        self.bell.opened.connect(self._open_notice)
        self.bell.settings_requested.connect(self.open_settings)
        self.notices = self.bell.notices
        self._controller: NoticeController | None = None
        self.go_to = CommandSearch()
        self.page_acts = PageActs()
        self.go_to.add_opener(PRESS, self.page_acts.press)
        self._palette: Palette | None = None
        self._page: SettingsPage | None = None
        self._help: HelpPage | None = None
        side_bar = window.side_bar
        side_bar.theme.clicked.connect(themes.toggle)
        side_bar.gear.clicked.connect(self.open_settings)
        side_bar.help.clicked.connect(lambda: self.open_help())
        side_bar.keys.clicked.connect(self.show_keys)
        themes.changed.connect(self._theme_changed)
        window.is_put_away_when_closed = self._stays
        window.put_away.connect(self._stay)
        self._ends = False
        self._make_acts()

    # -- shortcuts and commands

    def _make_acts(self) -> None:
        window, side_bar = self._window, self._window.side_bar
        QShortcut(QKeySequence("Ctrl+K"), window, self.open_palette)
        for place in PLACES:
            self.add_act(place.title, place.icon, partial(window.go, place.key), takes_key=False)
        self.add_act("Notifications", "bell", self.bell.show)
        self.add_act("Refresh", "arrow-clockwise", window.check_again)
        self.add_act("Settings", "gear", self.open_settings)
        self.add_act("Help", "question", self.open_help)
        for key, title in TOPICS:
            self.add_act(f"Help: {title}", "question", partial(self.open_help, key))
        self.add_act("Keyboard shortcuts", "keyboard", self.show_keys)
        self.add_act("Dark or light", "moon", self._themes.toggle)
        self.add_act("Report a problem…", "first-aid", self.report)
        self.add_act("Full screen", "arrows-out", window.toggle_full_screen)
        self.add_act("Back", "arrow-left", window.back)
        self.add_act("Forward", "arrow-right", window.forward)
        self.add_act("Zoom in", "magnifying-glass-plus", partial(self._step_scale, 1))
        self.add_act("Zoom out", "magnifying-glass-minus", partial(self._step_scale, -1))
        as_system = partial(self._choose_scale, 100)
        self.add_act("Reset zoom", "magnifying-glass", as_system)
        self.add_act("Open the data root", "folder-open", side_bar.folder.click)

    def add_act(
        self, title: str, icon: str, do: Callable[[], object], *, takes_key: bool = True
    ) -> None:
        """Register a command for the palette, with its key from the table of shortcuts.

        Args:
            takes_key: The key triggers it; False if a button or a page has the key.
        """
        action = QAction(title, self)
        action.setData(icon)
        action.setShortcut(next((k.key for k in KEYS if k.does == title and not k.with_focus), ""))
        action.triggered.connect(lambda: do())
        if takes_key:
            self._window.addAction(action)
        self.go_to.add_action(action)

    @property
    def palette(self) -> Palette:
        """Made on first use: the first frame of the window does not need it."""
        if self._palette is None:
            self._palette = Palette(self._window)
            self._palette.searched.connect(self._search)
            self._palette.chosen.connect(self.go_to.open)
        return self._palette

    @Slot()
    def open_palette(self) -> None:
        self.go_to.offer_page(*self.page_acts.collect(self.go_to.acts))
        self.palette.open()

    @Slot(str)
    def _search(self, text: str) -> None:
        self.go_to.ask(text, self.palette.show_targets)

    @Slot()
    def show_keys(self) -> None:
        sheet = ShortcutsDialog(self._window)
        sheet.finished.connect(sheet.deleteLater)
        sheet.open()

    # -- help

    def _take_help(self, page: HelpPage) -> None:
        self._help = page
        page.keys.clicked.connect(self.show_keys)
        page.link_opened.connect(_open_link)
        page.opened.connect(self._read_help)

    @Slot()
    def open_help(self, topic: str = "") -> None:
        """Open the help, at a topic or where it was left."""
        self._window.go("help")
        if topic and self._help is not None:
            self._help.open_topic(topic)

    @Slot()
    def _read_help(self) -> None:
        assert self._help is not None
        self._background.run("help", read_topics, self._help.show_topics, self._show_error)

    # -- settings

    def take_pages(self, page: SettingsPage, help_page: HelpPage) -> None:
        """Fill and connect the pages once they are built."""
        self._take_help(help_page)
        self._page = page
        page.set_scale_now(self._keeping.preferences.scale_percent)
        page.theme.chosen.connect(lambda key: self._themes.choose(ThemeChoice(key)))
        page.scale_chosen.connect(self._choose_scale)
        page.restart.clicked.connect(self._restart)
        page.contrast.toggled.connect(self._choose_contrast)
        page.motion.toggled.connect(self._choose_motion)
        page.units_chosen.connect(self._choose_units)
        page.notices.finished.toggled.connect(self._choose_finished)
        page.notices.stays.toggled.connect(
            lambda stays: self._keeping.remember(stays_in_tray=stays)
        )
        page.notices.show_tray(self.tray.is_available)
        page.place_opened.connect(_open)
        page.checks_requested.connect(self.check)
        page.report.clicked.connect(self.report)
        page.keys.clicked.connect(self.show_keys)
        page.help.clicked.connect(lambda: self.open_help())
        self._show_choices()

    def furnish(self, services: Services) -> None:
        """Take the services once they exist."""
        self._services = services
        self.bell.take_data_root(services.data_root.name)
        if self._page is not None:
            self._controller = NoticeController(
                services.notifications, self._background, self._page.notices, self
            )
            page = self._page.verify
            VerifyController(services.verification, self._background, page, self._window, self)
            SshController(services.cluster, self._background, self._page.ssh, self)
            self._page.show_places(
                SettingsPaths(
                    data_root=services.data_root.name,
                    catalogue=str(services.catalogue.path),
                    settings=str(settings_file()),
                    log=str(log_file()),
                )
            )

    def show_checks(self, findings: tuple[Finding, ...]) -> None:
        if self._page is not None:
            self._page.show_checks(findings)

    @Slot()
    def check(self) -> None:
        """Check what is installed on this computer, for the settings page."""
        services = self._services
        if services is not None:
            self._background.run(
                "doctor", services.nodes.doctor, self.show_checks, self._show_error
            )

    @Slot()
    def open_settings(self) -> None:
        self._window.go("settings")

    @Slot()
    def _show_choices(self) -> None:
        preferences = self._keeping.preferences
        if self._page is not None:
            self._page.show_choices(
                SettingsValues(
                    theme=preferences.theme,
                    scale_percent=preferences.scale_percent,
                    high_contrast=preferences.high_contrast,
                    reduced_motion=preferences.reduced_motion,
                    units=preferences.units,
                    tells_finished=preferences.tell_finished,
                    stays_in_tray=preferences.stays_in_tray,
                )
            )

    @Slot()
    def _theme_changed(self) -> None:
        self._window.side_bar.set_dark(self._themes.is_dark)
        self._keeping.remember(theme=self._themes.choice.value)

    @Slot(bool)
    def _choose_motion(self, reduced: bool) -> None:
        self._themes.reduce_motion(reduced)
        self._keeping.remember(reduced_motion=reduced)

    @Slot(bool)
    def _choose_contrast(self, high: bool) -> None:
        self._themes.heighten_contrast(high)
        self._keeping.remember(high_contrast=high)

    @Slot(Units)
    def _choose_units(self, units: Units) -> None:
        self._themes.write_in(units)
        self._keeping.remember(sizes=units.sizes, temperature=units.temperature, clock=units.clock)

    def _stays(self) -> bool:
        wants = self._keeping.preferences.stays_in_tray and self.tray.is_available
        return wants and not self._ends

    @Slot()
    def _stay(self) -> None:
        """The window was closed and is only hidden: closing another window must not quit."""
        QGuiApplication.setQuitOnLastWindowClosed(False)
        self.tray.show_away()

    @Slot()
    def end(self) -> None:
        """Quit, wherever the window is."""
        self._ends = True
        was_away = not self._window.isVisible()
        QGuiApplication.setQuitOnLastWindowClosed(True)
        self._window.close()
        if was_away:
            # Qt does not report a hidden window as the last one.
            QGuiApplication.quit()

    def _step_scale(self, by: int) -> None:
        now = self._keeping.preferences.scale_percent
        at = SCALES.index(now) if now in SCALES else 0
        self._choose_scale(SCALES[max(0, min(at + by, len(SCALES) - 1))])

    @Slot(int)
    def _choose_scale(self, percent: int) -> None:
        if percent != self._keeping.preferences.scale_percent:
            self._keeping.remember(scale_percent=percent)
            self._window.toast.show_message(f"{percent} % after the next start of the window")

    @Slot()
    def _restart(self) -> None:
        """Restart the window in a new process; no job depends on this one."""
        self._keeping.save()
        os.environ.pop(SCALE_VARIABLE, None)
        QProcess.startDetached(sys.executable, sys.orig_argv[1:])
        self.end()

    # -- problem report

    @Slot()
    def report(self) -> None:
        """Save one file with logs and versions to a place that the user chooses."""
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
            from backend.services.context.problem_report import write_report

            return write_report(services, Path(path), log_file())

        self._background.run("report", write, self._reported, self._show_error)

    def _reported(self, path: Path) -> None:
        self._window.toast.show_message(f"Saved the report to {path}")

    def _show_error(self, error: BackendError) -> None:
        self._window.toast.show_message(error.with_remedy)

    # -- notifications

    def see_jobs(self, views: tuple[JobView, ...]) -> None:
        """Take all jobs, or some of them, as they are now."""
        self.bell.see_jobs(views)
        if self._controller is not None:
            self._controller.see(views)

    @Slot(bool)
    def _choose_finished(self, tells_finished: bool) -> None:
        self._keeping.remember(tell_finished=tells_finished)
        if self._controller is not None:
            self._controller.choose_finished(tells_finished)

    @Slot()
    def bring_up(self) -> None:
        """Bring the window to the front."""
        self._window.setWindowState(self._window.windowState() & ~Qt.WindowState.WindowMinimized)
        QGuiApplication.setQuitOnLastWindowClosed(True)
        self._window.show()
        self.brought_up.emit()
        self._window.activateWindow()

    @Slot(str)
    def _open_job(self, job_id: str) -> None:
        self.bring_up()
        self.job_opened.emit(job_id)

    @Slot(Notice)
    def _open_notice(self, notice: Notice) -> None:
        """Open the target of a notice; for several targets, the list of jobs."""
        self.bring_up()
        if notice.job_id:
            self.job_opened.emit(notice.job_id)
        elif notice.node:
            self.node_opened.emit(notice.node)
        else:
            self._window.go("jobs")


def _open_link(address: str) -> None:
    url = QUrl(address)
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(DOCS / address)) if url.isRelative() else url)


def _open(path: str) -> None:
    place = Path(path)
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(place if place.is_dir() else place.parent)))
