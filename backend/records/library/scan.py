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
    examined_count: int = field(metadata={KEY: "examined"})
    classes: Mapping[str, int] = field(default_factory=dict)
    broken_samples: tuple[BrokenSample, ...] = field(default=(), metadata={KEY: "broken"})
    broken_count: int = 0
    duplicates: tuple[tuple[int, ...], ...] = ()
    duplicate_count: int = 0
    near_duplicates: tuple[tuple[int, ...], ...] = ()
    """Pictures that are similar but not equal."""
    near_duplicate_count: int = 0
    not_finite: int = 0
    """Number of samples with a NaN or infinite value."""
    not_finite_samples: tuple[int, ...] = ()
    shapes: tuple[ShapeCount, ...] = ()
    statistics: tuple[ChannelStatistics, ...] = ()
    sample_time_ms: float = 0.0
    """Median time of reading one sample."""
    warnings: tuple[str, ...] = ()
    """Warnings about a single class, rare classes, infinite values and unread samples."""


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
        findings = [
            finding for split, scan in splits for finding in _unusable_findings(scan, split)
        ]
        split, both_splits = "validation", ("training", "validation")
        leak_text = "in the training set, too, so the validation metrics are too good"
        findings += _pair_findings(self.leak_count, split, leak_text, self.leaks, both_splits)
        similar_text = "almost equal to training samples"
        findings += _pair_findings(
            self.near_leak_count, split, similar_text, self.near_leaks, both_splits
        )
        findings += [ScanFinding(message) for message in self.shifts]
        for split, scan in splits:
            prefix = "" if split == "training" else "Validation: "
            findings += [ScanFinding(prefix + message) for message in scan.warnings]
            equal_text = "equal to earlier ones"
            findings += _pair_findings(
                scan.duplicate_count, split, equal_text, scan.duplicates, (split, split)
            )
            similar_text = "almost equal to earlier ones"
            pairs = scan.near_duplicates
            findings += _pair_findings(
                scan.near_duplicate_count, split, similar_text, pairs, (split, split)
            )
        return tuple(findings)


def _sample_count_text(count: int, split: str) -> str:
    return f"{number_format.count(count)} {split} {'sample' if count == 1 else 'samples'}"


def _unusable_findings(scan: SplitScan, split: str) -> list[ScanFinding]:
    """Return the findings that prevent training."""
    findings = []
    if scan.broken_samples:
        verb = "was" if scan.broken_count == 1 else "were"
        count_text = _sample_count_text(scan.broken_count, split)
        message = f"{count_text} {verb} not read: {scan.broken_samples[0].message}"
        groups = tuple(((split, sample.index),) for sample in scan.broken_samples)
        findings.append(ScanFinding(message, groups))
    if scan.not_finite:
        verb = "has" if scan.not_finite == 1 else "have"
        message = f"{_sample_count_text(scan.not_finite, split)} {verb} NaN or infinite values"
        groups = tuple(((split, index),) for index in scan.not_finite_samples)
        findings.append(ScanFinding(f"{message}, so the loss will be NaN too.", groups))
    return findings


def _pair_findings(
    count: int,
    split: str,
    predicate: str,
    pairs: tuple[tuple[int, ...], ...],
    splits: tuple[str, str],
) -> list[ScanFinding]:
    if not count:
        return []
    groups = tuple(((splits[0], pair[0]), (splits[1], pair[1])) for pair in pairs)
    verb = "is" if count == 1 else "are"
    return [ScanFinding(f"{_sample_count_text(count, split)} {verb} {predicate}.", groups)]
