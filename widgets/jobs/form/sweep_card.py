"""The choice of a sweep's jobs: all combinations of its values, a random draw, or a search."""

from __future__ import annotations

import math

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import ConfigError
from backend.records.jobs.metric_names import USUAL_METRICS, usual_mode
from backend.records.sweeps.search import GRID, MODES, PRUNERS, SAMPLERS, TABLE, Search
from backend.records.sweeps.spec import DRAWS, SEED, combination_count
from backend.records.sweeps.values import read_value
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import StyledFrame
from widgets.common.fields import ComboBox, ErrorLine, Field, LineEdit
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import CONTROL_H, S3, S4
from widgets.jobs.form.job_fields import JobFields

_ALL, _RANDOM, _SEARCH = "all", "random", "search"
_HEAD_W, _FIELD_W, _DEFAULT_DRAWS = 64, 104, "10"
_GOAL_W, _PRUNER_W, _NUMBER_W = 190, 214, 84
_BETTER = [("lower", "Lower"), ("higher", "Higher")]


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
            [(_ALL, "All combinations"), (_RANDOM, "Draw at random"), (_SEARCH, "Search")],
            _ALL,
            name="Jobs of the sweep",
            height=CONTROL_H,
        )
        self._make_fields()
        self._summary = Label("", "small", "text2", wrap=True)
        head = Label("Sweep", "heading")
        head.setFixedWidth(_HEAD_W)
        kind = col(Label("Which", "small", "text2"), self._kind, gap=4)
        line = row(kind, self._draw_count, self._seed, STRETCH, gap=S3, top=True)
        error_line = ErrorLine()
        error_line.attach_fields(*dict.fromkeys(self._fields_by_path.values()))
        body = col(line, self._search_rows, error_line, self._summary, gap=0)
        self.setLayout(row(col(head, STRETCH), (body, 1), gap=S3, margins=(S4, S3, S4, S4)))
        self._connect_controls()
        fields.swept_fields.changed.connect(self._follow_axes)
        self._update_card()

    def _make_fields(self) -> None:
        search = Search()
        self._draw_count = Field("Jobs", LineEdit(_DEFAULT_DRAWS, name="Jobs to draw"))
        self._seed = Field("Seed", LineEdit("1", name="Seed of draw or search"))
        self._goal = Field("Goal", LineEdit(search.metric, name="Metric that the search improves"))
        self._mode = SegmentedControl(
            _BETTER, "lower", name="Which values of the goal are better", height=CONTROL_H
        )
        self._trials = Field("Trials", LineEdit(str(search.trials), name="Number of trials"))
        self._trial_limit = Field("At once", LineEdit(str(search.at_once), name="Trials at once"))
        self._samplers = ComboBox([*SAMPLERS.items()], name="Sampler")
        self._pruners = ComboBox([*PRUNERS.items()], name="When a trial is given up")
        mode_part = col(Label("Better", "small", "text2"), self._mode, gap=4)
        self._choices = Field("Sampler", self._samplers), Field("Give up", self._pruners)
        self._fields_by_path = {
            DRAWS: self._draw_count,
            SEED: self._seed,
            f"{TABLE}.goal": self._goal,
            f"{TABLE}.better": self._goal,
            f"{TABLE}.trials": self._trials,
            f"{TABLE}.at_once": self._trial_limit,
            f"{TABLE}.sampler": self._choices[0],
            f"{TABLE}.give_up": self._choices[1],
        }
        for field in (self._draw_count, self._seed, self._trials, self._trial_limit):
            field.setFixedWidth(_NUMBER_W)
        self._goal.setFixedWidth(_GOAL_W)
        for field, width in zip(self._choices, (_GOAL_W, _PRUNER_W), strict=True):
            field.setFixedWidth(width)
        search_fields = self._goal, mode_part, self._trials, self._trial_limit
        self._search_rows = QWidget()
        self._search_rows.setLayout(
            col(
                row(*search_fields, STRETCH, gap=S3, top=True),
                row(*self._choices, STRETCH, gap=S3, top=True),
                gap=S3,
                margins=(0, S3, 0, 0),
            )
        )

    def _connect_controls(self) -> None:
        self._kind.key_chosen.connect(self._handle_change)
        self._mode.key_chosen.connect(self._handle_change)
        for field in dict.fromkeys(self._fields_by_path.values()):
            control = field.control
            if isinstance(control, LineEdit):
                control.textEdited.connect(self._handle_change)
            elif isinstance(control, ComboBox):
                control.activated.connect(self._handle_change)
        goal = self._goal.control
        if isinstance(goal, LineEdit):
            goal.suggest(USUAL_METRICS)
            goal.textEdited.connect(self._propose_better)

    def draws(self) -> int | None:
        """Return the number of jobs to draw, None for all; 0 for text that is not a number."""
        return _number(self._draw_count) if self._kind.key() == _RANDOM else None

    def search(self) -> Search | None:
        """Return the search, None if a sampler proposes nothing; a wrong number is 0."""
        if self._kind.key() != _SEARCH:
            return None
        return Search(
            metric=_field_text(self._goal).strip(),
            better=self._mode.key(),
            trials=_number(self._trials),
            at_once=_number(self._trial_limit),
            sampler=self._samplers.key(),
            pruner=self._pruners.key(),
        )

    def seed(self) -> int:
        value = read_value("whole", _field_text(self._seed))
        return value if isinstance(value, int) else 1

    def show_choice(self, draw_count: int | None, seed: int, search: Search | None) -> None:
        self._kind.choose(_SEARCH if search else _ALL if draw_count is None else _RANDOM)
        _set_field_text(self._draw_count, _DEFAULT_DRAWS if draw_count is None else str(draw_count))
        _set_field_text(self._seed, str(seed))
        search = search or Search()
        _set_field_text(self._goal, search.metric)
        self._mode.choose("higher" if search.mode == MODES["higher"] else "lower")
        _set_field_text(self._trials, str(search.trials))
        _set_field_text(self._trial_limit, str(search.at_once))
        self._samplers.choose(search.sampler)
        self._pruners.choose(search.pruner)
        self._update_card()

    def show_errors(self, errors: tuple[ConfigError, ...]) -> tuple[ConfigError, ...]:
        """Mark the faults of these fields; return the other faults."""
        own_errors = {error.path: error for error in errors if error.path in self._fields_by_path}
        for field in self._fields_by_path.values():
            field.set_error("")
        for path, error in own_errors.items():
            field = self._fields_by_path[path]
            field.set_error(error.message_for(field.label()))
        return tuple(error for error in errors if error.path not in self._fields_by_path)

    @Slot()
    def _follow_axes(self) -> None:
        """Choose a search if a range has no steps: only a sampler can choose within it."""
        has_open_range = any(axis.is_drawn_only for axis in self._fields.swept_fields.axes())
        if has_open_range and self._kind.key() == _ALL:
            self._kind.choose(_SEARCH)
        self._update_card()

    @Slot(str)
    def _propose_better(self, metric: str) -> None:
        """Follow the name of the goal, if it says which values are better."""
        mode = usual_mode(metric.strip())
        if mode:
            self._mode.choose("higher" if mode == MODES["higher"] else "lower")

    @Slot()
    def _handle_change(self) -> None:
        self._update_card()
        self.changed.emit()

    @Slot()
    def _update_card(self) -> None:
        axes = self._fields.swept_fields.axes()
        is_random, is_search = self._kind.key() == _RANDOM, self._kind.key() == _SEARCH
        has_grid = self._kind.key() == _ALL or (is_search and self._samplers.key() == GRID)
        self._fields.swept_fields.draws_at_random = not has_grid
        self.setVisible(bool(axes))
        self._draw_count.setVisible(is_random)
        self._seed.setVisible(is_random or is_search)
        self._search_rows.setVisible(is_search)
        counts = [len(axis.points()) for axis in axes]
        product = " × ".join(map(str, counts))
        size = combination_count(axes) if all(counts) else 0
        if is_search:
            self._summary.setText(
                "Each trial gets its values when its turn in the queue comes. Trials have priority "
                "-1, so other jobs go first."
            )
        elif not all(counts):
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


def _number(field: Field) -> int:
    value = read_value("whole", _field_text(field))
    return value if isinstance(value, int) else 0


def _field_text(field: Field) -> str:
    return field.control.text() if isinstance(field.control, LineEdit) else ""


def _set_field_text(field: Field, text: str) -> None:
    if isinstance(field.control, LineEdit):
        field.control.setText(text)
