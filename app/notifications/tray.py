"""The tray icon: progress of the oldest running job, and desktop notifications."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app.notifications.notification_rules import Notice
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.labels import escape_ampersands
from widgets.common.state_badge import paint_rank_ring

_SIDE = 64
_RING_W = 10.0
_JOBS_SHOWN = 8


class Tray(QObject):
    """Without a system tray nothing is shown, and everything else works.

    Signals:
        job_opened: Id of a job in the menu.
        notice_opened: The `Notice` whose message was clicked.
        window_requested: Bring the window to the front.
        quit_requested: Quit the program; jobs keep running.
    """

    job_opened = Signal(str)
    notice_opened = Signal(Notice)
    window_requested = Signal()
    quit_requested = Signal()

    def __init__(
        self,
        icon: QIcon,
        is_available: Callable[[], bool] = QSystemTrayIcon.isSystemTrayAvailable,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._logo = icon
        self._is_available = is_available
        self._icon = QSystemTrayIcon(icon, self)
        self._menu = QMenu()
        self._icon.setContextMenu(self._menu)
        self._icon.activated.connect(self._activate)
        self._icon.messageClicked.connect(self._open_newest)
        self._newest_notice: Notice | None = None
        self._has_announced_tray = False
        self._shown_state: tuple[object, ...] | None = None
        self._show_unknown()

    @property
    def is_available(self) -> bool:
        """Return True if the desktop has a tray now; a tray may appear later."""
        return self._is_available()

    def _show_unknown(self) -> None:
        """Show no job and no "nothing is running": the jobs are not read yet."""
        self._icon.setToolTip("Ringmaster")
        self._fill_menu((), (), idle_text="")

    def show_live(self, views: tuple[JobView, ...]) -> None:
        """Show the running jobs, the oldest first; the icon is the ring of the oldest."""
        if self._is_available() and not self._icon.isVisible():
            self._icon.show()
        lines = tuple(_job_line(view) for view in views)
        oldest_view = views[0] if views else None
        percent = int((oldest_view.progress or 0.0) * 100) if oldest_view is not None else -1
        shown_state = (lines, percent, oldest_view.state if oldest_view is not None else None)
        if shown_state == self._shown_state:
            return
        self._shown_state = shown_state
        self._icon.setIcon(ring_icon(oldest_view) if oldest_view is not None else self._logo)
        other_count = len(views) - 1
        tip = lines[0] if lines else "Ringmaster: nothing is running"
        self._icon.setToolTip(
            _without_markup(f"{tip}, and {other_count} more" if other_count > 0 else tip)
        )
        self._fill_menu(views, lines)

    def notify(self, notice: Notice) -> None:
        """Show a desktop notification; a click on it opens its target."""
        if not self._is_available():
            return
        self._newest_notice = notice
        self._icon.show()
        kinds = QSystemTrayIcon.MessageIcon
        kind = kinds.Information if notice.family == "good" else kinds.Warning
        self._icon.showMessage(_without_markup(notice.title), _without_markup(notice.text), kind)

    def announce_tray(self) -> None:
        """Inform the user once that the closed window is now in the tray."""
        if not self._has_announced_tray:
            self._has_announced_tray = True
            self._icon.show()
            message = "Click the icon to open the window. Settings has a switch for this."
            self._icon.showMessage(
                "Ringmaster is in the tray", message, QSystemTrayIcon.MessageIcon.NoIcon
            )

    def close(self) -> None:
        """Remove the icon at once; Qt would keep it until the process has ended."""
        self._icon.hide()
        self._menu.deleteLater()

    def _fill_menu(
        self,
        views: tuple[JobView, ...],
        lines: tuple[str, ...],
        idle_text: str = "Nothing is running",
    ) -> None:
        self._menu.clear()
        for view, line in list(zip(views, lines, strict=True))[:_JOBS_SHOWN]:
            self._menu.addAction(escape_ampersands(line), partial(self.job_opened.emit, view.id))
        if not views and idle_text:
            self._menu.addAction(idle_text).setEnabled(False)
        if len(views) > _JOBS_SHOWN:
            label = f"and {len(views) - _JOBS_SHOWN} more"
            self._menu.addAction(label, self.window_requested.emit)
        self._menu.addSeparator()
        self._menu.addAction("Open Ringmaster", self.window_requested.emit)
        self._menu.addAction("Quit; jobs keep running", self.quit_requested.emit)

    @Slot(QSystemTrayIcon.ActivationReason)
    def _activate(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        reasons = QSystemTrayIcon.ActivationReason
        if reason in (reasons.Trigger, reasons.DoubleClick):
            self.window_requested.emit()

    @Slot()
    def _open_newest(self) -> None:
        if self._newest_notice is not None:
            self.notice_opened.emit(self._newest_notice)


def ring_icon(view: JobView) -> QIcon:
    """The ring of a job, in the size of tray icons."""
    pixmap = QPixmap(_SIDE, _SIDE)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    square = QRectF(2, 2, _SIDE - 4, _SIDE - 4)
    paint_rank_ring(painter, square, view.state, view.progress or 0.0, (), _RING_W)
    painter.end()
    return QIcon(pixmap)


def _without_markup(text: str) -> str:
    """Return plain text for trays and desktops, some of which interpret ``<b>`` as markup."""
    return text.replace("<", "‹")


def _job_line(view: JobView) -> str:
    parts = (view.name, formats.progress(view.progress), formats.short_time_left(view.status.eta_s))
    return ", ".join(filter(None, (*parts[:2], parts[2] if parts[2] != "–" else "")))
