"""Curves from the files of a script (`curve_formats`) and its log.

A value counts if it has a name and a step or an epoch. Each value is drawn at its step, also if it
is read late. In the log, JSON lines count, the numbers that the user marked
(`backend.records.jobs.log_numbers`), and, if the script writes no other numbers, those in lines
such as ``Epoch 3/60 loss: 0.2``. Values of one name in two files are two curves, named by their
files, unless they are equal at all common steps.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backend.base.log import suppress
from backend.records.base.cells import MISSING_NUMBERS
from backend.records.base.terminal_text import strip_codes
from backend.records.jobs.log_numbers import is_metric_name, numbers_of
from backend.training.curve_formats import (
    EPOCH_TOTALS,
    EPOCHS,
    GROUPS,
    NO_METRICS,
    NUMBERED_STEM,
    SERIES,
    STEPS,
    TOTALS,
    CurveFile,
    Row,
    flatten_row,
    has_position,
    is_series,
    json_object,
    named_value,
    normalized,
    number_of,
    position_kind,
    series_of,
)
from backend.training.log_reader import LogReader

_MAX_FILES = 5_000
_TOLERANCE = 1e-4
"""Relative difference below which the values of two files are equal, as a file may round."""
_CHECKPOINT = re.compile(r"checkpoint-\d+")
"""Pattern of Hugging Face's checkpoint folders, each of which has the whole history."""
_Key = tuple[tuple[str, ...], str, str]
"""The path of a file in parts, and the series and the group of a row in it (`GROUPS`)."""
_Curve = tuple[str, _Key]
_LOG_PATH = ("printed",)
_TEXT_PATH = ("printed", "text")
_FILE_TEXT_PATH = ("written", "text")
_LINES_PATH = ("printed", "lines")
_LOG_PATHS: tuple[tuple[str, ...], ...] = (_LOG_PATH, _TEXT_PATH, _FILE_TEXT_PATH, _LINES_PATH)
"""Of the numbers in logs: JSON and marked ones, text with a step or an epoch, that of a file, and
text without; each gives way to those before it."""
_LOG_SUFFIXES = (".log", ".txt", ".out", ".ini")
_NUMBERS_WITHIN_LINES = 1_000
_COUNTS = ("epoch", "step")
_REPEATS: Mapping[tuple[str, ...], int] = {_TEXT_PATH: 2, _FILE_TEXT_PATH: 2, _LINES_PATH: 5}
"""Times that a name occurs in the text before it makes a curve."""


@dataclass(frozen=True)
class Point:
    """Values of metrics at a step. ``epoch`` and the totals are 0 if they are not known."""

    step: int
    epoch: int
    metrics: Mapping[str, float]
    total_steps: int = 0
    total_epochs: int = 0
    is_restart: bool = False
    """Whether all earlier points are void."""


@dataclass
class _StepCounter:
    """Counter of the steps of a file; ``steps_before`` are those of an earlier count.

    ``first_epoch`` is 0 if the script counts its epochs from 0; ``row_hashes`` are those of the
    rows read until now, in case the file is written again.
    """

    row_hashes: set[int]
    last_step: int = 0
    last_steps: dict[tuple[str, ...], int] = field(default_factory=dict)
    steps_before: int = 0
    first_epoch: int = 1
    last_epoch: int = 0
    first_step: int | None = None
    step_interval: int = 1
    header_count: int = 0
    counters: dict[str, _StepCounter] = field(default_factory=dict)
    """Of each series in the file, such as a fold, which counts from the start again."""

    def of_series(self, name: str) -> _StepCounter:
        """Return the counter of a series; this one for rows that belong to none."""
        return self.counters.setdefault(name, _StepCounter(self.row_hashes)) if name else self

    def count_step(
        self, step: int, epoch: int, kind: tuple[str, ...], header_count: int = 0
    ) -> int:
        """Return a step in the whole count; a late step counts at the newest step.

        A count that goes back to its start begins again, as in the next epoch. One that goes back
        to a later step is that of a program that has resumed: the steps from there are made again.

        Args:
            kind: The names in the row: rows of training may be counted in steps, and rows of
                validation in epochs.
            header_count: The headers of the file above the row.
        """
        # A count within an epoch may have a single step.
        min_step = step if 0 < self.last_epoch < epoch else step + 1
        if self.first_step is None:
            self.first_step = step
        if self.last_steps.get(kind, -1) >= min_step or header_count > self.header_count > 0:
            is_resumed = self.first_step < step and epoch <= self.last_epoch
            # A count from 0 has a step more than its last number says.
            gap = self.step_interval if step == 0 else 0
            self.steps_before += 0 if is_resumed else self.last_step + gap
            self.last_steps, self.last_step = {}, 0
        self.last_epoch, self.header_count = epoch, header_count
        self.last_steps[kind] = step
        self.step_interval = step - self.last_step if step > self.last_step else self.step_interval
        self.last_step = max(self.last_step, step)
        return self.steps_before + self.last_step

    def count_epoch(self, epoch: float | None) -> int | None:
        """Return an epoch counted from 1.

        Parts of an epoch are counted from 0.0, and belong to the epoch that they end in.
        """
        if epoch is None:
            return None
        if epoch == 0 or epoch % 1:
            self.first_epoch = 1 if epoch % 1 else 0
        return (math.ceil(epoch) if math.isfinite(epoch) else 0) + 1 - self.first_epoch

    def restart(self) -> None:
        """Forget the steps that were read."""
        self.last_steps, self.last_step, self.steps_before = {}, 0, 0
        self.first_step = None
        self.counters.clear()


