"""Results of the tools that run users' code: previews and pages of data, checks of models, sizes.

Everything here comes as JSON from a process that ran a user's code, so `from_dict` trusts nothing:
it converts types, removes control characters, and raises ValueError for the rest.
Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Union

from backend.records.base import number_format
from backend.records.base.schema import KEY, LENIENT, READ, Record, Rules
from backend.records.base.validation import sanitize
from backend.records.jobs.status import finite


def _text(raw: Any) -> str:
    return sanitize(str(raw), 1000)


def _number(raw: Any) -> float | None:
    return None if raw is None else finite(LENIENT.readers[float](raw))


TOOL_RULES = Rules(
    {**LENIENT.readers, str: _text, Union[float, None]: _number}, exact_types=frozenset({int, bool})
)
_RAW_TEXT = {READ: str}
"""Metadata of text that is shown in several lines, or not at all."""


@dataclass(frozen=True)
class SamplePart:
    """A part of a sample: ``path`` is ``data``, ``target``, ``data.image``, ``data[1]`` …

    ``display_kind`` says which field is set: ``image`` (``png``), ``wave`` (``values``, thinned
    out), ``table`` (``rows``, the first ones), ``values`` (the first ones) or ``text``.
    """

    path: str
    shape: tuple[int, ...] | None
    dtype: str
    display_kind: str = field(metadata={KEY: "look"})
    png: str = field(default="", metadata=_RAW_TEXT)
    """The thumbnail, a PNG file in base64."""
    values: tuple[float | None, ...] = ()
    rows: tuple[tuple[float | None, ...], ...] = ()
    text: str = ""
    names: tuple[str, ...] = ()
    """Names of ``values``, which are then in the units of the file."""
    scaled_values: tuple[float | None, ...] = ()
    """Named values as the model gets them."""


@dataclass(frozen=True)
class SamplePreview:
    """A sample as the loader returned it. ``target`` is its target as text."""

    index: int
    parts: tuple[SamplePart, ...]
    target: str = ""
    time_ms: float = 0.0
    of_class: str = ""
    """The name of its class among `Preview.classes`; "" if targets are not classes."""


@dataclass(frozen=True)
class ClassCount:
    name: str
    count: int


_RARE_SHARE = 0.25
_LEAST_MEAN = 20
"""A mean of fewer samples per class varies by chance."""


def rare_classes(classes: tuple[ClassCount, ...]) -> tuple[ClassCount, ...]:
    """Return the classes with less than a quarter of the mean, the rarest first."""
    mean = sum(c.count for c in classes) / len(classes) if classes else 0.0
    rarest_first = (c for c in classes if c.count < _RARE_SHARE * mean)
    return tuple(sorted(rarest_first, key=lambda c: c.count))


def rare_class_warning(classes: tuple[ClassCount, ...]) -> str:
    """Return a warning about rare classes, "" if there are none, or too few samples."""
    rare_counts = rare_classes(classes)
    total = sum(c.count for c in classes)
    if not rare_counts or total < _LEAST_MEAN * len(classes):
        return ""
    rarest_text = f"{number_format.count_of(rare_counts[0].count, total)} samples"
    if len(rare_counts) > 1:
        name = rare_counts[0].name
        return f"{len(rare_counts)} classes are rare; the rarest is {name} with {rarest_text}."
    share = f"{100 * (total - rare_counts[0].count) // total}{number_format.GAP}%"
    return (
        f"Class {rare_counts[0].name} is rare: {rarest_text}. A model can reach {share} accuracy "
        "without predicting it."
    )


@dataclass(frozen=True)
class ShapeCount:
    """Number of the examined samples that have this shape at ``path``."""

    path: str
    shape: tuple[int, ...] | None
    dtype: str
    count: int


@dataclass(frozen=True)
class Histogram:
    """Numbers of values in intervals of equal ``width``, the first one beginning at ``low``."""

    low: float
    width: float
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and 0 < self.width < inf):
            raise ValueError("a histogram without a range")

    @property
    def high(self) -> float:
        return self.low + self.width * len(self.counts)


@dataclass(frozen=True)
class ChannelStatistics:
    """Statistics over the finite values of one channel of all examined samples; None if empty.

    A channel is one of a picture, or one number of a short vector; otherwise all numbers are one.
    """

    path: str
    channel: int
    mean: float | None
    std: float | None
    low: float | None
    high: float | None
    nan_count: int = 0
    inf_count: int = 0
    histogram: Histogram | None = None
    name: str = ""
    """The column, if the loader names it; its values are then in the units of the file."""


@dataclass(frozen=True)
class SampleError:
    """A problem with one sample, or with making a batch (``index`` None)."""

    message: str = field(metadata={KEY: "sentence"})
    remedy: str = ""
    index: int | None = None
    traceback: str = field(default="", metadata=_RAW_TEXT)


@dataclass(frozen=True)
class Preview(Record, label="preview", rules=TOOL_RULES):
    """A dataset read by its loader. ``count`` is its length, ``examined_count`` the samples read.

    ``errors`` prevent training; ``warnings`` are sentences about data that can be trained on but
    should not be (one class only, NaN values). ``error_count`` counts the samples with an
    error; ``errors`` contains the first.
    """

    split: str
    class_name: str
    count: int
    examined_count: int = field(metadata={KEY: "examined"})
    samples: tuple[SamplePreview, ...] = ()
    """Samples at equal distances over the whole dataset."""
    class_samples: tuple[SamplePreview, ...] = ()
    """Further samples, so that each class has some."""
    shapes: tuple[ShapeCount, ...] = ()
    classes: tuple[ClassCount, ...] = ()
    """Empty if the targets are not classes."""
    statistics: tuple[ChannelStatistics, ...] = ()
    item_time_ms: float = 0.0
    """Median time of reading one sample."""
    error_count: int = field(default=0, metadata={KEY: "fault_count"})
    errors: tuple[SampleError, ...] = field(default=(), metadata={KEY: "faults"})
    warnings: tuple[str, ...] = ()
    output: str = field(default="", metadata=_RAW_TEXT)
    """The end of what the user's code printed."""

    @property
    def is_complete(self) -> bool:
        return self.examined_count >= self.count

    @property
    def nan_count(self) -> int:
        return sum(channel.nan_count for channel in self.statistics)

    @property
    def inf_count(self) -> int:
        return sum(channel.inf_count for channel in self.statistics)


