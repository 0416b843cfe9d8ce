"""A dialog that somebody talks to while it is open, and that is gone when it is closed."""

from __future__ import annotations

from typing import Generic, TypeVar

from PySide6.QtWidgets import QDialog

Dialog = TypeVar("Dialog", bound=QDialog)


class DialogHolder(Generic[Dialog]):
    """Holds at most one dialog: Qt deletes one that nobody holds, Python keeps one that is held.

    Attributes:
        now: The dialog that is open, None once it was closed.
    """

    def __init__(self) -> None:
        self.now: Dialog | None = None

    def open(self, dialog: Dialog) -> None:
        """Open it, and keep it until it is closed; one that is still open is closed first."""
        if self.now is not None:
            self.now.reject()

        def forget() -> None:
            if self.now is dialog:
                self.now = None
            dialog.deleteLater()

        dialog.finished.connect(forget)
        self.now = dialog
        dialog.open()
