"""A holder for a dialog that gets new content while it is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from PySide6.QtWidgets import QDialog

Dialog = TypeVar("Dialog", bound=QDialog)


class DialogHolder(Generic[Dialog]):
    """Hold at most one dialog: without a reference to a dialog Qt deletes it.

    Attributes:
        dialog: The open dialog, None once it was closed.
    """

    def __init__(self) -> None:
        self.dialog: Dialog | None = None

    def open(self, dialog: Dialog) -> None:
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

    def guard_callback(self, dialog: Dialog, show: Callable[..., None]) -> Callable[..., None]:
        """Return ``show``, which does nothing once this dialog was closed or replaced."""

        def show_if_open(*values: Any) -> None:
            if self.dialog is dialog:
                show(*values)

        return show_if_open
