"""Show widgets in tests, and find their parts as a user does."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from backend.records.jobs.settings import OPTIONS, SETTINGS, name_and_unit
from widgets.common.buttons import ChoiceRow, UnderlinedTabs
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.labels import Label
from widgets.jobs.form.form_side import START_KEY, FormSide, StartButtons
from widgets.jobs.form.job_fields import JobFields
from widgets.jobs.form.sweep_card import SweepCard
from widgets.shell.nav_button import NavButton
from widgets.shell.pages import PAGES

W = TypeVar("W", bound=QWidget)
Part = TypeVar("Part", bound=QObject)


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


def the(kind: type[Part], place: QObject) -> Part:
    """Return the only part of a kind in a place; of several, the only visible one."""
    parts = place.findChildren(kind)
    if len(parts) > 1 and isinstance(place, QWidget):
        parts = [one for one in parts if isinstance(one, QWidget) and one.isVisibleTo(place)]
    (found,) = parts
    return found


def button(place: QWidget, text: str) -> QAbstractButton:
    """Return the only button with a text or name; one that is visible comes before others."""
    buttons = place.findChildren(QAbstractButton)
    buttons = [one for one in buttons if text in (one.text(), one.accessibleName())]
    (found,) = [one for one in buttons if one.isVisibleTo(place)] or buttons
    return found


def named(kind: type[W], place: QWidget, name: str) -> W:
    """Return the only widget of a kind that a screen reader calls so."""
    (found,) = [one for one in place.findChildren(kind) if one.accessibleName() == name]
    return found


def line_of(place: QWidget, name: str) -> LineEdit:
    """Return the line to type into that has this name."""
    return named(LineEdit, place, name)


def field_of(place: QWidget, label: str) -> Field:
    """Return the only field with this label above it."""
    (found,) = [one for one in place.findChildren(Field) if one.label() == label]
    return found


def label_of(place: QWidget, text: str) -> Label:
    """Return the only visible label with this text."""
    labels = [one for one in place.findChildren(Label) if one.isVisibleTo(place)]
    (found,) = [one for one in labels if one.text() == text]
    return found


def places_of(side_bar: QWidget) -> dict[str, NavButton]:
    """Return the buttons of the places, by the key of their place."""
    return dict(zip((one.key for one in PAGES), side_bar.findChildren(NavButton), strict=True))


def windows(kind: type[W]) -> list[W]:
    """Return the visible windows of a kind."""
    shown = (one for one in QApplication.topLevelWidgets() if one.isVisible())
    return [one for one in shown if isinstance(one, kind)]


def window(kind: type[W]) -> W:
    """Return the only visible window of a kind."""
    (found,) = windows(kind)
    return found


def texts(place: QWidget) -> list[str]:
    """Return what the visible labels, buttons and fields of a place say."""
    parts = [one for one in place.findChildren(QWidget) if one.isVisibleTo(place)]
    lines = [one.text() for one in parts if isinstance(one, (QLabel, QAbstractButton, QLineEdit))]
    return lines + [one.toPlainText() for one in parts if isinstance(one, QPlainTextEdit)]


def says(place: QWidget, part: str) -> bool:
    """Return whether a visible label or button of a place contains these words."""
    shown = "\n".join(texts(place)).replace("\xa0", " ")
    return part.replace("\xa0", " ") in shown


def pick(control: ChoiceRow | ComboBox, key: str) -> None:
    """Choose as the user does: a segment, a tab or a line of a combo box, by its key."""
    control.choose(key)
    if isinstance(control, ChoiceRow):
        control.key_chosen.emit(key)
    else:
        control.activated.emit(control.currentIndex())


def open_tab(place: QWidget, key: str) -> None:
    """Open a tab of the only row of tabs in a place, by its key."""
    pick(the(UnderlinedTabs, place), key)


def fields_of(form: QWidget) -> JobFields:
    """Return the fields of a form."""
    (found,) = form.findChildren(JobFields)
    return found


def all_fields(form: QWidget) -> dict[str, Field]:
    """Return the fields of a form by the path of their setting."""
    options = (f"{part}.{key}" for part, by in OPTIONS.items() for o in by.values() for key in o)
    paths = dict.fromkeys((*SETTINGS, *options))
    return {path: fields_of(form).field(path) for path in paths if fields_of(form).has_field(path)}


def side_of(form: QWidget) -> FormSide:
    """Return the side of a form: its result, figures and findings."""
    return the(FormSide, form)


def acts_of(form: QWidget) -> StartButtons:
    """Return the buttons of a form that start a job."""
    return side_of(form).start_buttons


def press_start(form: QWidget) -> None:
    """Press the key that starts a job, which works while the buttons do not."""
    (key,) = [one for one in form.findChildren(QShortcut) if one.key() == QKeySequence(START_KEY)]
    key.activated.emit()


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
