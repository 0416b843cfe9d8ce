"""The dialog that asks for the name of a template."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import name_error
from widgets.common.dialog import Dialog
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import Label

_WIDTH = 460


class NameDialog(Dialog):
    """Asks for a name; only the button Replace replaces an existing template.

    Signals:
        requested: The name, and whether to replace the template of that name.
    """

    requested = Signal(str, bool)

    def __init__(
        self,
        title: str,
        action_label: str,
        name: str,
        existing_names: Sequence[str],
        parent: QWidget | None = None,
        *,
        note: str = "",
        may_replace: bool = False,
    ) -> None:
        super().__init__(title, _WIDTH, parent)
        self._action_label, self._existing_names, self._may_replace = (
            action_label,
            tuple(existing_names),
            may_replace,
        )
        self._old_name = name
        self._edit = LineEdit(name, name="Name of the template")
        self._edit.textChanged.connect(self._update_state)
        self._field = Field("Name", self._edit)
        self._confirm_button = self.default_button(action_label, self._request)
        note_label = Label(note, "body", "text2", wrap=True) if note else None
        self.fill(note_label, self._field, foot=(self.close_button(), self._confirm_button))
        self._edit.selectAll()
        self._update_state()

    def show_error(self, message: str) -> None:
        """Show why the action failed."""
        self._field.set_error(message)

    @Slot()
    def _update_state(self) -> None:
        name = self._edit.text().strip()
        error = name_error(name) if name else ""
        name_exists = name in self._existing_names
        if name_exists and not self._may_replace:
            error = f"A template named “{name}” already exists."
        self._field.set_error(error)
        self._field.set_note(
            f"A template named “{name}” already exists and will be replaced."
            if name_exists
            else "",
            "warn",
        )
        self._confirm_button.setText(
            "Replace" if name_exists and self._may_replace else self._action_label
        )
        is_unchanged = not self._may_replace and name == self._old_name
        self._confirm_button.setEnabled(bool(name) and not error and not is_unchanged)

    @Slot()
    def _request(self) -> None:
        name = self._edit.text().strip()
        self.requested.emit(name, name in self._existing_names)
        self.accept()
