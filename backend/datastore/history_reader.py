"""Reads ``history.toml`` on the desktop: whole blocks, from where the last look stopped.

A million steps open in less than half a second because nothing here reads TOML: the file's own
encoder (`records.history`) writes one array a line, so each metric's arrays are joined and read by
one call of numpy. tomllib, which reads the same file, took 34 s for a tenth of it in the
ancestor's format.

A block that cannot be read costs only itself and is told of; the block that is being appended just
now is taken with the next look.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backend.records.history import BLOCK_END, BLOCK_START
from backend.records.series import HistoryUpdate, RunStart

_END = b"\n" + BLOCK_END
_HEAD_BYTES = 256
_TOLD_PROBLEMS = 20

_HEADER = re.compile(
    rb"\[\[entry\]\]\n"
    rb'state = "[A-Z]+"\n'
    rb"run = (\d{1,9})\n"
    rb"epoch = (\d{1,9})\n"
    rb"iter = \d{1,18}\n"
    rb"totalIter = (\d{1,18})\n"
    rb"timestamp = ([0-9T:.+Z-]{19,32})\n"
    rb"message = [^\n]*\n"
    rb"first = (\d{1,18})"
)


@dataclass(frozen=True)
class HistoryCursor:
    """Where a reader stopped, and what it needs to go on. Opaque to everyone else."""

    offset: int = 0
    head: bytes = b""
    """The file's first bytes: another file under the same name is read from its start."""
    last_step: int = 0
    run: int = 0
    began: float = 0.0
    """Time of the first block; ``seconds`` counts from it."""
    reached: float = 0.0
    """Time of the last block read."""


@dataclass
class _Block:
    offset: int
    run: int
    epoch: int
    first: int
    count: int
    time: float
    arrays: dict[bytes, bytes]


# The records know no numpy (the nodes import them), so their fields are sequences; to mypy an
# array is none.
Column = Any


