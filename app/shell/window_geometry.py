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


def frame_on_screen(frame: QRect, screens: Sequence[QRect]) -> QRect:
    """Return the frame of a window, moved to the middle of the main screen if no screen shows it.

    The result is not larger than its screen.

    Args:
        frame: A window with its frame, in pixels of the desktop.
        screens: The usable area of each screen, the main one first.
    """
    grip = QRect(frame.left(), frame.top(), frame.width(), _GRIP_H)
    for screen in screens:
        overlap = screen.intersected(grip)
        if overlap.width() >= min(_GRIP_W, frame.width()) and overlap.height() >= _GRIP_H:
            # It may be larger than the screen: it was placed at another scale.
            return _fit_into(frame, screen)
    if not screens:
        return frame
    main_screen = screens[0]
    target = QRect(QPoint(0, 0), frame.size().boundedTo(main_screen.size()))
    target.moveCenter(main_screen.center())
    return target


def _fit_into(frame: QRect, screen: QRect) -> QRect:
    """Limit each side of a window to its screen; a side that fits stays where it is."""
    target = QRect(frame.topLeft(), frame.size().boundedTo(screen.size()))
    if frame.width() > screen.width():
        target.moveLeft(screen.left())
    if frame.height() > screen.height():
        target.moveTop(screen.top())
    return target


class WindowGeometry(QObject):
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
        self._restore(settings)
        window.geometry_changed.connect(self._remember_geometry)
        window.closing.connect(self._remember_maximized)
        self._bring_in_timer = QTimer(self, singleShot=True, interval=0)
        self._bring_in_timer.timeout.connect(self.bring_in)
        for screen in QGuiApplication.screens():
            screen.geometryChanged.connect(self._bring_in_timer.start)
        app.screenAdded.connect(
            lambda screen: screen.geometryChanged.connect(self._bring_in_timer.start)
        )
        app.screenRemoved.connect(self._bring_in_timer.start)

    @Slot()
    def bring_in(self) -> None:
        """Move the window onto a screen, if it is on none."""
        window = self._window
        self._fit_smallest()
        if window.isFullScreen() or window.isMaximized():
            return
        frame = window.frameGeometry()
        target = frame_on_screen(frame, _screens())
        if target != frame:
            window.resize(window.size() - frame.size() + target.size())
            window.move(target.topLeft())

    def _fit_smallest(self) -> None:
        """Let the window fit on each screen with its frame."""
        heights = [screen.height() for screen in _screens()]
        if heights:
            self._window.set_min_height(min(heights) - _FRAME_H)

    def _restore(self, settings: Settings) -> None:
        preferences = settings.preferences
        self._fit_smallest()
        screens = _screens()
        size = QSize(preferences.width, preferences.height)
        self._window.resize(size.boundedTo(screens[0].size()) if screens else size)
        if len(preferences.position) == 2 and all(
            type(coordinate) is int for coordinate in preferences.position
        ):
            x, y = preferences.position
            frame = QRect(x, y, preferences.width, preferences.height)
            target = frame_on_screen(frame, screens)
            self._window.resize(target.size())
            self._window.move(target.topLeft())
        if preferences.maximized:
            self._window.setWindowState(Qt.WindowState.WindowMaximized)

    @Slot()
    def _remember_geometry(self) -> None:
        window = self._window
        if window.isVisible() and not window.isFullScreen() and not window.isMaximized():
            self._remember(**_geometry_fields(window.size().toTuple(), window.pos()))

    @Slot()
    def _remember_maximized(self) -> None:
        window = self._window
        self._remember(maximized=window.isMaximized())
        if window.isMaximized() or window.isFullScreen():
            # A size reported before the window is known to be maximized is wrong.
            normal_geometry = window.normalGeometry()
            if normal_geometry.isValid():
                self._remember(
                    **_geometry_fields(normal_geometry.size().toTuple(), normal_geometry.topLeft())
                )


def _geometry_fields(size: tuple[int, int], corner: QPoint) -> dict[str, Any]:
    return {"width": size[0], "height": size[1], "position": [corner.x(), corner.y()]}


def _screens() -> list[QRect]:
    main_screen = QGuiApplication.primaryScreen()
    other_screens = [screen for screen in QGuiApplication.screens() if screen is not main_screen]
    return [
        screen.availableGeometry()
        for screen in ([main_screen, *other_screens] if main_screen else other_screens)
    ]
