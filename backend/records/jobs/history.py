"""``history.toml``: blocks of steps, written by rank 0, and the new points that a reader streams.

One entry for each step, as in the program's predecessor, cost 416 bytes and 0.2 ms and took 34 s to
read back at 100,000 entries. Here an entry is a *block*: the steps since the last flush, each
metric an array on one line. The file is valid TOML whenever no append is in progress; a reader
takes complete blocks only, from the offset at which it stopped::

    [[entry]]
    state = "TRAINING"
    run = 1
    epoch = 2
    iter = 45
    totalIter = 102
    timestamp = 2026-11-21T07:30:00.123456Z
    message = ""
    first = 98
    metrics.loss = [0.5,nan,0.25,1.5,1.25]
    metrics."validation/loss" = [nan,nan,nan,nan,0.75]
    # end

``first`` … ``totalIter`` are the steps of the block, counted from 1 over the whole job. A block
lies within one epoch. ``nan`` means "no value at this step" as well as a value that is not a
number. The comment ``# end`` closes a block, so that an incomplete block is recognized. If a
resumed run begins before the last step written (from an older checkpoint), its blocks replace
those at their steps and after: a reader drops everything from ``first`` on. So does a block whose
message is `REPLACES`: a script may write a value of an earlier step late.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from backend.records.jobs.metric_names import matching_metric
from backend.records.jobs.state import JobState

BLOCK_START = b"[[entry]]\n"
BLOCK_END = b"# end\n"
REPLACES = "replaces"
REPLACES_RUN = "replaces the run"
"""Message of a block that goes back in its run, and of one that goes back to the run's start."""
LIMIT_BYTES = 1_000_000_000
"""Readers stop here: ten million steps, and less than the memory of a desktop."""

_TAIL_BYTES = 1_000_000
_POSITION = re.compile(rb"run = (\d+)\nepoch = (\d+)\niter = \d+\ntotalIter = (\d+)\n")

_FIRST_STEP = re.compile(rb"\nfirst = (\d+)\n")
_ARRAY = re.compile(rb'^metrics\.("(?:[^"\\]|\\.)*") = \[(.+)\]$', re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """Steps ``first_step`` … ``first_step + n - 1`` of one epoch; every array has ``n`` values."""

    state: str
    run: int
    epoch: int
    epoch_step: int
    """Step within the epoch of the last step here (``iter``), from 1."""
    first_step: int
    timestamp: str
    metrics: Mapping[str, Sequence[float]]
    message: str = ""

    @property
    def last_step(self) -> int:
        return self.first_step + max((len(v) for v in self.metrics.values()), default=1) - 1


def encode(block: Block) -> bytes:
    """Encode one block as in the file. Floats keep the nine digits that float32 needs, whole
    numbers all of theirs."""
    lines = [
        "[[entry]]",
        f"state = {_text(block.state)}",
        f"run = {block.run}",
        f"epoch = {block.epoch}",
        f"iter = {block.epoch_step}",
        f"totalIter = {block.last_step}",
        f"timestamp = {block.timestamp}",
        f"message = {_text(block.message)}",
        f"first = {block.first_step}",
    ]
    lines += [
        f"metrics.{_text(name)} = [{','.join(map(_number, values))}]"
        for name, values in block.metrics.items()
    ]
    return ("\n".join(lines) + "\n").encode(errors="replace") + BLOCK_END


def last_written(path: Path) -> tuple[int, int, int]:
    """Return run, epoch and number of the last step in a history; zeros without any.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            tail = file.read()
    except FileNotFoundError:
        return 0, 0, 0
    end = tail.rfind(BLOCK_END)
    match = (
        _POSITION.search(tail, max(0, tail.rfind(BLOCK_START, 0, end)), end) if end > 0 else None
    )
    if match is None:
        return 0, 0, 0
    run, epoch, step = map(int, match.groups())
    return run, epoch, step


class EpochValues(NamedTuple):
    """The last finite value of a metric in each epoch, and the names of all metrics.

    ``newest_epoch`` may still get another value. It is 0 in the history of a script without epochs,
    where the keys of the values are the last steps of its blocks.
    """

    values: dict[int, float]
    names: frozenset[str]
    newest_epoch: int


def epoch_values(path: Path, metric: str) -> EpochValues:
    """Read the values of the `matching_metric` from a history, empty if there is none yet.

    Raises:
        OSError: The history cannot be read.
    """
    points: list[tuple[int, int, float]] = []
    parsed_blocks: list[tuple[int, int, int, dict[str, bytes]]] = []
    epoch = 0
    try:
        with path.open("rb") as file:
            blocks = file.read(LIMIT_BYTES).split(BLOCK_END)[:-1]
    except FileNotFoundError:
        blocks = []
    for block in blocks:
        position, first_step = _POSITION.search(block), _FIRST_STEP.search(block)
        if position is None or first_step is None:
            continue
        _, epoch, step = map(int, position.groups())
        arrays = {json.loads(name): array for name, array in _ARRAY.findall(block)}
        parsed_blocks.append((int(first_step[1]), epoch, step, arrays))
    names = frozenset(name for *_, arrays in parsed_blocks for name in arrays)
    metric = matching_metric(metric, names)
    for block_first_step, number, step, arrays in parsed_blocks:
        # A run that resumed from an older checkpoint makes its steps again.
        points = [point for point in points if point[0] < block_first_step]
        values = [float(text) for text in arrays.get(metric, b"nan").split(b",")]
        finite_values = [value for value in values if math.isfinite(value)]
        points += [(step, number, value) for value in finite_values[-1:]]
    values_by_number = {number or step: value for step, number, value in points}
    return EpochValues(values_by_number, names, epoch)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    # Counters keep all their digits.
    text = f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.9g}"
    # In TOML 1 and 1.0 have different types, and an array has one type.
    return text if "." in text or "e" in text else text + ".0"


def _text(value: str) -> str:
    """Encode a TOML basic string: JSON's escapes are TOML's, except DEL, which TOML forbids raw.

    Non-ASCII text is not escaped: JSON would split an emoji in two halves, which TOML refuses.
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True)
class RunStart:
    """A run's first step on the curve; drawn as a thin line with its number.

    ``previous_state``: how the previous run ended, None if unknown.
    """

    run: int
    first_step: int
    previous_state: JobState | None = None


@dataclass(frozen=True, eq=False)
class HistoryUpdate:
    """Points to append, oldest first. All arrays have the length of ``steps``.

    ``drop_from``: before appending, remove every point at this step or later (a resumed run began
    at an older checkpoint, or the whole history is new: 0). ``epochs`` counts from 1 and is the
    current one; ``epochs_done`` is how many were complete after each step, with their fraction,
    empty if the length of an epoch is not known. ``seconds`` counts from the first block of the
    file, which was written at ``started_s`` (Unix time by its writer's clock; 0 if there is none).
    NaN is "no value here". ``problems`` are sentences about blocks that could not be read; such a
    block loses only its own steps.
    """

    steps: Sequence[int] = ()
    epochs: Sequence[int] = ()
    seconds: Sequence[float] = ()
    metrics: Mapping[str, Sequence[float]] = field(default_factory=dict)
    run_starts: tuple[RunStart, ...] = ()
    drop_from: int | None = None
    problems: tuple[str, ...] = ()
    started_s: float = 0.0
    epochs_done: Sequence[float] = ()
