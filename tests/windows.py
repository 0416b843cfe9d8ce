"""Show widgets in tests, and find their parts as a user does."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget
from pytestqt.qtbot import QtBot

from backend.records.jobs.settings import name_and_unit
from widgets.common.fields import Field
from widgets.jobs.form.sweep_card import SweepCard

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
    """Return the only button with a text in a place; one that is visible comes before others."""
    buttons = [one for one in place.findChildren(QAbstractButton) if one.text() == text]
    (found,) = [one for one in buttons if one.isVisibleTo(place)] or buttons
    return found


def windows(kind: type[W]) -> list[W]:
    """Return the visible windows of a kind."""
    shown = (one for one in QApplication.topLevelWidgets() if one.isVisible())
    return [one for one in shown if isinstance(one, kind)]


def window(kind: type[W]) -> W:
    """Return the only visible window of a kind."""
    (found,) = windows(kind)
    return found


def setting_field(form: QWidget, path: str) -> Field:
    """Return the visible field of a setting in a form, by the setting's name."""
    name = name_and_unit(path)[0]
    sweep = form.findChild(SweepCard)
    fields = [one for one in form.findChildren(Field) if one.label() == name]
    fields = [one for one in fields if sweep is None or not sweep.isAncestorOf(one)]
    (found,) = [one for one in fields if one.isVisibleTo(form)] or fields
    return found


def elapse(place: QObject) -> None:
    """Let the pauses of a place end that wait for the next key before something happens."""
    for timer in place.findChildren(QTimer):
        if timer.isActive() and timer.isSingleShot():
            timer.stop()
            timer.timeout.emit()