@dataclass(frozen=True)
class _PositionedRow:
    """A row with its position; ``step`` is None for a row that is counted in epochs."""

    series: str
    group: str
    metrics: Mapping[str, float]
    columns: Sequence[str]
    step: float | None
    epoch: int
    total_steps: int
    total_epochs: int

    @classmethod
    def from_row(cls, row: Row, counter: _StepCounter) -> _PositionedRow | None:
        """Return the row; None if it has no values, or no position that can be counted."""
        values = named_value(flatten_row(row))
        series = series_of(values)
        counter = counter.of_series(series)
        group = next((str(values[key]) for key in GROUPS if isinstance(values.get(key), str)), "")
        numbers = {key: number for key in values if (number := number_of(values[key])) is not None}
        metrics = {
            key: value
            for key, value in numbers.items()
            if not (normalized(key) in NO_METRICS or position_kind(key) or is_series(key))
        }
        positions = {normalized(key): value for key, value in numbers.items() if key not in metrics}
        step = _position_in(positions, "step", STEPS)
        epoch = counter.count_epoch(_position_in(positions, "epoch", EPOCHS))
        position = epoch if step is None else step
        if position is None or not 0 <= position < math.inf or not metrics:
            return None
        total_steps, total_epochs = (
            next((int(positions[key]) for key in keys if 0 < positions.get(key, 0) < math.inf), 0)
            for keys in (TOTALS, EPOCH_TOTALS)
        )
        columns = _columns(values, metrics)
        return cls(series, group, metrics, columns, step, epoch or 0, total_steps, total_epochs)

    @property
    def position(self) -> int:
        return self.epoch if self.step is None else int(self.step)

    @property
    def content_hash(self) -> int:
        return hash((self.series, self.group, self.step, self.epoch, *self.metrics.items()))


