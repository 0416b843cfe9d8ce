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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy

from backend.base.log import swallowed
from backend.records.base import number_format
from backend.records.jobs.config import JobConfig
from backend.records.library.preview import (
    ClassCount,
    SampleError,
    Preview,
    SamplePreview,
    ShapeCount,
    rare_class_warning,
)
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.histogram import ChannelSpread
from backend.training.tools.overlays import parts
from backend.training.tools.thumbnails import (
    Array,
    as_array,
    parts_of,
    picture_layout,
    target_text,
    type_name,
)
from backend.training.user_code import UserCodeError, UserData, load_loader, split_batch

_MOST_CLASSES = 1000
_SHARE_WITHOUT_BOXES = 0.1
"""In COCO 1 % of the pictures have none."""
_CLASS_NAME = 100
_NO_LABEL = "(no label)"
_MOST_FAULTS = 20
_MOST_CHANNELS = 64
_MOST_SHAPES = 64
_MOST_MEASURED = 512
_OF_EACH, _IN_ALL = 24, 240
_AT_ONCE = 1 << 16


def preview(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``loader``, ``dataset``; optional ``split``, ``samples`` (48), ``budget_s`` (20)."""
    split = str(request.get("split", "training"))
    report("Opening the loader…")
    from backend.training.data import seed_everything

    # As a rank of a job does it: random data are the same there.
    seed_everything(JobConfig.seed)
    loader = load_loader(Path(request["loader"]))
    opened = loader.validation if split == "validation" else loader.training
    data = opened(Path(request["dataset"]))
    return Survey(data, split, report).take(
        int(request.get("samples", 48)), float(request.get("budget_s", 20.0))
    )


class _ClassSamples:
    """The first samples of each class, in the order in which the set is read, limited in total.

    As more classes appear, each keeps fewer, down to one: of a thousand classes a thousand samples
    stay.
    """

    def __init__(self) -> None:
        self._by_class: dict[str, list[SamplePreview]] = {}
        self._of_each = _OF_EACH

    def wants(self, of_class: str) -> bool:
        """Return whether one more of this class is kept; no class ("") keeps none."""
        return bool(of_class) and len(self._by_class.get(of_class, ())) < self._of_each

    def add(self, sample: SamplePreview) -> None:
        self._by_class.setdefault(sample.of_class, []).append(sample)
        while self._of_each > 1 and sum(map(len, self._by_class.values())) > _IN_ALL:
            self._of_each -= 1
            for kept in self._by_class.values():
                del kept[self._of_each :]

    def all(self) -> tuple[SamplePreview, ...]:
        """Return the samples by their number in the set."""
        kept = (sample for samples in self._by_class.values() for sample in samples)
        return tuple(sorted(kept, key=lambda sample: sample.index))


class Survey:
    """Reads the items and gathers their statistics.

    ``observe`` gets each item that was read: its index, its leaves, and whether a value is NaN or
    infinite. ``most_faults`` are listed; all are counted.
    """

    def __init__(
        self,
        data: UserData,
        split: str,
        report: tool_protocol.Report,
        observe: Callable[[int, list[tuple[str, Any]], bool], None] | None = None,
        most_faults: int = _MOST_FAULTS,
    ) -> None:
        self._data = data
        self._split = split
        self._report = report
        self._observe = observe
        self._most_faults = most_faults
        self._count = len(data)
        self._names = class_names(data.user_dataset)
        self._columns = value_columns(data.user_dataset)
        self._samples: list[SamplePreview] = []
        self._class_samples = _ClassSamples()
        self._kept: dict[int, Any] = {}
        self._faults: list[SampleError] = []
        self._fault_count = 0
        self._times_ms = numbers("d")
        self._shapes: Counter[tuple[str, tuple[int, ...] | None, str]] = Counter()
        self._classes: Counter[str | int] = Counter()
        self._distinct: set[int] = set()
        """Hashes of the targets: captions are long."""
        self._labelled = 0
        self._first_other: int | None = None
        self._sums: dict[tuple[str, int], ChannelSpread] = {}
        self._waiting: dict[tuple[str, int, str], list[Array]] = {}
        self._measured: set[str] = set()
        self._without_boxes = 0
        self._nan = self._infinite = 0
        self._bad_items: list[int] = []

    def take(self, samples: int, budget_s: float) -> dict[str, Any]:
        shown = evenly(self._count, min(samples, self._count))
        deadline = time.monotonic() + budget_s
        examined = 0
        for index in _order(self._count, shown):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            doing = f"Read {number_format.count_of(examined, self._count)} samples, next is item "
            self._report(doing + number_format.count(index), examined, self._count)
            if not self.examine(index, left, index in shown):
                break
            examined += 1
        self._try_batch()
        cut = (
            f"Read {number_format.count_of(examined, self._count)} samples, spread evenly, in the "
            "available time; the figures are for those."
        )
        found = self.result(examined)
        if examined < self._count:
            found = replace(found, warnings=(cut, *found.warnings))
        return found.to_dict()

    def result(self, examined: int) -> Preview:
        """Return the findings after reading this number of items."""
        for (path, *_), waiting in self._waiting.items():
            self._sum_up(path, waiting)
        samples = sorted(self._samples, key=lambda sample: sample.index)
        if not self._has_classes:
            samples = [replace(sample, of_class="") for sample in samples]
        return Preview(
            split=self._split,
            class_name=self._data.class_name,
            count=self._count,
            examined=examined,
            samples=tuple(samples),
            class_samples=self._class_samples.all() if self._has_classes else (),
            shapes=tuple(ShapeCount(*key, n) for key, n in self._shapes.most_common(_MOST_SHAPES)),
            classes=self._class_counts(),
            statistics=tuple(
                replace(total.result(path, channel), name=self._columns[path][channel][0])
                if channel < len(self._columns.get(path, ()))
                else total.result(path, channel)
                for (path, channel), total in sorted(self._sums.items())
            ),
            item_time_ms=statistics.median(self._times_ms) if self._times_ms else 0.0,
            error_count=self._fault_count,
            errors=tuple(
                sorted(self._faults, key=lambda fault: (fault.index is None, fault.index or 0))
            ),
            warnings=tuple(self._warnings()),
        )

    def examine(self, index: int, left_s: float, is_shown: bool) -> bool:
        """Read one item; return False if the time ran out."""
        begin = time.perf_counter()
        try:
            with tool_protocol.at_most(left_s):
                item = self._data.item(index)
        except tool_protocol.OutOfTime:
            # If at least a second was left, the item is too slow, not the time too short.
            if left_s > 1:
                self._fault(
                    SampleError(
                        f"Item {number_format.count(index)} of {self._data.class_name} was not "
                        f"read within {left_s:.0f} s.",
                        "Check __getitem__ for an endless loop or a download.",
                        index,
                    )
                )
            return False
        except UserCodeError as error:
            self._fault(SampleError(error.message, error.remedy, index, error.traceback))
            return True
        time_ms = (time.perf_counter() - begin) * 1000
        self._times_ms.append(time_ms)
        leaves = parts_of(item)
        is_bad = False
        for path, value in leaves:
            array = as_array(value)
            shape = None if array is None else tuple(array.shape)
            self._shapes[path, shape, type_name(value)] += 1
            if array is not None:
                is_bad |= self._is_bad(array)
                has_room = len(self._measured) < _MOST_MEASURED or path in self._measured
                if _is_measured(path, array) and has_room:
                    self._add(path, array)
        if is_bad and len(self._bad_items) < _MOST_FAULTS:
            self._bad_items.append(index)
        if self._observe is not None:
            self._observe(index, leaves, is_bad)
        of_class = self.class_of(item)
        if not of_class:
            first = self._first_other
            self._first_other = index if first is None else min(index, first)
        if is_shown:
            self._kept[index] = item
            self._samples.append(self.sample(index, item, time_ms, of_class))
        elif len(self._distinct) <= _MOST_CLASSES and self._class_samples.wants(of_class):
            self._class_samples.add(self.sample(index, item, time_ms, of_class))
        return True

    def sample(self, index: int, item: Any, time_ms: float, of_class: str) -> SamplePreview:
        """Return an item for display."""
        target = item[1] if _is_pair(item) else None
        text = "" if target is None else target_text(target, self._names)
        return SamplePreview(index, parts(parts_of(item)), text, time_ms, of_class)

    def _fault(self, fault: SampleError) -> None:
        self._fault_count += 1
        self._faults.append(fault)
        # The first ones by number, in any order of reading.
        self._faults.sort(key=lambda one: one.index or 0)
        del self._faults[self._most_faults :]

    def _is_bad(self, array: Array) -> bool:
        """Count NaN and infinite values; return whether there is one."""
        if array.dtype.kind not in "fc" or numpy.isfinite(array).all():
            return False
        nan = int(numpy.isnan(array).sum())
        self._nan += nan
        self._infinite += int((~numpy.isfinite(array)).sum()) - nan
        return True

    def _add(self, path: str, array: Array) -> None:
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
        self._measured.add(path)
        waiting = self._waiting.setdefault((path, len(rows), rows.dtype.str), [])
        waiting.append(rows[:_MOST_CHANNELS].copy())
        if len(waiting) * rows.size >= _AT_ONCE:
            self._sum_up(path, waiting)

    def _sum_up(self, path: str, waiting: list[Array]) -> None:
        if waiting:
            for number, row in enumerate(numpy.concatenate(waiting, axis=1)):
                self._sums.setdefault((path, number), ChannelSpread()).add(row)
            waiting.clear()

    def class_of(self, item: Any) -> str:
        """Count the item for its class and return its name, "" if its target is not one."""
        key: str | int
        if not _is_pair(item):
            return ""
        target = item[1]
        if isinstance(target, Mapping) and "boxes" in target:
            boxes = as_array(target["boxes"])
            self._without_boxes += boxes is not None and not boxes.size
        array = None if isinstance(target, str) else as_array(target)
        if target is None or isinstance(target, str):
            key = (target or "").strip()
        elif array is not None and array.size == 1 and array.dtype.kind in "biu":
            key = int(array.reshape(-1)[0])
        else:
            return ""
        self._labelled += 1
        self._distinct.add(hash(key))
        if len(self._distinct) <= _MOST_CLASSES:
            self._classes[key] += 1
        return self._name(key)

    @property
    def _repeats(self) -> bool:
        """Return whether targets are of classes: named ones, or values that repeat."""
        return bool(self._names) or 2 * len(self._distinct) <= self._labelled

    @property
    def _has_classes(self) -> bool:
        is_few = 0 < len(self._distinct) <= _MOST_CLASSES and self._distinct != {hash("")}
        return self._first_other is None and is_few and self._repeats

    def _class_counts(self) -> tuple[ClassCount, ...]:
        if not self._has_classes:
            return ()
        ordered = sorted(self._classes.items(), key=lambda kv: (isinstance(kv[0], str), kv[0]))
        return tuple(ClassCount(self._name(key), count) for key, count in ordered)

    def _name(self, key: str | int) -> str:
        if isinstance(key, int) and 0 <= key < len(self._names):
            return self._names[key]
        return _NO_LABEL if key == "" else str(key)[:_CLASS_NAME]

    def _try_batch(self) -> None:
        """Check that the first items make a batch, as training makes it."""
        items = [self._kept[index] for index in sorted(self._kept)][:4]
        if not items:
            return
        self._report("Making a batch…")
        try:
            with tool_protocol.at_most(30):
                split_batch(self._data.collate(items))
        except tool_protocol.OutOfTime:
            self._fault_count += 1
            self._faults.append(SampleError("A batch of 4 items was not made within 30 s."))
            return
        except UserCodeError as error:
            self._fault_count += 1
            self._faults.append(SampleError(error.message, error.remedy, None, error.traceback))
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
                first, second = (_shape_words(shape) for shape in list(dict.fromkeys(shapes))[:2])
                self._fault_count += 1
                self._faults.append(
                    SampleError(
                        f"Items of {self._data.class_name} have different shapes at {path}, so "
                        f"they cannot form a batch: {first} and {second}.",
                        "Bring them to one shape, or add a method collate(self, items) to "
                        f"{self._data.class_name}.",
                    )
                )
                return

    def set_warnings(self) -> Iterator[str]:
        """Yield findings on the set: what its loader left out or guessed, targets, classes."""
        yield from self._data.reading_notes()
        if self._without_boxes > _SHARE_WITHOUT_BOXES * len(self._times_ms):
            count = number_format.count_of(self._without_boxes, len(self._times_ms))
            yield f"{count} samples have no box; a model learns from them that there is nothing."
        if self._distinct and self._first_other is not None:
            yield (
                "The classes are not shown, because some targets are of no class, first that of "
                f"sample {number_format.count(self._first_other)}."
            )
        elif len(self._distinct) > _MOST_CLASSES and self._repeats:
            yield (
                f"The classes are not shown: there are {number_format.count(len(self._distinct))}, "
                f"and the limit is {number_format.count(_MOST_CLASSES)}."
            )
        if not self._has_classes:
            return
        if empty := self._classes[""]:
            yield f"{number_format.count_of(empty, self._labelled)} samples have no label."
        if len(self._classes) == 1 and self._labelled > 1:
            name = self._name(next(iter(self._classes)))
            seen = number_format.count(self._labelled)
            yield (
                f"All {seen} samples read are of one class ({name}); a model cannot learn from "
                "that."
            )
        rare = rare_class_warning(self._class_counts())
        if rare:
            yield rare

    def _warnings(self) -> Iterator[str]:
        yield from self.set_warnings()
        if len(self._measured) == _MOST_MEASURED:
            yield f"Statistics are shown for the first {_MOST_MEASURED} parts of a sample."
        if self._nan or self._infinite:
            kinds = " and ".join(
                f"{number_format.count(number)} {word}"
                for number, word in ((self._nan, "NaN"), (self._infinite, "infinite"))
                if number
            )
            yield (
                f"The data contains NaN or infinite values ({kinds}), first in item "
                f"{number_format.count(min(self._bad_items))}, so the loss will be NaN too."
            )


def _has_columns(array: Array) -> bool:
    """Return whether each column of the array has its own meaning, as in a table."""
    return array.ndim == 1 and 0 < array.size <= _MOST_CHANNELS


def _is_measured(path: str, array: Array) -> bool:
    """Return whether values have a mean: data and measured targets, not a class or a mask."""
    if path.startswith("target"):
        return array.dtype.kind == "f" and (array.ndim == 0 or _has_columns(array))
    return True


def _is_pair(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 2


def _shape_words(shape: tuple[int, ...] | None) -> str:
    return "no array" if shape is None else str(list(shape))


def class_names(dataset: Any) -> list[str]:
    """Return ``dataset.classes``, by the convention of torchvision."""
    names = getattr(dataset, "classes", None)
    if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
        return [name[:_CLASS_NAME] for name in names[:_MOST_CLASSES]]
    return []


def value_columns(dataset: Any) -> dict[str, list[tuple[str, float, float]]]:
    """Return ``dataset.value_columns``: name, offset and factor of each number of a part, by path.

    Of a scaled column, offset + factor × value is in the units of the file.
    """
    found = getattr(dataset, "value_columns", None)
    try:
        return {
            str(path): [(str(n)[:_CLASS_NAME], float(a), float(b)) for n, a, b in columns]
            for path, columns in (found if isinstance(found, Mapping) else {}).items()
        }
    except (TypeError, ValueError) as error:
        swallowed(error)
        return {}


def evenly(count: int, wanted: int) -> list[int]:
    return [number * count // wanted for number in range(wanted)]


def _order(count: int, first: list[int]) -> Iterator[int]:
    """Yield every index once, ``first`` before the others; each part of it covers the whole set."""
    yield from (first[number] for number in _scattered(len(first)))
    done = set(first)
    yield from (index for index in _scattered(count) if index not in done)


def _scattered(count: int) -> Iterator[int]:
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
