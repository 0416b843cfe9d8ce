"""Preview of a dataset as its loader returns it: samples, shapes, classes, ranges, and problems.

All items are read if the time allows. Otherwise the items read are spread evenly over the whole
set, because many sets are sorted by class and their beginning is not representative.
"""

from __future__ import annotations

import math
import statistics
import time
from array import array as numbers
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy

from backend.base.log import swallowed
from backend.records.base import number_format
from backend.records.jobs.config import JobConfig
from backend.records.library.preview import (
    ClassCount,
    Preview,
    SampleError,
    SamplePart,
    SamplePreview,
    ShapeCount,
    rare_class_warning,
)
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.histogram import ChannelSpread
from backend.training.tools.thumbnails import (
    Array,
    as_array,
    display_parts,
    leaves_of,
    picture_layout,
    target_text,
    type_name,
)
from backend.training.user_code import UserCodeError, UserData, load_loader, split_batch

_CLASS_LIMIT = 1000
_SHARE_WITHOUT_BOXES = 0.1
"""In COCO 1 % of the pictures have none."""
_NAME_CHARACTERS = 100
_NO_LABEL = "(no label)"
_ERROR_LIMIT = 20
_CHANNEL_LIMIT = 64
_SHAPE_LIMIT = 64
_PATH_LIMIT = 512
_SAMPLES_PER_CLASS, _CLASS_SAMPLES = 24, 240
_BATCHED_VALUES = 1 << 16


