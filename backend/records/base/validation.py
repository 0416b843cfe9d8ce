"""Validation of values from a file, a form or the command line.

Every check appends its errors to one list, because a user who sees one error at a time has to
start five times (https://github.com/allenai/allennlp/issues/1536).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from backend.records.base import number_format
from backend.records.base.schema import KEY, kind_of


@dataclass(frozen=True)
class ConfigError:
    """An invalid field. ``path`` is its place in the job file (``optimizer.lr``).

    ``message`` begins with the path and a colon. Text after that with a capital or a digit first
    is a sentence by itself; otherwise the field is its subject ("must be above 0.").
    """

    path: str = field(metadata={KEY: "field"})
    message: str = field(metadata={KEY: "sentence"})

    @property
    def part(self) -> str:
        """The key of the job file with the field: ``placement`` for ``placement[0].node``."""
        return self.path.partition(".")[0].partition("[")[0]

    def message_for(self, label: str) -> str:
        """Return the message as a sentence, with ``label`` as the name of the field."""
        clause = self.message.removeprefix(f"{self.path}: ")
        return clause if clause[:1].isupper() or clause[:1].isdigit() else f"{label} {clause}"


class Table:
    """A table of a job file being checked: each key is taken once.

    `report_unknown_keys` then finds the remaining keys.
    """

    def __init__(self, raw: Mapping[str, Any], path: str, errors: list[ConfigError]) -> None:
        self._remaining_values = dict(raw)
        self._path = path
        self._errors = errors

    def name_of(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def add_error(self, key: str, message: str) -> None:
        self._errors.append(ConfigError(self.name_of(key), f"{self.name_of(key)}: {message}"))

    def __contains__(self, key: object) -> bool:
        return key in self._remaining_values

    def take_value(self, key: str, default: Any) -> Any:
        """Return the raw value, unchecked. ``REQUIRED`` as default makes a missing key an error."""
        if key in self._remaining_values:
            return self._remaining_values.pop(key)
        if default is REQUIRED:
            self.add_error(key, "is missing.")
        return default

    def text(self, key: str, default: Any = "", *, empty_ok: bool = True) -> str:
        value = self.take_value(key, default)
        if value is REQUIRED:
            return ""
        if not isinstance(value, str):
            self.add_error(key, f"must be text, not {kind_of(value)}.")
            return ""
        if not empty_ok and not value.strip():
            self.add_error(key, "is empty.")
        return value

    def whole_number(self, key: str, default: Any, low: int, high: int | None = None) -> int:
        value = self.take_value(key, default)
        if value is REQUIRED:
            return low
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            shown_value = f"{value:g}" if isinstance(value, float) else kind_of(value)
            self.add_error(key, f"must be a whole number, not {shown_value}.")
            return low
        if value < low or (high is not None and value > high):
            self.add_error(key, f"must be {range_text(low, high)}.")
            return low
        return value

    def number(
        self,
        key: str,
        default: Any,
        is_valid: Callable[[float], bool],
        requirement: str,
    ) -> float:
        """Take a finite number for which ``is_valid``; ``requirement`` completes "must be …"."""
        value = self.take_value(key, default)
        if value is REQUIRED:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.add_error(key, f"must be a number, not {kind_of(value)}.")
            return 0.0
        try:
            number = float(value)
        except OverflowError:
            # TOML files may contain whole numbers of any length.
            number = math.inf
        if not math.isfinite(number):
            self.add_error(key, f"must be a number, not {number:g}.")
            return 0.0
        if not is_valid(number):
            self.add_error(key, f"must be {requirement}.")
            return 0.0
        return number

    def flag(self, key: str, default: bool) -> bool:
        value = self.take_value(key, default)
        if not isinstance(value, bool):
            self.add_error(key, f"must be true or false, not {kind_of(value)}.")
            return default
        return value

    def choice(self, key: str, default: Any, choices: tuple[str, ...]) -> str:
        value = self.take_value(key, default)
        if value is REQUIRED:
            return choices[0]
        if value not in choices:
            shown_value = value if isinstance(value, str) else kind_of(value)
            self.add_error(
                key, f"must be one of {', '.join(choices)}, not “{sanitize(shown_value)}”."
            )
            return choices[0]
        return str(value)

    def table(self, key: str, default: Mapping[str, Any] | None = None) -> Table:
        value = self.take_value(key, default if default is not None else REQUIRED)
        if not isinstance(value, Mapping):
            if value is not REQUIRED:
                self.add_error(key, f"must be a table, not {kind_of(value)}.")
            value = {}
            return Table(value, self.name_of(key), [])
        return Table(value, self.name_of(key), self._errors)

    def report_unknown_keys(
        self, known_keys: tuple[str, ...], owners: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Report keys that were not taken as unknown. Call it last.

        Args:
            owners: What has a key that the table does not have.
        """
        for key in self._remaining_values:
            if key in owners:
                self.add_error(key, f"is a setting of {owners[key]}.")
                continue
            suggestion = closest_match(key, known_keys)
            hint = f" Did you mean “{suggestion}”?" if suggestion else ""
            self.add_error(key, f"is not a setting of a job.{hint}")


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


