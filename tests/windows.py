"""Widgets that pytest-qt closes at the end of a test."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget
from pytestqt.qtbot import QtBot

W = TypeVar("W", bound=QWidget)


def owned(qtbot: QtBot, widget: W, *size: int) -> W:
    """Return the widget, closed at the end of the test, in a size if one is given."""
    qtbot.addWidget(widget)
    if size:
        widget.resize(*size)
    return widget


def on_screen(qtbot: QtBot, widget: W, *size: int) -> W:
    """Return the widget shown, in a size if one is given, and closed at the end of the test."""
    owned(qtbot, widget, *size).show()
    return widget


def the(kind: type[W], place: QWidget) -> W:
    """Return the only widget of a kind in a place."""
    (found,) = place.findChildren(kind)
    return found


def button(place: QWidget, text: str) -> QAbstractButton:
    """Return the only button with a text in a place."""
    (found,) = (one for one in place.findChildren(QAbstractButton) if one.text() == text)
    return found


def window(kind: type[W]) -> W:
    """Return the only visible window of a kind."""
    shown = (one for one in QApplication.topLevelWidgets() if one.isVisible())
    (found,) = (one for one in shown if isinstance(one, kind))
    return found
