"""The window: side bar on the left, a page on the right; back and forward as in a browser."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import PurePath

from PySide6.QtCore import QCoreApplication, QRect, Qt, QUrl, Signal, Slot
from PySide6.QtGui import (
    QCloseEvent,
    QContextMenuEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QKeySequence,
    QMouseEvent,
    QMoveEvent,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QMainWindow, QWidget

from backend.records.base.validation import sanitize
from backend.records.bundles.job_archive import SUFFIX
from backend.records.library.item import is_weights
from widgets.common import formats
from widgets.common.cards import EmptyState
from widgets.common.dialog import Scrim
from widgets.common.drag_and_drop import DropOverlay
from widgets.common.focus import TabOrder
from widgets.common.layout import row
from widgets.common.panes import PageStack
from widgets.common.theme import RAIL_BELOW_W, WIDE_FROM_W
from widgets.common.toast import Toast
from widgets.shell.side_bar import SideBar

_NAME_CHARS = 48
_MIN_W, _MIN_H, _LOW_SCREEN_MIN_H = 900, 600, 480
_MAX_HISTORY = 100
"""Length of the history, because a window may be open for weeks."""


class MainWindow(QMainWindow):
    """The frame around the pages.

    Signals:
        dropped: The path of a folder, zip or job file that was dropped.
        closing: The window is about to close.
        page_changed: Key of the visible page.
        hidden_to_tray: The window was closed, and stays hidden until it is opened again.
        geometry_changed: The window was moved or resized.
        refresh_requested: Refresh all data that other users may have changed.

    Attributes:
        hides_when_closed: Returns True if closing only hides the window.
        side_bar, toast: The list of pages, and the message at the bottom that may offer Undo.
    """

    dropped = Signal(str)
    closing = Signal()
    page_changed = Signal(str)
    hidden_to_tray = Signal()
    geometry_changed = Signal()
    refresh_requested = Signal()
    hides_when_closed: Callable[[], bool]

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Ringmaster")
        self.set_min_height(_MIN_H)
        self.setAcceptDrops(True)
        self.hides_when_closed = lambda: False
        self.side_bar = SideBar()
        self.side_bar.page_chosen.connect(self.open_page)
        self._stack = PageStack()
        self._pages: dict[str, QWidget] = {}
        self._stack.addWidget(EmptyState("stack", "Opening…"))
        content = QWidget()
        content.setObjectName("window")
        content.setLayout(row(self.side_bar, (self._stack, 1), gap=0))
        self.setCentralWidget(content)
        self._tab_order = TabOrder(content)
        # Otherwise the first button would have the focus and its ring before any key press.
        content.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        content.setFocus()
        self.toast = Toast(self._stack)
        self._stack.currentChanged.connect(self.toast.update_position)
        self.drop_overlay = DropOverlay(self)
        self._scrim = Scrim(self)
        self._back_keys: deque[str] = deque(maxlen=_MAX_HISTORY)
        self._forward_keys: list[str] = []
        self.page_key = ""
        QShortcut(QKeySequence("Shift+F10"), self, self.open_menu)

    def set_min_height(self, available_h: int) -> None:
        """Let the window be as low as the screen: at 200 % many have less than 600 pixels."""
        min_height = max(_LOW_SCREEN_MIN_H, min(available_h, _MIN_H))
        self.setMinimumSize(_MIN_W, min_height)

    def add_page(self, key: str, page: QWidget) -> None:
        """Add a page, which may be "new-job": not in the side bar, but opened from another page."""
        self._pages[key] = page
        self._stack.addWidget(page)

    @Slot(str)
    def open_page(self, key: str) -> None:
        """Open a page, and remember the previous page."""
        if key == self.page_key or key not in self._pages:
            return
        if self.page_key:
            self._back_keys.append(self.page_key)
        self._forward_keys.clear()
        self._show_page(key)

    @Slot()
    def back(self) -> None:
        if self._back_keys:
            self._forward_keys.append(self.page_key)
            self._show_page(self._back_keys.pop())

    @Slot()
    def forward(self) -> None:
        if self._forward_keys:
            self._back_keys.append(self.page_key)
            self._show_page(self._forward_keys.pop())

    def focusNextPrevChild(self, forward: bool) -> bool:
        self._tab_order.refresh()
        return super().focusNextPrevChild(forward)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.side_bar.set_narrow(self.width() < RAIL_BELOW_W)
        self.side_bar.set_wide(self.width() >= WIDE_FROM_W)
        self.side_bar.set_available_height(self.height())
        self.geometry_changed.emit()

    def moveEvent(self, event: QMoveEvent) -> None:
        super().moveEvent(event)
        self.geometry_changed.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        if self.hides_when_closed():
            event.ignore()
            self.hide()
            self.hidden_to_tray.emit()
            return
        self.closing.emit()
        super().closeEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.BackButton:
            self.back()
        elif event.button() is Qt.MouseButton.ForwardButton:
            self.forward()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.source() is not None:
            # A drag that began in this window is not dropped into it.
            event.ignore()
            return
        paths = _local_paths(event.mimeData().urls())
        if paths:
            event.acceptProposedAction()
            self.drop_overlay.open(_drop_hint(paths), is_accepted=_accepts_drop(paths))

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self.drop_overlay.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self.drop_overlay.hide()
        paths = _local_paths(event.mimeData().urls())
        if paths:
            event.acceptProposedAction()
        if _accepts_drop(paths):
            self.dropped.emit(paths[0])
        elif paths:
            self.toast.show_message(_drop_hint(paths))

    @Slot()
    def toggle_full_screen(self) -> None:
        if self.isFullScreen():
            self.showNormal()
        else:
            self.showFullScreen()

    @Slot()
    def request_refresh(self) -> None:
        self.refresh_requested.emit()

    @Slot()
    def open_menu(self) -> None:
        """Open the menu of the focused widget, because many keyboards have no key for it."""
        widget = self.focusWidget()
        if widget is None:
            return
        cursor = widget.inputMethodQuery(Qt.InputMethodQuery.ImCursorRectangle)
        position = cursor.center() if isinstance(cursor, QRect) else widget.rect().center()
        reason = QContextMenuEvent.Reason.Keyboard
        request = QContextMenuEvent(reason, position, widget.mapToGlobal(position))
        QCoreApplication.sendEvent(widget, request)

    def _show_page(self, key: str) -> None:
        self.page_key = key
        page = self._pages[key]
        self._stack.setCurrentWidget(page)
        self.side_bar.choose(key)
        if self.isVisible():
            page.setFocus()
        self.page_changed.emit(key)


def _local_paths(urls: list[QUrl]) -> list[str]:
    return [url.toLocalFile() for url in urls if url.isLocalFile()]


def _accepts_drop(paths: Sequence[str]) -> bool:
    """Return True if the window accepts a drop: of one file, because each opens a dialog."""
    return len(paths) == 1 and not is_weights(paths[0])


def _drop_hint(paths: Sequence[str]) -> str:
    """Describe the effect of a drop from the names of the files: no file is read."""
    if len(paths) > 1:
        return f"{formats.count(len(paths))} files: drop them one by one"
    path = paths[0]
    name = sanitize(PurePath(path).name, _NAME_CHARS)
    suffix = PurePath(path).suffix.lower()
    if suffix == SUFFIX:
        return f"Import the job from “{name}”"
    if suffix == ".toml":
        return f"Open “{name}” as a new job"
    if is_weights(path):
        return f"Weights belong to a model: drop “{name}” on a model in Models"
    return f"Import “{name}”"
