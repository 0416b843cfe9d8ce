"""Answers of a job for fixed validation samples: ``samples.jsonl``, which is only appended to.

The first line has the samples with their small pictures, each later line the answers of a
validation. Late epochs have a line less often (`is_recorded`), so the file stays small. A run that
resumes from an older checkpoint repeats validations; a line replaces those from its step on.
Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from backend.base.log import swallowed
from backend.records.base.number_format import GAP
from backend.records.base.schema import Record
from backend.records.jobs.prediction import Box, Guess, PredictedSample
from backend.records.library.preview import TOOL_RULES

SAMPLE_COUNT, BOX_COUNT = 10, 8
"""The number of samples, and of the most certain boxes of each that are kept."""
_PARTS = 100
"""Answers are at most this share of the epochs apart: of a million epochs, 1,500 have a line."""


@dataclass(frozen=True)
class SampleAnswer:
    """The most probable class of a sample, or its most certain boxes."""

    guesses: tuple[Guess, ...] = ()
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True)
class SampleValidation(Record, label="validation", rules=TOOL_RULES):
    """The answers of one validation, in the order of the samples."""

    step: int
    epoch: int
    answers: tuple[SampleAnswer, ...]


@dataclass(frozen=True)
class FixedSamples(Record, label="samples", rules=TOOL_RULES):
    samples: tuple[PredictedSample, ...]


@dataclass(frozen=True)
class SampleHistory:
    """The samples of a job, without answers, and its validations, the first first."""

    samples: tuple[PredictedSample, ...] = ()
    validations: tuple[SampleValidation, ...] = ()

    def at(self, index: int) -> tuple[PredictedSample, ...]:
        """Return the samples with the answers of a validation."""
        return tuple(
            replace(sample, guesses=answer.guesses, boxes=answer.boxes)
            for sample, answer in zip(self.samples, self.validations[index].answers)
        )


def is_recorded(epoch: int) -> bool:
    return epoch % (1 << max(0, (epoch // _PARTS).bit_length() - 1)) == 0


def line(record: Record) -> bytes:
    """Return a record as a line that begins with its break: the file may end in half a line."""
    return b"\n" + json.dumps(record.to_dict(), separators=(",", ":")).encode()


def read_samples(path: Path) -> SampleHistory:
    """Return the history in a file, without damaged lines; empty if there is no file."""
    samples: tuple[PredictedSample, ...] = ()
    validations: list[SampleValidation] = []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        swallowed(error)
        lines = []
    for text in filter(None, lines):
        try:
            raw = json.loads(text)
            if "samples" in raw:
                samples = FixedSamples.from_dict(raw).samples
                continue
            validation = SampleValidation.from_dict(raw)
        except (ValueError, TypeError, RecursionError) as error:
            swallowed(error)
            continue
        if len(validation.answers) == len(samples):
            validations = [v for v in validations if v.step < validation.step] + [validation]
    return SampleHistory(samples, tuple(validations))


def is_right(sample: PredictedSample) -> bool | None:
    """Return whether the most probable class is the target; None for another task."""
    if not sample.guesses or not sample.sample.target:
        return None
    return sample.guesses[0].name == sample.sample.target


def answer_text(sample: PredictedSample) -> str:
    """Return "✓ cat, 98 %", or the number of boxes."""
    if sample.guesses:
        guess, sign = sample.guesses[0], {True: "✓ ", False: "✗ ", None: ""}[is_right(sample)]
        return f"{sign}{guess.name}, {100 * (guess.confidence or 0):.0f}{GAP}%"
    count = len(sample.boxes)
    return f"{count} box{'' if count == 1 else 'es'}" if count or sample.truth else "–"
