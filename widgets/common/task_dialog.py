"""Dialogs that show the progress of a task, and its result."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from widgets.common.dialog import Dialog
from widgets.common.labels import Label
from widgets.common.layout import STRETCH
from widgets.common.task_status import TaskStatus
from widgets.common.theme import S2, ColorRole

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
