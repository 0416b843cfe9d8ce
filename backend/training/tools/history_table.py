"""A job's history as a table: one line for each step, one column for each metric.

The exported table is for spreadsheets, so a value that is none is an empty cell.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from backend.records.history import BLOCK_END, BLOCK_START

Row = tuple[int, dict[str, float]]


def whole_blocks(path: Path) -> Iterator[bytes]:
    """Every block of ``history.toml`` that was written to its end."""
    block = b""
    with path.open("rb") as lines:
        for line in lines:
            block = line if line == BLOCK_START else block + line
            if line == BLOCK_END and block.startswith(BLOCK_START):
                yield block
                block = b""


def rows(path: Path) -> dict[int, Row]:
    """Step -> (epoch, metrics), after what a resumed run superseded is gone."""
    found: dict[int, Row] = {}
    for block in whole_blocks(path):
        try:
            first, epoch, metrics = _parse(block)
        except (KeyError, ValueError):
            continue  # A damaged block costs its own steps only.
        for step in [step for step in found if step >= first]:
            del found[step]
        count = max((len(values) for values in metrics.values()), default=0)
        for number in range(count):
            found[first + number] = (
                epoch,
                {name: values[number] for name, values in metrics.items() if number < len(values)},
            )
    return found


def _parse(block: bytes) -> tuple[int, int, dict[str, list[float]]]:
    values: dict[str, str] = {}
    for line in block.decode().splitlines():
        key, equals, value = line.partition(" = ")
        if equals:
            values[key] = value
    metrics = {
        _bare(key.removeprefix("metrics.")): [float(v) for v in value.strip("[] ").split(",") if v]
        for key, value in values.items()
        if key.startswith("metrics.")
    }
    return int(values["first"]), int(values["epoch"]), metrics


def _bare(key: str) -> str:
    return str(json.loads(key)) if key.startswith('"') else key


def write_csv(table: dict[int, Row], file: IO[str]) -> None:
    names = list(dict.fromkeys(name for _, metrics in table.values() for name in metrics))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["step", "epoch", *names])
    for step, (epoch, metrics) in sorted(table.items()):
        writer.writerow([step, epoch, *(_cell(metrics.get(name)) for name in names)])


def _cell(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.9g}"
