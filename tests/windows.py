"""Show widgets in tests, and find their parts as a user does."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import QEvent, QObject, QTimer
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


def add_widget(qtbot: QtBot, widget: W, *size: int) -> W:
    """Return the widget, closed at the end of the test, in a size if one is given."""
    qtbot.addWidget(widget)
    if size:
        widget.resize(*size)
    return widget


def show_widget(qtbot: QtBot, widget: W, *size: int) -> W:
    """Return the widget shown, in a size if one is given, and closed at the end of the test."""
    add_widget(qtbot, widget, *size).show()
    return widget


def find_only(kind: type[Part], parent: QObject) -> Part:
    """Return the only part of a kind below a parent; of several, the only visible part."""
    parts = parent.findChildren(kind)
    if len(parts) > 1 and isinstance(parent, QWidget):
        parts = [part for part in parts if isinstance(part, QWidget) and part.isVisibleTo(parent)]
    (only_part,) = parts
    return only_part


def find_button(parent: QWidget, text: str) -> QAbstractButton:
    """Return the only button with a text or name; one that is visible comes before others."""
    buttons = parent.findChildren(QAbstractButton)
    buttons = [
        candidate for candidate in buttons if text in (candidate.text(), candidate.accessibleName())
    ]
    (only_button,) = [
        candidate for candidate in buttons if candidate.isVisibleTo(parent)
    ] or buttons
    return only_button


def find_by_name(kind: type[W], parent: QWidget, name: str) -> W:
    """Return the only widget of a kind that a screen reader calls so."""
    (only_widget,) = [
        widget for widget in parent.findChildren(kind) if widget.accessibleName() == name
    ]
    return only_widget


def find_line(parent: QWidget, name: str) -> LineEdit:
    """Return the line to type into that has this name."""
    return find_by_name(LineEdit, parent, name)


def find_field(parent: QWidget, label: str) -> Field:
    """Return the only field with this label above it."""
    (only_field,) = [field for field in parent.findChildren(Field) if field.label() == label]
    return only_field


def find_label(parent: QWidget, text: str) -> Label:
    """Return the only visible label with this text."""
    labels = [
        candidate for candidate in parent.findChildren(Label) if candidate.isVisibleTo(parent)
    ]
    (only_label,) = [candidate for candidate in labels if candidate.text() == text]
    return only_label


def page_buttons(side_bar: QWidget) -> dict[str, NavButton]:
    """Return the buttons of the places, by the key of their place."""
    return dict(zip((page.key for page in PAGES), side_bar.findChildren(NavButton), strict=True))


def visible_windows(kind: type[W]) -> list[W]:
    """Return the visible windows of a kind."""
    candidates = (widget for widget in QApplication.topLevelWidgets() if widget.isVisible())
    return [widget for widget in candidates if isinstance(widget, kind)]


def visible_window(kind: type[W]) -> W:
    """Return the only visible window of a kind."""
    (only_window,) = visible_windows(kind)
    return only_window


def visible_texts(parent: QWidget) -> list[str]:
    """Return what the visible labels, buttons and fields of a place say."""
    parts = [part for part in parent.findChildren(QWidget) if part.isVisibleTo(parent)]
    lines = [
        part.text() for part in parts if isinstance(part, (QLabel, QAbstractButton, QLineEdit))
    ]
    return lines + [part.toPlainText() for part in parts if isinstance(part, QPlainTextEdit)]


def shows_text(parent: QWidget, text: str) -> bool:
    """Return whether a visible label or button of a place contains these words."""
    visible_text = "\n".join(visible_texts(parent)).replace("\xa0", " ")
    return text.replace("\xa0", " ") in visible_text


def pick(control: ChoiceRow | ComboBox, key: str) -> None:
    """Choose as the user does: a segment, a tab or a line of a combo box, by its key."""
    control.choose(key)
    if isinstance(control, ChoiceRow):
        control.key_chosen.emit(key)
    else:
        control.activated.emit(control.currentIndex())


def open_tab(parent: QWidget, key: str) -> None:
    """Open a tab of the only row of tabs in a place, by its key."""
    pick(find_only(UnderlinedTabs, parent), key)


def job_fields(form: QWidget) -> JobFields:
    """Return the fields of a form."""
    (fields,) = form.findChildren(JobFields)
    return fields


def all_fields(form: QWidget) -> dict[str, Field]:
    """Return the fields of a form by the path of their setting."""
    options = (
        f"{part}.{key}"
        for part, options_by_name in OPTIONS.items()
        for o in options_by_name.values()
        for key in o
    )
    paths = dict.fromkeys((*SETTINGS, *options))
    fields = job_fields(form)
    return {path: fields.field(path) for path in paths if fields.has_field(path)}


def side_of(form: QWidget) -> FormSide:
    """Return the side of a form: its result, figures and findings."""
    return find_only(FormSide, form)


def start_buttons(form: QWidget) -> StartButtons:
    """Return the buttons of a form that start a job."""
    return side_of(form).start_buttons


def press_start(form: QWidget) -> None:
    """Press the key that starts a job, which works while the buttons do not."""
    (key,) = [
        shortcut
        for shortcut in form.findChildren(QShortcut)
        if shortcut.key() == QKeySequence(START_KEY)
    ]
    key.activated.emit()


def setting_field(form: QWidget, path: str) -> Field:
    """Return the visible field of a setting in a form, by the setting's name."""
    name = name_and_unit(path)[0]
    # The fields of another strategy are deleted later.
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    sweep = form.findChild(SweepCard)
    fields = [field for field in form.findChildren(Field) if field.label() == name]
    fields = [field for field in fields if sweep is None or not sweep.isAncestorOf(field)]
    (only_field,) = [field for field in fields if field.isVisibleTo(form)] or fields
    return only_field


def finish_timers(parent: QObject) -> None:
    """Let the pauses of a place end that wait for the next key before something happens."""
    for timer in parent.findChildren(QTimer):
        if timer.isActive() and timer.isSingleShot():
            timer.stop()
            timer.timeout.emit()
