"""The status of a dialog's task: its progress, then its result."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from widgets.common.buttons import Button
from widgets.common.cards import ProgressLine
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import S2, ColorRole

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
        self.show_in_folder.clicked.connect(self._request_folder)
        self._path = ""
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

    @Slot()
    def _request_folder(self) -> None:
        self.folder_requested.emit(self._path)