class ScriptMetrics:
    """Points of the curves that a script has written."""

    def __init__(
        self,
        log: Path,
        log_begin: int,
        folders: Iterable[Path],
        own_folder: Path,
        patterns: Sequence[str] = (),
        steps_before: int = 0,
        epochs_before: int = 0,
    ) -> None:
        """Begin with the rows that are written from now on, and not those in the ``folders``.

        Args:
            log, log_begin: The log, and the offset at which this run begins in it.
            folders: The folders in which the script writes.
            own_folder: A folder of Ringmaster in one of the ``folders``.
            patterns: The patterns of the numbers in the log.
            steps_before: The first count of the lines with marked numbers.
            epochs_before: The epochs in which these steps were made, 0 if they are not known.
        """
        self._log_path, self._log_begin = log, log_begin
        self._folders = tuple(folders)
        self._own_folder = own_folder
        self._lines_before = steps_before
        self._steps_per_epoch = steps_before / epochs_before if epochs_before else 1.0
        self._files: dict[Path, tuple[CurveFile, _StepCounter]] = {}
        self._shared_counters: dict[Path, _StepCounter] = {}
        """Of the files that have a part of the same rows, by their path without its number."""
        self._file_readers: dict[Path, LogReader] = {}
        self._text_file: Path | None = None
        self._unread_files: set[Path] = set()
        self._row_hashes: dict[Path, set[int]] = {}
        self._clear()
        self.use_patterns(patterns)
        while self._read_files():
            pass
        for _, counter in self._files.values():
            counter.restart()
        self._clear()
        self.use_patterns(patterns)

    def _clear(self) -> None:
        self._steps: dict[int, dict[_Curve, float]] = {}
        self._positions: dict[int, tuple[int, int, int]] = {}
        """The epoch and the totals of steps and epochs of each step."""
        self._epoch_ends: dict[int, int] = {}
        """The last step of each epoch, by the files that count steps."""
        self._keys: dict[str, list[_Key]] = {}
        self._hashes_by_path: dict[tuple[str, ...], set[int]] = {}
        self._agreements: dict[tuple[str, _Key, _Key], bool] = {}
        self._names: dict[_Curve, str] = {}
        self._changed_steps: set[int] = set()
        self._last_polled_step = -1
        self._is_restart = False
        self._first_step = 0
        """The first step of a run that resumes, which leaves earlier steps unchanged."""

    def use_patterns(self, patterns: Sequence[str]) -> None:
        """Find other numbers in the log, from the beginning of the run."""
        self._log = CurveFile(self._log_path, self._log_begin)
        self._log_counters = {path: _StepCounter(set()) for path in _LOG_PATHS}
        self._log_reader = LogReader()
        self._patterns = patterns
        self._marked_numbers: dict[str, float] = {}
        self.unmatched_patterns = [*patterns]
        """Those that find a number in no line of this run."""
        self._line_count = self._lines_before
        self._text_rows: dict[tuple[str, ...], list[Row]] = {path: [] for path in _REPEATS}
        self._within_counts = dict.fromkeys(_REPEATS, self._lines_before)
        """The lines of parts of epochs, by the path of the text."""
        self._names_within: dict[tuple[str, ...], Collection[str]] = {}
        """The names in the last row with a part of an epoch, such as 0.5."""
        self._name_counts = Counter[str]()
        self._newest_text_step = -1.0
        self._names_by_curve: dict[tuple[str, str], frozenset[str]] = {}
        """The names in the first line of the newest step with a metric."""
        self._remove(_LOG_PATHS)

    def _remove(self, paths: Collection[tuple[str, ...]]) -> None:
        """Remove the curves from these paths."""
        for step, values in self._steps.items():
            for curve in [curve for curve in values if curve[1][0] in paths]:
                del values[curve]
                self._changed_steps.add(step)
                self._positions[step] = (0, 0, 0)
        for keys in self._keys.values():
            keys[:] = [key for key in keys if key[0] not in paths]

    @property
    def read_bytes(self) -> int:
        """The size of what was read of the log and the files."""
        files = [file for file, _ in self._files.values()]
        return self._log.read_bytes + sum(file.read_bytes for file in files)

    @property
    def unread_log_bytes(self) -> int:
        with suppress(OSError):
            return self._log_path.stat().st_size - self._log.read_bytes
        return 0

    def poll(self, *, is_over: bool = False) -> list[Point]:
        """Return the new points, from the first step with another value or name on.

        Args:
            is_over: The script has ended, so that no other numbers can come.
        """
        # The log may be gone with its disk for a while.
        with suppress(OSError):
            self._read_log(is_over)
        self._read_files()
        self._add_text_rows(is_over)
        names = {
            (tag, key): name
            for tag, keys in self._keys.items()
            for key, name in self._name_curves(tag, keys)
        }
        if any(names.get(curve) != name for curve, name in self._names.items()):
            self._changed_steps.add(min(self._steps))
        self._names = names
        if not self._changed_steps:
            return []
        start = min(self._changed_steps)
        if self._lines_before and self._last_polled_step < 0:
            self._first_step = start
        if start <= self._last_polled_step:
            self._changed_steps.update(step for step in self._steps if step >= start)
        steps, self._changed_steps = sorted(self._changed_steps), set()
        self._last_polled_step = steps[-1]
        points: list[Point] = []
        is_restart, self._is_restart = self._is_restart, False
        for step in steps:
            epoch, total_steps, total_epochs = self._positions[step]
            curves = self._steps[step].items()
            metrics = {names[curve]: value for curve, value in curves if names.get(curve)}
            # A first step that has lost its values stands for those after it.
            if metrics or (step == start <= self._last_polled_step and not is_restart):
                is_first = is_restart and not points
                points.append(Point(step, epoch, metrics, total_steps, total_epochs, is_first))
        self._is_restart = is_restart and not points
        return points

    def _add_text_rows(self, is_over: bool) -> None:
        """Add the numbers of text if there are no others; remove them when others come.

        A name that occurs once, such as in a line about the start, makes no curve.
        """
        for path, rows in self._text_rows.items():
            weaker_paths = _LOG_PATHS[_LOG_PATHS.index(path) :]
            paths = {key[0] for keys in self._keys.values() for key in keys}
            if not paths.issubset(weaker_paths):
                if path in paths:
                    self._remove((path,))
                    self._changed_steps.update(self._steps)
                    self._is_restart = True
                rows.clear()
                continue
            names = Counter(
                name for row in rows for name in row if name not in (*NO_METRICS, SERIES)
            )
            is_last = is_over and path != _LINES_PATH
            if path in paths or is_last or max(names.values(), default=0) >= _REPEATS[path]:
                if path not in paths and _is_of_settings(rows):
                    del rows[0]
                for row in rows:
                    # A line about the best epoch repeats its values.
                    self._add(path, self._log_counters[path], row, may_be_known=True)
                rows.clear()

    def _read_files(self) -> int:
        """Return the number of rows."""
        count = 0
        for path in self._paths():
            if path not in self._files:
                in_checkpoint = _CHECKPOINT.fullmatch(path.parent.name)
                original_path = path.parents[1] / path.name if in_checkpoint else path
                row_hashes = self._row_hashes.setdefault(original_path, set())
                counter = _StepCounter(row_hashes)
                if NUMBERED_STEM.search(path.stem):
                    counter = self._shared_counters.setdefault(_unnumbered(path), counter)
                self._files[path] = CurveFile(path), counter
            file, counter = self._files[path]
            # A file may be removed, or have another format than its start; its old rows count.
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, csv.Error):
                was_rewritten = file.was_rewritten
                for row in file.rows():
                    if file.was_rewritten and not was_rewritten:
                        was_rewritten = True
                        counter.restart()
                    key = self._key_of(path, file)
                    # TensorBoard's tags are counted by themselves: epochs in one, steps in another.
                    row_counter = counter.of_series("\0".join(row)) if file.is_events else counter
                    count += self._add(key, row_counter, row, was_rewritten, file.header_count)
                is_log = path.suffix in _LOG_SUFFIXES and path not in self._unread_files
                if is_log and not file.has_format:
                    self._read_text(path, file)
        return count

    def _read_text(self, path: Path, file: CurveFile) -> None:
        """Read a log that the script writes itself, the first that has numbers near its start."""
        reader = self._file_readers.setdefault(path, LogReader())
        for count, line in enumerate(file.lines()):
            if count > _NUMBERS_WITHIN_LINES and path != self._text_file:
                self._unread_files.add(path)
                return
            for row in reader.rows(strip_codes(line)):
                if has_position(list(row)) and self._text_file in (None, path):
                    self._text_file = path
                    self._add_text_row(row, _FILE_TEXT_PATH)

    def _key_of(self, path: Path, file: CurveFile) -> tuple[str, ...]:
        """Return the parts of a file's path; for TensorBoard's files, the parts of the folder's."""
        if _CHECKPOINT.fullmatch(path.parent.name):
            path = path.parents[1] / path.name
        # The files metrics_epoch_1 and metrics_epoch_2 are one curve.
        named_path = path.parent if file.is_events else _unnumbered(path)
        folder = next(root for root in self._folders if named_path.is_relative_to(root))
        return named_path.relative_to(folder).parts

    def _paths(self) -> Iterator[Path]:
        count = 0
        for root in self._folders:
            for folder, folders, names in os.walk(root):
                folders[:] = sorted(
                    name for name in folders if Path(folder, name) != self._own_folder
                )
                for name in sorted(names):
                    path = Path(folder, name)
                    if path.is_file():
                        yield path
                count += len(names)
                if count > _MAX_FILES:
                    return

    def _read_log(self, is_over: bool) -> None:
        for line in self._log.lines():
            row = json_object(line)
            if row is not None and has_position(list(flatten_row(row))):
                self._add(_LOG_PATH, self._log_counters[_LOG_PATH], row)
            elif self._patterns:
                text = strip_codes(line)
                self.unmatched_patterns = [
                    pattern
                    for pattern in self.unmatched_patterns
                    if not numbers_of([pattern], text)
                ]
                self._add_marked(numbers_of(self._patterns, text))
            else:
                for text_row in self._log_reader.rows(strip_codes(line)):
                    self._add_text_row(text_row)
        if is_over:
            for text_row in self._log_reader.end():
                self._add_text_row(text_row)

    def _add_text_row(self, row: Row, path: tuple[str, ...] = _TEXT_PATH) -> None:
        count: Row = {}
        if not has_position(list(row)):
            names = [name for name in row if is_metric_name(name)]
            self._name_counts.update(names)
            path = _LINES_PATH
            count = {"step": max((self._name_counts[name] for name in names), default=0)}
        elif self._is_within_epoch(row, path):
            self._within_counts[path] += 1
            count = {"step": self._within_counts[path]}
        values = {name: value for name, value in row.items() if name != "is_within_epoch"}
        self._text_rows[path].append({**count, **values})

    def _is_within_epoch(self, row: Row, path: tuple[str, ...]) -> bool:
        """Return whether an epoch has several such rows: Hugging Face counts 0.5, 1.0, 1.5."""
        names = row.keys() - {"is_within_epoch"}
        if row.get("is_within_epoch") and float(row.get("epoch", 0)) % 1:
            self._names_within[path] = names
        return bool(row.get("is_within_epoch")) or names == self._names_within.get(path)

    def _add_marked(self, numbers: Mapping[str, float]) -> None:
        """Add the marked numbers of a line; its epoch may be in a line before it."""
        self._marked_numbers.update(
            {key: value for key, value in numbers.items() if key in NO_METRICS}
        )
        if not numbers.keys() <= NO_METRICS:
            if self._line_count == self._lines_before > 0:
                # A run whose numbers were not found may lie between the runs before and this one.
                marked_numbers = self._marked_numbers
                epoch = next((marked_numbers[key] for key in EPOCHS if key in marked_numbers), 0.0)
                if 1 <= epoch < math.inf:
                    earlier_lines = round((epoch - 1) * self._steps_per_epoch)
                    self._line_count = max(self._line_count, earlier_lines)
            self._line_count += 1
            has_step = any(key in self._marked_numbers for key in STEPS)
            count = {} if has_step else {"step": self._line_count}
            self._add(
                _LOG_PATH,
                self._log_counters[_LOG_PATH],
                {**count, **self._marked_numbers, **numbers},
            )

    def _add(
        self,
        path: tuple[str, ...],
        counter: _StepCounter,
        row: Row,
        may_be_known: bool = False,
        header_count: int = 0,
    ) -> bool:
        """Add a row; return whether it has a position and values, and was not read before."""
        positioned_row = _PositionedRow.from_row(row, counter)
        if positioned_row is None:
            return False
        row_hash = positioned_row.content_hash
        if may_be_known and row_hash in counter.row_hashes:
            return False
        counter.row_hashes.add(row_hash)
        self._hashes_by_path[path] = counter.row_hashes
        series, metrics = positioned_row.series, positioned_row.metrics
        step = self._counted_step(positioned_row, counter.of_series(series), header_count)
        self._changed_steps.add(step)
        key = (path, series, positioned_row.group)
        for name, value in metrics.items():
            tag = name
            if path in _REPEATS and self._is_summary(
                (series, name), positioned_row.step, frozenset(metrics)
            ):
                if positioned_row.step is not None and (
                    not positioned_row.epoch or value == self._steps.get(step, {}).get((name, key))
                ):
                    continue
                tag = f"epoch/{name}"
            self._compare(tag, key, step, value, row_hash)
            self._steps.setdefault(step, {})[tag, key] = value
        return True

    def _counted_step(self, row: _PositionedRow, counter: _StepCounter, header_count: int) -> int:
        """Return the step of a row in the whole count; note its epoch and the totals.

        Epochs beside steps count at the last step of the epoch, or at the newest one; before the
        first step of a run that resumes, as in the runs before.
        """
        epoch, total_steps = row.epoch, row.total_steps
        step = counter.count_step(row.position, epoch, (row.group, *row.columns), header_count)
        if row.step is not None:
            self._epoch_ends[epoch] = max(step, self._epoch_ends.get(epoch, 0))
        else:
            total_steps = total_steps or (0 if self._epoch_ends else row.total_epochs)
            newest_step = max(self._epoch_ends.values(), default=0)
            if not self._epoch_ends:
                step = round(step * self._steps_per_epoch)
            step = self._epoch_ends.get(epoch, max(step, newest_step))
        step = max(step, self._first_step)
        last_epoch, *totals = self._positions.get(step, (0, 0, 0))
        self._positions[step] = (
            max(last_epoch, epoch),
            total_steps or totals[0],
            row.total_epochs or totals[1],
        )
        return step

    def _is_summary(
        self, curve: tuple[str, str], step: float | None, names: frozenset[str]
    ) -> bool:
        """Return whether a line of another kind printed the metric at this step before.

        Args:
            curve: The series and the name of the metric.
        """
        if step is None:
            return self._names_by_curve.get(curve, names) != names
        if step != self._newest_text_step:
            self._newest_text_step, self._names_by_curve = step, {}
        return self._names_by_curve.setdefault(curve, names) != names

    def _compare(self, tag: str, key: _Key, step: int, value: float, row_hash: int) -> None:
        """Record whether files with a value of one name at one step agree."""
        keys = self._keys.setdefault(tag, [])
        if key not in keys:
            keys.append(key)
        for other_key in keys if len(keys) > 1 else ():
            other_value = self._steps.get(step, {}).get((tag, other_key))
            if other_key != key and other_value is not None:
                pair = (tag, min(key, other_key), max(key, other_key))
                is_copy = other_key[0] != key[0] and row_hash in self._hashes_by_path[other_key[0]]
                are_nan = math.isnan(value) and math.isnan(other_value)
                is_same = is_copy or are_nan or math.isclose(value, other_value, rel_tol=_TOLERANCE)
                self._agreements[pair] = is_same and self._agreements.get(pair, True)

    def _name_curves(self, tag: str, keys: Sequence[_Key]) -> Iterator[tuple[_Key, str]]:
        """Yield names for the curves of one tag, except those that repeat another curve."""
        unique_keys: list[_Key] = []
        for key in keys:
            pairs = [(tag, min(key, other_key), max(key, other_key)) for other_key in unique_keys]
            if not any(self._agreements.get(pair) for pair in pairs):
                unique_keys.append(key)
        leads = self._log_reader.first_leads
        parts = [
            [*path, *filter(None, (series or leads.get(tag, ""), group))]
            for path, series, group in unique_keys
        ]
        for key, label in zip(unique_keys, _labels(parts), strict=True):
            yield key, f"{label}/{tag}" if label else tag


