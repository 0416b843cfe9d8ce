"""The fields of the job form, each bound to its place in the job file.

The form keeps no second idea of a job: what is in the fields is a job file (`JobFields.draft`), and
whatever a person typed that is no number goes into it as typed, because the one check of job files
(`backend.records.jobs.config.parse_job`) has the sentence for it and names the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import Fault
from backend.records.jobs.setting_labels import CHOICES, name_and_unit
from backend.records.jobs.torch_options import Setting
from backend.records.sweeps.spec import Sweep
from backend.records.sweeps.values import Axis
from widgets.common.buttons import Switch
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.term_tooltips import term_tip
from widgets.common.theme import CONTROL_H
from widgets.jobs.form.start_from import StartFrom
from widgets.jobs.form.swept_fields import SweptFields, with_first_values

_OPTIONAL_FLAG = "optional flag"
"""A flag of PyTorch's, which is off when left out."""


@dataclass(frozen=True)
class Origin:
    """Whence the settings in the form are.

    ``words`` names it in a sentence ("“digits 3”"), ``raw`` is how they were, and ``replays`` is
    the id of the job that is to be trained again, or "".
    """

    words: str
    raw: Mapping[str, Any] = field(default_factory=dict)
    replays: str = ""


@dataclass(frozen=True)
class JobDraft:
    """A job file as it stands in the form; perhaps not a job yet.

    ``axes``: fields that take several values; ``raw`` has the first of each. ``draws`` of their
    combinations are drawn at random with ``seed``; None is all of them.
    """

    raw: Mapping[str, Any] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    draws: int | None = None
    seed: int = 1
    origin: Origin | None = None

    @property
    def sweep(self) -> Sweep:
        """All jobs that are asked for; without axes it is the one."""
        return Sweep(self.raw, self.axes, self.draws, self.seed)


def whole_or_text(text: str) -> int | str:
    """``"12"`` -> 12; what is no whole number stays as typed, for the check to name."""
    stripped = text.replace(" ", "").replace(" ", "").strip()
    try:
        return int(stripped)
    except ValueError:
        return text.strip()


def number_or_text(text: str) -> float | int | str:
    """``"0.05"``, ``"5e-2"`` and ``"0,05"`` -> 0.05; anything else as typed."""
    stripped = text.replace(" ", "").strip()
    if stripped.count(",") == 1 and "." not in stripped:
        stripped = stripped.replace(",", ".")
    whole = whole_or_text(stripped)
    if isinstance(whole, int):
        return whole
    try:
        return float(stripped)
    except ValueError:
        return text.strip()


def pair_or_text(text: str) -> list[float | int | str] | str:
    """``"0.9, 0.999"`` -> [0.9, 0.999]; anything else as typed."""
    parts = text.split(",")
    return [number_or_text(part) for part in parts] if len(parts) == 2 else text.strip()


