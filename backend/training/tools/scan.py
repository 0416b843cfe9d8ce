"""Read all samples of a dataset, training and validation, and compare them.

Memory grows by 32 bytes a sample: a hash of its inputs, a perceptual hash, and the number of its
thumbnail, which is in a temporary file. Each sample and the
whole scan have a time limit; samples that hang are listed, until too many have.
"""

from __future__ import annotations

import math
import tempfile
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

_LIST_LIMIT = 1000
_SAMPLE_S = 30.0
_HANGING_LIMIT = 10
_MEAN_SHIFT = 0.5
"""Standardized difference of means: a medium effect (J. Cohen, Statistical Power Analysis for the
Behavioral Sciences, 1988)."""
_DEVIATION_RATIO = 2.0
"""Ratio of deviations. D. Rubin (2001) asks for a ratio of variances between 1/2 and 2; twice the
deviation leaves room for columns with rare large values."""
_LEAST_SAMPLES = 100
"""With fewer samples deviations differ by chance."""
_CLASS_SHIFT = 0.2
"""Total variation distance: this part of the samples would have to be of another class."""


def scan(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``loader``, ``dataset``; optional ``budget_s`` (3600) and ``sample_s`` (30)."""
    started_s = time.monotonic()
    deadline = started_s + float(request.get("budget_s", 3600.0))
    sample_s = float(request.get("sample_s", _SAMPLE_S))
    report("Opening the loader…")
    from backend.training.data import seed_everything

    # As a rank of a job does it: random data are the same there.
    seed_everything(JobConfig.seed)
    loader = load_loader(Path(request["loader"]))
    folder = Path(request["dataset"])
    with tempfile.TemporaryFile() as file:
        thumbnails = fingerprints.Thumbnails(file)
        training = _SplitSurvey(loader.training(folder), "training", report, thumbnails)
        training.read(deadline, sample_s)
        validation: _SplitSurvey | None = None
        problems: tuple[str, ...] = ()
        if loader.has_validation:
            try:
                validation = _SplitSurvey(
                    loader.validation(folder), "validation", report, thumbnails
                )
                validation.read(deadline, sample_s)
            except UserCodeError as error:
                problems = (f"The validation set was not read: {error.message}",)
        report("Comparing the samples…")
        return _compare_splits(training, validation, thumbnails, problems, started_s).to_dict()


class _SplitSurvey:
    """The samples of one split with their hashes."""

    def __init__(
        self,
        data: UserData,
        split: str,
        report: tool_protocol.Report,
        thumbnails: fingerprints.Thumbnails,
    ) -> None:
        self._report = report
        self.split = split
        self.count = len(data)
        self._survey = Survey(data, split, report, self._observe, _LIST_LIMIT)
        self._indices = numbers("q")
        self._hashes = numbers("Q")
        self._pictures = bytearray()
        self._thumbnails = thumbnails
        self._thumbnail_numbers = numbers("q")
        self._not_finite: list[int] = []
        self._not_finite_count = 0
        self._examined_count = 0
        self._unknown_parts: Counter[str] = Counter()
        self._cut_reason = ""

    def read(self, deadline: float, sample_s: float) -> None:
        hanging_count = 0
        for index in range(self.count):
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                self._cut_reason = "in the available time"
                return
            self._report(f"Reading {self.split} samples", index, self.count)
            if not self._survey.examine(index, min(sample_s, remaining_s), False):
                hanging_count += 1
            self._examined_count += 1
            if hanging_count == _HANGING_LIMIT:
                self._cut_reason = f"because {hanging_count} samples hang"
                return

    def _observe(self, index: int, leaves: list[tuple[str, Any]], is_bad: bool) -> None:
        self._indices.append(index)
        content_hash, unknown_part = fingerprints.exact_hash(leaves)
        self._hashes.append(content_hash)
        if unknown_part:
            self._unknown_parts[unknown_part] += 1
        picture_hash = fingerprints.perceptual_hash(leaves)
        self._pictures += picture_hash
        self._thumbnail_numbers.append(
            self._thumbnails.add(fingerprints.thumbnail(leaves)) if any(picture_hash) else -1
        )
        if is_bad:
            self._not_finite_count += 1
            if len(self._not_finite) < _LIST_LIMIT:
                self._not_finite.append(index)

    @property
    def hashes(self) -> Array:
        """The hash of each sample by its index, 0 for one that was not read."""
        hashes = numpy.zeros(self.count, numpy.uint64)
        hashes[numpy.frombuffer(self._indices, numpy.int64)] = numpy.frombuffer(
            self._hashes, numpy.uint64
        )
        return hashes

    @property
    def pictures(self) -> Array:
        """The bands of the perceptual hash of each sample by its index."""
        bands = numpy.zeros((self.count, 4), numpy.uint32)
        bands[numpy.frombuffer(self._indices, numpy.int64)] = numpy.frombuffer(
            bytes(self._pictures), numpy.uint32
        ).reshape(-1, 4)
        return bands

    @property
    def thumbnail_numbers(self) -> Array:
        """The number of the thumbnail of each sample by its index, -1 for none."""
        thumbnail_numbers = numpy.full(self.count, -1)
        thumbnail_numbers[numpy.frombuffer(self._indices, numpy.int64)] = numpy.frombuffer(
            self._thumbnail_numbers, numpy.int64
        )
        return thumbnail_numbers

    def preview(self) -> Preview:
        return self._survey.result(self._examined_count)

    def result(self, near_pairs: fingerprints.SamplePairs) -> SplitScan:
        preview = self.preview()
        equal_pairs = fingerprints.equal_pairs_within(self.hashes)
        near_pairs = near_pairs.excluding(equal_pairs)
        read_label = number_format.count_of(self._examined_count, self.count)
        warnings = [f"Read {read_label} samples {self._cut_reason}."] if self._cut_reason else []
        if self._unknown_parts:
            count = number_format.count_of(self._unknown_parts.total(), self._examined_count)
            warnings.append(
                f"{count} samples are not compared with others, because the content of a part is "
                f"not known: {number_format.name_list(list(self._unknown_parts))}."
            )
        return SplitScan(
            samples=self.count,
            examined_count=self._examined_count,
            classes={class_count.name: class_count.count for class_count in preview.classes},
            broken_samples=tuple(
                BrokenSample(error.index, error.message)
                for error in preview.errors
                if error.index is not None
            ),
            broken_count=preview.error_count,
            duplicates=equal_pairs.index_pairs(_LIST_LIMIT),
            duplicate_count=equal_pairs.count,
            near_duplicates=near_pairs.index_pairs(_LIST_LIMIT),
            near_duplicate_count=near_pairs.count,
            not_finite=self._not_finite_count,
            not_finite_samples=tuple(self._not_finite),
            shapes=preview.shapes,
            statistics=preview.statistics,
            sample_time_ms=preview.item_time_ms,
            warnings=(*warnings, *self._survey.set_warnings()),
        )


def _compare_splits(
    training: _SplitSurvey,
    validation: _SplitSurvey | None,
    thumbnails: fingerprints.Thumbnails,
    problems: tuple[str, ...],
    started_s: float,
) -> DatasetScan:
    validation_pictures = validation.pictures if validation else numpy.zeros((0, 4), numpy.uint32)
    splits = [training, validation] if validation else [training]
    thumbnail_numbers = numpy.concatenate([split.thumbnail_numbers for split in splits])
    near_training, near_validation, near_between = fingerprints.similar_pairs(
        training.pictures,
        validation_pictures,
        lambda first, second: thumbnails.are_alike(
            thumbnail_numbers[first], thumbnail_numbers[second]
        ),
    )
    training_scan = training.result(near_training)
    validation_scan = validation.result(near_validation) if validation else None
    validation_hashes = validation.hashes if validation else numpy.zeros(0, numpy.uint64)
    leaks = fingerprints.equal_pairs_between(training.hashes, validation_hashes)
    near_between = near_between.excluding(leaks)
    return DatasetScan(
        **{**vars(training_scan), "warnings": (*training_scan.warnings, *problems)},
        validation=validation_scan,
        leaks=leaks.index_pairs(_LIST_LIMIT),
        leak_count=leaks.count,
        near_leaks=near_between.index_pairs(_LIST_LIMIT),
        near_leak_count=near_between.count,
        shifts=tuple(_shift_messages(training_scan, validation_scan)) if validation_scan else (),
        compares_pictures=bool(training.pictures.any()),
        seconds=time.monotonic() - started_s,
    )


def _shift_messages(training: SplitScan, validation: SplitScan) -> Iterator[str]:
    """Yield the differences that are both large and larger than by chance."""
    if not training.examined_count or not validation.examined_count:
        return
    rarity = 1 / training.examined_count + 1 / validation.examined_count
    is_many = min(training.examined_count, validation.examined_count) >= _LEAST_SAMPLES
    training_statistics = {
        (channel.path, channel.channel): channel for channel in training.statistics
    }
    parts = []
    for channel in validation.statistics:
        training_channel = training_statistics.get((channel.path, channel.channel))
        if training_channel is not None and _differ(
            training_channel, channel, max(_MEAN_SHIFT, 4 * math.sqrt(rarity)), is_many
        ):
            parts.append(
                f"{channel.path}[{channel.channel}] has a mean of {_spread_text(channel)}, not "
                f"{_spread_text(training_channel)}"
            )
    if parts:
        rest_message = f" ({len(parts) - 1} more differ)" if parts[1:] else ""
        yield f"Values of validation differ from training: {parts[0]}{rest_message}."
    if training.classes and validation.classes:
        yield from _class_shift_messages(training.classes, validation.classes, rarity)


def _differ(
    channel: ChannelStatistics, other_channel: ChannelStatistics, mean_limit: float, is_many: bool
) -> bool:
    if (
        channel.mean is None
        or other_channel.mean is None
        or channel.std is None
        or other_channel.std is None
    ):
        return False
    low, high = sorted((channel.std, other_channel.std))
    deviation = math.sqrt((low**2 + high**2) / 2)
    return abs(channel.mean - other_channel.mean) > mean_limit * deviation or (
        is_many and high > _DEVIATION_RATIO * low
    )


def _spread_text(channel: ChannelStatistics) -> str:
    return f"{channel.mean:.3g} ± {channel.std:.3g}"


def _class_shift_messages(
    training: Mapping[str, int], validation: Mapping[str, int], rarity: float
) -> Iterator[str]:
    totals = sum(training.values()), sum(validation.values())
    distance = chance_distance = 0.0
    for name in {*training, *validation}:
        counts = training.get(name, 0), validation.get(name, 0)
        distance += abs(counts[0] / totals[0] - counts[1] / totals[1]) / 2
        share = sum(counts) / sum(totals)
        # The mean of |x| of a normal distribution is √(2/π) of its deviation.
        chance_distance += math.sqrt(2 / math.pi * share * (1 - share) * rarity) / 2
    if distance > _CLASS_SHIFT + chance_distance:
        yield (
            "The classes have other shares in validation than in training "
            f"({100 * distance:.0f}{number_format.GAP}% apart)."
        )


if __name__ == "__main__":
    tool_protocol.main(scan)
