"""P6: opening and following a history, beside TensorBoard and an entry for each step."""

from __future__ import annotations

import tempfile
import time
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from backend.datastore.jobs.history_cache import HistoryReader
from backend.datastore.jobs.history_reader import read_history
from backend.records.jobs.history import Block, encode
from tests.benchmarks.figures import Figure

METRICS = ("loss", "accuracy", "lr", "gradient_norm")
BLOCK_STEPS = 50
"""Two blocks a second at 10 ms a step."""
STARTED_AT = datetime(2026, 11, 21, tzinfo=UTC)


def blocks(first_step: int, steps: int) -> bytes:
    """History of ``steps`` steps as rank 0 writes it, every value with all its digits."""
    values = np.random.default_rng(first_step).random((len(METRICS), steps), np.float32).tolist()
    encoded_blocks = []
    for start in range(0, steps, BLOCK_STEPS):
        end = min(start + BLOCK_STEPS, steps)
        stamp = (STARTED_AT + timedelta(seconds=(first_step + end) / 100)).isoformat()
        metrics = {name: row[start:end] for name, row in zip(METRICS, values, strict=True)}
        encoded_blocks.append(
            encode(
                Block("TRAINING", 1, 1, first_step + end - 1, first_step + start, stamp, metrics)
            )
        )
    return b"".join(encoded_blocks)


def ancestors(path: Path, steps: int) -> None:
    """The ancestor's format: one entry for each step."""
    values = np.random.default_rng(1).random((steps, len(METRICS)), np.float32).tolist()
    with path.open("w") as file:
        for step, row in enumerate(values, 1):
            file.write(
                f'[[entry]]\nstate = "TRAINING"\nepoch = 1\niter = {step}\ntotalIter = {step}\n'
                f"timestamp = {(STARTED_AT + timedelta(seconds=step / 100)).isoformat()}\n"
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
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s


PAIRS = 5
OTHERS_STEPS = 10_000
"""The others are slow; their time grows with the number of steps, so a ratio holds for more."""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        return [*_compare_with_others(Path(name)), *_measure_alone(Path(name))]


def _compare_with_others(folder: Path) -> list[Figure]:
    own_file, ancestor_file, events = (
        folder / "ours.toml",
        folder / "theirs.toml",
        folder / "events",
    )
    own_file.write_bytes(blocks(1, OTHERS_STEPS))
    ancestors(ancestor_file, OTHERS_STEPS)
    tensorboards(events, OTHERS_STEPS)
    open_tensorboards(events)
    read_history(own_file)
    against_ancestor, against_tensorboard = [], []
    for _ in range(PAIRS):
        own_s = seconds(lambda: read_history(own_file))
        against_ancestor.append(seconds(lambda: open_ancestors(ancestor_file)) / own_s)
        own_s = seconds(lambda: read_history(own_file))
        against_tensorboard.append(seconds(lambda: open_tensorboards(events)) / own_s)
    context = f"{OTHERS_STEPS:,} steps × {len(METRICS)} metrics"
    return [
        Figure(
            "P6",
            "opening, times faster than tomllib on an entry for each step",
            tuple(against_ancestor),
            50,
            "×",
            at_least=True,
            context=f"{context}; the ancestor's own reader is slower still",
        ),
        Figure(
            "P6",
            "opening, times faster than TensorBoard's EventAccumulator",
            tuple(against_tensorboard),
            15,
            "×",
            at_least=True,
            context=context,
        ),
    ]


def _measure_alone(folder: Path) -> list[Figure]:
    figures = []
    for steps, limit_ms in ((100_000, 50), (1_000_000, 500)):
        path = folder / f"{steps}.toml"
        path.write_bytes(blocks(1, steps))
        cold = tuple(1000 * seconds(partial(read_history, path)) for _ in range(PAIRS))
        reader = HistoryReader(folder / "cache")
        reader.read(path)
        warm = tuple(1000 * seconds(partial(reader.read, path)) for _ in range(PAIRS))
        context = f"{len(METRICS)} metrics"
        for occasion, times in (("for the first time", cold), ("from the cache", warm)):
            name = f"opening {steps:,} steps {occasion}"
            figures.append(Figure("P6", name, times, limit_ms, "ms", context=context))
        size = path.stat().st_size / steps / len(METRICS)
        figures.append(
            Figure("P6", "bytes a step and metric", (size,), 24, "B", context=f"{steps:,} steps")
        )
        _, cursor = reader.read(path)
        polls = []
        for number in range(PAIRS):
            with path.open("ab") as file:
                file.write(blocks(steps + 1 + 100 * number, 100))
            started_s = time.perf_counter()
            _, cursor = reader.read(path, cursor)
            polls.append(1000 * (time.perf_counter() - started_s))
        figures.append(Figure("P6", f"poll of +100 after {steps:,} steps", tuple(polls), 5, "ms"))
    with (folder / "100000.toml").open("rb") as file:
        # Still TOML, and the same values: the part before a block's end is read by tomllib.
        part = file.read(3_000_000)
    entries = tomllib.loads(part[: part.rfind(b"# end\n")].decode())["entry"]
    read, _ = read_history(folder / "100000.toml")
    losses = [value for entry in entries for value in entry["metrics"]["loss"]]
    if losses != list(read.metrics["loss"][: len(losses)]):
        raise AssertionError("the reader and tomllib disagree")
    return figures
