"""A setting of a job: its type, limits and words, declared once and read by all that shows it.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from backend.records.base.validation import REQUIRED, Table, range_text

WHAT_SECTION, WHERE_SECTION, HOW_SECTION, KEEP_SECTION = "What", "Where", "How", "Keep"
SECTIONS = (WHAT_SECTION, WHERE_SECTION, HOW_SECTION, KEEP_SECTION)
"""The sections of the form, in its order."""


_KIND_LABELS = {
    "text": "text",
    "texts": "a list of text values",
    "words": "a list of text values",
    "flag": "`true`, `false`",
    "table": "tables",
}


@dataclass(frozen=True)
class Setting:
    """A setting of a job file.

    Attributes:
        kind: "text", "texts", "words" (of a command), "whole", "wholes" (a list), "number", "flag",
            "choice" or "pair" (two numbers); "table" is checked by a function of its own.
        label: With the unit after a comma. One without has no field in the form.
        default: ``REQUIRED`` if a job file needs the setting.
        low, high: The first and the last valid number.
        exclusive_low, exclusive_high: A number must be above and below these limits.
        choices: The words of each choice; the first is the default. A text may be another.
        term: What explains it in ``docs/terms.md``.
        section: Of the form.
        is_rare: The form shows it under "More".
        is_note: It describes the job, and does not change what is trained: it has one value in a
            sweep, and is not compared.
        is_changeable: A resume may change it, for this and later runs: a checkpoint holds the
            position in the data in samples.
        job_kind: "training" for jobs with a model and a loader, "script" for those with a script;
            "" for both.
        is_always_written: It is in a job file even if it has the default, as in those of before;
            the hash of the settings depends on that.
    """

    kind: str
    label: str = ""
    default: Any = REQUIRED
    low: float = 0.0
    high: float | None = None
    exclusive_low: float | None = None
    exclusive_high: float | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    term: str = ""
    section: str = HOW_SECTION
    is_rare: bool = False
    is_note: bool = False
    is_changeable: bool = False
    is_always_written: bool = False
    job_kind: str = ""

    def take_value(self, table: Table, key: str, default: Any = MISSING) -> Any:
        """Take the checked value of a key; add an error to the table if the value is invalid.

        Args:
            default: In place of the setting's own default, if that depends on other settings.
        """
        default = self.default if default is MISSING else default
        if key not in table and default is not REQUIRED:
            return default
        if self.kind == "text":
            return table.text(key, default, empty_ok=default == "")
        if self.kind in ("texts", "words"):
            return _read_texts(table, key, default, is_typed=self.kind == "words")
        if self.kind == "flag":
            return table.flag(key, default)
        if self.kind == "choice":
            return table.choice(key, default, tuple(self.choices))
        if self.kind == "whole":
            high = None if self.high is None else int(self.high)
            return table.whole_number(key, default, int(self.low), high)
        if self.kind == "wholes":
            return self._wholes(table, key, default)
        if self.kind == "pair":
            return self._read_pair(table, key, default)
        return table.number(key, default, self._is_in_range, self._range_text())

    def _is_in_range(self, value: float) -> bool:
        if self.exclusive_low is not None and value <= self.exclusive_low:
            return False
        is_low_enough = self.high is None or value <= self.high
        is_low_enough &= self.exclusive_high is None or value < self.exclusive_high
        return value >= self.low and is_low_enough

    def limits(self) -> str:
        """Return the valid values in words: "a number, above 0"."""
        if self.kind in _KIND_LABELS:
            return _KIND_LABELS[self.kind]
        if self.kind == "whole":
            high = None if self.high is None else int(self.high)
            return f"a whole number, {range_text(int(self.low), high)}"
        if self.kind == "wholes":
            return f"whole numbers, each {range_text(int(self.low), None)}"
        return f"{'two numbers, each' if self.kind == 'pair' else 'a number,'} {self._range_text()}"

    def _range_text(self) -> str:
        low_text = (
            f"{self.low:g} or more"
            if self.exclusive_low is None
            else f"above {self.exclusive_low:g}"
        )
        if self.exclusive_high is not None:
            return f"{low_text} and below {self.exclusive_high:g}"
        return low_text if self.high is None else f"{low_text} and {self.high:g} at most"

    def _wholes(self, table: Table, key: str, default: Any) -> tuple[int, ...]:
        value = table.take_value(key, default)
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(v, int) and not isinstance(v, bool) and v >= self.low for v in value
        ):
            table.add_error(key, f"must be {self.limits()}.")
            return ()
        return tuple(value)

    def _read_pair(self, table: Table, key: str, default: Any) -> tuple[float, float]:
        value = table.take_value(key, default)
        if (
            not isinstance(value, (list, tuple))
            or len(value) != 2
            or not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value)
            or not all(map(self._is_in_range, value))
        ):
            table.add_error(key, f"must be two numbers, each {self._range_text()}.")
            return (0.0, 0.0)
        return (float(value[0]), float(value[1]))


def setting(kind: str, label: str = "", default: Any = REQUIRED, **options: Any) -> Any:
    """Return a field of a dataclass that is a `Setting`, with the setting's default."""
    return field(
        default=MISSING if default is REQUIRED else default,
        metadata={"setting": Setting(kind, label, default, **options)},
    )


def required_setting(kind: str, label: str = "", **options: Any) -> Any:
    """Return a field without a default of a `settings_record`: mypy checks that calls have it."""
    return setting(kind, label, **options)


if TYPE_CHECKING:
    from typing import TypeVar, dataclass_transform

    _Record = TypeVar("_Record")

    @dataclass_transform(frozen_default=True, field_specifiers=(required_setting, field))
    def settings_record(record_type: type[_Record]) -> type[_Record]: ...
else:
    settings_record = dataclass(frozen=True)

_DECLARED: dict[type, Mapping[str, Setting]] = {}


def declared_settings(record_type: type) -> Mapping[str, Setting]:
    """Return the settings of a dataclass by the names of their fields, in their order."""
    if record_type not in _DECLARED:
        _DECLARED[record_type] = MappingProxyType(
            {
                record_field.name: record_field.metadata["setting"]
                for record_field in fields(record_type)
                if "setting" in record_field.metadata
            }
        )
    return _DECLARED[record_type]


def _read_texts(table: Table, key: str, default: Any, *, is_typed: bool = False) -> tuple[str, ...]:
    value = table.take_value(key, default)
    if is_typed and isinstance(value, str):
        # What was typed is passed on as it is if it cannot be split.
        table.add_error(
            key, "must be a list of text values; in a line each quotation needs its end."
        )
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        table.add_error(key, "must be a list of text values.")
        return ()
    return tuple(value)
