"""Reads ``history.toml`` on the desktop: complete blocks, from the end of the last read.

A million steps open in less than half a second because nothing here parses TOML: the file's own
encoder (`records.jobs.history`) writes one array a line, so each metric's arrays are joined and
parsed as one JSON array. tomllib took 34 s for a tenth of it in the format of the program's
predecessor.

A block that cannot be read loses only its own steps and is reported; a block that is being appended
is read next time.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from simdjson import Array, Parser

from backend.base.log import swallowed
from backend.records.jobs import history
from backend.records.jobs.history import BLOCK_END, BLOCK_START
from backend.records.jobs.history_update import HistoryUpdate, RunStart

_END = b"\n" + BLOCK_END
_BACK = (history.REPLACES.encode(), history.REPLACES_RUN.encode())
_METRIC = b"\nmetrics."
_OPENING = b" = ["
_CLOSING = ord("]")
_HEAD_BYTES = 256
_MOST_PROBLEMS = 20
_TOO_LARGE = "The history is larger than 1 GB; the rest is not shown."

# Separates two arrays that are parsed together. `records.jobs.history` writes more than nine digits
# of whole numbers only.
_FENCE = 1.2345678901
_FENCE_TEXT = b",%r," % _FENCE

_HEADER = re.compile(
    rb"\[\[entry\]\]\n"
    rb'state = "[A-Z]+"\n'
    rb"run = (\d{1,9})\n"
    rb"epoch = (\d{1,9})\n"
    rb"iter = \d{1,18}\n"
    rb"totalIter = (\d{1,18})\n"
    rb"timestamp = ([0-9T:.+Z-]{19,32})\n"
    rb'message = "([^\n]*)"\n'
    rb"first = (\d{1,18})"
)


@dataclass(frozen=True)
class HistoryCursor:
    """Position of a reader, and what it needs to continue. Opaque to all others."""

    offset: int = 0
    head: bytes = b""
    """The file's first bytes: another file of the same name is read from its start."""
    last_step: int = 0
    run: int = 0
    began: float = 0.0
    """Time of the first block; ``seconds`` counts from it."""
    reached: float = 0.0
    """Time of the last block."""


class _Block(NamedTuple):
    begin: int
    end: int
    run: int
    epoch: int
    first: int
    last: int
    time: float
    message: bytes
    openings: tuple[bytes, ...]
    """The text before each array, which contains the metric's name."""
    arrays: tuple[bytes, ...]

    @property
    def steps(self) -> int:
        return self.last - self.first + 1


# The records do not use numpy (the nodes import them), so their fields are sequences; for mypy an
# array is not a sequence.
Column = Any


