"""Result of reading all samples of a dataset: classes, broken samples, duplicates and leaks.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backend.records.base import number_format
from backend.records.base.schema import KEY, Record
from backend.records.library.preview import TOOL_RULES, ChannelStatistics, ShapeCount


@dataclass(frozen=True)
class BrokenSample:
    """A sample that the loader could not read."""

    index: int
    message: str = field(metadata={KEY: "sentence"})


@dataclass(frozen=True)
class ScanFinding:
    """A finding of a scan, with groups of samples that show it, each as split and index."""

    message: str = field(metadata={KEY: "sentence"})
    groups: tuple[tuple[tuple[str, int], ...], ...] = ()


@dataclass(frozen=True)
class SplitScan:
    """All samples of one split. Lists have the first thousand; the counts are of all.

    A pair of ``duplicates`` is a sample that is found again, and the later one.
    """

    samples: int
    examined: int
    classes: Mapping[str, int] = field(default_factory=dict)
    broken: tuple[BrokenSample, ...] = ()
    broken_count: int = 0
    duplicates: tuple[tuple[int, ...], ...] = ()
    duplicate_count: int = 0
    near_duplicates: tuple[tuple[int, ...], ...] = ()
    """Pictures that are not equal but look alike."""
    near_duplicate_count: int = 0
    not_finite: int = 0
    """Number of samples with a NaN or infinite value."""
    not_finite_samples: tuple[int, ...] = ()
    shapes: tuple[ShapeCount, ...] = ()
    statistics: tuple[ChannelStatistics, ...] = ()
    sample_time_ms: float = 0.0
    """Median time of reading one sample."""
    warnings: tuple[str, ...] = ()
    """One class only, rare classes, values that are not finite, samples that were not read."""


@dataclass(frozen=True)
class DatasetScan(SplitScan, Record, label="scan of a dataset", rules=TOOL_RULES):
    """The training split, the validation split if the loader has one, and both compared.

    A pair of ``leaks`` is a sample of training and one of validation with the same inputs.
    """

    validation: SplitScan | None = None
    leaks: tuple[tuple[int, ...], ...] = ()
    leak_count: int = 0
    near_leaks: tuple[tuple[int, ...], ...] = ()
    near_leak_count: int = 0
    shifts: tuple[str, ...] = ()
    """Differences between the distributions of training and validation."""
    compares_pictures: bool = False
    """Whether the pictures are large enough to find similar ones."""
    seconds: float = 0.0

    def findings(self) -> tuple[ScanFinding, ...]:
        """Return all findings, the most serious first."""
        splits = [
            ("training", self),
            *([("validation", self.validation)] if self.validation else []),
        ]
        found = [finding for split, one in splits for finding in _unusable(one, split)]
        split, between = "validation", ("training", "validation")
        why = "in the training set, too, so the validation metrics are too good"
        found += _pairs(self.leak_count, split, why, self.leaks, between)
        like = "almost equal to training samples"
        found += _pairs(self.near_leak_count, split, like, self.near_leaks, between)
        found += [ScanFinding(sentence) for sentence in self.shifts]
        for split, one in splits:
            prefix = "" if split == "training" else "Validation: "
            found += [ScanFinding(prefix + sentence) for sentence in one.warnings]
            same = "equal to earlier ones"
            found += _pairs(one.duplicate_count, split, same, one.duplicates, (split, split))
            like = "almost equal to earlier ones"
            pairs = one.near_duplicates
            found += _pairs(one.near_duplicate_count, split, like, pairs, (split, split))
        return tuple(found)


def _samples(count: int, split: str) -> str:
    return f"{number_format.count(count)} {split} {'sample' if count == 1 else 'samples'}"


def _unusable(one: SplitScan, split: str) -> list[ScanFinding]:
    """Return the findings that prevent training."""
    found = []
    if one.broken:
        were = "was" if one.broken_count == 1 else "were"
        words = f"{_samples(one.broken_count, split)} {were} not read: {one.broken[0].message}"
        groups = tuple(((split, sample.index),) for sample in one.broken)
        found.append(ScanFinding(words, groups))
    if one.not_finite:
        have = "has" if one.not_finite == 1 else "have"
        words = f"{_samples(one.not_finite, split)} {have} NaN or infinite values"
        groups = tuple(((split, index),) for index in one.not_finite_samples)
        found.append(ScanFinding(f"{words}, so the loss will be NaN too.", groups))
    return found


def _pairs(
    count: int, split: str, words: str, pairs: tuple[tuple[int, ...], ...], of: tuple[str, str]
) -> list[ScanFinding]:
    if not count:
        return []
    groups = tuple(((of[0], pair[0]), (of[1], pair[1])) for pair in pairs)
    are = "is" if count == 1 else "are"
    return [ScanFinding(f"{_samples(count, split)} {are} {words}.", groups)]
