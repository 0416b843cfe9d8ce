"""The dialog for the hours at which a node gives way to its other users."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.nodes.entry import EXAMPLE, parse_hours
from widgets.common.dialog import Dialog
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import Label

_WIDTH = 460
_EXPLANATION = (
    "A job pauses while a process of another user is on one of its GPUs, or a user is at the "
    "keyboard of {}. It continues by itself. Jobs without GPUs do not pause."
)


class GiveWayDialog(Dialog):
    """A dialog that asks for the hours.

    Signals:
        requested: The text of the hours.
    """

    requested = Signal(str)

    def __init__(self, node: str, hours: str, parent: QWidget | None = None) -> None:
        super().__init__(f"When {node} gives way", _WIDTH, parent)
        self._edit = LineEdit(hours or "never", name="Hours")
        self._field = Field("Gives way", self._edit)
        self._field.set_note(f"never, always, or as in {EXAMPLE}")
        self._save_button = self.default_button("Save", self._request)
        explanation = Label(_EXPLANATION.format(node), "body", "text2", wrap=True)
        self.fill(explanation, self._field, foot=(self.close_button(), self._save_button))
        self._edit.textChanged.connect(self._check_hours)
        self._edit.selectAll()

    @Slot()
    def _check_hours(self) -> None:
        message = ""
        try:
            parse_hours(self._edit.text())
        except ValueError as error:
            message = str(error)
        self._field.set_error(message)
        self._save_button.setEnabled(not message)

    @Slot()
    def _request(self) -> None:
        self.requested.emit(self._edit.text())
        self.accept()
