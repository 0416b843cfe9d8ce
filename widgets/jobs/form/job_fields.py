"""The fields of the job form, each bound to its path in the job file.

The form's only state is the job file in its fields (`JobFields.draft`). Text that is not a number
is kept as typed: the check of job files (`backend.records.jobs.job_file.parse_job`) has the error
message and names the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import ConfigError
from backend.records.jobs.arguments import TABLE, argument_name, value_of, with_value
from backend.records.jobs.script import command_line
from backend.records.jobs.script_help import ScriptArgument
from backend.records.jobs.setting import Setting
from backend.records.jobs.settings import (
    SETTINGS,
    conditions,
    default_value,
    is_of,
    name_and_unit,
    value_at,
)
from backend.records.sweeps.search import Search
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import Axis, read_value, value_text
from widgets.common import formats
from widgets.common.buttons import Switch
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.labels import term_tip
from widgets.common.theme import CONTROL_H
from widgets.jobs.form.start_from import StartFrom
from widgets.jobs.form.swept_fields import SweptFields, with_first_values


@dataclass(frozen=True)
class Origin:
    """The origin of the settings in the form.

    ``label`` names the origin in a message ("“digits 3”"), ``raw`` has the original settings, and
    ``replayed_id`` is the id of the job to train again, or "".
    """

    label: str
    raw: Mapping[str, Any] = field(default_factory=dict)
    replayed_id: str = ""


@dataclass(frozen=True)
class JobDraft:
    """A job file as it is in the form; it may not be valid yet.

    ``axes``: fields that have several values; ``raw`` has the first of each. ``draws`` of their
    combinations are drawn at random with ``seed``; None takes all of them. With a ``search``, a
    sampler proposes values.
    """

    raw: Mapping[str, Any] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    draws: int | None = None
    seed: int = 1
    origin: Origin | None = None
    search: Search | None = None

    @property
    def sweep(self) -> Sweep:
        """Return all jobs of the draft; without axes it is one job."""
        return Sweep(self.raw, self.axes, self.draws, self.seed, search=self.search)


class JobFields(QObject):
    """All fields by the path of their value in the job file (``optimizer.lr``).

    Attributes:
        weights: The control of the field for the weights to start from.
        runs_script: Whether the job runs a script and has only the settings of such jobs.
        swept_fields: The fields that have several values.

    Signals:
        changed: The user changed a field; not emitted while a draft is loaded.
    """

    changed = Signal()
    weights: StartFrom

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._fields: dict[str, Field] = {}
        self._kinds: dict[str, str] = {}
        # Options, which a job file does not have with their default.
        self._optional_paths: set[str] = set()
        self._part_paths: list[str] = []
        self._arguments: dict[str, ScriptArgument] = {}
        self._tips: dict[str, tuple[str, str]] = {}
        self._is_loading = False
        self.runs_script = False
        self.swept_fields = SweptFields(self)
        self.swept_fields.changed.connect(self._write_swept)
        self.swept_fields.changed.connect(self._emit_changed)

    def make(self, path: str, placeholder: str | None = None) -> Field:
        """Add the field of a setting (`SETTINGS`); by default its placeholder is the default."""
        return self._make_field(path, SETTINGS[path], default_value(path), placeholder)

    def option(self, path: str, setting: Setting) -> Field:
        """Add the field of an option; empty stands for the default."""
        field = self._make_field(path, setting, setting.default, None)
        self._optional_paths.add(path)
        return field

    def argument(self, name: str, script_argument: ScriptArgument) -> tuple[str, Field]:
        """Add the field of an argument, with its path; the field changes the line of all."""
        path = f"{TABLE}.{name}"
        self._optional_paths.add(path)
        self._arguments[path] = script_argument
        default_text = (
            f"{script_argument.default} (default)" if script_argument.default else formats.NONE
        )
        if script_argument.kind == "choice":
            setting = Setting(
                "choice",
                choices=dict(zip(script_argument.choices, script_argument.choices, strict=True)),
            )
            field = self._make_choice(path, setting, (("", default_text),))
        else:
            # Its text stays as typed: only the script knows it.
            setting = Setting("flag" if script_argument.kind == "flag" else "text")
            field = self._make_field(path, setting, "", script_argument.default)
        control = field.control
        if isinstance(control, ComboBox):
            control.currentIndexChanged.connect(lambda: self._write_argument(path))
        elif isinstance(control, Switch):
            control.toggled.connect(lambda: self._write_argument(path))
        elif isinstance(control, LineEdit):
            control.textEdited.connect(lambda: self._write_argument(path))
        return path, field

    @Slot()
    def read_arguments(self) -> None:
        """Show the arguments in their fields, which cannot be used with half a quotation."""
        arguments = self._value(TABLE, self._fields[TABLE].control)
        for path in self._arguments:
            self.show_value(path, value_at({TABLE: arguments}, path))
            self._fields[path].setEnabled(not isinstance(arguments, str))

    def _write_argument(self, path: str, value: Any = None) -> None:
        """Write an argument into the line; it has all of them."""
        arguments = self._value(TABLE, self._fields[TABLE].control)
        if self._is_loading or isinstance(arguments, str):
            return
        value = value or self._value(path, self._fields[path].control)
        head = self._arguments[path].head
        new_arguments = with_value(arguments, argument_name(path), value, head)
        self.show_value(TABLE, command_line(new_arguments))

    @Slot()
    def _write_swept(self) -> None:
        """Write the first value of an argument with several, as the script takes it."""
        for axis in self.swept_fields.axes():
            name, points = argument_name(axis.path), axis.points()
            arguments = self._value(TABLE, self._fields[TABLE].control) if name else None
            if name and points and value_of(arguments, name) is None:
                self._write_argument(axis.path, points[0])

    def pick(self, path: str, *first_options: tuple[str, str]) -> Field:
        """Add a choice for a setting, with ``first_options`` before its own."""
        return self._make_choice(path, SETTINGS[path], first_options)

    def part(self, path: str) -> Field:
        """Add a choice of the library that is open until the user chooses: "Choose a model"."""
        field = self.pick(path)
        if isinstance(field.control, ComboBox):
            field.control.setPlaceholderText(f"Choose a {path}")
        self._part_paths.append(path)
        return field

    def open_parts(self) -> tuple[str, ...]:
        """Return the parts of the job that are not chosen yet."""
        return tuple(
            path
            for path in self._part_paths
            if is_of(path, script=self.runs_script)
            and self._fields[path].control.property("placeholderText")
            and not self.key(path)
        )

    def start_from(self, path: str) -> Field:
        name, _ = name_and_unit(path)
        self.weights = StartFrom(name)
        self.weights.changed.connect(self._emit_changed)
        return self._add_field(path, "text", name, self.weights)

    def _make_field(
        self, path: str, setting: Setting, default: Any, placeholder: str | None
    ) -> Field:
        name, unit = name_and_unit(path)
        if setting.choices:
            return self._make_choice(path, setting, ())
        if setting.kind == "flag":
            switch = Switch(name=name)
            switch.setMinimumHeight(CONTROL_H)
            switch.toggled.connect(self._emit_changed)
            return self._add_field(path, "flag", name, switch)
        if placeholder is None:
            placeholder = "chosen by itself" if setting.kind == "texts" else _default_text(default)
        line = LineEdit(placeholder=placeholder, unit=unit, name=name)
        line.textEdited.connect(self._emit_changed)
        return self._add_field(path, setting.kind, name, line)

    def _make_choice(
        self, path: str, setting: Setting, first_options: tuple[tuple[str, str], ...]
    ) -> Field:
        name, _ = name_and_unit(path)
        options = (*first_options, *setting.choices.items())
        is_open = bool(setting.choices) and setting.kind == "text"
        combo = ComboBox(options, name=name, is_open=is_open)
        combo.currentIndexChanged.connect(self._emit_changed)
        combo.editTextChanged.connect(self._emit_changed)
        return self._add_field(path, "text" if is_open else "choice", name, combo)

    def explain(self, path: str, term: str, explanation: str) -> None:
        """Explain the term in a field's label; the field may be added later."""
        self._tips[path] = (term, explanation)
        field = self._fields.get(path)
        if field is not None:
            condition_text = "\n".join(conditions(path, script=not is_of(path, script=False)))
            field.set_tip(term_tip(field.label(), term, explanation, condition_text))

    def remove(self, path: str) -> None:
        """Remove the field at ``path``, which is about to be deleted."""
        self.swept_fields.remove(path)
        self._fields.pop(path, None)
        self._kinds.pop(path, None)
        self._optional_paths.discard(path)
        self._arguments.pop(path, None)

    def has_field(self, path: str) -> bool:
        return path in self._fields

    def field(self, path: str) -> Field:
        return self._fields[path]

    def label(self, path: str) -> str:
        """Return the label of the field at a path; without a field, the path in the job file."""
        field = self._fields.get(path)
        return field.label() if field is not None else path

    def shown_text(self, path: str) -> str:
        """Return the text of a line or a choice; all values if it has several."""
        control = self._fields[path].visible_control
        if isinstance(control, ComboBox):
            return control.currentText()
        return control.text() if isinstance(control, LineEdit) else ""

    def key(self, path: str) -> str:
        """Return the selected key of a choice."""
        control = self._fields[path].control
        return control.key() if isinstance(control, ComboBox) else ""

    def set_options(self, path: str, options: tuple[tuple[str, str], ...]) -> None:
        """Set the options; a selected key that is not one of them stays, for the check to name."""
        control = self._fields[path].control
        if isinstance(control, ComboBox):
            chosen_key = control.key()
            control.set_options(options)
            if chosen_key:
                _choose_key(control, chosen_key)

    def suggest(self, path: str, suggestions: Iterable[str]) -> None:
        """Offer these words while the user types in the field at ``path``."""
        control = self._fields[path].control
        if isinstance(control, LineEdit):
            control.suggest(suggestions)

    def draft(self) -> dict[str, Any]:
        """Return the job file, without empty fields."""
        raw: dict[str, Any] = {}
        for path, control in self._fields.items():
            value = self._value(path, control.control)
            # The line of arguments has those that have a field, too.
            is_excluded = path in self._arguments or not is_of(path, script=self.runs_script)
            if value is None or is_excluded:
                continue
            *tables, key = path.split(".")
            target = raw
            for table in tables:
                target = target.setdefault(table, {})
            target[key] = value
        return with_first_values(raw, self.swept_fields.axes())

    def show(self, raw: Mapping[str, Any]) -> None:
        """Fill the fields from a job file; fields that it does not have become empty."""
        self._is_loading = True
        self.swept_fields.clear()
        # Choices first: the name of the optimizer determines which options have a field.
        names = [
            path
            for path, kind in self._kinds.items()
            if kind == "choice" and path not in self._optional_paths
        ]
        for path in names:
            self._fill_control(self._fields[path].control, value_at(raw, path))
        for path in [p for p in self._fields if p not in names]:
            value = value_at(raw, path)
            if value is None and self._kinds[path] == "flag" and path in SETTINGS:
                value = SETTINGS[path].default
            if self._kinds[path] == "words" and isinstance(value, (list, tuple)):
                value = command_line([str(item) for item in value])
            self._fill_control(self._fields[path].control, value)
        self._is_loading = False

    def without_fields(self, raw: Mapping[str, Any], table: str = "") -> dict[str, Any]:
        """Return the settings of a job file that have no field, for `merge_settings`."""
        other_settings: dict[str, Any] = {}
        for key, value in raw.items():
            path = f"{table}.{key}" if table else key
            if path in self._fields or not is_of(path, script=self.runs_script):
                continue
            if isinstance(value, Mapping):
                value = self.without_fields(value, path)
                if not value:
                    continue
            other_settings[key] = value
        return other_settings

    def show_value(self, path: str, value: Any) -> None:
        """Fill one field."""
        self._is_loading = True
        self._fill_control(self._fields[path].control, value)
        self._is_loading = False

    def show_errors(self, errors: tuple[ConfigError, ...]) -> tuple[ConfigError, ...]:
        """Mark the invalid fields; return the errors that have no field here."""
        # An error of an argument does not prevent the start: only the script knows for sure.
        messages = {
            path: script_argument.value_error(
                str(self._value(path, self._fields[path].control) or "")
            )
            for path, script_argument in self._arguments.items()
        }
        unplaced_errors = []
        for error in errors:
            if error.path in self._fields:
                messages.setdefault(error.path, error.message_for(self.label(error.path)))
            else:
                unplaced_errors.append(error)
        for path, control in self._fields.items():
            control.set_error(messages.get(path, ""))
        return tuple(unplaced_errors)

    def first_invalid_control(self) -> QWidget | None:
        """Return the control of the first invalid field."""
        return next((f.visible_control for f in self._fields.values() if f.error()), None)

    def _add_field(self, path: str, kind: str, label: str, control: QWidget) -> Field:
        field = Field(label, control)
        self.swept_fields.watch(path, field, label)
        self._fields[path] = field
        self._kinds[path] = kind
        if path in self._tips:
            self.explain(path, *self._tips[path])
        return field

    def _value(self, path: str, control: QWidget) -> Any:
        if isinstance(control, ComboBox):
            is_default = path in self._optional_paths and control.currentIndex() <= 0
            return None if is_default else control.key() or None
        if isinstance(control, Switch):
            is_default = path in self._optional_paths and not control.isChecked()
            return None if is_default else control.isChecked()
        if isinstance(control, StartFrom):
            return control.value() or None
        if not isinstance(control, LineEdit) or not control.text().strip():
            return "" if path == "name" else None
        return read_value(self._kinds[path], control.text())

    def _fill_control(self, control: QWidget, value: Any) -> None:
        if isinstance(control, ComboBox):
            if value is None:
                control.clear_choice()
            else:
                _choose_key(control, str(value))
        elif isinstance(control, Switch):
            control.setChecked(bool(value))
        elif isinstance(control, StartFrom):
            control.put(_display_text(value))
        elif isinstance(control, LineEdit):
            control.setText(_display_text(value))

    @Slot()
    def _emit_changed(self) -> None:
        if not self._is_loading:
            self.changed.emit()


def _choose_key(control: ComboBox, key: str) -> None:
    """Select by key; a key that is not offered is added under its own name.

    A job keeps the version that it was created with; a removed version must not silently change
    into another.
    """
    if control.findData(key) < 0:
        control.addItem(key.replace("@", " @ "), key)
    control.choose(key)


def _default_text(default: Any) -> str:
    """Return a default as the placeholder of a line: "0.9, 0.999"; "off" for none."""
    return "off" if default is None else _display_text(default)


def merge_settings(other_settings: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the fields and the part without fields into one job file."""
    result = dict(other_settings)
    for key, value in fields.items():
        other_value = result.get(key)
        are_tables = isinstance(value, Mapping) and isinstance(other_value, Mapping)
        result[key] = merge_settings(other_value, value) if are_tables and other_value else value
    return result


def _display_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return value_text(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(_display_text(part) for part in value)
    return str(value)
