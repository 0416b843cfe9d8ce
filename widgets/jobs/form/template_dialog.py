"""The dialog that asks for the name of a template."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QDialog, QWidget

from backend.records.base.validation import name_fault
from widgets.common.buttons import Button
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import S2, S3, S4, S6

_WIDTH = 460


class NameDialog(QDialog):
    """Asks for a name; only a button that says so replaces an existing template.

    The signal has the name, and whether to replace the template of that name.
    """

    wished = Signal(str, bool)

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
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setObjectName("dialog")
        self.setFixedWidth(_WIDTH)
        self._act, self._taken, self._may_replace = act, tuple(taken), may_replace
        self._first = name
        self._edit = LineEdit(name, name="Name of the template")
        self._edit.textChanged.connect(self._fit)
        self._field = Field("Name", self._edit)
        self._go = Button(act, kind="primary")
        self._go.setDefault(True)
        self._go.clicked.connect(self._wish)
        close = Button("Close")
        close.clicked.connect(self.reject)
        self.setLayout(
            col(
                Label(title, "title"),
                Label(note, "body", "text2", wrap=True) if note else None,
                self._field,
                row(STRETCH, close, self._go, gap=S2),
                gap=S3,
                margins=(S6, S4, S6, S4),
            )
        )
        self._edit.selectAll()
        self._fit()

    def show_error(self, sentence: str) -> None:
        """Show why the action failed."""
        self._field.set_error(sentence)

    @Slot()
    def _fit(self) -> None:
        name = self._edit.text().strip()
        fault = name_fault(name) if name else ""
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
    def _wish(self) -> None:
        name = self._edit.text().strip()
        self.wished.emit(name, name in self._taken)
        self.accept()
