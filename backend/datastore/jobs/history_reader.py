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
from backend.records.jobs.history import BLOCK_END, BLOCK_START, HistoryUpdate, RunStart

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
    started_s: float = 0.0
    """Time of the first block; ``seconds`` counts from it."""
    reached_s: float = 0.0
    """Time of the last block."""


class _Block(NamedTuple):
    start: int
    end: int
    run: int
    epoch: int
    first_step: int
    last_step: int
    time_s: float
    message: bytes
    openings: tuple[bytes, ...]
    """The text before each array, which contains the metric's name."""
    arrays: tuple[bytes, ...]

    @property
    def steps(self) -> int:
        return self.last_step - self.first_step + 1


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
            is_new = cursor is None or not cursor.head or not head.startswith(cursor.head)
            start_cursor = HistoryCursor() if is_new or cursor is None else cursor
            size = os.fstat(file.fileno()).st_size
            file.seek(start_cursor.offset)
            data = file.read(max(0, min(size, history.LIMIT_BYTES) - start_cursor.offset))
    except FileNotFoundError:
        empty_update = HistoryUpdate(drop_from=0 if cursor is None or cursor.head else None)
        return empty_update, HistoryCursor()
    update, end_cursor = _read(data, replace(start_cursor, head=head))
    if size > history.LIMIT_BYTES and (is_new or len(update.steps)):
        update = replace(update, problems=(*update.problems, _TOO_LARGE))
    return (replace(update, drop_from=0) if is_new else update), end_cursor


def epochs_done(update: HistoryUpdate, steps_per_epoch: int) -> HistoryUpdate:
    """Add to ``update`` how many epochs were complete after each step, if that is known.

    A script may have no epochs: those are no numbers.

    Steps that this length of an epoch puts into another epoch (the job was resumed with another
    number of processes) count as the end of their own epoch.
    """
    epochs: Column = np.asarray(update.epochs)
    if len(epochs) and not epochs.all():
        numbered_epochs: Column = np.where(epochs, epochs, np.nan)
        return replace(update, epochs_done=numbered_epochs)
    if steps_per_epoch < 1 or not len(update.steps):
        return update
    epoch_positions = np.asarray(update.steps) / steps_per_epoch
    completed_epochs: Column = np.where(
        np.ceil(epoch_positions) == epochs, epoch_positions, epochs.astype(np.float64)
    )
    return replace(update, epochs_done=completed_epochs)


def _read(data: bytes, cursor: HistoryCursor) -> tuple[HistoryUpdate, HistoryCursor]:
    problems: list[str] = []
    blocks, length = _blocks(data, cursor, problems)
    columns = _columns(blocks, cursor.offset, problems)
    end_cursor = replace(cursor, offset=cursor.offset + length)
    if not blocks:
        return HistoryUpdate(problems=tuple(problems), started_s=cursor.started_s), end_cursor
    started_s = blocks[0].time_s if cursor.run == 0 else cursor.started_s
    last_block = blocks[-1]
    end_cursor = replace(
        end_cursor,
        last_step=last_block.last_step,
        run=last_block.run,
        started_s=started_s,
        reached_s=last_block.time_s,
    )

    first_steps = np.array([block.first_step for block in blocks], np.int64)
    counts = np.array([block.steps for block in blocks], np.int64)
    starts = np.cumsum(counts) - counts
    step_offsets = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    steps = np.repeat(first_steps, counts) + step_offsets
    # A resumed run replaces the steps from its first step on; the lowest first step of all later
    # blocks says what remains of each block.
    lowest_later = np.append(
        np.minimum.accumulate(first_steps[::-1])[::-1][1:], np.iinfo(np.int64).max
    )
    keep = steps < np.repeat(lowest_later, counts)
    keeps_all = bool(keep.all())

    def select(values: NDArray[Any]) -> Column:
        return values if keeps_all else values[keep]

    lowest_step = int(first_steps.min())
    names = {*columns}
    if not keeps_all:
        # A metric that is only in replaced blocks has another name since.
        are_kept = np.logical_or.reduceat(keep, starts)
        layouts = {
            block.openings for block, is_kept in zip(blocks, are_kept, strict=True) if is_kept
        }
        names = {name for layout in layouts for name in map(_name, layout) if name is not None}
    update = HistoryUpdate(
        steps=select(steps),
        epochs=select(np.repeat([block.epoch for block in blocks], counts)),
        seconds=select(_seconds(blocks, counts, step_offsets, cursor, started_s)),
        metrics={name: select(values) for name, values in columns.items() if name in names},
        run_starts=_run_starts(blocks, lowest_later, cursor.run),
        drop_from=lowest_step if lowest_step <= cursor.last_step else None,
        problems=tuple(problems),
        started_s=started_s,
    )
    return update, end_cursor


