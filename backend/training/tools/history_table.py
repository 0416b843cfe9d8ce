"""A job's history as a table: one line for each step, one column for each metric.

The exported table is for spreadsheets, so a value that is NaN is an empty cell.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from backend.records.jobs.history import BLOCK_END, BLOCK_START
from backend.records.jobs.metric_names import headings

Row = tuple[int, dict[str, float]]
_METRIC_PREFIX = "metrics."
_DECODER = json.JSONDecoder()


def blocks(path: Path) -> Iterator[bytes]:
    """Yield the blocks of ``history.toml``, also incomplete ones, except the one being written."""
    block = b""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(BLOCK_START):
                incomplete_block = block + line[: -len(BLOCK_START)]
                if incomplete_block:
                    yield incomplete_block
                block = BLOCK_START
                continue
            block += line
            if line == BLOCK_END:
                yield block
                block = b""


def is_complete(block: bytes) -> bool:
    return block.startswith(BLOCK_START) and block.endswith(BLOCK_END)


def rows(history_blocks: Iterable[bytes]) -> tuple[dict[int, Row], int]:
    """Return step -> (epoch, metrics), without steps that a resumed run replaced, and the number of
    blocks that cannot be read.
    """
    table: dict[int, Row] = {}
    damaged_count = last_step = 0
    for block in history_blocks:
        try:
            first_step, epoch, metrics = _parse(block)
        except (KeyError, ValueError):
            # A damaged block loses only its own steps.
            damaged_count += 1
            continue
        if first_step <= last_step:
            table = {step: row for step, row in table.items() if step < first_step}
        count = max((len(values) for values in metrics.values()), default=0)
        for number in range(count):
            table[first_step + number] = (
                epoch,
                {name: values[number] for name, values in metrics.items() if number < len(values)},
            )
        last_step = first_step + count - 1
    return table, damaged_count


def _parse(block: bytes) -> tuple[int, int, dict[str, list[float]]]:
    if not is_complete(block):
        raise ValueError("half a block")
    values: dict[str, str] = {}
    metrics: dict[str, list[float]] = {}
    # Not `splitlines`: a name may contain other line separators.
    for line in block.decode().split("\n"):
        if line.startswith(_METRIC_PREFIX):
            name, end = _DECODER.raw_decode(line, len(_METRIC_PREFIX))
            array = line[end:].removeprefix(" = [").removesuffix("]")
            metrics[name] = [float(value) for value in array.split(",") if value]
        else:
            key, _, value = line.partition(" = ")
            values[key] = value
    return int(values["first"]), int(values["epoch"]), metrics


def write_csv(table: dict[int, Row], file: IO[str]) -> None:
    names = list(dict.fromkeys(name for _, metrics in table.values() for name in metrics))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headings(("step", "epoch"), names))
    for step, (epoch, metrics) in sorted(table.items()):
        writer.writerow([step, epoch, *(_cell(metrics.get(name)) for name in names)])


def _cell(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.9g}"
