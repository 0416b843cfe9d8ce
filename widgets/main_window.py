"""The window: side bar left, the chosen place right; back and forward as in a browser."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl, Signal, Slot
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QKeySequence,
    QMouseEvent,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QMainWindow, QStackedWidget, QWidget

from widgets.common.cards import Toast
from widgets.common.layout import row
from widgets.common.theme import RAIL_BELOW_W, WIDE_FROM_W
from widgets.frame.places import PLACES
from widgets.frame.side_bar import SideBar

_SMALLEST = (900, 600)


class MainWindow(QMainWindow):
    """The frame around the places.

    Signals:
        dropped: The path of a folder, zip or job file that was dropped.
        closing: The window is about to close.
        resized: Width and height.
    """

    dropped = Signal(str)
    closing = Signal()
    resized = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Ringmaster")
        self.setMinimumSize(*_SMALLEST)
        self.setAcceptDrops(True)
        self.side_bar = SideBar()
        self.side_bar.place_chosen.connect(self.go)
        self._stack = QStackedWidget()
        self._pages: dict[str, QWidget] = {}
        self._stack.addWidget(QWidget())
        content = QWidget()
        content.setObjectName("window")
        content.setLayout(row(self.side_bar, (self._stack, 1), gap=0))
        self.setCentralWidget(content)
        # Else the first button would have the focus, and its ring, before anybody pressed a key.
        content.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        content.setFocus()
        self.toast = Toast(self._stack)
        self._past: list[str] = []
        self._future: list[str] = []
        self._here = ""
        QShortcut(QKeySequence("Alt+Left"), self, self.back)
        QShortcut(QKeySequence("Alt+Right"), self, self.forward)
        QShortcut(QKeySequence("F11"), self, self.toggle_full_screen)

    def add_page(self, key: str, page: QWidget) -> None:
        """A page, which may be "new-job": no place, but reached from within one."""
        self._pages[key] = page
        self._stack.addWidget(page)

    @property
    def place(self) -> str:
        return self._here

    @Slot(str)
    def go(self, key: str) -> None:
        """Open a place; where one was is remembered."""
        if key == self._here or key not in self._pages:
            return
        if self._here:
            self._past.append(self._here)
        self._future.clear()
        self._show(key)

    @Slot()
    def back(self) -> None:
        if self._past:
            self._future.append(self._here)
            self._show(self._past.pop())

    @Slot()
    def forward(self) -> None:
        if self._future:
            self._past.append(self._here)
            self._show(self._future.pop())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.side_bar.set_narrow(self.width() < RAIL_BELOW_W)
        self.side_bar.set_wide(self.width() >= WIDE_FROM_W)
        self.side_bar.set_room(self.height())
        self.resized.emit(self.width(), self.height())

    def closeEvent(self, event: QCloseEvent) -> None:
        self.closing.emit()
        super().closeEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.BackButton:
            self.back()
        elif event.button() is Qt.MouseButton.ForwardButton:
            self.forward()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if _local(event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        for path in _local(event.mimeData().urls())[:1]:
            event.acceptProposedAction()
            self.dropped.emit(path)

    @Slot()
    def toggle_full_screen(self) -> None:
        if self.isFullScreen():
            self.showNormal()
        else:
            self.showFullScreen()

    def _show(self, key: str) -> None:
        self._here = key
        page = self._pages[key]
        self._stack.setCurrentWidget(page)
        if key in {place.key for place in PLACES}:
            self.side_bar.choose(key)
        if self.isVisible():
            page.setFocus()


def _local(urls: list[QUrl]) -> list[str]:
    return [url.toLocalFile() for url in urls if url.isLocalFile()]