def read_history(
    path: Path, cursor: HistoryCursor | None = None
) -> tuple[HistoryUpdate, HistoryCursor]:
    """Read what was appended to ``path`` since ``cursor`` (None: everything).

    A missing file is an empty history; of a larger file `history.LIMIT_BYTES` are read.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            fresh = cursor is None or not cursor.head or not head.startswith(cursor.head)
            before = HistoryCursor() if fresh or cursor is None else cursor
            size = os.fstat(file.fileno()).st_size
            file.seek(before.offset)
            data = file.read(max(0, min(size, history.LIMIT_BYTES) - before.offset))
    except FileNotFoundError:
        gone = HistoryUpdate(drop_from=0 if cursor is None or cursor.head else None)
        return gone, HistoryCursor()
    update, after = _read(data, replace(before, head=head))
    if size > history.LIMIT_BYTES and (fresh or len(update.steps)):
        update = replace(update, problems=(*update.problems, _TOO_LARGE))
    return (replace(update, drop_from=0) if fresh else update), after


def epochs_done(update: HistoryUpdate, steps_per_epoch: int) -> HistoryUpdate:
    """Add to ``update`` how many epochs were complete after each step, if that is known.

    A script may have no epochs: those are no numbers.

    Steps that this length of an epoch puts into another epoch (the job was resumed with another
    number of processes) count as the end of their own epoch.
    """
    epochs: Column = np.asarray(update.epochs)
    if len(epochs) and not epochs.all():
        known: Column = np.where(epochs, epochs, np.nan)
        return replace(update, epochs_done=known)
    if steps_per_epoch < 1 or not len(update.steps):
        return update
    done = np.asarray(update.steps) / steps_per_epoch
    place: Column = np.where(np.ceil(done) == epochs, done, epochs.astype(np.float64))
    return replace(update, epochs_done=place)


def _read(data: bytes, cursor: HistoryCursor) -> tuple[HistoryUpdate, HistoryCursor]:
    problems: list[str] = []
    blocks, length = _blocks(data, cursor, problems)
    columns = _columns(blocks, cursor.offset, problems)
    after = replace(cursor, offset=cursor.offset + length)
    if not blocks:
        return HistoryUpdate(problems=tuple(problems), began_s=cursor.began), after
    began = blocks[0].time if cursor.run == 0 else cursor.began
    last = blocks[-1]
    after = replace(after, last_step=last.last, run=last.run, began=began, reached=last.time)

    firsts = np.array([block.first for block in blocks], np.int64)
    counts = np.array([block.steps for block in blocks], np.int64)
    starts = np.cumsum(counts) - counts
    within = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    steps = np.repeat(firsts, counts) + within
    # A resumed run replaces the steps from its first step on; the lowest first step of all later
    # blocks says what remains of each block.
    lowest_later = np.append(np.minimum.accumulate(firsts[::-1])[::-1][1:], np.iinfo(np.int64).max)
    keep = steps < np.repeat(lowest_later, counts)
    everything = bool(keep.all())

    def kept(values: NDArray[Any]) -> Column:
        return values if everything else values[keep]

    lowest = int(firsts.min())
    update = HistoryUpdate(
        steps=kept(steps),
        epochs=kept(np.repeat([block.epoch for block in blocks], counts)),
        seconds=kept(_seconds(blocks, counts, within, cursor, began)),
        metrics={name: kept(values) for name, values in columns.items()},
        run_starts=_run_starts(blocks, lowest_later, cursor.run),
        drop_from=lowest if lowest <= cursor.last_step else None,
        problems=tuple(problems),
        began_s=began,
    )
    return update, after


def _blocks(data: bytes, cursor: HistoryCursor, problems: list[str]) -> tuple[list[_Block], int]:
    """Return the valid blocks, and how many bytes of ``data`` were processed."""
    blocks: list[_Block] = []
    last_step, run, begin = cursor.last_step, cursor.run, 0
    openings: tuple[bytes, ...] = ()
    while True:
        block = _block(data, begin, openings)
        if block is None:
            end = data.find(_END, begin)
            if end < 0:
                return blocks, begin
            _add_problem(problems, cursor.offset + begin)
            # A complete block may follow one that a killed writer left incomplete.
            inner = data.rfind(BLOCK_START, begin + 1, end)
            block = _block(data, inner, openings) if inner > 0 else None
            begin = end + len(_END)
            if block is None:
                continue
        begin, openings = block.end, block.openings
        # Only a later run repeats steps, and a block that says so. Any other step backwards is
        # damage, and accepting it would remove good steps. Blocks of before did not say it of a
        # script's last step.
        is_last = block.first == block.last == last_step or block.message in _BACK
        is_back = block.first <= last_step and block.run == run and run > 0
        if block.run < run or (is_back and not is_last):
            _add_problem(problems, cursor.offset + block.begin)
            continue
        last_step, run = block.last, block.run
        blocks.append(block)


def _block(data: bytes, begin: int, expected: tuple[bytes, ...]) -> _Block | None:
    """Return the complete block at ``begin``, if any; only its first array is counted.

    ``expected`` are the openings of the block before: most blocks have the same.
    """
    header = _HEADER.match(data, begin)
    if header is None:
        return None
    run, epoch, last, stamp, message, first = header.groups()
    openings: list[bytes] = []
    arrays: list[bytes] = []
    place = header.end()
    while data.startswith(_METRIC, place):
        end = data.find(b"\n", place + 1)
        opening = expected[len(openings)] if len(openings) < len(expected) else b""
        if not opening or not data.startswith(opening, place):
            opening = data[place : data.rfind(_OPENING, place, end) + len(_OPENING)]
            if not opening.endswith(_OPENING):
                return None
        if data[end - 1] != _CLOSING:
            return None
        openings.append(opening)
        arrays.append(data[place + len(opening) : end - 1])
        place = end
    count = int(last) - int(first) + 1
    if (
        not data.startswith(_END, place)
        or count < 1
        or run == b"0"
        or (arrays and arrays[0].count(b",") + 1 != count)
    ):
        return None
    try:
        time = datetime.fromisoformat(stamp.decode()).timestamp()
    except ValueError as error:
        swallowed(error)
        return None
    end, layout = place + len(_END), tuple(openings)
    numbers = (int(run), int(epoch), int(first), int(last))
    return _Block(begin, end, *numbers, time, message, layout, tuple(arrays))


def _columns(
    blocks: list[_Block], offset: int, problems: list[str]
) -> dict[str, NDArray[np.float64]]:
    """Return each metric over all ``blocks``; blocks with an invalid number are removed."""
    while True:
        try:
            return _joined(blocks)
        except _Damaged as damaged:
            _add_problem(problems, offset + blocks.pop(damaged.index).begin)


class _Damaged(Exception):
    def __init__(self, index: int) -> None:
        self.index = index


def _joined(blocks: Sequence[_Block]) -> dict[str, NDArray[np.float64]]:
    counts = np.array([block.steps for block in blocks], np.int64)
    layouts = dict.fromkeys(block.openings for block in blocks)
    columns: dict[str, NDArray[np.float64]] = {}
    for opening in dict.fromkeys(chain.from_iterable(layouts)):
        places = {layout: _index(layout, opening) for layout in layouts}
        found = [places[block.openings] for block in blocks]
        arrays = [b.arrays[at] for b, at in zip(blocks, found, strict=True) if at is not None]
        has = np.array([at is not None for at in found])
        name, values = _name(opening), _values(arrays, counts[has])
        if name is None or values is None:
            raise _Damaged(_guilty(blocks, found, name is not None))
        if len(arrays) < len(blocks):
            column = np.full(int(counts.sum()), np.nan)
            column[np.repeat(has, counts)] = values
            values = column
        columns[name] = values
    return columns


def _index(layout: tuple[bytes, ...], opening: bytes) -> int | None:
    return layout.index(opening) if opening in layout else None


def _values(arrays: Sequence[bytes], counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Parse ``arrays`` as one; None if one does not have as many numbers as ``counts`` says."""
    read = _numbers(_FENCE_TEXT.join(arrays))
    fences = np.cumsum(counts + 1)[:-1] - 1
    if read.size != int(counts.sum()) + fences.size or not (read[fences] == _FENCE).all():
        return None
    inside = np.ones(read.size, bool)
    inside[fences] = False
    return read[inside]


