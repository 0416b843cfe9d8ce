"""A dialog is held while it is open, and gone when it is closed."""

import pytest
import shiboken6
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QDialog, QWidget

from widgets.common.dialog import DialogHolder


@pytest.fixture
def window(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    return window


def settle():
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.mark.parametrize("close", [QDialog.accept, QDialog.reject, QDialog.close])
def test_however_a_dialog_is_closed_it_is_forgotten_and_deleted(window, close):
    holder = DialogHolder()
    dialog = QDialog(window)
    holder.open(dialog)
    assert holder.dialog is dialog
    assert dialog.isVisible()
    close(dialog)
    settle()
    assert holder.dialog is None
    assert not shiboken6.isValid(dialog)


def test_a_second_dialog_closes_the_first_and_stays_held(window):
    holder = DialogHolder()
    first, second = QDialog(window), QDialog(window)
    holder.open(first)
    holder.open(second)
    settle()
    assert not shiboken6.isValid(first)
    assert holder.dialog is second
    assert second.isVisible()


def test_an_answer_for_a_replaced_dialog_is_not_shown(qtbot):
    holder, shown_answers = DialogHolder(), []
    first, second = QDialog(), QDialog()
    holder.open(first)
    answer = holder.guard_callback(first, shown_answers.append)
    answer("in time")
    holder.open(second)
    answer("too late")
    assert shown_answers == ["in time"]
    second.reject()