@dataclass(frozen=True)
class LayerRow:
    """A layer of a model. ``output`` is the shape of its output, "" if it did not run."""

    name: str
    kind: str
    parameters: int
    output: str = ""


@dataclass(frozen=True)
class ModelCheck(Record, label="model check", rules=TOOL_RULES):
    """A model that was imported and built, and the result of one step on one batch.

    ``loss`` is None if no batch was tried; then ``warnings`` says why.
    """

    parameters: int
    trainable_parameters: int
    parameter_bytes: int
    layers: tuple[LayerRow, ...] = ()
    loss: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    batch: str = ""
    """Shapes of the batch that was tried: ``([4, 1, 8, 8] float32, [4] int64)``."""
    output_shape: str = ""
    forward_ms: float | None = None
    backward_ms: float | None = None
    activation_bytes: int | None = None
    """Memory that autograd keeps of one sample for the backward pass."""
    has_metrics: bool = False
    warnings: tuple[str, ...] = ()
    output: str = field(default="", metadata=_RAW_TEXT)
    """The end of what the user's code printed."""

    @property
    def was_tried(self) -> bool:
        return bool(self.batch)


@dataclass(frozen=True)
class DataSize(Record, label="data size"):
    """Number of training and validation samples of a job; ``validation`` None: no validation."""

    training: int
    validation: int | None = None


_NAMES_SHOWN = 3
_NAME_LENGTH = 80


@dataclass(frozen=True)
class ReadingNote(Record, label="reading note", rules=TOOL_RULES):
    """A number of items that were read in a way that the user should know.

    Attributes:
        reason: What was done and why: "Left out, because they are in no folder of a class".
        count: The number of items.
        names: The first of them.
        item: The noun for one of them.
    """

    reason: str
    count: int
    names: tuple[str, ...] = ()
    item: str = "file"

    @classmethod
    def from_names(cls, reason: str, names: Sequence[str], item: str = "file") -> ReadingNote:
        return cls(reason, len(names), tuple(names[:_NAMES_SHOWN]), item)

    @property
    def message(self) -> str:
        """The note as a sentence: "Left out, …: 24 pictures (a.png, b.png, c.png and 21 more)."."""
        plural = "es" if self.item.endswith(("s", "x")) else "s"
        items = f"{number_format.count(self.count)} {self.item}{'' if self.count == 1 else plural}"
        shown_names = [sanitize(name, _NAME_LENGTH) for name in self.names[:_NAMES_SHOWN]]
        hidden_count = self.count - len(shown_names)
        names = ", ".join(shown_names) + (
            f" and {number_format.count(hidden_count)} more" if hidden_count > 0 else ""
        )
        return f"{self.reason}: {items}{f' ({names})' if shown_names else ''}."


def note_messages(raw: object) -> tuple[str, ...]:
    """Return the messages of a loader's ``reading_notes``, a list of dicts.

    Raises:
        ValueError: It is another value.
    """
    if not isinstance(raw, (list, tuple)):
        raise ValueError("it is no list")
    return tuple(ReadingNote.from_dict(note).message for note in raw)


@dataclass(frozen=True)
class PageSample:
    """A sample, and the split that it is from."""

    split: str
    sample: SamplePreview


@dataclass(frozen=True)
class SamplePage(Record, label="page of samples", rules=TOOL_RULES):
    """Samples in the requested order. ``errors`` are of samples that the loader could not read.

    ``end`` is the number of the first sample that was not read, of ``total`` in the split. It is
    less than requested if the time was over.
    """

    samples: tuple[PageSample, ...]
    end: int = 0
    total: int = 0
    errors: tuple[SampleError, ...] = field(default=(), metadata={KEY: "faults"})
