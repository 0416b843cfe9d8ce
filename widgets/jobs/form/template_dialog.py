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
    """Asks for a name; only a button that says so replaces an existing template.

    Signals:
        requested: The name, and whether to replace the template of that name.
    """

    requested = Signal(str, bool)

    def __init__(
        self,
        title: str,
        act: str,
        name: str,
        taken: Sequence[str],
        parent: QWidget | None = None,
        *,
        note: str = "",
        may_replace: bool = False,
    ) -> None:
        super().__init__(title, _WIDTH, parent)
        self._act, self._taken, self._may_replace = act, tuple(taken), may_replace
        self._first = name
        self._edit = LineEdit(name, name="Name of the template")
        self._edit.textChanged.connect(self._fit)
        self._field = Field("Name", self._edit)
        self._go = self.default_button(act, self._request)
        words = Label(note, "body", "text2", wrap=True) if note else None
        self.fill(words, self._field, foot=(self.close_button(), self._go))
        self._edit.selectAll()
        self._fit()

    def show_error(self, sentence: str) -> None:
        """Show why the action failed."""
        self._field.set_error(sentence)

    @Slot()
    def _fit(self) -> None:
        name = self._edit.text().strip()
        fault = name_error(name) if name else ""
        is_taken = name in self._taken
        if is_taken and not self._may_replace:
            fault = f"A template named “{name}” already exists."
        self._field.set_error(fault)
        self._field.set_note(
            f"A template named “{name}” already exists and will be replaced." if is_taken else "",
            "warn",
        )
        self._go.setText("Replace" if is_taken and self._may_replace else self._act)
        is_same = not self._may_replace and name == self._first
        self._go.setEnabled(bool(name) and not fault and not is_same)

    @Slot()
    def _request(self) -> None:
        name = self._edit.text().strip()
        self.requested.emit(name, name in self._taken)
        self.accept()