def _guilty(blocks: Sequence[_Block], found: Sequence[int | None], name_is_good: bool) -> int:
    for index, (block, place) in enumerate(zip(blocks, found, strict=True)):
        if place is not None and not (
            name_is_good and _numbers(block.arrays[place]).size == block.steps
        ):
            return index
    raise AssertionError("each block alone is valid, but all together are not")


def _numbers(text: bytes) -> NDArray[np.float64]:
    try:
        array = Parser().parse(b"[%b]" % text)
        assert isinstance(array, Array)
        return np.frombuffer(array.as_buffer(of_type="d"))
    except (TypeError, ValueError):
        # JSON has neither nan nor inf.
        return _any_numbers(text)


def _any_numbers(text: bytes) -> NDArray[np.float64]:
    with warnings.catch_warnings():
        # numpy stops at an invalid number and warns that this will become an error.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return np.fromstring(text, np.float64, sep=",")
        except ValueError as error:
            swallowed(error)
            return np.empty(0)


def _name(opening: bytes) -> str | None:
    try:
        name = json.loads(opening[len(_METRIC) : -len(_OPENING)])
    except ValueError as error:
        swallowed(error)
        return None
    return name if isinstance(name, str) else None


def _seconds(
    blocks: Sequence[_Block],
    counts: NDArray[np.int64],
    within: NDArray[np.int64],
    cursor: HistoryCursor,
    began: float,
) -> NDArray[np.float64]:
    """Return the time of each step: a block has only its last one's; the others are interpolated.

    The first block of a run has none before it (a night may separate two runs), so all its steps
    get its own time.
    """
    times = np.array([block.time for block in blocks]) - began
    runs = np.array([cursor.run, *(block.run for block in blocks)])
    before = np.append(cursor.reached - began, times[:-1])
    same_run = runs[1:] == runs[:-1]
    # A node's clock that was set back must not make time run backwards within a block.
    since = np.where(same_run & (before <= times), before, times)
    seconds: NDArray[np.float64] = np.repeat((times - since) / counts, counts)
    seconds *= within + 1
    seconds += np.repeat(since, counts)
    return seconds


def _run_starts(
    blocks: Sequence[_Block], lowest_later: NDArray[np.int64], run: int
) -> tuple[RunStart, ...]:
    starts = []
    for block, lowest in zip(blocks, lowest_later.tolist(), strict=True):
        is_start = block.run != run or block.message == history.REPLACES_RUN.encode()
        if is_start and block.first < lowest:
            starts.append(RunStart(block.run, block.first))
            run = block.run
    return tuple(starts)


def _add_problem(problems: list[str], offset: int) -> None:
    if len(problems) < _MOST_PROBLEMS:
        problems.append(
            f"The history is damaged at byte {offset}; the steps written there are not shown."
        )