def _unnumbered(path: Path) -> Path:
    """Return the path of a file without its suffix, and without an epoch or a step in its name."""
    return path.with_name(NUMBERED_STEM.sub("", path.stem) or path.stem)


def _position_in(positions: Mapping[str, float], kind: str, names: Sequence[str]) -> float | None:
    """Return the step or the epoch of a row, the first of ``names`` if it has several."""
    other_names = [name for name in positions if position_kind(name) == kind]
    return next((positions[name] for name in (*names, *other_names) if name in positions), None)


def _is_of_settings(rows: Sequence[Row]) -> bool:
    """Return whether the first row is a list of settings, with the number of epochs as its epoch.

    The second row has other names, and its count begins before that of the first.
    """
    if len(rows) < 2 or rows[0].keys() == rows[1].keys():
        return False
    return any(float(rows[1].get(key, math.inf)) < float(rows[0].get(key, 0)) for key in _COUNTS)


def _columns(values: Row, metrics: Collection[str]) -> list[str]:
    """Return the names of the metrics of a row, also of those without a value in it."""
    return sorted(
        name
        for name, value in values.items()
        if name in metrics or value is None or str(value).casefold() in MISSING_NUMBERS
    )


def _labels(paths: Sequence[list[str]]) -> list[str]:
    """Return the different parts of paths: ``train`` for ``a/train/log`` beside ``a/val/log``."""
    for index in (0, -1):
        while all(paths) and len({path[index] for path in paths}) == 1:
            for path in paths:
                del path[index]
    return ["/".join(path) for path in paths]
