"""A user who has a keyboard and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

_MAX_TABS = 120


class Hands:
    """Presses keys where the focus is; never says which widget they are for."""

    def __init__(self, qtbot: QtBot, window: QWidget) -> None:
        self._qtbot = qtbot
        self.window = window

    def focus(self) -> QWidget:
        """Who gets the next key."""
        dialog = QApplication.activeModalWidget()
        if dialog is not None and not dialog.isActiveWindow():
            self.wait(dialog.isActiveWindow)
        elif dialog is None and not self.window.isActiveWindow():
            # As a window manager does when a dialog has closed.
            self.window.activateWindow()
            self.wait(self.window.isActiveWindow)
        popup = QApplication.activePopupWidget()
        if popup is not None and not popup.isVisible():
            popup = None
        widget = popup or QApplication.focusWidget() or QApplication.activeWindow() or self.window
        if isinstance(widget, QMenu) and not widget.isVisible():
            # The offscreen platform leaves the focus with a menu that has closed; the keys of a
            # real one go to the window again.
            widget = self.window.focusWidget() or self.window
            widget.setFocus()
        assert widget.isVisible(), f"the keys go to {widget}, which is not visible"
        return widget

    def press(self, *keys: str, times: int = 1) -> None:
        """Keys as Qt writes them, one after the other: ``Ctrl+K``, ``Shift+Tab``."""
        for key in keys * times:
            pressed = QKeySequence(key)[0]
            QTest.keyClick(self.focus(), pressed.key(), pressed.keyboardModifiers())

    def write(self, text: str) -> None:
        QTest.keyClicks(self.focus(), text)

    def name(self) -> str:
        """The name that a screen reader reads for the focus."""
        return self.focus().accessibleName().replace("\xa0", " ")

    def tab_to(self, name: str, *, back: bool = False) -> QWidget:
        """Tab until what has the focus begins with this name."""
        names = []
        for _ in range(_MAX_TABS):
            self.press("Shift+Tab" if back else "Tab")
            names.append(self.name())
            if names[-1].startswith(name):
                return self.focus()
        raise AssertionError(f"Tab leads to no “{name}”, but to {list(dict.fromkeys(names))}")

    def tab_until(self, widget: QWidget) -> None:
        """Tab until this one has the focus."""
        for _ in range(_MAX_TABS):
            if self.focus() is widget:
                return
            self.press("Tab")
        raise AssertionError(f"Tab does not lead to {widget}")

    def wait(self, condition: Callable[[], object]) -> None:
        self._qtbot.waitUntil(lambda: bool(condition()))

    def walk(self) -> list[QWidget]:
        """Everything that Tab leads to, from here once around."""
        start = self.focus()
        widgets: list[QWidget] = []
        while len(widgets) < 4 * _MAX_TABS:
            self.press("Tab")
            widget = self.focus()
            if widget in widgets:
                return widgets
            widgets.append(widget)
        raise AssertionError(f"Tab from {start} never comes around")


def place_of(widget: QWidget) -> QRect:
    """Where it is in its window."""
    return QRect(widget.mapTo(widget.window(), QPoint(0, 0)), widget.size())


def hears(widget: QWidget) -> bool:
    """Whether Tab may stop there."""
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