def _blocks(data: bytes, cursor: HistoryCursor, problems: list[str]) -> tuple[list[_Block], int]:
    """Return the valid blocks, and how many bytes of ``data`` were processed."""
    blocks: list[_Block] = []
    last_step, run, start = cursor.last_step, cursor.run, 0
    openings: tuple[bytes, ...] = ()
    while True:
        block = _block(data, start, openings)
        if block is None:
            end = data.find(_END, start)
            if end < 0:
                return blocks, start
            _add_problem(problems, cursor.offset + start)
            # A complete block may follow one that a killed writer left incomplete.
            inner_start = data.rfind(BLOCK_START, start + 1, end)
            block = _block(data, inner_start, openings) if inner_start > 0 else None
            start = end + len(_END)
            if block is None:
                continue
        start, openings = block.end, block.openings
        # Only a later run repeats steps, and a block that says so. Any other step backwards is
        # damage, and accepting it would remove good steps. Blocks of before did not say it of a
        # script's last step.
        is_last = block.first_step == block.last_step == last_step or block.message in _BACK
        is_back = block.first_step <= last_step and block.run == run and run > 0
        if block.run < run or (is_back and not is_last):
            _add_problem(problems, cursor.offset + block.start)
            continue
        last_step, run = block.last_step, block.run
        blocks.append(block)


def _block(data: bytes, start: int, expected_openings: tuple[bytes, ...]) -> _Block | None:
    """Return the complete block at ``start``, if any; only its first array is counted.

    ``expected`` are the openings of the block before: most blocks have the same.
    """
    header = _HEADER.match(data, start)
    if header is None:
        return None
    run, epoch, last_step, stamp, message, first_step = header.groups()
    openings: list[bytes] = []
    arrays: list[bytes] = []
    position = header.end()
    while data.startswith(_METRIC, position):
        end = data.find(b"\n", position + 1)
        opening = (
            expected_openings[len(openings)] if len(openings) < len(expected_openings) else b""
        )
        if not opening or not data.startswith(opening, position):
            opening = data[position : data.rfind(_OPENING, position, end) + len(_OPENING)]
            if not opening.endswith(_OPENING):
                return None
        if data[end - 1] != _CLOSING:
            return None
        openings.append(opening)
        arrays.append(data[position + len(opening) : end - 1])
        position = end
    count = int(last_step) - int(first_step) + 1
    if (
        not data.startswith(_END, position)
        or count < 1
        or run == b"0"
        or (arrays and arrays[0].count(b",") + 1 != count)
    ):
        return None
    try:
        time_s = datetime.fromisoformat(stamp.decode()).timestamp()
    except ValueError as error:
        swallowed(error)
        return None
    end, layout = position + len(_END), tuple(openings)
    numbers = (int(run), int(epoch), int(first_step), int(last_step))
    return _Block(start, end, *numbers, time_s, message, layout, tuple(arrays))


