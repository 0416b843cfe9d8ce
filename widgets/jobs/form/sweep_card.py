"""The choice of a sweep's jobs: all combinations of its values, or some drawn at random."""

from __future__ import annotations

import math

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import ConfigError
from backend.records.sweeps.spec import DRAWS, SEED, combination_count
from backend.records.sweeps.values import read_value
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import StyledFrame
from widgets.common.fields import ErrorLine, Field, LineEdit
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import CONTROL_H, S3, S4
from widgets.jobs.form.job_fields import JobFields

_ALL, _RANDOM = "all", "random"
_HEAD_W, _FIELD_W, _DEFAULT_DRAWS = 64, 104, "10"


class SweepCard(StyledFrame):
    """Visible while a field has several values.

    Signals:
        changed: The number or the choice of the jobs changed.
    """

    changed = Signal()

    def __init__(self, fields: JobFields, parent: QWidget | None = None) -> None:
        super().__init__("card", parent=parent)
        self._fields = fields
        self._kind = SegmentedControl(
            [(_ALL, "All combinations"), (_RANDOM, "Draw at random")],
            _ALL,
            name="Jobs of the sweep",
            height=CONTROL_H,
        )
        self._draws = Field("Jobs", LineEdit(_DEFAULT_DRAWS, name="Jobs to draw"))
        self._seed = Field("Seed", LineEdit("1", name="Seed of the draw"))
        self._summary = Label("", "small", "text2", wrap=True)
        for field in (self._draws, self._seed):
            field.setFixedWidth(_FIELD_W)
        head = Label("Sweep", "heading")
        head.setFixedWidth(_HEAD_W)
        kind = col(Label("Which", "small", "text2"), self._kind, gap=4)
        line = row(kind, self._draws, self._seed, STRETCH, gap=S3, top=True)
        error_line = ErrorLine()
        error_line.attach_fields(self._draws, self._seed)
        body = col(line, error_line, self._summary, gap=0)
        self.setLayout(row(col(head, STRETCH), (body, 1), gap=S3, margins=(S4, S3, S4, S4)))
        self._kind.key_chosen.connect(self._handle_change)
        for field in (self._draws, self._seed):
            control = field.control
            if isinstance(control, LineEdit):
                control.textEdited.connect(self._handle_change)
        fields.swept.changed.connect(self._update_card)
        self._update_card()

    def draws(self) -> int | None:
        """Return the number of jobs to draw, None for all; 0 for text that is not a number."""
        if self._kind.key() == _ALL:
            return None
        value = read_value("whole", _field_text(self._draws))
        return value if isinstance(value, int) else 0

    def seed(self) -> int:
        value = read_value("whole", _field_text(self._seed))
        return value if isinstance(value, int) else 1

    def show_draw(self, draws: int | None, seed: int) -> None:
        self._kind.choose(_ALL if draws is None else _RANDOM)
        _set_field_text(self._draws, _DEFAULT_DRAWS if draws is None else str(draws))
        _set_field_text(self._seed, str(seed))
        self._update_card()

    def show_errors(self, errors: tuple[ConfigError, ...]) -> tuple[ConfigError, ...]:
        """Mark the faults of these fields; return the other faults."""
        fields_by_path = {DRAWS: self._draws, SEED: self._seed}
        errors_by_path = {error.path: error for error in errors if error.path in fields_by_path}
        for path, field in fields_by_path.items():
            field.set_error(
                errors_by_path[path].message_for(field.label()) if path in errors_by_path else ""
            )
        return tuple(error for error in errors if error.path not in fields_by_path)

    @Slot()
    def _handle_change(self) -> None:
        self._update_card()
        self.changed.emit()

    @Slot()
    def _update_card(self) -> None:
        axes = self._fields.swept.axes()
        is_random = self._kind.key() == _RANDOM
        self._fields.swept.draws_at_random = is_random
        self.setVisible(bool(axes))
        for field in (self._draws, self._seed):
            field.setVisible(is_random)
        counts = [len(axis.points()) for axis in axes]
        product = " × ".join(map(str, counts))
        size = combination_count(axes) if all(counts) else 0
        if not all(counts):
            self._summary.setText(
                "Values of a range without steps are drawn from anywhere between its ends."
            )
        elif is_random:
            self._summary.setText(
                f"Drawn from {formats.count(size)} combinations. The same seed draws the same jobs."
            )
        else:
            product_text = f"{product} = " if len(counts) > 1 and size == math.prod(counts) else ""
            jobs = formats.plural(size, "job")
            self._summary.setText(f"{product_text}{jobs}, one per combination.")


def _field_text(field: Field) -> str:
    return field.control.text() if isinstance(field.control, LineEdit) else ""


def _set_field_text(field: Field, text: str) -> None:
    if isinstance(field.control, LineEdit):
        field.control.setText(text)
