"""The window as a whole: settings, notifications, palette, shortcuts, zoom."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QProcess, Qt, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import QAction, QDesktopServices, QGuiApplication, QIcon, QKeySequence, QShortcut
from PySide6.QtWidgets import QFileDialog

from app.nodes.ssh_controller import SshController
from app.notifications.channels_controller import ChannelsController
from app.notifications.notification_center import NotificationCenter
from app.notifications.notification_rules import Notice
from app.notifications.tray import Tray
from app.runtime.background import Background
from app.runtime.settings import SettingsWriter, log_file, settings_file
from app.shell.command_search import CommandSearch
from app.shell.help import DOCS, TOPICS, read_topics
from app.shell.page_commands import PRESS, PageCommands
from app.shell.verify_controller import VerifyController
from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import Finding
from widgets.common.formats import Units
from widgets.common.theme_manager import SCALE_VARIABLE, SCALES, ThemeChoice, ThemeManager
from widgets.shell.command_palette import CommandPalette
from widgets.shell.help_page import HelpPage
from widgets.shell.main_window import MainWindow
from widgets.shell.pages import PAGES
from widgets.shell.settings_page import SettingsPage, SettingsPaths, SettingsValues
from widgets.shell.shortcuts import SHORTCUTS, ShortcutsDialog

if TYPE_CHECKING:
    from backend.services.context.container import Services
    from backend.services.jobs.service import JobService

_OWNER_NOTICES_MS = 20_000


class FrameController(QObject):
    """Serve the foot of the side bar and everything behind it.

    Signals:
        job_opened: Id of a job that a notice is about.
        node_opened: Name of a node that a notice is about.
        window_shown: The window was brought to the front.

    Attributes:
        bell, notice_rules, tray: The history of notifications, their rules, and the tray icon.
        command_search, page_commands: The targets of the palette, and the commands of the pages.
    """

    job_opened = Signal(str)
    node_opened = Signal(str)
    window_shown = Signal()

    def __init__(
        self,
        settings_writer: SettingsWriter,
        themes: ThemeManager,
        window: MainWindow,
        background: Background,
        icon: QIcon,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._settings_writer = settings_writer
        self._themes = themes
        self._window = window
        self._background = background
        self._services: Services | None = None
        settings_writer.changed.connect(self._show_choices)
        self.tray = Tray(icon, parent=self)
        self.tray.job_opened.connect(self._open_job)
        self.tray.notice_opened.connect(self._open_notice)
        self.tray.window_requested.connect(self.show_window)
        self.tray.quit_requested.connect(self.quit)
        self.bell = NotificationCenter(
            window, background, self.tray, lambda: settings_writer.preferences.tell_finished, self
        )
        self.bell.notice_opened.connect(self._open_notice)
        self.bell.settings_requested.connect(self.open_settings)
        self.notice_rules = self.bell.rules
        self._owner_timer = QTimer(self, interval=_OWNER_NOTICES_MS)
        self._owner_timer.timeout.connect(self._read_owner_notices)
        self._channels_controller: ChannelsController | None = None
        self.command_search = CommandSearch()
        self.page_commands = PageCommands()
        self.command_search.add_opener(PRESS, self.page_commands.press)
        self._palette: CommandPalette | None = None
        self._page: SettingsPage | None = None
        self._help: HelpPage | None = None
        side_bar = window.side_bar
        side_bar.theme.clicked.connect(themes.toggle)
        side_bar.gear.clicked.connect(self.open_settings)
        side_bar.help.clicked.connect(lambda: self.open_help())
        side_bar.keys.clicked.connect(self.show_keys)
        themes.changed.connect(self._theme_changed)
        window.hides_when_closed = self._hides_when_closed
        window.hidden_to_tray.connect(self._announce_tray)
        self._is_quitting = False
        self._add_commands()

    # -- shortcuts and commands

    def _add_commands(self) -> None:
        window, side_bar = self._window, self._window.side_bar
        QShortcut(QKeySequence("Ctrl+K"), window, self.open_palette)
        for page in PAGES:
            self.add_command(
                page.title, page.icon, partial(window.open_page, page.key), takes_key=False
            )
        self.add_command("Notifications", "bell", self.bell.show)
        self.add_command("Refresh", "arrow-clockwise", window.request_refresh)
        self.add_command("Settings", "gear", self.open_settings)
        self.add_command("Help", "question", self.open_help)
        for key, title in TOPICS:
            self.add_command(f"Help: {title}", "question", partial(self.open_help, key))
        self.add_command("Keyboard shortcuts", "keyboard", self.show_keys)
        self.add_command("Dark or light", "moon", self._themes.toggle)
        self.add_command("Report a problem…", "first-aid", self.report)
        self.add_command("Full screen", "arrows-out", window.toggle_full_screen)
        self.add_command("Back", "arrow-left", window.back)
        self.add_command("Forward", "arrow-right", window.forward)
        self.add_command("Zoom in", "magnifying-glass-plus", partial(self._step_scale, 1))
        self.add_command("Zoom out", "magnifying-glass-minus", partial(self._step_scale, -1))
        reset_scale = partial(self._choose_scale, 100)
        self.add_command("Reset zoom", "magnifying-glass", reset_scale)
        self.add_command("Open the data root", "folder-open", side_bar.folder.click)

    def add_command(
        self, title: str, icon: str, callback: Callable[[], object], *, takes_key: bool = True
    ) -> None:
        """Register a command for the palette, with its key from the table of shortcuts.

        Args:
            takes_key: The key triggers the command; False if a button or a page has the key.
        """
        action = QAction(title, self)
        action.setData(icon)
        action.setShortcut(
            next((k.key for k in SHORTCUTS if k.label == title and not k.with_focus), "")
        )
        action.triggered.connect(lambda: callback())
        if takes_key:
            self._window.addAction(action)
        self.command_search.add_action(action)

    @property
    def palette(self) -> CommandPalette:
        """The palette, built on first use: the first frame of the window does not need it."""
        if self._palette is None:
            self._palette = CommandPalette(self._window)
            self._palette.searched.connect(self._search)
            self._palette.entry_chosen.connect(self.command_search.open)
        return self._palette

    @Slot()
    def open_palette(self) -> None:
        self.command_search.offer_page(
            *self.page_commands.collect(self.command_search.action_titles)
        )
        self.palette.open()

    @Slot(str)
    def _search(self, text: str) -> None:
        self.command_search.ask(text, self.palette.show_entries)

    @Slot()
    def show_keys(self) -> None:
        dialog = ShortcutsDialog(self._window)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    # -- help

    def _take_help(self, page: HelpPage) -> None:
        self._help = page
        page.keys.clicked.connect(self.show_keys)
        page.link_opened.connect(_open_link)
        page.topics_requested.connect(self._read_help)

    @Slot()
    def open_help(self, topic: str = "") -> None:
        """Open the help, at a topic or at the topic shown last."""
        self._window.open_page("help")
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
        page.set_active_scale(self._settings_writer.preferences.scale_percent)
        page.theme.key_chosen.connect(lambda key: self._themes.choose(ThemeChoice(key)))
        page.scale_chosen.connect(self._choose_scale)
        page.restart.clicked.connect(self._restart)
        page.contrast.toggled.connect(self._choose_contrast)
        page.motion.toggled.connect(self._choose_motion)
        page.units_chosen.connect(self._choose_units)
        page.notices.finished_switch.toggled.connect(self._choose_finished)
        page.notices.tray_switch.toggled.connect(
            lambda stays_in_tray: self._settings_writer.remember(stays_in_tray=stays_in_tray)
        )
        page.notices.show_tray(self.tray.is_available)
        page.path_opened.connect(_open_folder)
        page.checks_requested.connect(self.check)
        page.report.clicked.connect(self.report)
        page.keys.clicked.connect(self.show_keys)
        page.help.clicked.connect(lambda: self.open_help())
        self._show_choices()

    def use_services(self, services: Services) -> None:
        """Take the services once they exist."""
        self._services = services
        self.bell.take_data_root(services.data_root.name)
        self._read_owner_notices()
        self._owner_timer.start()
        if self._page is not None:
            self._channels_controller = ChannelsController(
                services.notifications, self._background, self._page.notices, self
            )
            page = self._page.verify
            VerifyController(services.verification, self._background, page, self._window)
            serve_owner_rule = partial(self._serve_owner_rule, services.jobs, self._page)
            # A partial alone would not get the state.
            self._page.owner_switch.clicked.connect(lambda is_set: serve_owner_rule(is_set))
            serve_owner_rule()
            SshController(services.cluster, self._background, self._page.ssh, self)
            self._page.show_paths(
                SettingsPaths(
                    data_root=services.data_root.name,
                    catalogue=str(services.catalogue.path),
                    settings=str(settings_file()),
                    log=str(log_file()),
                )
            )

    def _serve_owner_rule(
        self, jobs: JobService, page: SettingsPage, is_set: bool | None = None
    ) -> None:
        """Show who may stop jobs; with ``is_set``, after a change."""

        def work() -> tuple[bool, str]:
            rule = jobs.owner_rule() if is_set is None else jobs.set_owner_rule(is_set=is_set)
            return rule is not None, jobs.rule_refusal()

        def show_error(error: BackendError) -> None:
            page.show_owner_rule(is_set is False, error.with_remedy)

        self._background.run(
            "owner rule", work, lambda rule: page.show_owner_rule(*rule), show_error
        )

    @Slot()
    def _read_owner_notices(self) -> None:
        if self._services is not None:
            take = self._services.notifications.take_notices
            self._background.run("owner notices", take, self.bell.show_owner_notices, swallowed)

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
        self._window.open_page("settings")

    @Slot()
    def _show_choices(self) -> None:
        preferences = self._settings_writer.preferences
        if self._page is not None:
            self._page.show_choices(
                SettingsValues(
                    theme=preferences.theme,
                    scale_percent=preferences.scale_percent,
                    high_contrast=preferences.high_contrast,
                    reduced_motion=preferences.reduced_motion,
                    units=preferences.units,
                    notifies_finished=preferences.tell_finished,
                    stays_in_tray=preferences.stays_in_tray,
                )
            )

    @Slot()
    def _theme_changed(self) -> None:
        self._window.side_bar.set_dark(self._themes.is_dark)
        self._settings_writer.remember(theme=self._themes.choice.value)

    @Slot(bool)
    def _choose_motion(self, is_reduced: bool) -> None:
        self._themes.reduce_motion(is_reduced)
        self._settings_writer.remember(reduced_motion=is_reduced)

    @Slot(bool)
    def _choose_contrast(self, high: bool) -> None:
        self._themes.heighten_contrast(high)
        self._settings_writer.remember(high_contrast=high)

    @Slot(Units)
    def _choose_units(self, units: Units) -> None:
        self._themes.set_units(units)
        self._settings_writer.remember(
            sizes=units.sizes, temperature=units.temperature, clock=units.clock
        )

    def _hides_when_closed(self) -> bool:
        may_hide = self._settings_writer.preferences.stays_in_tray and self.tray.is_available
        return may_hide and not self._is_quitting

    @Slot()
    def _announce_tray(self) -> None:
        """Announce the hidden window in the tray; closing another window must not quit."""
        QGuiApplication.setQuitOnLastWindowClosed(False)
        self.tray.announce_tray()

    @Slot()
    def quit(self) -> None:
        """Quit, with the window visible or in the tray."""
        self._is_quitting = True
        was_away = not self._window.isVisible()
        QGuiApplication.setQuitOnLastWindowClosed(True)
        self._window.close()
        if was_away:
            # Qt does not report a hidden window as the last one.
            QGuiApplication.quit()

    def _step_scale(self, step: int) -> None:
        percent = self._settings_writer.preferences.scale_percent
        index = SCALES.index(percent) if percent in SCALES else 0
        self._choose_scale(SCALES[max(0, min(index + step, len(SCALES) - 1))])

    @Slot(int)
    def _choose_scale(self, percent: int) -> None:
        if percent != self._settings_writer.preferences.scale_percent:
            self._settings_writer.remember(scale_percent=percent)
            self._window.toast.show_message(f"{percent} % after the next start of the window")

    @Slot()
    def _restart(self) -> None:
        """Restart the window in a new process; no job depends on this one."""
        self._settings_writer.save()
        os.environ.pop(SCALE_VARIABLE, None)
        QProcess.startDetached(sys.executable, sys.orig_argv[1:])
        self.quit()

    # -- problem report

    @Slot()
    def report(self) -> None:
        """Save one file with logs and versions to a path that the user chooses."""
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

        self._background.run("report", write, self._confirm_report, self._show_error)

    def _confirm_report(self, path: Path) -> None:
        self._window.toast.show_message(f"Saved the report to {path}")

    def _show_error(self, error: BackendError) -> None:
        self._window.toast.show_message(error.with_remedy)

    # -- notifications

    def see_jobs(self, views: tuple[JobView, ...]) -> None:
        """Take all jobs, or some of them, as they are now."""
        self.bell.see_jobs(views)
        if self._channels_controller is not None:
            self._channels_controller.send_ends(views)

    @Slot(bool)
    def _choose_finished(self, notifies_finished: bool) -> None:
        self._settings_writer.remember(tell_finished=notifies_finished)
        if self._channels_controller is not None:
            self._channels_controller.choose_finished(notifies_finished)

    @Slot()
    def show_window(self) -> None:
        """Bring the window to the front."""
        self._window.setWindowState(self._window.windowState() & ~Qt.WindowState.WindowMinimized)
        QGuiApplication.setQuitOnLastWindowClosed(True)
        self._window.show()
        self.window_shown.emit()
        self._window.activateWindow()

    @Slot(str)
    def _open_job(self, job_id: str) -> None:
        self.show_window()
        self.job_opened.emit(job_id)

    @Slot(Notice)
    def _open_notice(self, notice: Notice) -> None:
        """Open the target of a notice; for several targets, the list of jobs."""
        self.show_window()
        if notice.job_id:
            self.job_opened.emit(notice.job_id)
        elif notice.node:
            self.node_opened.emit(notice.node)
        else:
            self._window.open_page("jobs")


def _open_link(address: str) -> None:
    url = QUrl(address)
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(DOCS / address)) if url.isRelative() else url)


def _open_folder(path: str) -> None:
    target = Path(path)
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(target if target.is_dir() else target.parent)))
