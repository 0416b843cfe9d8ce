"""Curves from what a script writes anyway, read from the end of the last read.

JSON lines on stdout or in a file, the CSV of Lightning and of Ultralytics, Hugging Face's
``trainer_state.json``, and the event files of TensorBoard. Nothing is guessed: a value counts where
a name and a step or an epoch stand beside it.
"""

from __future__ import annotations

import csv
import json
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from backend.base.log import suppress

_STEPS = ("step", "global_step", "iter", "iteration")
_EPOCHS = ("epoch",)
_TOTALS = ("total_steps", "max_steps", "num_steps", "total_iters")
_NO_METRICS = (
    *_STEPS,
    *_EPOCHS,
    *_TOTALS,
    "epochs",
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
    """Values of metrics at a step. ``epoch`` and ``total_steps`` are 0 if they are not known."""

    step: int
    epoch: int
    metrics: Mapping[str, float]
    total_steps: int = 0


@dataclass
class _Source:
    """A file that is read on; ``steps_before`` are those of an earlier count from the start."""

    path: Path
    offset: int = 0
    head: list[str] = field(default_factory=list)
    last_step: int = 0
    steps_before: int = 0
    last_of: dict[str, int] = field(default_factory=dict)

    def at(self, step: int, names: Iterable[str] = ()) -> int:
        """Return a step of metrics in the whole count; one that lags counts at the newest step."""
        # One metric may be counted in steps and another in epochs.
        if any(step < self.last_of.get(name, 0) for name in names):
            self.steps_before += self.last_step
            self.last_of, self.last_step = {}, 0
        self.last_of.update(dict.fromkeys(names, step))
        self.last_step = max(self.last_step, step)
        return self.steps_before + self.last_step

    def lines(self) -> Iterator[str]:
        """Yield the complete lines that were added."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self.offset:
                # Written from its start again, as by a program that resumes.
                self.offset, self.head = 0, []
                self.last_of, self.last_step, self.steps_before = {}, 0, 0
            file.seek(self.offset)
            added = file.read(_MOST_BYTES)
        end = added.rfind(b"\n") + 1
        if not end and len(added) > _LONGEST_LINE:
            # A line without an end, such as a file of bytes.
            end = len(added)
        self.offset += end
        for line in added[:end].splitlines():
            if len(line) <= _LONGEST_LINE:
                yield line.decode("utf-8", "replace")


class ScriptMetrics:
    """The points that a script has written since the last `poll`."""

    def __init__(self, log: Path, log_begin: int, folders: Iterable[Path], own: Path) -> None:
        """``own`` is a folder of ours in one of the ``folders``."""
        self._log = _Source(log, log_begin)
        self._folders = tuple(folders)
        self._own = own
        self._sources: dict[Path, _Source] = {}

    def poll(self) -> list[Point]:
        points = list(self._read(self._log, _from_lines))
        for path in self._files():
            source = self._sources.setdefault(path, _Source(path))
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
        if not line.lstrip().startswith("{"):
            continue
        with suppress(ValueError, RecursionError):
            raw = json.loads(line)
            if isinstance(raw, dict) and (point := _point(source, raw)) is not None:
                yield point


def _from_csv(source: _Source) -> Iterator[Point]:
    for line in source.lines():
        values = [one.strip() for one in next(csv.reader([line]), [])]
        if not source.head:
            source.head = values
        elif (point := _point(source, dict(zip(source.head, values, strict=False)))) is not None:
            yield point


def _from_state(source: _Source) -> Iterator[Point]:
    """Read the whole file again: the Trainer replaces it; ``offset`` counts its entries."""
    raw = json.loads(source.path.read_bytes())
    entries = raw["log_history"]
    new, source.offset = entries[source.offset :], len(entries)
    for one in new:
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
    place = epoch if step is None else step
    metrics = {key: value for key, value in numbers.items() if key not in _NO_METRICS}
    if place is None or place < 0 or not metrics or not math.isfinite(place):
        return None
    total = next((numbers[key] for key in _TOTALS if key in numbers), 0)
    return Point(
        source.at(int(place), metrics),
        math.ceil(epoch or 0),
        metrics,
        int(total) if total > 0 else 0,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value in (None, ""):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        # A text such as a name: no metric.
        return None
