"""The dialog that names a number of the log, to draw it as a curve."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.log_numbers import invalid_pattern, is_name, numbers_of, pattern_for
from widgets.common import formats
from widgets.common.dialog import Dialog
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import Label

_WIDTH = 460
_HINT = "epoch, epochs, step and total_steps set the progress; any other name is a curve."


class NumberDialog(Dialog):
    """Asks for the name of a number in a line.

    Signals:
        requested: Its pattern.
    """

    requested = Signal(str)

    def __init__(
        self, line: str, number_span: tuple[int, int], note: str, parent: QWidget | None = None
    ) -> None:
        super().__init__("Draw a number of the log", _WIDTH, parent)
        self._line, self._number_span = line, number_span
        self._edit = LineEdit(name="Name of the number")
        self._name = Field("Name", self._edit)
        self._pattern = LineEdit(name="Pattern")
        self._field = Field("Pattern", self._pattern)
        self._go = self.default_button("Draw", self._request)
        self.fill(
            Label(_HINT, "small", "text2", wrap=True),
            self._name,
            self._field,
            Label(note, "small", "text2", wrap=True),
            foot=(self.close_button(), self._go),
        )
        self._edit.textChanged.connect(self._fill)
        self._pattern.textChanged.connect(self._fit)
        before = "".join(c if c.isalnum() or c in "_/.-" else " " for c in line[: number_span[0]])
        words = [word for word in before.lower().split() if is_name(word)]
        self._edit.setText(words[-1] if words else "number")
        self._edit.selectAll()

    @Slot()
    def _fill(self) -> None:
        name = self._edit.text().strip()
        self._name.set_error("" if is_name(name) else "A letter, then letters, digits and _ . / -")
        if is_name(name):
            self._pattern.setText(pattern_for(self._line, *self._number_span, name))
        self._fit()

    @Slot()
    def _fit(self) -> None:
        pattern = self._pattern.text()
        found = {} if invalid_pattern([pattern]) else numbers_of([pattern], self._line)
        self._field.set_error("" if found else "Finds no number in this line")
        words = ", ".join(f"{name} {formats.metric(value)}" for name, value in found.items())
        self._field.set_note(f"In this line: {words}" if found else "")
        self._go.setEnabled(bool(found) and is_name(self._edit.text().strip()))

    @Slot()
    def _request(self) -> None:
        self.requested.emit(self._pattern.text())
        self.accept()