def range_text(low: int, high: int | None) -> str:
    low_text = number_format.count(low)
    return (
        f"{low_text} or more"
        if high is None
        else f"between {low_text} and {number_format.count(high)}"
    )


def closest_match(word: str, known_words: tuple[str, ...]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(word, known_words, 1)), "")


def sanitize(text: str, limit: int = 60) -> str:
    """Make ``text`` safe for a terminal: control characters become ``?``; cut at ``limit``.

    Bytes of a file's name that are not UTF-8 are escapes: caf\\xe9.png.
    """
    safe_text = text
    if not text.isprintable():
        text = re.sub("[\udc80-\udcff]", lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02x}", text)
        safe_text = "".join("?" if unicodedata.category(c).startswith("C") else c for c in text)
    return safe_text if len(safe_text) <= limit else safe_text[: limit - 1] + "…"


RESERVED_NAMES = frozenset(
    {"CON", "PRN", "AUX", "NUL"} | {f"{port}{n}" for port in ("COM", "LPT") for n in range(1, 10)}
)


def name_error(name: str) -> str:
    """Return why ``name`` cannot name a dataset, model, loader or node, or "".

    Such a name becomes a folder on shares that Windows machines mount too, and occurs in
    ``NAME@2`` and on command lines. A job's name does neither, and only control characters are
    refused (`job_name_error`).
    """
    if not name:
        return "Enter a name."
    label = sanitize(name)
    if any(unicodedata.category(c).startswith("C") for c in name):
        return (
            f"The name “{label}” contains a character that cannot be shown; "
            "use letters, digits, spaces, - _ and dots."
        )
    if len(name.encode()) > 100:
        return f"The name “{label}” is longer than 100 bytes; choose a shorter one."
    if name != name.strip() or name.startswith((".", "-")) or name.endswith("."):
        return (
            f"The name “{label}” begins with a space, a dot or -, or ends with a space or a dot; "
            "remove that."
        )
    bad_characters = sorted(set(name) & set('/\\:*?"<>|@'))
    if bad_characters:
        return (
            f"The name “{label}” contains {' '.join(bad_characters)}, which not every file "
            "system allows in a folder's name; remove that."
        )
    if name.split(".")[0].upper() in RESERVED_NAMES:
        return (
            f"The name “{label}” is reserved by Windows, and Windows machines may mount the same "
            "folder; choose another name."
        )
    return ""


def job_name_error(name: str) -> str:
    """Return why ``name`` cannot be a job's name, or ""."""
    if not name.strip():
        return "Enter a name for the job."
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
        return "A job's name cannot contain line breaks or other control characters."
    if len(name.encode()) > 255:
        return "A job's name can have at most 255 bytes; choose a shorter one."
    return ""


MAX_TAGS = 50
_TAG_BYTES = 100
_NOTES_BYTES = 100_000


def tags_error(tags: Sequence[str]) -> str:
    """Return why a job cannot have these tags, or ""."""
    if len(tags) > MAX_TAGS:
        return f"A job can have at most {MAX_TAGS} tags; these are {len(tags)}."
    for tag in tags:
        if not tag.strip() or tag != tag.strip():
            return "A tag needs at least one letter, and no space at its beginning or end."
        if "," in tag:
            return f"The tag “{sanitize(tag)}” contains a comma, which separates tags."
        if any(unicodedata.category(c) in ("Cc", "Cs") for c in tag):
            return f"The tag “{sanitize(tag)}” contains a line break or another control character."
        if len(tag.encode()) > _TAG_BYTES:
            return f"The tag “{sanitize(tag, 20)}” is longer than {_TAG_BYTES} bytes."
    return ""


def notes_error(notes: str) -> str:
    """Return why a job cannot have these notes, or ""."""
    if len(notes.encode(errors="replace")) > _NOTES_BYTES:
        return "Notes can have at most 100 kB; keep the rest in a separate file."
    if any(unicodedata.category(c) == "Cs" or c == "\0" for c in notes):
        return "The notes contain a character that cannot be stored; remove it."
    return ""


def variable_error(name: str) -> str:
    """Return why ``name`` cannot be an environment variable of a job, or ""."""
    if (
        not name
        or not all(c.isascii() and (c.isalnum() or c == "_") for c in name)
        or name[0].isdigit()
    ):
        return "names have letters, digits and _, no spaces, and no digit first."
    reserved_prefixes = ("OMPI_", "PMIX_", "PRTE_", "RINGMASTER_")
    if name.startswith(reserved_prefixes) or name == "CUDA_VISIBLE_DEVICES":
        return "is set by Ringmaster itself and cannot be changed by a job."
    return ""
