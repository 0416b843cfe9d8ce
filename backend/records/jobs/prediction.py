"""Predictions of a checkpoint, for samples of a dataset or for files of the user.

A process that ran a user's code writes them, so they are read as a preview is.
Standard library only and Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.schema import KEY, READ, Record, json_value
from backend.records.library.preview import TOOL_RULES, SamplePart, SamplePreview

CLASSES, BOXES, VALUES = "classes", "boxes", "values"
"""Tasks of a model, recognised by its output."""
TOP = 5
"""The most probable classes that are kept of a sample."""
_RANGE = re.compile(r"\s*(\d{1,12})\s*(?:[-–]\s*(\d{1,12})\s*)?")
_MAX_SAMPLES = 100_000


@dataclass(frozen=True)
class PredictionInput:
    """Files or samples that a checkpoint is tried on.

    ``files`` are read by the loader's ``read``. Without them it is a ``split`` of the
    ``dataset`` through the ``loader``, by default those of the job; all of its samples unless some
    are named in ``samples``: ``0-99, 205``.
    """

    split: str = "validation"
    dataset: str = ""
    loader: str = ""
    samples: str = ""
    files: tuple[str, ...] = ()


def parse_samples(text: str) -> tuple[int, ...]:
    """Return the numbers in ``3, 10-20``, each once; empty if it is empty.

    Raises:
        ValueError: It is no list of numbers, or names too many.
    """
    indexes: dict[int, None] = {}
    for part in filter(str.strip, text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"“{part.strip()}” is no number of a sample, and no range")
        first_index, last_index = int(match[1]), int(match[2] or match[1])
        if last_index - first_index + len(indexes) >= _MAX_SAMPLES:
            raise ValueError(f"“{part.strip()}” names more than {_MAX_SAMPLES} samples")
        indexes.update(dict.fromkeys(range(first_index, last_index + 1)))
    return tuple(indexes)


@dataclass(frozen=True)
class Guess:
    """A class, and the confidence of the model in it, from 0 to 1."""

    name: str
    confidence: float | None


@dataclass(frozen=True)
class Box:
    """A detected object. ``corners``: left, top, right, bottom as shares of the picture."""

    name: str
    confidence: float | None
    corners: tuple[float | None, ...]


@dataclass(frozen=True)
class PredictedSample:
    """A sample and the output for it; ``output`` is shown like a sample's parts.

    ``file`` is its path below the folder that was given, "" for a sample of a dataset; ``truth``
    are the boxes of its target.
    """

    sample: SamplePreview
    prediction: str
    guesses: tuple[Guess, ...] = ()
    boxes: tuple[Box, ...] = ()
    output: tuple[SamplePart, ...] = ()
    file: str = ""
    truth: tuple[Box, ...] = ()


@dataclass(frozen=True)
class ClassMeasures:
    """Measures of one class; a share that is not defined is None.

    ``count`` is the number of its samples.
    """

    name: str
    count: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class DetectionMeasures:
    """Average precision of one class at two overlaps (intersection over union).

    ``count`` is the number of its true boxes. ``at_50`` and ``at_75`` are the precisions at a
    recall of 0, 0.01 … 1; the average precision is their mean.
    """

    name: str
    count: int
    at_50: tuple[float | None, ...]
    at_75: tuple[float | None, ...]

    @property
    def ap50(self) -> float | None:
        return _mean(self.at_50)

    @property
    def ap75(self) -> float | None:
        return _mean(self.at_75)


def _mean(values: tuple[float | None, ...]) -> float | None:
    return sum(value or 0.0 for value in values) / len(values) if values else None


@dataclass(frozen=True)
class Prediction(Record, label="prediction", rules=TOOL_RULES):
    """The predictions of a checkpoint, and how good they are.

    ``confusion`` has a row for each class of the targets, a column for each predicted class.
    """

    task: str
    sample_count: int = field(metadata={KEY: "samples"})
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Metrics as of the job's validation; empty for files."""
    classes: tuple[ClassMeasures, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    mistakes: tuple[PredictedSample, ...] = ()
    """The most confident wrong ones, the most confident first."""
    best: tuple[PredictedSample, ...] = ()
    """The most confident samples of each predicted class."""
    examples: tuple[PredictedSample, ...] = field(default=(), metadata={KEY: "shown"})
    """All samples if they are few, otherwise some at equal distances."""
    notes: tuple[str, ...] = ()
    output: str = field(default="", metadata={READ: str})
    """The end of what the user's code printed."""
    table: str = ""
    """The file with all predictions on this computer."""
    detections: tuple[DetectionMeasures, ...] = ()
    """Measures of each class with true boxes, for a model with boxes."""

    def to_json(self, output: str) -> dict[str, Any]:
        """Return the document that ``--json`` prints: the figures, without samples."""
        document = {
            "samples": self.sample_count,
            "output": output,
            "metrics": self.metrics,
            "notes": self.notes,
        }
        if self.task == CLASSES and self.classes:
            document["classes"] = [
                {
                    "class": measures.name,
                    "count": measures.count,
                    "precision": measures.precision,
                    "recall": measures.recall,
                    "f1": measures.f1,
                }
                for measures in self.classes
            ]
            document["confusion"] = self.confusion
        if self.detections:
            document["detections"] = [
                {
                    "class": measures.name,
                    "boxes": measures.count,
                    "ap50": measures.ap50,
                    "ap75": measures.ap75,
                }
                for measures in self.detections
            ]
        return dict(json_value(document))
