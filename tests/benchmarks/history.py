"""P6: opening and following a history, beside TensorBoard and the ancestor's entry for each step."""

from __future__ import annotations

import tempfile
import time
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from backend.datastore.history_cache import HistoryReader
from backend.datastore.history_reader import read_history
from backend.records.history import Block, encode

METRICS = ("loss", "accuracy", "lr", "gradient_norm")
BLOCK_STEPS = 50
"""Two blocks a second at 10 ms a step."""
BEGAN = datetime(2026, 11, 21, tzinfo=UTC)


def blocks(first: int, steps: int) -> bytes:
    """History of ``steps`` steps as rank 0 writes it, every value with all its digits."""
    values = np.random.default_rng(first).random((len(METRICS), steps), np.float32).tolist()
    made = []
    for begin in range(0, steps, BLOCK_STEPS):
        end = min(begin + BLOCK_STEPS, steps)
        stamp = (BEGAN + timedelta(seconds=(first + end) / 100)).isoformat()
        metrics = {name: row[begin:end] for name, row in zip(METRICS, values, strict=True)}
        made.append(encode(Block("TRAINING", 1, 1, first + end - 1, first + begin, stamp, metrics)))
    return b"".join(made)


def ancestors(path: Path, steps: int) -> None:
    """The ancestor's format: one entry for each step."""
    values = np.random.default_rng(1).random((steps, len(METRICS)), np.float32).tolist()
    with path.open("w") as file:
        for step, row in enumerate(values, 1):
            file.write(
                f'[[entry]]\nstate = "TRAINING"\nepoch = 1\niter = {step}\ntotalIter = {step}\n'
                f"timestamp = {(BEGAN + timedelta(seconds=step / 100)).isoformat()}\n"
                'message = ""\n[entry.metrics]\n'
            )
            file.writelines(
                f"{name} = {value!r}\n" for name, value in zip(METRICS, row, strict=True)
            )


def tensorboards(folder: Path, steps: int) -> None:
    from tensorboardX import SummaryWriter

    values = np.random.default_rng(1).random((steps, len(METRICS)), np.float32).tolist()
    with SummaryWriter(str(folder)) as writer:
        for step, row in enumerate(values, 1):
            for name, value in zip(METRICS, row, strict=True):
                writer.add_scalar(name, value, step)


def open_ancestors(path: Path) -> dict[str, list[float]]:
    entries = tomllib.loads(path.read_text())["entry"]
    return {name: [entry["metrics"][name] for entry in entries] for name in METRICS}


def open_tensorboards(folder: Path) -> dict[str, list[float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {name: [event.value for event in events.Scalars(name)] for name in METRICS}


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
