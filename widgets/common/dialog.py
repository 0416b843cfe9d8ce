"""The base of all dialogs, questions, those of a task, their holder, and the dimmed window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QEvent, QObject, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from widgets.common import theme
from widgets.common.buttons import Button, Kind
from widgets.common.cards import ProgressLine
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, Item, col, fit_height, fit_into_parent, row
from widgets.common.theme import S2, S3, S4, S6, ColorRole


class Dialog(QDialog):
    """A dialog of fixed width whose height follows its content, or is the given ``height``.

    Qt itself keeps the first height of a dialog, or assumes a narrower width for wrapped text, and
    spreads the excess between the parts.
    """

    def __init__(
        self, title: str, width: int, parent: QWidget | None = None, *, height: int = 0
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setObjectName("dialog")
        self._follows_content = not height
        self._error = Label("", "small", "bad", wrap=True, selectable=True)
        self._error.hide()
        if height:
            fit_into_parent(self, parent, width, height)
        else:
            self.setFixedWidth(width)

    def fill(self, *items: Item, head: Item = None, foot: tuple[Item, ...] = ()) -> None:
        """Lay out the title, the content, the line of an error, and the buttons.

        Args:
            head: In place of the title.
            foot: The buttons, at the right; buttons before a `STRETCH` at the left.
        """
        title = head if head is not None else Label(self.windowTitle(), "title")
        buttons = foot if STRETCH in foot or not foot else (STRETCH, *foot)
        button_row = row(*buttons) if foot else None
        layout = col(title, *items, self._error, button_row, gap=S3, margins=(S6, S4, S6, S4))
        self.setLayout(layout)

    def show_error(self, message: str) -> None:
        """Show why the action failed; "" for nothing."""
        self._error.setText(message)
        self._error.setVisible(bool(message))

    def default_button(
        self, text: str, action: Callable[[], object], *, kind: Kind = "primary", icon: str = ""
    ) -> Button:
        """The button that Enter presses."""
        button = Button(text, kind=kind, icon=icon)
        button.setDefault(True)
        button.clicked.connect(action)
        return button

    def close_button(self, text: str = "Close") -> Button:
        """A button that closes the dialog without doing anything."""
        button = Button(text)
        button.clicked.connect(self.reject)
        return button

    def event(self, event: QEvent) -> bool:
        is_handled = bool(super().event(event))
        if event.type() == QEvent.Type.LayoutRequest and self._follows_content:
            fit_height(self)
        return is_handled

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._follows_content:
            fit_height(self)


_QUESTION_W = 460


class Question(Dialog):
    """A text, fields, and a button that calls ``action`` and closes the dialog.

    Args:
        head: In place of the title.
        is_dangerous: Enter presses the other button.

    Attributes:
        action_button: The button that calls ``action``.
    """

    def __init__(
        self,
        title: str,
        action_label: str,
        action: Callable[[], object],
        parent: QWidget | None = None,
        *,
        head: QWidget | None = None,
        close_label: str = "Close",
        icon: str = "",
        is_dangerous: bool = False,
        width: int = _QUESTION_W,
    ) -> None:
        super().__init__(title, width, parent)
        self._action, self._head = action, head
        self._check: Callable[[], bool] = lambda: True
        kind: Kind = "danger" if is_dangerous else "primary"
        self.action_button = Button(action_label, kind=kind, icon=icon)
        self.action_button.setDefault(not is_dangerous)
        self.action_button.clicked.connect(self._run_action)
        self._close_button = self.close_button(close_label)
        self._close_button.setDefault(is_dangerous)

    def ask(self, text: str, *items: Item, check: Callable[[], bool] | None = None) -> Question:
        """Lay out the text and the fields.

        Args:
            check: Shows the errors of the fields, and returns whether the button is enabled. It is
                called after each change of a text.
        """
        text_label = Label(text, "body", "text2", wrap=True) if text else None
        self.fill(
            text_label, *items, head=self._head, foot=(self._close_button, self.action_button)
        )
        self._check = check or self._check
        for edit in self.findChildren(QLineEdit):
            edit.textChanged.connect(self.update_button)
        self.update_button()
        return self

    @Slot()
    def update_button(self) -> None:
        self.action_button.setEnabled(self._check())

    @Slot()
    def _run_action(self) -> None:
        self._action()
        self.accept()


AnyDialog = TypeVar("AnyDialog", bound=QDialog)


class DialogHolder(Generic[AnyDialog]):
    """Hold at most one dialog: without a reference to a dialog Qt deletes it.

    Attributes:
        dialog: The open dialog, None once it was closed.
    """

    def __init__(self) -> None:
        self.dialog: AnyDialog | None = None

    def open(self, dialog: AnyDialog) -> None:
        """Open a dialog and keep it until it is closed; an open dialog is closed first."""
        if self.dialog is not None:
            self.dialog.reject()

        def forget() -> None:
            if self.dialog is dialog:
                self.dialog = None
            dialog.deleteLater()

        dialog.finished.connect(forget)
        self.dialog = dialog
        dialog.open()

    def guard_callback(self, dialog: AnyDialog, show: Callable[..., None]) -> Callable[..., None]:
        """Return ``show``, which does nothing once this dialog was closed or replaced."""

        def show_if_open(*values: Any) -> None:
            if self.dialog is dialog:
                show(*values)

        return show_if_open


_LINES = 2


class TaskStatus(QWidget):
    """The status of a task, two lines high from the start: no button moves with the result.

    Signals:
        cancelled: Cancel the running task.
        folder_requested: Path of the created file, to show in the file manager.

    Attributes:
        message: The result.
        progress: The progress of the running task, with a button to cancel.
    """

    cancelled = Signal()
    folder_requested = Signal(str)

    def __init__(
        self, task_name: str, *, cancel_label: str = "Cancel", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.message = Label("", "body", "bad", wrap=True, selectable=True)
        self.progress = ProgressLine(task_name, cancel_label=cancel_label)
        self.progress.cancelled.connect(self.cancelled)
        self.show_in_folder = Button("Show in folder", icon="folder-open")
        self._path = ""
        self.show_in_folder.clicked.connect(lambda: self.folder_requested.emit(self._path))
        line = row((self.message, 1), self.show_in_folder, gap=S2)
        self.setLayout(col(line, self.progress, STRETCH, gap=0))
        self.reserve_height(True)
        self.clear()

    def reserve_height(self, is_reserved: bool) -> None:
        """Set whether the height of a result is reserved before there is a result."""
        text_h = _LINES * self.message.fontMetrics().lineSpacing()
        parts = (self.progress, self.show_in_folder)
        height = max(text_h, *(part.sizeHint().height() for part in parts))
        self.setMinimumHeight(height if is_reserved else 0)

    def show_progress(self, share: float | None, text: str) -> None:
        if self.progress.isHidden():
            self.clear()
            self.progress.set_can_cancel(True)
            self.progress.show()
        self.progress.set_progress(share, text)

    def show_result(self, color_role: ColorRole, text: str, *, created_path: str = "") -> None:
        """Show the result; ``created_path`` is the path of the created file."""
        self.clear()
        self._path = created_path
        self.message.set_color_role(color_role)
        self.message.setText(text)
        self.message.setVisible(bool(text))
        self.show_in_folder.setVisible(bool(created_path))

    @Slot()
    def clear(self) -> None:
        """Clear an outdated result, which does not apply to the present input."""
        for part in (self.message, self.progress, self.show_in_folder):
            part.hide()


_WIDTH = 540


class TaskDialog(Dialog):
    """The status of a task, for a subclass to lay out. Closing it cancels the task.

    Signals:
        cancel_requested: Cancel the running task.
        folder_requested: Path of the file that was written, to be shown in the file manager.
    """

    cancel_requested = Signal()
    folder_requested = Signal(str)

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(title, _WIDTH, parent)
        self.is_under_way = False
        self._status = TaskStatus(title)
        self._status.cancelled.connect(self.cancel_requested)
        self._status.folder_requested.connect(self.folder_requested)
        self._close = self.close_button()

    def show_progress(self, share: float | None, text: str) -> None:
        self.is_under_way = True
        self._status.show_progress(share, text)

    def show_error(self, message: str) -> None:
        self.show_result("bad", message)

    def show_result(self, color_role: ColorRole, text: str, *, created_path: str = "") -> None:
        """Show the result of the task; ``created_path`` is the path of the created file."""
        self.is_under_way = False
        self._status.show_result(color_role, text, created_path=created_path)

    def accept(self) -> None:
        self.is_under_way = False
        super().accept()

    def reject(self) -> None:
        if self.is_under_way:
            self.cancel_requested.emit()
        super().reject()


class ProgressDialog(TaskDialog):
    """A title, the subject of the task, and its status."""

    def __init__(self, title: str, subject: str = "", parent: QWidget | None = None) -> None:
        super().__init__(title, parent)
        label = Label(subject, "body", "text2", elide="middle")
        label.setVisible(bool(subject))
        self.fill(label, S2, self._status, STRETCH, foot=(self._close,))


_VEIL_ALPHA = 0.28


class Scrim(QWidget):
    """A layer that is shown while a modal dialog blocks the window."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        window.installEventFilter(self)
        self.hide()

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.WindowBlocked:
            self.raise_()
            self.show()
        elif kind == QEvent.Type.WindowUnblocked:
            self.hide()
        if kind in (QEvent.Type.WindowBlocked, QEvent.Type.Resize):
            self.setGeometry(self._window.rect())
        return super().eventFilter(receiver, event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        paint_veil(self)


def paint_veil(widget: QWidget) -> None:
    QPainter(widget).fillRect(widget.rect(), theme.current().q("shadow", _VEIL_ALPHA))
