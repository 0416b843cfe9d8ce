"""A user of the window who only presses, types and reads; and pictures of the windows.

With ``CLUSTER_PICTURES`` set to a folder the pictures go there, some of them dark and small, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QContextMenuEvent, QKeySequence, QPainter
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QMenu, QWidget
from pytestqt.exceptions import TimeoutError
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from tests.waiting import LIMIT_MS
from tests.widgets import drags
from widgets.common.theme_manager import ThemeChoice

_MENU_MS = 50
_PASSES = 10
_MAX_TABS = 20
_SMALL = (1000, 640)
_LEFT_BUTTON = Qt.MouseButton.LeftButton
_Widget = TypeVar("_Widget", bound=QWidget)


class User:
    """Knows things by what is written on them, and waits until they can be used.

    Attributes:
        clicks: Presses of buttons, choices and fields entered; typing and keys are free.
    """

    def __init__(self, program: Program, qtbot: QtBot, folder: Path) -> None:
        self._program = program
        self._window = program.window
        self._qtbot = qtbot
        pictures_folder = os.environ.get("CLUSTER_PICTURES", "")
        self._folder = Path(pictures_folder) if pictures_folder else folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._also_small = bool(pictures_folder)
        self._count = 0
        self.clicks = 0

    def drop(self, path: Path) -> None:
        """Drop a file or folder on the window."""
        drags.drop(self._window, drags.file(path))

    def wait(self, is_reached: Callable[[], object], limit_ms: int = LIMIT_MS) -> None:
        self._qtbot.waitUntil(lambda: bool(is_reached()), timeout=limit_ms)

    def press_button(self, label: str, limit_ms: int = LIMIT_MS) -> None:
        """Press the button with a text or an accessible name."""

        def is_labelled(button: QAbstractButton) -> bool:
            return re.fullmatch(label, button.text() or _accessible_name(button)) is not None

        self._click(self._find(QAbstractButton, is_labelled, label, limit_ms))

    def write_field(self, field: str, text: str) -> None:
        """Write into a field by its name, over its text."""
        edit = self._find(QWidget, lambda w: _takes_keys(w) and _accessible_name(w) == field, field)
        edit.setFocus()
        self.clicks += 1
        self._qtbot.keyClick(edit, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        self._qtbot.keyClicks(edit, text)

    def tab_to(self, field: str) -> None:
        """Reach a field by its name with the keyboard."""
        for _ in range(_MAX_TABS):
            self.press_key("Tab")
            focus = QApplication.focusWidget()
            if focus is not None and _accessible_name(focus) == field:
                return
        raise AssertionError(f"Tab does not reach “{field}”")

    def type_text(self, text: str) -> None:
        """Type text into the widget with the focus."""
        self._qtbot.keyClicks(self._focus_widget(), text)

    def press_key(self, keys: str) -> None:
        shortcut = QKeySequence(keys)[0]
        self._qtbot.keyClick(self._focus_widget(), shortcut.key(), shortcut.keyboardModifiers())

    def _focus_widget(self) -> QWidget:
        """Return the widget with the focus; no window manager activates the window by itself."""
        top = QApplication.activeModalWidget() or self._window
        top.activateWindow()
        self.wait(top.isActiveWindow)
        return top.focusWidget() or top

    def choose_from_menu(self, button: QWidget, label: str) -> None:
        """Pick an entry in the menu of a button, which has the event loop until it closes."""
        QTimer.singleShot(_MENU_MS, lambda: self.pick_entry(label))
        self._click(button)

    def pick_entry(self, label: str) -> None:
        """Press an entry of the menu that is open."""
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu), "no menu is open"
        self.clicks += 1
        submenu_actions = [action for action in menu.actions() if action.menu() is not None]
        for submenu in (menu, *(action.menu() for action in submenu_actions)):
            for action in submenu.actions():
                if not re.fullmatch(label, action.text().replace("&", "")):
                    continue
                if submenu is not menu:
                    opener = next(a for a in submenu_actions if a.menu() is submenu)
                    QTest.mouseClick(menu, _LEFT_BUTTON, pos=menu.actionGeometry(opener).center())
                    self.clicks += 1
                QTest.mouseClick(submenu, _LEFT_BUTTON, pos=submenu.actionGeometry(action).center())
                return
        menu.close()
        raise AssertionError([action.text() for action in menu.actions()])

    def open_menu(self, parent: QWidget, position: QPoint) -> None:
        """Open a context menu with the right button, at a point of a widget."""
        self.clicks += 1
        reason = QContextMenuEvent.Reason.Mouse
        event = QContextMenuEvent(reason, position, parent.mapToGlobal(position))
        QApplication.sendEvent(parent, event)

    def _click(self, button: QWidget) -> None:
        self.clicks += 1
        self._qtbot.mouseClick(button, _LEFT_BUTTON)

    def open_dialogs(self, kind: type[_Widget]) -> list[_Widget]:
        """Return the open dialogs of a class."""
        return [dialog for dialog in self._dialogs() if isinstance(dialog, kind)]

    def take_picture(self, name: str) -> None:
        """Take a picture of the window and the dialogs before it."""
        self._count += 1
        if self._also_small:
            self._settle()
        self._save(f"{self._count:02d}-{name}")

    def take_pictures(self, name: str) -> None:
        """`take_picture`, also of a small dark window where pictures are requested."""
        self.take_picture(name)
        if not self._also_small:
            return
        size = self._window.size()
        self._program._themes.choose(ThemeChoice.DARK)
        self._window.resize(*_SMALL)
        self._settle()
        self._save(f"{self._count:02d}-{name}-dark")
        self._window.resize(size)
        self._program._themes.choose(ThemeChoice.LIGHT)
        self._settle()

    def _settle(self) -> None:
        """Lay out the widgets that were just opened, in several passes."""
        for _ in range(_PASSES):
            QApplication.processEvents()

    def _save(self, name: str) -> None:
        picture = self._window.grab()
        painter = QPainter(picture)
        for dialog in self._dialogs():
            painter.drawPixmap(self._center_position(dialog), dialog.grab())
        painter.end()
        assert picture.save(str(self._folder / f"{name}.png"))

    def _center_position(self, dialog: QWidget) -> QPoint:
        """Return the position in the middle: no window manager has placed the dialog."""
        free_size = self._window.size() - dialog.size()
        return QPoint(max(0, free_size.width() // 2), max(0, free_size.height() // 2))

    def _dialogs(self) -> list[QWidget]:
        widgets = QApplication.topLevelWidgets()
        return [w for w in widgets if isinstance(w, QDialog) and w.isVisible()]

    def _find(
        self,
        kind: type[_Widget],
        is_match: Callable[[_Widget], bool],
        label: str,
        limit_ms: int = LIMIT_MS,
    ) -> _Widget:
        widgets: list[_Widget] = []

        def has_match() -> bool:
            modal = QApplication.activeModalWidget()
            windows = [modal] if modal is not None else [*self._dialogs(), self._window]
            widgets[:] = [
                widget
                for window in windows
                for widget in window.findChildren(kind)
                if widget.isVisible() and widget.isEnabled() and is_match(widget)
            ]
            return bool(widgets)

        try:
            self.wait(has_match, limit_ms)
        except TimeoutError as error:
            self.take_picture("not-found")
            raise AssertionError(f"“{label}” is not in the window") from error
        return widgets[0]


def _accessible_name(widget: QWidget) -> str:
    return widget.accessibleName().replace("\xa0", " ")


def _takes_keys(widget: QWidget) -> bool:
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