def preview(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``loader``, ``dataset``; optional ``split``, ``samples`` (48), ``budget_s`` (20)."""
    split = str(request.get("split", "training"))
    report("Opening the loader…")
    from backend.training.data import seed_everything

    # As a rank of a job does it: random data are the same there.
    seed_everything(JobConfig.seed)
    loader = load_loader(Path(request["loader"]))
    open_split = loader.validation if split == "validation" else loader.training
    data = open_split(Path(request["dataset"]))
    return Survey(data, split, report).read_samples(
        int(request.get("samples", 48)), float(request.get("budget_s", 20.0))
    )


class _ClassSamples:
    """The first samples of each class, in the order in which the set is read, limited in total.

    As more classes appear, each keeps fewer, down to one: of a thousand classes a thousand samples
    stay.
    """

    def __init__(self) -> None:
        self._by_class: dict[str, list[SamplePreview]] = {}
        self._class_limit = _SAMPLES_PER_CLASS

    def accepts(self, class_name: str) -> bool:
        """Return whether one more of this class is kept; no class ("") keeps none."""
        return bool(class_name) and len(self._by_class.get(class_name, ())) < self._class_limit

    def add(self, sample: SamplePreview) -> None:
        self._by_class.setdefault(sample.of_class, []).append(sample)
        while self._class_limit > 1 and sum(map(len, self._by_class.values())) > _CLASS_SAMPLES:
            self._class_limit -= 1
            for samples in self._by_class.values():
                del samples[self._class_limit :]

    def all(self) -> tuple[SamplePreview, ...]:
        """Return the samples by their number in the set."""
        all_samples = (sample for samples in self._by_class.values() for sample in samples)
        return tuple(sorted(all_samples, key=lambda sample: sample.index))


class Survey:
    """Reads the items and gathers their statistics.

    ``observe`` gets each item that was read: its index, its leaves, and whether a value is NaN or
    infinite. ``error_limit`` errors are listed; all are counted.
    """

    def __init__(
        self,
        data: UserData,
        split: str,
        report: tool_protocol.Report,
        observe: Callable[[int, list[tuple[str, Any]], bool], None] | None = None,
        error_limit: int = _ERROR_LIMIT,
    ) -> None:
        self._data = data
        self._split = split
        self._report = report
        self._observe = observe
        self._error_limit = error_limit
        self._count = len(data)
        self._names = class_names(data.user_dataset)
        self._columns = value_columns(data.user_dataset)
        self._samples: list[SamplePreview] = []
        self._class_samples = _ClassSamples()
        self._shown_items: dict[int, Any] = {}
        self._errors: list[SampleError] = []
        self._error_count = 0
        self._times_ms = numbers("d")
        self._shapes: Counter[tuple[str, tuple[int, ...] | None, str]] = Counter()
        self._classes: Counter[str | int] = Counter()
        self._target_hashes: set[int] = set()
        """Hashes of the targets: captions are long."""
        self._labelled_count = 0
        self._first_unlabelled: int | None = None
        self._spreads: dict[tuple[str, int], ChannelSpread] = {}
        self._pending_rows: dict[tuple[str, int, str], list[Array]] = {}
        self._measured_paths: set[str] = set()
        self._count_without_boxes = 0
        self._nan_count = self._infinite_count = 0
        self._bad_items: list[int] = []

    def read_samples(self, sample_count: int, budget_s: float) -> dict[str, Any]:
        shown_indices = spread_indices(self._count, min(sample_count, self._count))
        deadline = time.monotonic() + budget_s
        read_count = 0
        for index in _reading_order(self._count, shown_indices):
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                break
            action = (
                f"Read {number_format.count_of(read_count, self._count)} samples, next is item "
            )
            self._report(action + number_format.count(index), read_count, self._count)
            if not self.examine(index, remaining_s, index in shown_indices):
                break
            read_count += 1
        self._try_batch()
        cut_warning = (
            f"Read {number_format.count_of(read_count, self._count)} samples, spread evenly, in "
            "the available time; the figures are for those."
        )
        preview_result = self.result(read_count)
        if read_count < self._count:
            preview_result = replace(
                preview_result, warnings=(cut_warning, *preview_result.warnings)
            )
        return preview_result.to_dict()

    def result(self, read_count: int) -> Preview:
        """Return the findings after reading this number of items."""
        for (path, *_), rows in self._pending_rows.items():
            self._add_pending(path, rows)
        samples = sorted(self._samples, key=lambda sample: sample.index)
        if not self._has_classes:
            samples = [replace(sample, of_class="") for sample in samples]
        return Preview(
            split=self._split,
            class_name=self._data.class_name,
            count=self._count,
            examined_count=read_count,
            samples=tuple(samples),
            class_samples=self._class_samples.all() if self._has_classes else (),
            shapes=tuple(ShapeCount(*key, n) for key, n in self._shapes.most_common(_SHAPE_LIMIT)),
            classes=self._class_counts(),
            statistics=tuple(
                replace(spread.result(path, channel), name=self._columns[path][channel][0])
                if channel < len(self._columns.get(path, ()))
                else spread.result(path, channel)
                for (path, channel), spread in sorted(self._spreads.items())
            ),
            item_time_ms=statistics.median(self._times_ms) if self._times_ms else 0.0,
            error_count=self._error_count,
            errors=tuple(
                sorted(self._errors, key=lambda error: (error.index is None, error.index or 0))
            ),
            warnings=tuple(self._warnings()),
        )

    def examine(self, index: int, remaining_s: float, is_shown: bool) -> bool:
        """Read one item; return False if the time ran out."""
        started_s = time.perf_counter()
        try:
            with tool_protocol.time_limit(remaining_s):
                item = self._data.item(index)
        except tool_protocol.OutOfTime:
            # If at least a second was left, the item is too slow, not the time too short.
            if remaining_s > 1:
                self._add_error(
                    SampleError(
                        f"Item {number_format.count(index)} of {self._data.class_name} was not "
                        f"read within {remaining_s:.0f} s.",
                        "Check __getitem__ for an endless loop or a download.",
                        index,
                    )
                )
            return False
        except UserCodeError as error:
            self._add_error(SampleError(error.message, error.remedy, index, error.traceback))
            return True
        time_ms = (time.perf_counter() - started_s) * 1000
        self._times_ms.append(time_ms)
        leaves = leaves_of(item)
        is_bad = False
        for path, value in leaves:
            array = as_array(value)
            shape = None if array is None else tuple(array.shape)
            self._shapes[path, shape, type_name(value)] += 1
            if array is not None:
                is_bad |= self._has_bad_values(array)
                is_accepted = (
                    len(self._measured_paths) < _PATH_LIMIT or path in self._measured_paths
                )
                if _is_measured(path, array) and is_accepted:
                    self._add_values(path, array)
        if is_bad and len(self._bad_items) < _ERROR_LIMIT:
            self._bad_items.append(index)
        if self._observe is not None:
            self._observe(index, leaves, is_bad)
        of_class = self.class_of(item)
        if not of_class:
            first_index = self._first_unlabelled
            self._first_unlabelled = index if first_index is None else min(index, first_index)
        if is_shown:
            self._shown_items[index] = item
            self._samples.append(self.sample(index, item, time_ms, of_class))
        elif len(self._target_hashes) <= _CLASS_LIMIT and self._class_samples.accepts(of_class):
            self._class_samples.add(self.sample(index, item, time_ms, of_class))
        return True

    def sample(self, index: int, item: Any, time_ms: float, of_class: str) -> SamplePreview:
        """Return an item for display."""
        target = item[1] if _is_pair(item) else None
        text = "" if target is None else target_text(target, self._names)
        parts = display_parts(leaves_of(item))
        named_parts = tuple(name_values(part, self._columns.get(part.path, ())) for part in parts)
        return SamplePreview(index, named_parts, text, time_ms, of_class)

    def _add_error(self, error: SampleError) -> None:
        self._error_count += 1
        self._errors.append(error)
        # The first ones by number, in any order of reading.
        self._errors.sort(key=lambda sample_error: sample_error.index or 0)
        del self._errors[self._error_limit :]

    def _has_bad_values(self, array: Array) -> bool:
        """Count NaN and infinite values; return whether there is one."""
        if array.dtype.kind not in "fc" or numpy.isfinite(array).all():
            return False
        nan_values = int(numpy.isnan(array).sum())
        self._nan_count += nan_values
        self._infinite_count += int((~numpy.isfinite(array)).sum()) - nan_values
        return True

    def _add_values(self, path: str, array: Array) -> None:
        """Add to the statistics."""
        values = numpy.abs(array) if array.dtype.kind == "c" else array
        layout = picture_layout(tuple(values.shape))
        if layout == "HWC":
            values = values.transpose(2, 0, 1)
        by_row = layout in ("CHW", "HWC") or _has_columns(values)
        columns = self._columns.get(path, ())
        if by_row and len(columns) == values.size:
            offsets, factors = numpy.array([column[1:] for column in columns]).T
            values = offsets + factors * values
        elif path in self._columns:
            del self._columns[path]
        rows = values.reshape(len(values), -1) if by_row else values.reshape(1, -1)
        # Of small items many at once: 64 columns of 100 000 rows take 5 s and not minutes.
        self._measured_paths.add(path)
        pending_rows = self._pending_rows.setdefault((path, len(rows), rows.dtype.str), [])
        pending_rows.append(rows[:_CHANNEL_LIMIT].copy())
        if len(pending_rows) * rows.size >= _BATCHED_VALUES:
            self._add_pending(path, pending_rows)

    def _add_pending(self, path: str, pending_rows: list[Array]) -> None:
        if pending_rows:
            for number, row in enumerate(numpy.concatenate(pending_rows, axis=1)):
                self._spreads.setdefault((path, number), ChannelSpread()).add(row)
            pending_rows.clear()

    def class_of(self, item: Any) -> str:
        """Count the item for its class and return its name, "" if its target is not one."""
        key: str | int
        if not _is_pair(item):
            return ""
        target = item[1]
        if isinstance(target, Mapping) and "boxes" in target:
            boxes = as_array(target["boxes"])
            self._count_without_boxes += boxes is not None and not boxes.size
        array = None if isinstance(target, str) else as_array(target)
        if target is None or isinstance(target, str):
            key = (target or "").strip()
        elif array is not None and array.size == 1 and array.dtype.kind in "biu":
            key = int(array.reshape(-1)[0])
        else:
            return ""
        self._labelled_count += 1
        self._target_hashes.add(hash(key))
        if len(self._target_hashes) <= _CLASS_LIMIT:
            self._classes[key] += 1
        return self._name(key)

    @property
    def _is_classification(self) -> bool:
        """Return whether targets are of classes: named ones, or values that repeat."""
        return bool(self._names) or 2 * len(self._target_hashes) <= self._labelled_count

    @property
    def _has_classes(self) -> bool:
        is_few = 0 < len(self._target_hashes) <= _CLASS_LIMIT and self._target_hashes != {hash("")}
        return self._first_unlabelled is None and is_few and self._is_classification

    def _class_counts(self) -> tuple[ClassCount, ...]:
        if not self._has_classes:
            return ()
        ordered_items = sorted(
            self._classes.items(), key=lambda kv: (isinstance(kv[0], str), kv[0])
        )
        return tuple(ClassCount(self._name(key), count) for key, count in ordered_items)

    def _name(self, key: str | int) -> str:
        if isinstance(key, int) and 0 <= key < len(self._names):
            return self._names[key]
        return _NO_LABEL if key == "" else str(key)[:_NAME_CHARACTERS]

    def _try_batch(self) -> None:
        """Check that the first items make a batch, as training makes it."""
        items = [self._shown_items[index] for index in sorted(self._shown_items)][:4]
        if not items:
            return
        self._report("Making a batch…")
        try:
            with tool_protocol.time_limit(30):
                split_batch(self._data.collate(items))
        except tool_protocol.OutOfTime:
            self._error_count += 1
            self._errors.append(SampleError("A batch of 4 items was not made within 30 s."))
            return
        except UserCodeError as error:
            self._error_count += 1
            self._errors.append(SampleError(error.message, error.remedy, None, error.traceback))
            return
        if not callable(getattr(self._data.user_dataset, "collate", None)):
            self._compare_shapes()

    def _compare_shapes(self) -> None:
        """Compare the shapes of all items: four may match by chance."""
        by_path: dict[str, list[tuple[int, ...] | None]] = {}
        for path, shape, _ in self._shapes:
            by_path.setdefault(path, []).append(shape)
        for path, shapes in by_path.items():
            if len(set(shapes)) > 1:
                first_shape, second_shape = (
                    _shape_text(shape) for shape in list(dict.fromkeys(shapes))[:2]
                )
                self._error_count += 1
                self._errors.append(
                    SampleError(
                        f"Items of {self._data.class_name} have different shapes at {path}, so "
                        f"they cannot form a batch: {first_shape} and {second_shape}.",
                        "Bring them to one shape, or add a method collate(self, items) to "
                        f"{self._data.class_name}.",
                    )
                )
                return

    def set_warnings(self) -> Iterator[str]:
        """Yield findings on the set: what its loader left out or guessed, targets, classes."""
        yield from self._data.reading_notes()
        if self._count_without_boxes > _SHARE_WITHOUT_BOXES * len(self._times_ms):
            count = number_format.count_of(self._count_without_boxes, len(self._times_ms))
            yield f"{count} samples have no box; a model learns from them that there is nothing."
        if self._target_hashes and self._first_unlabelled is not None:
            yield (
                "The classes are not shown, because some targets are of no class, first that of "
                f"sample {number_format.count(self._first_unlabelled)}."
            )
        elif len(self._target_hashes) > _CLASS_LIMIT and self._is_classification:
            yield (
                "The classes are not shown: there are "
                f"{number_format.count(len(self._target_hashes))}, "
                f"and the limit is {number_format.count(_CLASS_LIMIT)}."
            )
        if not self._has_classes:
            return
        if unlabelled_count := self._classes[""]:
            yield (
                f"{number_format.count_of(unlabelled_count, self._labelled_count)} samples "
                "have no label."
            )
        if len(self._classes) == 1 and self._labelled_count > 1:
            name = self._name(next(iter(self._classes)))
            sample_count = number_format.count(self._labelled_count)
            yield (
                f"All {sample_count} samples read are of one class ({name}); a model cannot "
                "learn from "
                "that."
            )
        if len(self._classes) == self._labelled_count > 1:
            yield (
                f"Each of the {number_format.count(self._labelled_count)} samples is the only one "
                "of its class; check the column or setting of the target."
            )
        rare_message = rare_class_warning(self._class_counts())
        if rare_message:
            yield rare_message

    def _warnings(self) -> Iterator[str]:
        yield from self.set_warnings()
        if len(self._measured_paths) == _PATH_LIMIT:
            yield f"Statistics are shown for the first {_PATH_LIMIT} parts of a sample."
        if self._nan_count or self._infinite_count:
            kinds = " and ".join(
                f"{number_format.count(number)} {word}"
                for number, word in ((self._nan_count, "NaN"), (self._infinite_count, "infinite"))
                if number
            )
            yield (
                f"The data contains NaN or infinite values ({kinds}), first in item "
                f"{number_format.count(min(self._bad_items))}, so the loss will be NaN too."
            )


def _has_columns(array: Array) -> bool:
    """Return whether each column of the array has its own meaning, as in a table."""
    return array.ndim == 1 and 0 < array.size <= _CHANNEL_LIMIT


def _is_measured(path: str, array: Array) -> bool:
    """Return whether values have a mean: data and measured targets, not a class or a mask."""
    if path.startswith("target"):
        return array.dtype.kind == "f" and (array.ndim == 0 or _has_columns(array))
    return True


def _is_pair(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 2


def _shape_text(shape: tuple[int, ...] | None) -> str:
    return "no array" if shape is None else str(list(shape))


def class_names(dataset: Any) -> list[str]:
    """Return ``dataset.classes``, by the convention of torchvision."""
    names = getattr(dataset, "classes", None)
    if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
        return [name[:_NAME_CHARACTERS] for name in names[:_CLASS_LIMIT]]
    return []


def value_columns(dataset: Any) -> dict[str, list[tuple[str, float, float]]]:
    """Return ``dataset.value_columns``: name, offset and factor of each number of a part, by path.

    Of a scaled column, offset + factor × value is in the units of the file.
    """
    value = getattr(dataset, "value_columns", None)
    try:
        return {
            str(path): [(str(n)[:_NAME_CHARACTERS], float(a), float(b)) for n, a, b in columns]
            for path, columns in (value if isinstance(value, Mapping) else {}).items()
        }
    except (TypeError, ValueError) as error:
        swallowed(error)
        return {}


def name_values(part: SamplePart, columns: Sequence[tuple[str, float, float]]) -> SamplePart:
    """Return a part with the names of its first values, in the units of the file.

    A part without columns, or with another number of values, stays as it is.
    """
    is_row = part.shape is not None and math.prod(part.shape) == len(columns)
    if not columns or not is_row or part.display_kind not in ("values", "wave"):
        return part
    shown_columns = columns[: len(part.values)]
    return replace(
        part,
        display_kind="values",
        values=tuple(
            None if value is None else offset + factor * value
            for value, (_, offset, factor) in zip(part.values, shown_columns, strict=False)
        ),
        names=tuple(name for name, _, _ in shown_columns),
        scaled_values=part.values,
    )


def spread_indices(count: int, sample_count: int) -> list[int]:
    return [number * count // sample_count for number in range(sample_count)]


def _reading_order(count: int, leading_indices: list[int]) -> Iterator[int]:
    """Yield every index once, the leading ones first; each part of them covers the whole set."""
    yield from (leading_indices[number] for number in _scattered_indices(len(leading_indices)))
    leading_set = set(leading_indices)
    yield from (index for index in _scattered_indices(count) if index not in leading_set)


def _scattered_indices(count: int) -> Iterator[int]:
    """Yield every number below ``count`` once, spread evenly by steps of the golden ratio."""
    step = max(1, int(count * 0.6180339887))
    while math.gcd(step, count) != 1:
        step += 1
    number = 0
    for _ in range(count):
        yield number
        number = (number + step) % count


if __name__ == "__main__":
    tool_protocol.main(preview)
