"""Widgets that pytest-qt closes at the end of a test."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtWidgets import QWidget
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
