"""Cards of the gallery: the models and loaders that a user can add to the library."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.schema import KEY, STRICT, Record
from backend.records.base.validation import closest_match
from backend.records.library.item import Kind
from backend.records.library.layers import ModelLayers

Value = bool | int | float | str
IN_GALLERY = (Kind.MODEL, Kind.LOADER)
"""The kinds of library items that the gallery has."""


@dataclass(frozen=True)
class CardSetting:
    """A constant of the source that is chosen when the entry is added.

    Attributes:
        default: Its type is that of the value.
        choices: The valid values; empty if a range or any text is valid.
        minimum: The smallest valid number.
        maximum: The largest valid number.
        help: What it does, where the label does not say it.
        pattern: A regular expression that a text must match; "" for any text.
    """

    label: str
    default: Any
    choices: tuple[Any, ...] = ()
    minimum: float | None = field(default=None, metadata={KEY: "least"})
    maximum: float | None = field(default=None, metadata={KEY: "most"})
    help: str = ""
    pattern: str = ""

    @property
    def meaning(self) -> str:
        return f"{self.label}: {self.help}" if self.help else self.label

    def parse(self, name: str, text: str) -> Value:
        """Return the value of a typed text for the setting ``name``.

        Raises:
            ValueError: It is not valid; the message is such as "side must be 28 or 32, not “9”".
        """
        value: Value = text
        if isinstance(self.default, bool):
            value = {"true": True, "false": False}.get(text.casefold(), text)
        elif isinstance(self.default, int | float):
            with contextlib.suppress(ValueError):
                value = type(self.default)(text)
        if not self.is_valid(value):
            raise ValueError(f"{name} must be {self.valid_text()}, not “{text}”")
        return value

    def is_valid(self, value: Value) -> bool:
        if type(value) is not type(self.default):
            return False
        if self.choices:
            return value in self.choices
        if isinstance(value, str):
            return not self.pattern or re.fullmatch(self.pattern, value) is not None
        if isinstance(value, bool):
            return True
        return (self.minimum is None or value >= self.minimum) and (
            self.maximum is None or value <= self.maximum
        )

    def valid_text(self) -> str:
        """Return which values are valid, in words."""
        if self.choices:
            *first_choices, last_choice = map(str, self.choices)
            return f"{', '.join(first_choices)} or {last_choice}" if first_choices else last_choice
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return f"text such as “{self.default}”" if self.pattern else "text"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        if self.minimum is None or self.maximum is None:
            return kind if self.minimum is None else f"{kind} from {self.minimum:.9g} on"
        return f"{kind} from {self.minimum:.9g} to {self.maximum:.9g}"


@dataclass(frozen=True)
class Card(Record, label="card", rules=STRICT):
    """``card.toml`` of an entry of the gallery.

    Attributes:
        about: What it is and when to use it, in one or two sentences.
        source: The paper or thesis with its table or section.
        task: Such as "classification" or "detection".
        note: Where the source is open or wrong, and what was chosen.
        parts: Files of ``resources/gallery/parts`` that its code imports.
        settings: By the name of the constant in the source, in lower case.
        rank: Its place among those to begin with, from 1.
        suits: The largest values of settings for which it is one to begin with.
        collection: Where it is from, if only a reader of that source looks for it; such entries
            are folded.
        training: Settings of a job with which it was seen to train (`tests/gallery`).
    """

    title: str
    about: str
    source: str
    task: str
    note: str = ""
    parts: tuple[str, ...] = ()
    settings: Mapping[str, CardSetting] = field(default_factory=dict)
    rank: int = 99
    suits: Mapping[str, int] = field(default_factory=dict)
    collection: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)

    def values(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Return the value of every setting, checked.

        Raises:
            ValueError: A setting is unknown or has an invalid value; the message names it.
        """
        for key in texts.keys() - self.settings.keys():
            suggestion = closest_match(key, tuple(self.settings))
            hint = (
                f" (did you mean {suggestion}?)"
                if suggestion
                else f": it has {', '.join(self.settings)}"
            )
            raise ValueError(f"{self.title} has no setting “{key}”{hint}")
        values = {key: setting.default for key, setting in self.settings.items()}
        return {**values, **{key: self.settings[key].parse(key, texts[key]) for key in texts}}


