"""Curves from what a script writes anyway, read from the end of the last read.

JSON lines on stdout or in a file, the CSV of Lightning and of Ultralytics, Hugging Face's
``trainer_state.json``, the event files of TensorBoard, and the numbers of the log that the user
marked (`backend.records.jobs.log_numbers`). Nothing is guessed: a value counts where a name and a
step or an epoch are given with it; lines with marked numbers are counted if they have no step.
"""

from __future__ import annotations

import csv
import json
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base.terminal_text import plain
from backend.records.jobs.log_numbers import numbers_of

_STEPS = ("step", "global_step", "iter", "iteration")
_EPOCHS = ("epoch",)
_TOTALS = ("total_steps", "max_steps", "num_steps", "total_iters")
_EPOCH_TOTALS = ("epochs", "total_epochs", "max_epochs", "num_epochs", "num_train_epochs")
_NO_METRICS = (
    *_STEPS,
    *_EPOCHS,
    *_TOTALS,
    *_EPOCH_TOTALS,
    "time",
    "timestamp",
    "total_flos",
    "wall_time",
)
_MOST_BYTES = 4_000_000
"""Of one file at once; the rest is read the next time."""
_LONGEST_LINE = 100_000
_MOST_FILES = 5_000
_JSON_LINES = ("*.jsonl", "log.json", "*.log.json")
_CSV = ("metrics.csv", "results.csv")
_EVENTS = "events.out.tfevents.*"
_STATE = "trainer_state.json"


@dataclass(frozen=True)
class Point:
    """Values of metrics at a step. ``epoch`` and the totals are 0 if they are not known."""

    step: int
    epoch: int
    metrics: Mapping[str, float]
    total_steps: int = 0
    total_epochs: int = 0


