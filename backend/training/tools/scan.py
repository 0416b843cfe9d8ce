"""Read all samples of a dataset, training and validation, and compare them.

Memory grows by 24 bytes a sample: a hash of its inputs and a perceptual hash. Each sample and the
whole scan have a time limit; samples that hang are listed, until too many have.
"""

from __future__ import annotations

import math
import time
from array import array as numbers
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy

from backend.records.base import number_format
from backend.records.jobs.config import JobConfig
from backend.records.library.preview import ChannelStatistics, Preview
from backend.records.library.scan import BrokenSample, DatasetScan, SplitScan
from backend.training.tools import fingerprints
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.preview import Survey
from backend.training.tools.thumbnails import Array
from backend.training.user_code import UserCodeError, UserData, load_loader

_LISTED = 1000
_SAMPLE_S = 30.0
_MOST_HANGING = 10
_SHIFT = 0.5
"""Standardized difference of means: a medium effect (J. Cohen, Statistical Power Analysis for the
Behavioral Sciences, 1988)."""
_SPREAD = 2.0
"""Ratio of deviations. D. Rubin (2001) asks for a ratio of variances between 1/2 and 2; twice the
deviation leaves room for columns with rare large values."""
_LEAST = 100
"""With fewer samples deviations differ by chance."""
_CLASS_SHIFT = 0.2
"""Total variation distance: this part of the samples would have to be of another class."""