@dataclass(frozen=True)
class CardFigures(Record, label="figures of a card"):
    """``figures.json`` of a model: measured with the default settings and one sample.

    Attributes:
        layers: The layers, with parameters, multiply-adds and activation memory.
        relative_complexity: The sum over convolutions of n_in · k² · n_out · m_out², m_out the
            output side, relative to that of AlexNet (DCN, section 4).
    """

    layers: ModelLayers
    relative_complexity: float


@dataclass(frozen=True)
class GalleryEntry:
    """A model or loader of the gallery; ``name`` is that of its folder."""

    kind: Kind
    name: str
    card: Card
    figures: CardFigures | None = None


@dataclass(frozen=True)
class DataShape:
    """The task and the sizes of a dataset that a network has to take, where they are known.

    Attributes:
        task: "classification" or "detection", "" if it is unknown.
        sizes: Settings that a network needs for the data; see `Suggestion.data_sizes`.
    """

    task: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)

    def settings(self, card: Card) -> dict[str, int]:
        """Return the sizes that a card has settings for, valid or not."""
        sizes = dict(self.sizes)
        if "side" in sizes:
            sizes.setdefault("features", sizes.get("channels", 1) * sizes["side"] ** 2)
        return {key: sizes[key] for key in card.settings if key in sizes}

    def invalid_sizes(self, card: Card) -> dict[str, int]:
        """Return the sizes that are no valid settings of a card."""
        settings = self.settings(card).items()
        return {key: value for key, value in settings if not card.settings[key].is_valid(value)}

    def misfit_reason(self, card: Card) -> str:
        """Return why a network cannot take the data, "" if nothing is known against it."""
        if self.task and self.task != card.task:
            return f"Not for {self.task}"
        if "side" in card.settings and "features" in self.sizes and "side" not in self.sizes:
            return "For pictures, not for tables"
        sizes = (f"{key.capitalize()} {value}" for key, value in self.invalid_sizes(card).items())
        return next((f"{size} does not fit" for size in sizes), "")

    def sort_key(self, entry: GalleryEntry) -> tuple[object, ...]:
        """Return the sort key of an entry: first those that fit and that one begins with."""
        card = entry.card
        suits_sizes = all(self.sizes.get(key, 0) <= limit for key, limit in card.suits.items())
        fitting_count = -len(self.settings(card))
        size = entry.figures.layers.parameters if entry.figures is not None else 0
        return (
            bool(self.misfit_reason(card)),
            bool(card.collection),
            not suits_sizes,
            fitting_count,
            card.rank,
            size,
        )


@dataclass(frozen=True)
class Suggestion:
    """A loader of the gallery that fits the files of a dataset, or why none does.

    Attributes:
        entry: Its name in the gallery, "" if no loader fits.
        title: The shape of the data, as in "This looks like CIFAR-10".
        settings: Typed values, as `GalleryService.add` takes them.
        message: Such as "This looks like CIFAR-10: 5 training files and 1 for testing."
        data_sizes: Settings of a network for this data, where they are known from the files:
            classes, channels, side (of a picture, in pixels), features (numbers in a sample).
        choices: Values to offer for a setting that takes any text, such as the columns of a table.
        open_settings: A placeholder for each setting that has to be set, such as COLUMN for target.
    """

    entry: str
    title: str
    settings: Mapping[str, str]
    message: str = field(metadata={KEY: "sentence"})
    data_sizes: Mapping[str, int] = field(default_factory=dict, metadata={KEY: "facts"})
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    open_settings: Mapping[str, str] = field(default_factory=dict)
