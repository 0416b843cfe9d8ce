"""The position of the window: remembered, and restored if a screen is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QObject, QPoint, QRect, QSize, Qt, QTimer, Slot
from PySide6.QtGui import QGuiApplication

from app.runtime.settings import Settings
from widgets.shell.main_window import MainWindow

_FRAME_H = 40
"""The title bar; its height is not known before the window is shown."""
_GRIP_W, _GRIP_H = 160, 24
"""This much of the window's upper edge must be on a screen, so that it can be dragged."""


def on_a_screen(wanted: QRect, screens: Sequence[QRect]) -> QRect:
    """Return ``wanted``, or the middle of the first screen if no screen shows it.

    It is not larger than its screen.

    Args:
        wanted: A window with its frame, in pixels of the desktop.
        screens: The usable area of each screen, the main one first.
    """
    grip = QRect(wanted.left(), wanted.top(), wanted.width(), _GRIP_H)
    for screen in screens:
        seen = screen.intersected(grip)
        if seen.width() >= min(_GRIP_W, wanted.width()) and seen.height() >= _GRIP_H:
            # It may be larger than the screen: it was placed at another scale.
            return _fit_into(wanted, screen)
    if not screens:
        return wanted
    room = screens[0]
    found = QRect(QPoint(0, 0), wanted.size().boundedTo(room.size()))
    found.moveCenter(room.center())
    return found


def _fit_into(wanted: QRect, screen: QRect) -> QRect:
    """Limit each side of a window to its screen; a side that fits stays where it is."""
    fitting = QRect(wanted.topLeft(), wanted.size().boundedTo(screen.size()))
    if wanted.width() > screen.width():
        fitting.moveLeft(screen.left())
    if wanted.height() > screen.height():
        fitting.moveTop(screen.top())
    return fitting


class WindowPlace(QObject):
    """Keep one window on a screen.

    Screens come and go while it is open: a laptop leaves its dock, a projector its cable. The X
    server then leaves the window where no screen shows it.
    """

    def __init__(
        self,
        app: QGuiApplication,
        window: MainWindow,
        settings: Settings,
        remember: Callable[..., None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._window = window
        self._remember = remember
        self._put_back(settings)
        window.placed.connect(self._moved)
        window.closing.connect(self._closing)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self.bring_in)
        for screen in QGuiApplication.screens():
            screen.geometryChanged.connect(self._soon.start)
        app.screenAdded.connect(lambda screen: screen.geometryChanged.connect(self._soon.start))
        app.screenRemoved.connect(self._soon.start)

    @Slot()
    def bring_in(self) -> None:
        """Move it onto a screen, if it is on none."""
        window = self._window
        self._fit_smallest()
        if window.isFullScreen() or window.isMaximized():
            return
        frame = window.frameGeometry()
        found = on_a_screen(frame, _screens())
        if found != frame:
            window.resize(window.size() - frame.size() + found.size())
            window.move(found.topLeft())

    def _fit_smallest(self) -> None:
        """Let the window fit on each screen with its frame."""
        heights = [screen.height() for screen in _screens()]
        if heights:
            self._window.fit_smallest(min(heights) - _FRAME_H)

    def _put_back(self, settings: Settings) -> None:
        kept = settings.preferences
        self._fit_smallest()
        screens = _screens()
        size = QSize(kept.width, kept.height)
        self._window.resize(size.boundedTo(screens[0].size()) if screens else size)
        if len(kept.position) == 2 and all(type(part) is int for part in kept.position):
            left, top = kept.position
            wanted = QRect(left, top, kept.width, kept.height)
            found = on_a_screen(wanted, screens)
            self._window.resize(found.size())
            self._window.move(found.topLeft())
        if kept.maximized:
            self._window.setWindowState(Qt.WindowState.WindowMaximized)

    @Slot()
    def _moved(self) -> None:
        window = self._window
        if window.isVisible() and not window.isFullScreen() and not window.isMaximized():
            self._remember(**_place_of(window.size().toTuple(), window.pos()))

    @Slot()
    def _closing(self) -> None:
        window = self._window
        self._remember(maximized=window.isMaximized())
        if window.isMaximized() or window.isFullScreen():
            # A size reported before the window is known to be maximized is wrong.
            normal = window.normalGeometry()
            if normal.isValid():
                self._remember(**_place_of(normal.size().toTuple(), normal.topLeft()))


def _place_of(size: tuple[int, int], corner: QPoint) -> dict[str, Any]:
    return {"width": size[0], "height": size[1], "position": [corner.x(), corner.y()]}


def _screens() -> list[QRect]:
    main = QGuiApplication.primaryScreen()
    others = [screen for screen in QGuiApplication.screens() if screen is not main]
    return [screen.availableGeometry() for screen in ([main, *others] if main else others)]