def read_history(
    path: Path, cursor: HistoryCursor | None = None
) -> tuple[HistoryUpdate, HistoryCursor]:
    """What was appended to ``path`` since ``cursor`` (None: everything).

    No file is an empty history.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            fresh = cursor is None or not cursor.head or not head.startswith(cursor.head)
            before = HistoryCursor() if fresh or cursor is None else cursor
            file.seek(before.offset)
            data = file.read()
    except FileNotFoundError:
        gone = HistoryUpdate(drop_from=0 if cursor is None or cursor.head else None)
        return gone, HistoryCursor()
    update, after = _read(data, replace(before, head=head))
    return (replace(update, drop_from=0) if fresh else update), after


def _read(data: bytes, cursor: HistoryCursor) -> tuple[HistoryUpdate, HistoryCursor]:
    chunks = data.split(_END)
    tail = chunks.pop()
    problems: list[str] = []
    blocks, last_step, run = _blocks(chunks, cursor, problems)
    columns = _columns(blocks, problems)
    after = replace(cursor, offset=cursor.offset + len(data) - len(tail))
    if not blocks:
        return HistoryUpdate(problems=tuple(problems)), after
    began = blocks[0].time if cursor.run == 0 else cursor.began
    after = replace(after, last_step=last_step, run=run, began=began, reached=blocks[-1].time)

    firsts = np.array([block.first for block in blocks], np.int64)
    counts = np.array([block.count for block in blocks], np.int64)
    starts = np.cumsum(counts) - counts
    within = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    steps = np.repeat(firsts, counts) + within
    # A resumed run supersedes what stood at its first step and after; the lowest first step of
    # all later blocks says for each block what of it is left.
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
    )
    return update, after


def _blocks(
    chunks: Sequence[bytes], cursor: HistoryCursor, problems: list[str]
) -> tuple[list[_Block], int, int]:
    """The blocks that can be used, with the last step and run they lead to."""
    blocks: list[_Block] = []
    last_step, run, offset = cursor.last_step, cursor.run, cursor.offset
    for chunk in chunks:
        begin = chunk.rfind(BLOCK_START)
        if begin != 0:
            _tell(problems, offset)
        block = _block(chunk[begin:] if begin > 0 else chunk, offset + max(begin, 0))
        offset += len(chunk) + len(_END)
        # Steps are repeated only by a later run; anything else that goes back is damage, and
        # believing it would wipe out what is good.
        if (
            block is None
            or block.run < run
            or (block.first <= last_step and block.run == run and run > 0)
        ):
            if begin == 0:
                _tell(problems, offset - len(chunk) - len(_END))
            continue
        last_step, run = block.first + block.count - 1, block.run
        blocks.append(block)
    return blocks, last_step, run


def _block(chunk: bytes, offset: int) -> _Block | None:
    header, *lines = chunk.split(b"\nmetrics.")
    match = _HEADER.fullmatch(header)
    if match is None:
        return None
    run, epoch, last, stamp, first = match.groups()
    count = int(last) - int(first) + 1
    arrays: dict[bytes, bytes] = {}
    for line in lines:
        middle = line.find(b" = [")
        if middle < 0 or line.count(b",", middle) + 1 != count or line[-1:] != b"]":
            return None
        arrays[line[:middle]] = line[middle + 4 : -1]
    try:
        time = datetime.fromisoformat(stamp.decode()).timestamp()
    except ValueError:
        return None
    if count < 1 or int(run) < 1:
        return None
    return _Block(offset, int(run), int(epoch), int(first), count, time, arrays)


def _columns(blocks: list[_Block], problems: list[str]) -> dict[str, NDArray[np.float64]]:
    """Each metric over all ``blocks``; a block with a number that is none is taken out of them."""
    while True:
        try:
            return _joined(blocks)
        except _Damaged as damaged:
            _tell(problems, blocks.pop(damaged.index).offset)


class _Damaged(Exception):
    def __init__(self, index: int) -> None:
        self.index = index


def _joined(blocks: Sequence[_Block]) -> dict[str, NDArray[np.float64]]:
    raw_names: dict[bytes, None] = {}
    for block in blocks:
        raw_names.update(dict.fromkeys(block.arrays))
    total = sum(block.count for block in blocks)
    columns: dict[str, NDArray[np.float64]] = {}
    for raw_name in raw_names:
        have = [raw_name in block.arrays for block in blocks]
        filled = sum(block.count for block, has in zip(blocks, have, strict=True) if has)
        values = _numbers(
            b",".join(block.arrays[raw_name] for block in blocks if raw_name in block.arrays)
        )
        name = _name(raw_name)
        if name is None or values.size != filled:
            raise _Damaged(_guilty(blocks, raw_name, name is not None))
        if filled == total:
            columns[name] = values
            continue
        column = np.full(total, np.nan)
        column[np.repeat(have, [block.count for block in blocks])] = values
        columns[name] = column
    return columns


def _guilty(blocks: Sequence[_Block], raw_name: bytes, name_is_good: bool) -> int:
    for index, block in enumerate(blocks):
        text = block.arrays.get(raw_name)
        if text is not None and not (name_is_good and _numbers(text).size == block.count):
            return index
    raise AssertionError("every block by itself is good, all of them together are not")


def _numbers(text: bytes) -> NDArray[np.float64]:
    with warnings.catch_warnings():
        # numpy stops at what is no number and warns that this will be an error some day.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return np.fromstring(text, np.float64, sep=",")
        except ValueError:
            return np.empty(0)


def _name(raw: bytes) -> str | None:
    try:
        name = json.loads(raw)
    except ValueError:
        return None
    return name if isinstance(name, str) else None


def _seconds(
    blocks: Sequence[_Block],
    counts: NDArray[np.int64],
    within: NDArray[np.int64],
    cursor: HistoryCursor,
    began: float,
) -> NDArray[np.float64]:
    """Time of each step: a block knows only its last one's, the others lie evenly before it.

    The first block of a run has nothing before it (a night may lie between two runs), so all its
    steps get its own time.
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
        if block.run != run and block.first < lowest:
            starts.append(RunStart(block.run, block.first))
        run = block.run
    return tuple(starts)


def _tell(problems: list[str], offset: int) -> None:
    if len(problems) < _TOLD_PROBLEMS:
        problems.append(
            f"The history is damaged at byte {offset}; the steps written there are not shown."
        )