@dataclass
class _Source:
    """A file that is read on; ``steps_before`` are those of an earlier count from the start.

    ``first_epoch`` is 0 if the script counts its epochs from 0; ``marked`` are the step, the epoch
    and the totals that were marked last, ``count`` the lines with other marked numbers.
    """

    path: Path
    offset: int = 0
    head: list[str] = field(default_factory=list)
    last_step: int = 0
    last_of: dict[str, int] = field(default_factory=dict)
    steps_before: int = 0
    first_epoch: int = 1
    patterns: Sequence[str] = ()
    marked: dict[str, float] = field(default_factory=dict)
    count: int = 0
    seen: set[str] = field(default_factory=set)

    def at(self, step: int, names: Iterable[str] = ()) -> int:
        """Return a step of metrics in the whole count; one that lags counts at the newest step."""
        # One metric may be counted in steps and another in epochs.
        if any(step < self.last_of.get(name, 0) for name in names):
            self.steps_before += self.last_step
            self.last_of, self.last_step = {}, 0
        self.last_of.update(dict.fromkeys(names, step))
        self.last_step = max(self.last_step, step)
        return self.steps_before + self.last_step

    def begin(self) -> None:
        """Forget the steps that were read."""
        self.last_of, self.last_step, self.steps_before = {}, 0, 0

    def lines(self) -> Iterator[str]:
        """Yield the complete lines that were added."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self.offset:
                # Written from its start again, as by a program that resumes.
                self.offset, self.head = 0, []
                self.begin()
            file.seek(self.offset)
            added = file.read(_MOST_BYTES)
        # A progress bar writes its line again and again, without an end.
        end = max(added.rfind(b"\n"), added.rfind(b"\r")) + 1
        if not end and len(added) > _LONGEST_LINE:
            # A line without an end, such as a file of bytes.
            end = len(added)
        self.offset += end
        for line in added[:end].splitlines():
            if len(line) <= _LONGEST_LINE:
                yield line.decode("utf-8", "replace")


class ScriptMetrics:
    """The points that a script has written since the last `poll`."""

    def __init__(
        self,
        log: Path,
        log_begin: int,
        folders: Iterable[Path],
        own: Path,
        patterns: Sequence[str] = (),
        steps_before: int = 0,
    ) -> None:
        """Begin with what is written from now on; what is in the ``folders`` is from before.

        Args:
            log, log_begin: The log, and where this run begins in it.
            folders: What the script writes to.
            own: A folder of ours in one of the ``folders``.
            patterns: Of the numbers in the log.
            steps_before: The lines with marked numbers are counted from here.
        """
        self._log_begin = log_begin
        self._log = _Source(log, log_begin)
        self._folders = tuple(folders)
        self._own = own
        self._lines_before = steps_before
        self._sources: dict[Path, _Source] = {}
        while self._read_files():
            pass
        for source in self._sources.values():
            source.begin()
        self.mark(patterns)

    def mark(self, patterns: Sequence[str]) -> None:
        """Find other numbers in the log, from the beginning of the run."""
        begin = self._log_begin if patterns else self._log.offset
        self._log = _Source(self._log.path, begin, patterns=patterns, count=self._lines_before)

    def poll(self) -> list[Point]:
        return [*self._read(self._log, _from_lines), *self._read_files()]

    def _read_files(self) -> list[Point]:
        points = []
        for path in self._files():
            # Each checkpoint of Hugging Face has the whole history.
            name = _STATE if path.name == _STATE else path.name
            inner = path.name == _STATE and path.parent.name.startswith("checkpoint-")
            key = (path.parent.parent if inner else path.parent) / name
            source = self._sources.setdefault(key, _Source(path))
            source.path = path
            points += self._read(source, _reader_of(path.name))
        return points

    @staticmethod
    def _read(source: _Source, read: Any) -> list[Point]:
        found: list[Point] = []
        # A file may be gone, or not be what its name says; what it said before counts.
        with suppress(OSError, ValueError, KeyError, TypeError, csv.Error):
            found.extend(read(source))
        return found

    def _files(self) -> Iterator[Path]:
        left = _MOST_FILES
        for folder in self._folders:
            for place, folders, names in os.walk(folder):
                folders[:] = [one for one in folders if Path(place, one) != self._own]
                for name in names:
                    left -= 1
                    if _reader_of(name) is not None:
                        yield Path(place, name)
                if left < 0:
                    return


def _reader_of(name: str) -> Any:
    if name == _STATE:
        return _from_state
    if name in _CSV:
        return _from_csv
    if fnmatch(name, _EVENTS):
        return _from_events
    return _from_lines if any(fnmatch(name, one) for one in _JSON_LINES) else None


def _from_lines(source: _Source) -> Iterator[Point]:
    for line in source.lines():
        if source.patterns and (point := _marked(source, plain(line))) is not None:
            yield point
        if not line.lstrip().startswith("{"):
            continue
        with suppress(ValueError, RecursionError):
            raw = json.loads(line)
            if isinstance(raw, dict) and (point := _point(source, raw)) is not None:
                yield point


def _marked(source: _Source, line: str) -> Point | None:
    """Return the marked numbers of a line; its epoch may be in a line before it."""
    found = numbers_of(source.patterns, line)
    source.marked.update({key: value for key, value in found.items() if key in _NO_METRICS})
    if found.keys() <= {*_NO_METRICS}:
        return None
    source.count += 1
    count = {} if any(key in source.marked for key in _STEPS) else {"step": source.count}
    return _point(source, {**count, **source.marked, **found})


def _from_csv(source: _Source) -> Iterator[Point]:
    for line in source.lines():
        values = [one.strip() for one in next(csv.reader([line]), [])]
        if not source.head:
            source.head = values
        elif (point := _point(source, dict(zip(source.head, values, strict=False)))) is not None:
            yield point


def _from_state(source: _Source) -> Iterator[Point]:
    """Read the whole file again: the Trainer replaces it."""
    raw = json.loads(source.path.read_bytes())
    for one in raw["log_history"]:
        if (text := json.dumps(one)) in source.seen:
            continue
        source.seen.add(text)
        point = _point(source, {**one, "max_steps": raw.get("max_steps", 0)})
        if point is not None:
            yield point


def _from_events(source: _Source) -> Iterator[Point]:
    """Read TensorBoard's records: 8 bytes of length, 4 of its check, the event, 4 of its check."""
    from tensorboardX.proto.event_pb2 import Event

    with source.path.open("rb") as file:
        file.seek(source.offset)
        added = file.read(_MOST_BYTES)
    at = 0
    while len(added) >= at + 12:
        length = struct.unpack_from("<Q", added, at)[0]
        if len(added) < at + length + 16:
            break
        event = Event.FromString(added[at + 12 : at + 12 + length])
        at += length + 16
        source.offset += length + 16
        raw = {one.tag: _scalar(one) for one in event.summary.value}
        if (point := _point(source, {**raw, "step": event.step})) is not None:
            yield point


def _scalar(value: Any) -> float:
    if value.HasField("simple_value"):
        return float(value.simple_value)
    return float(value.tensor.float_val[0]) if value.tensor.float_val else math.nan


def _point(source: _Source, raw: Mapping[str, Any]) -> Point | None:
    numbers = {key: value for key, one in raw.items() if (value := _number(one)) is not None}
    step = next((numbers[key] for key in _STEPS if key in numbers), None)
    epoch = next((numbers[key] for key in _EPOCHS if key in numbers), None)
    if epoch == 0 and source.path.name != _STATE:
        source.first_epoch = 0
    if epoch is not None:
        epoch = math.ceil(epoch) if math.isfinite(epoch) else 0.0
        epoch += 1 - source.first_epoch
    place = epoch if step is None else step
    metrics = {key: value for key, value in numbers.items() if key not in _NO_METRICS}
    if place is None or place < 0 or not metrics or not math.isfinite(place):
        return None
    total, epochs = (
        next((int(numbers[key]) for key in keys if 0 < numbers.get(key, 0) < math.inf), 0)
        for keys in (_TOTALS, _EPOCH_TOTALS)
    )
    if step is None:
        total = total or epochs
    return Point(source.at(int(place), metrics), int(epoch or 0), metrics, total, epochs)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value in (None, ""):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        # A text such as a name: no metric.
        return None
