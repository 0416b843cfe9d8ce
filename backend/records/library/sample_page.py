"""Samples of a dataset that were requested by their numbers or their class.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.records.base.schema import KEY, Record
from backend.records.library.preview import TOOL_RULES, SampleError, SamplePreview


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
