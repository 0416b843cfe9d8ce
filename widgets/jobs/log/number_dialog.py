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
        requested: The pattern of the number.
    """

    requested = Signal(str)

    def __init__(
        self, line: str, number_span: tuple[int, int], note: str, parent: QWidget | None = None
    ) -> None:
        super().__init__("Draw a number of the log", _WIDTH, parent)
        self._line, self._number_span = line, number_span
        self._name_edit = LineEdit(name="Name of the number")
        self._name_field = Field("Name", self._name_edit)
        self._pattern_edit = LineEdit(name="Pattern")
        self._pattern_field = Field("Pattern", self._pattern_edit)
        self._draw_button = self.default_button("Draw", self._request)
        self.fill(
            Label(_HINT, "small", "text2", wrap=True),
            self._name_field,
            self._pattern_field,
            Label(note, "small", "text2", wrap=True),
            foot=(self.close_button(), self._draw_button),
        )
        self._name_edit.textChanged.connect(self._fill_pattern)
        self._pattern_edit.textChanged.connect(self._check_pattern)
        preceding_text = "".join(
            c if c.isalnum() or c in "_/.-" else " " for c in line[: number_span[0]]
        )
        names = [name for name in preceding_text.lower().split() if is_name(name)]
        self._name_edit.setText(names[-1] if names else "number")
        self._name_edit.selectAll()

    @Slot()
    def _fill_pattern(self) -> None:
        name = self._name_edit.text().strip()
        self._name_field.set_error(
            "" if is_name(name) else "A letter, then letters, digits and _ . / -"
        )
        if is_name(name):
            self._pattern_edit.setText(pattern_for(self._line, *self._number_span, name))
        self._check_pattern()

    @Slot()
    def _check_pattern(self) -> None:
        pattern = self._pattern_edit.text()
        numbers = {} if invalid_pattern([pattern]) else numbers_of([pattern], self._line)
        self._pattern_field.set_error("" if numbers else "Finds no number in this line")
        numbers_text = ", ".join(
            f"{name} {formats.metric(value)}" for name, value in numbers.items()
        )
        self._pattern_field.set_note(f"In this line: {numbers_text}" if numbers else "")
        self._draw_button.setEnabled(bool(numbers) and is_name(self._name_edit.text().strip()))

    @Slot()
    def _request(self) -> None:
        self.requested.emit(self._pattern_edit.text())
        self.accept()