class JobFields(QObject):
    """All fields by the path of their value in the job file (``optimizer.lr``).

    Attributes:
        weights: The control of the field for the weights to start from.

    Signals:
        changed: A person changed something; not emitted while a draft is shown.
    """

    changed = Signal()
    weights: StartFrom

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._fields: dict[str, Field] = {}
        self._kinds: dict[str, str] = {}
        self._tips: dict[str, tuple[str, str]] = {}
        self._showing = False
        self.swept = SweptFields(self)
        self.swept.changed.connect(self._changed)

    def text(self, path: str, placeholder: str = "") -> Field:
        return self._line(path, "text", placeholder)

    def whole(self, path: str, placeholder: str = "") -> Field:
        return self._line(path, "whole", placeholder)

    def number(self, path: str, placeholder: str = "") -> Field:
        return self._line(path, "number", placeholder)

    def start_from(self, path: str) -> Field:
        name, _ = name_and_unit(path)
        self.weights = StartFrom(name)
        self.weights.changed.connect(self._changed)
        return self._add(path, "text", name, self.weights)

    def choice(self, path: str, *more: tuple[str, str]) -> Field:
        """What can be chosen for this setting, behind ``more``."""
        name, _ = name_and_unit(path)
        combo = ComboBox((*more, *CHOICES.get(path, {}).items()), name=name)
        combo.currentIndexChanged.connect(self._changed)
        return self._add(path, "choice", name, combo)

    def switch(self, path: str) -> Field:
        name, _ = name_and_unit(path)
        switch = Switch(name=name)
        switch.setMinimumHeight(CONTROL_H)
        switch.toggled.connect(self._changed)
        return self._add(path, "flag", name, switch)

    def setting(self, path: str, setting: Setting) -> Field:
        """The field for one of PyTorch's settings; empty stands for PyTorch's default."""
        if setting.kind == "flag":
            made = self.switch(path)
            self._kinds[path] = _OPTIONAL_FLAG
            return made
        default = setting.default
        shown = ", ".join(f"{v:g}" for v in default) if setting.kind == "pair" else f"{default:g}"
        return self._line(path, setting.kind, shown)

    def explain(self, path: str, term: str, sentence: str) -> None:
        """What a word in the label of a field means; the field may come later."""
        self._tips[path] = (term, sentence)
        made = self._fields.get(path)
        if made is not None:
            made.set_tip(term_tip(made.label(), term, sentence))

    def remove(self, path: str) -> None:
        """The field at ``path`` is about to be deleted."""
        self.swept.remove(path)
        self._fields.pop(path, None)
        self._kinds.pop(path, None)

    def field(self, path: str) -> Field:
        return self._fields[path]

    def label(self, path: str) -> str:
        """Of the field at a path; where there is none, of its place in the job file."""
        field = self._fields.get(path)
        return field.label() if field is not None else path

    def shown(self, path: str) -> str:
        """The text in a line; several values where it has several."""
        shown = self._fields[path].shown
        return shown.text() if isinstance(shown, LineEdit) else ""

    def key(self, path: str) -> str:
        """The chosen key of a choice."""
        control = self._fields[path].control
        return control.key() if isinstance(control, ComboBox) else ""

    def set_options(self, path: str, options: tuple[tuple[str, str], ...]) -> None:
        """What can be chosen; a choice that is not among it stays, for the check to name."""
        control = self._fields[path].control
        if isinstance(control, ComboBox):
            chosen = control.key()
            control.set_options(options)
            if chosen:
                _choose(control, chosen)

    def suggest(self, path: str, words: Iterable[str]) -> None:
        """Offer these while the field at ``path`` is typed into."""
        control = self._fields[path].control
        if isinstance(control, LineEdit):
            control.suggest(words)

    def draft(self) -> dict[str, Any]:
        """The job file; fields left empty are left out."""
        raw: dict[str, Any] = {}
        for path, control in self._fields.items():
            value = self._value(path, control.control)
            if value is None:
                continue
            *tables, key = path.split(".")
            target = raw
            for table in tables:
                target = target.setdefault(table, {})
            target[key] = value
        return with_first_values(raw, self.swept.axes())

    def show(self, raw: Mapping[str, Any]) -> None:
        """Fill the fields from a job file; what it leaves out is emptied."""
        self._showing = True
        self.swept.clear()
        # Choices first: the fields of an optimizer's settings come and go with its name.
        for choices in (True, False):
            for path in [p for p, kind in self._kinds.items() if (kind == "choice") is choices]:
                self._put(self._fields[path].control, _at(raw, path))
        self._showing = False

    def without_fields(self, raw: Mapping[str, Any], table: str = "") -> dict[str, Any]:
        """What of a job file has no field here, to be kept and handed back (`merged`)."""
        rest: dict[str, Any] = {}
        for key, value in raw.items():
            path = f"{table}.{key}" if table else key
            if path in self._fields:
                continue
            if isinstance(value, Mapping):
                value = self.without_fields(value, path)
                if not value:
                    continue
            rest[key] = value
        return rest

    def show_one(self, path: str, value: Any) -> None:
        """Fill one field."""
        self._showing = True
        self._put(self._fields[path].control, value)
        self._showing = False

    def show_faults(self, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
        """Mark the fields at fault; returns the faults that belong to no field here."""
        sentences: dict[str, str] = {}
        homeless = []
        for fault in faults:
            if fault.field in self._fields:
                sentences.setdefault(fault.field, fault.named(self.label(fault.field)))
            else:
                homeless.append(fault)
        for path, control in self._fields.items():
            control.set_error(sentences.get(path, ""))
        return tuple(homeless)

    def first_at_fault(self) -> QWidget | None:
        """The control to jump to."""
        return next((f.shown for f in self._fields.values() if f.error()), None)

    def _line(self, path: str, kind: str, placeholder: str) -> Field:
        name, unit = name_and_unit(path)
        line = LineEdit(placeholder=placeholder, unit=unit, name=name)
        line.textEdited.connect(self._changed)
        return self._add(path, kind, name, line)

    def _add(self, path: str, kind: str, label: str, control: QWidget) -> Field:
        made = Field(label, control)
        self.swept.watch(path, made, label)
        self._fields[path] = made
        self._kinds[path] = kind
        if path in self._tips:
            self.explain(path, *self._tips[path])
        return made

    def _value(self, path: str, control: QWidget) -> Any:
        if isinstance(control, ComboBox):
            return control.key() or None
        if isinstance(control, Switch):
            left_out = self._kinds[path] == _OPTIONAL_FLAG and not control.isChecked()
            return None if left_out else control.isChecked()
        if isinstance(control, StartFrom):
            return control.value() or None
        if not isinstance(control, LineEdit) or not control.text().strip():
            return "" if path == "name" else None
        reads = {"whole": whole_or_text, "number": number_or_text, "pair": pair_or_text}
        read = reads.get(self._kinds[path])
        return read(control.text()) if read else control.text()

    def _put(self, control: QWidget, value: Any) -> None:
        if isinstance(control, ComboBox):
            if value is None:
                control.setCurrentIndex(0)
            else:
                _choose(control, str(value))
        elif isinstance(control, Switch):
            control.setChecked(bool(value))
        elif isinstance(control, StartFrom):
            control.put(_shown(value))
        elif isinstance(control, LineEdit):
            control.setText(_shown(value))

    @Slot()
    def _changed(self) -> None:
        if not self._showing:
            self.changed.emit()


def _choose(control: ComboBox, key: str) -> None:
    """Choose by key; one that is not offered is offered from now on, as it was named.

    A job keeps the version that it was made with, and one that was removed must not turn into
    another in silence.
    """
    if control.findData(key) < 0:
        control.addItem(key.replace("@", " @ "), key)
    control.choose(key)


def merged(rest: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """One job file of what the fields hold and what has no field."""
    whole = dict(rest)
    for key, value in fields.items():
        kept = whole.get(key)
        both = isinstance(value, Mapping) and isinstance(kept, Mapping)
        whole[key] = merged(kept, value) if both and kept else value
    return whole


def _at(raw: Mapping[str, Any], path: str) -> Any:
    value: Any = raw
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(_shown(part) for part in value)
    return str(value)