def _columns(
    blocks: list[_Block], offset: int, problems: list[str]
) -> dict[str, NDArray[np.float64]]:
    """Return each metric over all ``blocks``; blocks with an invalid number are removed."""
    while True:
        try:
            return _join_columns(blocks)
        except _DamagedBlock as error:
            _add_problem(problems, offset + blocks.pop(error.index).start)


class _DamagedBlock(Exception):
    def __init__(self, index: int) -> None:
        self.index = index


def _join_columns(blocks: Sequence[_Block]) -> dict[str, NDArray[np.float64]]:
    counts = np.array([block.steps for block in blocks], np.int64)
    layouts = dict.fromkeys(block.openings for block in blocks)
    columns: dict[str, NDArray[np.float64]] = {}
    for opening in dict.fromkeys(chain.from_iterable(layouts)):
        positions_by_layout = {
            layout: layout.index(opening) if opening in layout else None for layout in layouts
        }
        positions = [positions_by_layout[block.openings] for block in blocks]
        arrays = [
            b.arrays[position]
            for b, position in zip(blocks, positions, strict=True)
            if position is not None
        ]
        is_present = np.array([position is not None for position in positions])
        name, values = _name(opening), _values(arrays, counts[is_present])
        if name is None or values is None:
            raise _DamagedBlock(_damaged_index(blocks, positions, name is not None))
        if len(arrays) < len(blocks):
            column = np.full(int(counts.sum()), np.nan)
            column[np.repeat(is_present, counts)] = values
            values = column
        columns[name] = values
    return columns


def _values(arrays: Sequence[bytes], counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Parse ``arrays`` as one; None if one does not have as many numbers as ``counts`` says."""
    numbers = _numbers(_FENCE_TEXT.join(arrays))
    fences = np.cumsum(counts + 1)[:-1] - 1
    if numbers.size != int(counts.sum()) + fences.size or not (numbers[fences] == _FENCE).all():
        return None
    is_value = np.ones(numbers.size, bool)
    is_value[fences] = False
    return numbers[is_value]


def _damaged_index(
    blocks: Sequence[_Block], positions: Sequence[int | None], name_is_good: bool
) -> int:
    for index, (block, position) in enumerate(zip(blocks, positions, strict=True)):
        if position is not None and not (
            name_is_good and _numbers(block.arrays[position]).size == block.steps
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
    step_offsets: NDArray[np.int64],
    cursor: HistoryCursor,
    started_s: float,
) -> NDArray[np.float64]:
    """Return the time of each step: a block has only its last one's; the others are interpolated.

    The first block of a run has none before it (a night may separate two runs), so all its steps
    get its own time.
    """
    end_times = np.array([block.time_s for block in blocks]) - started_s
    runs = np.array([cursor.run, *(block.run for block in blocks)])
    previous_times = np.append(cursor.reached_s - started_s, end_times[:-1])
    is_same_run = runs[1:] == runs[:-1]
    # A node's clock that was set back must not make time run backwards within a block.
    start_times = np.where(is_same_run & (previous_times <= end_times), previous_times, end_times)
    seconds: NDArray[np.float64] = np.repeat((end_times - start_times) / counts, counts)
    seconds *= step_offsets + 1
    seconds += np.repeat(start_times, counts)
    return seconds


def _run_starts(
    blocks: Sequence[_Block], lowest_later: NDArray[np.int64], run: int
) -> tuple[RunStart, ...]:
    starts = []
    for block, lowest_step in zip(blocks, lowest_later.tolist(), strict=True):
        is_start = block.run != run or block.message == history.REPLACES_RUN.encode()
        if is_start and block.first_step < lowest_step:
            starts.append(RunStart(block.run, block.first_step))
            run = block.run
    return tuple(starts)


def _add_problem(problems: list[str], offset: int) -> None:
    if len(problems) < _MOST_PROBLEMS:
        problems.append(
            f"The history is damaged at byte {offset}; the steps written there are not shown."
        )