def scan(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``loader``, ``dataset``; optional ``budget_s`` (3600) and ``sample_s`` (30)."""
    begin = time.monotonic()
    deadline = begin + float(request.get("budget_s", 3600.0))
    sample_s = float(request.get("sample_s", _SAMPLE_S))
    report("Opening the loader…")
    from backend.training.data import seed_everything

    # As a rank of a job does it: random data are the same there.
    seed_everything(JobConfig.seed)
    loader = load_loader(Path(request["loader"]))
    folder = Path(request["dataset"])
    training = _Split(loader.training(folder), "training", report)
    training.read(deadline, sample_s)
    validation: _Split | None = None
    problem: tuple[str, ...] = ()
    if loader.has_validation:
        try:
            validation = _Split(loader.validation(folder), "validation", report)
            validation.read(deadline, sample_s)
        except UserCodeError as error:
            problem = (f"The validation set was not read: {error.message}",)
    report("Comparing the samples…")
    return _compared(training, validation, problem, begin).to_dict()


class _Split:
    """The samples of one split with their hashes."""

    def __init__(self, data: UserData, split: str, report: tool_protocol.Report) -> None:
        self._report = report
        self.split = split
        self.count = len(data)
        self._survey = Survey(data, split, report, self._observe, _LISTED)
        self._indices = numbers("q")
        self._hashes = numbers("Q")
        self._pictures = bytearray()
        self._not_finite: list[int] = []
        self._not_finite_count = 0
        self._examined = 0
        self._unknown: Counter[str] = Counter()
        self._cut = ""

    def read(self, deadline: float, sample_s: float) -> None:
        hanging = 0
        for index in range(self.count):
            left = deadline - time.monotonic()
            if left <= 0:
                self._cut = "in the available time"
                return
            self._report(f"Reading {self.split} samples", index, self.count)
            if not self._survey.examine(index, min(sample_s, left), False):
                hanging += 1
            self._examined += 1
            if hanging == _MOST_HANGING:
                self._cut = f"because {hanging} samples hang"
                return

    def _observe(self, index: int, leaves: list[tuple[str, Any]], is_bad: bool) -> None:
        self._indices.append(index)
        content, unknown = fingerprints.exact_hash(leaves)
        self._hashes.append(content)
        if unknown:
            self._unknown[unknown] += 1
        self._pictures += fingerprints.perceptual_hash(leaves)
        if is_bad:
            self._not_finite_count += 1
            if len(self._not_finite) < _LISTED:
                self._not_finite.append(index)

    @property
    def hashes(self) -> Array:
        """The hash of each sample by its index, 0 for one that was not read."""
        found = numpy.zeros(self.count, numpy.uint64)
        found[numpy.frombuffer(self._indices, numpy.int64)] = numpy.frombuffer(
            self._hashes, numpy.uint64
        )
        return found

    @property
    def pictures(self) -> Array:
        """The bands of the perceptual hash of each sample by its index."""
        found = numpy.zeros((self.count, 4), numpy.uint32)
        found[numpy.frombuffer(self._indices, numpy.int64)] = numpy.frombuffer(
            bytes(self._pictures), numpy.uint32
        ).reshape(-1, 4)
        return found

    def preview(self) -> Preview:
        return self._survey.result(self._examined)

    def result(self, near: fingerprints.SamplePairs) -> SplitScan:
        found = self.preview()
        same = fingerprints.equal_pairs_within(self.hashes)
        near = near.excluding(same)
        read = number_format.count_of(self._examined, self.count)
        cut = [f"Read {read} samples {self._cut}."] if self._cut else []
        if self._unknown:
            count = number_format.count_of(self._unknown.total(), self._examined)
            cut.append(
                f"{count} samples are not compared with others, because the content of a part is "
                f"not known: {number_format.name_list(list(self._unknown))}."
            )
        return SplitScan(
            samples=self.count,
            examined=self._examined,
            classes={one.name: one.count for one in found.classes},
            broken=tuple(
                BrokenSample(fault.index, fault.message)
                for fault in found.errors
                if fault.index is not None
            ),
            broken_count=found.error_count,
            duplicates=same.index_pairs(_LISTED),
            duplicate_count=same.count,
            near_duplicates=near.index_pairs(_LISTED),
            near_duplicate_count=near.count,
            not_finite=self._not_finite_count,
            not_finite_samples=tuple(self._not_finite),
            shapes=found.shapes,
            statistics=found.statistics,
            sample_time_ms=found.item_time_ms,
            warnings=(*cut, *self._survey.set_warnings()),
        )


def _compared(
    training: _Split, validation: _Split | None, problem: tuple[str, ...], begin: float
) -> DatasetScan:
    other = validation.pictures if validation else numpy.zeros((0, 4), numpy.uint32)
    near, near_validation, near_between = fingerprints.similar_pairs(training.pictures, other)
    known = training.result(near)
    scanned = validation.result(near_validation) if validation else None
    hashes = validation.hashes if validation else numpy.zeros(0, numpy.uint64)
    leaks = fingerprints.equal_pairs_between(training.hashes, hashes)
    near_between = near_between.excluding(leaks)
    return DatasetScan(
        **{**vars(known), "warnings": (*known.warnings, *problem)},
        validation=scanned,
        leaks=leaks.index_pairs(_LISTED),
        leak_count=leaks.count,
        near_leaks=near_between.index_pairs(_LISTED),
        near_leak_count=near_between.count,
        shifts=tuple(_shifts(known, scanned)) if scanned else (),
        compares_pictures=bool(training.pictures.any()),
        seconds=time.monotonic() - begin,
    )


def _shifts(training: SplitScan, validation: SplitScan) -> Iterator[str]:
    """Yield the differences that are both large and larger than by chance."""
    if not training.examined or not validation.examined:
        return
    rarity = 1 / training.examined + 1 / validation.examined
    is_many = min(training.examined, validation.examined) >= _LEAST
    known = {(one.path, one.channel): one for one in training.statistics}
    parts = []
    for one in validation.statistics:
        base = known.get((one.path, one.channel))
        if base is not None and _differ(base, one, max(_SHIFT, 4 * math.sqrt(rarity)), is_many):
            parts.append(
                f"{one.path}[{one.channel}] has a mean of {_spread(one)}, not {_spread(base)}"
            )
    if parts:
        more = f" ({len(parts) - 1} more differ)" if parts[1:] else ""
        yield f"Values of validation differ from training: {parts[0]}{more}."
    if training.classes and validation.classes:
        yield from _class_shift(training.classes, validation.classes, rarity)


def _differ(
    one: ChannelStatistics, other: ChannelStatistics, most_apart: float, is_many: bool
) -> bool:
    if one.mean is None or other.mean is None or one.std is None or other.std is None:
        return False
    low, high = sorted((one.std, other.std))
    deviation = math.sqrt((low**2 + high**2) / 2)
    return abs(one.mean - other.mean) > most_apart * deviation or (is_many and high > _SPREAD * low)


def _spread(one: ChannelStatistics) -> str:
    return f"{one.mean:.3g} ± {one.std:.3g}"


def _class_shift(
    training: Mapping[str, int], validation: Mapping[str, int], rarity: float
) -> Iterator[str]:
    totals = sum(training.values()), sum(validation.values())
    distance = by_chance = 0.0
    for name in {*training, *validation}:
        counts = training.get(name, 0), validation.get(name, 0)
        distance += abs(counts[0] / totals[0] - counts[1] / totals[1]) / 2
        share = sum(counts) / sum(totals)
        # The mean of |x| of a normal distribution is √(2/π) of its deviation.
        by_chance += math.sqrt(2 / math.pi * share * (1 - share) * rarity) / 2
    if distance > _CLASS_SHIFT + by_chance:
        yield (
            "The classes have other shares in validation than in training "
            f"({100 * distance:.0f}{number_format.GAP}% apart)."
        )


if __name__ == "__main__":
    tool_protocol.main(scan)
