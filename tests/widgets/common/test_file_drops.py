"""A file over a text field is dropped on the page below it, and is never typed into the field."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QDragEnterEvent
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QSpinBox, QWidget
from pytestqt.qtbot import QtBot

from tests.widgets import drags
from widgets.common.fields import LineEdit, SearchField, SpinBox, TextBox
from widgets.common.rich_text import RichText


def text_content() -> QMimeData:
    content = QMimeData()
    content.setText("a note")
    return content


def file_with_text() -> QMimeData:
    """Return the content that a file manager sends: the address, and the address as text."""
    content = drags.file("/home/me/shapes")
    content.setText("file:///home/me/shapes")
    return content


def is_accepted(field: QWidget, content: QMimeData) -> bool:
    button_and_keys = (Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    event = QDragEnterEvent(
        field.rect().center(), Qt.DropAction.CopyAction, content, *button_and_keys
    )
    event.ignore()
    QApplication.sendEvent(field, event)
    return event.isAccepted()


@pytest.mark.parametrize(
    ("make", "takes_words"),
    [
        (lambda: LineEdit("digits"), True),
        (lambda: LineEdit(unit="MB"), True),
        (lambda: SearchField("Name"), True),
        (lambda: TextBox("digits"), True),
        (lambda: TextBox("digits", read_only=True), False),
        (lambda: SpinBox(3), False),
        (RichText, False),
    ],
)
def test_a_text_field_takes_words_and_leaves_files(
    qtbot: QtBot, make: Callable[[], QWidget], takes_words: bool
) -> None:
    field = make()
    qtbot.addWidget(field)
    part = field
    if isinstance(field, QAbstractScrollArea):
        part = field.viewport()
    elif isinstance(field, QSpinBox):
        part = field.lineEdit()
    # Qt sends nothing to a widget that accepts no drops.
    assert (part.acceptDrops() and is_accepted(part, text_content())) is takes_words
    for content in (drags.file("/home/me/shapes"), file_with_text()):
        assert not (part.acceptDrops() and is_accepted(part, content))
