"""A search next to a grid on the digits: how near its best comes, and with how many steps.

``python -m tests.benchmarks.search`` trains both for each seed in this process, and writes the
table into its page. The turns are those of the product (`SearchTurn`); only the training is a plain
loop here, so that 400 short runs need no processes. A trial that is given up at an epoch counts the
steps up to that epoch; in the queue it makes some more until it stops.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import torch

from backend.records.library.item import Kind
from backend.records.studies.study import FormName, Measure
from backend.records.studies.table import Cell, Column, JobValues, StudyTable, TableRow, cell_of
from backend.records.sweeps.search import PRUNED
from backend.records.sweeps.values import Axis, parse_axis
from backend.services.context.container import Services, open_services
from backend.services.context.example import EXAMPLE
from backend.services.queue.service import QueueService
from backend.training.user_code.data import load_loader
from backend.training.user_code.model import load_model
from tests.backend.node.queue.test_search_turn import Played
from tests.benchmarks.study_pages import write
from tests.integration.tiny import write_sources

SEEDS = (1, 2, 3, 4, 5)
EPOCHS, TRIALS, WITHIN = 5, 19, 1.0
GRID = {
    "optimizer.lr": (0.0001, 0.0004, 0.0015, 0.0055, 0.02, 0.07, 0.27, 1.0),
    "optimizer.momentum": (0.0, 0.5, 0.9),
    "batch_size": (32, 64),
}
AXES = (
    parse_axis("optimizer.lr", "1e-4..1:log"),
    parse_axis("optimizer.momentum", "0..0.95"),
    Axis("batch_size", (32, 64)),
)
KINDS = {
    "TPE, median": {"sampler": "tpe", "pruner": "median"},
    "random, median": {"sampler": "random", "pruner": "median"},
}


class Digits:
    """Trains the example's model; a run is made once for each seed and setting."""

    def __init__(self) -> None:
        loaded: Any = load_loader(EXAMPLE / "loader")
        self._data = [
            (split.user_dataset.pictures, split.user_dataset.digits)
            for split in (
                loaded.training(EXAMPLE / "dataset"),
                loaded.validation(EXAMPLE / "dataset"),
            )
        ]
        self._curves: dict[str, list[float]] = {}

    def steps_per_epoch(self, values: Mapping[str, Any]) -> int:
        return len(self._data[0][0]) // int(values["batch_size"])

    def curve(self, values: Mapping[str, Any], seed: int) -> list[float]:
        """Return the validation accuracy after each epoch, in percent."""
        key = repr((seed, sorted(values.items())))
        if key not in self._curves:
            self._curves[key] = self._train(values, seed)
        return self._curves[key]

    def _train(self, values: Mapping[str, Any], seed: int) -> list[float]:
        torch.manual_seed(seed)
        model: Any = load_model(EXAMPLE / "model")
        (pictures, digits), (validation, true_digits) = self._data
        optimizer = torch.optim.SGD(
            model.parameters(), lr=values["optimizer.lr"], momentum=values["optimizer.momentum"]
        )
        accuracies = []
        for _ in range(EPOCHS):
            model.train()
            order = torch.randperm(len(pictures))
            for batch in order.split(int(values["batch_size"]))[: self.steps_per_epoch(values)]:
                optimizer.zero_grad()
                model.loss(model(pictures[batch]), digits[batch]).backward()
                optimizer.step()
            with torch.no_grad():
                is_right = model.eval()(validation).argmax(1) == true_digits
            accuracies.append(100 * float(is_right.double().mean()))
        return accuracies


def run_grid(digits: Digits, seed: int) -> tuple[float, int]:
    """Return the best accuracy, and the steps of the whole grid."""
    points = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    best = max(max(digits.curve(values, seed)) for values in points)
    return best, sum(EPOCHS * digits.steps_per_epoch(values) for values in points)


def run_search(
    services: Services, digits: Digits, seed: int, kind: Mapping[str, str]
) -> tuple[list[float], list[int]]:
    """Return the best accuracy so far and the steps so far after each trial."""
    played = Played(
        services,
        lambda values: digits.curve(values, seed),
        *AXES,
        seed=seed,
        trials=TRIALS,
        epochs=EPOCHS,
        **kind,
    )
    bests, steps = [], []
    for proposal in played.play():
        epochs = EPOCHS
        if proposal.state == PRUNED:
            epochs = int(proposal.reason.rpartition(" ")[2])
        bests.append(max(digits.curve(proposal.values, seed)[:epochs]))
        steps.append(epochs * digits.steps_per_epoch(proposal.values))
    return [*accumulate(bests, max)], [*accumulate(steps)]


def table(services: Services) -> StudyTable:
    digits = Digits()
    outcomes: dict[str, list[tuple[float, ...]]] = {name: [] for name in ("grid", *KINDS)}
    jobs = []
    for seed in SEEDS:
        best, grid_steps = run_grid(digits, seed)
        outcomes["grid"].append((100 - best, 0.0, 100.0, 100.0))
        jobs.append(JobValues("grid", seed, "", {Measure.ERROR: 100 - best}))
        for name, kind in KINDS.items():
            bests, steps = run_search(services, digits, seed, kind)
            near = [
                made for value, made in zip(bests, steps, strict=True) if value >= best - WITHIN
            ]
            reached = 100 * near[0] / grid_steps if near else float("nan")
            outcome = 100 - bests[-1], best - bests[-1], 100 * steps[-1] / grid_steps, reached
            outcomes[name].append(outcome)
            jobs.append(JobValues(name, seed, "", {Measure.ERROR: 100 - bests[-1]}))
            sys.stderr.write(f"seed {seed}, {name}: {outcome}\n")
    rows = []
    for number, (name, seed_outcomes) in enumerate(outcomes.items()):
        cells: list[Cell] = [cell_of([*column]) for column in zip(*seed_outcomes, strict=True)]
        rows.append(TableRow(name, "", float(number), len(SEEDS), cells[0], None, tuple(cells[1:])))
    return StudyTable(
        title="A search next to a grid",
        question="Does a search come as near to the best values as a grid, with fewer steps?",
        source="measured here; no published figures",
        note=(
            f"The grid has 48 combinations of 8 rates, 3 momenta and 2 batch sizes, a search "
            f"{TRIALS} trials within the same limits; each trains {EPOCHS} epochs on 1,438 digits. "
            "The error is that of the best values on 359 validation digits."
        ),
        form=FormName.SMALL,
        value=Column("Error", "%"),
        further_columns=(
            Column("Above the grid's", "%"),
            Column("Steps of the grid's", "%"),
            Column(f"Steps until within {WITHIN:g} point", "%"),
        ),
        x="",
        rows=tuple(rows),
        seeds=SEEDS,
        jobs=tuple(jobs),
    )


def main() -> None:
    torch.set_num_threads(1)
    QueueService.ensure_keeper = lambda self: None  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "root").mkdir()
        services = open_services(Path(folder, "root"), Path(folder, "c.sqlite"))
        sources = write_sources(Path(folder, "sources"))
        for kind, source in zip((Kind.MODEL, Kind.LOADER, Kind.DATASET), sources, strict=True):
            services.library.import_item(kind, source, "tiny")
        measured = table(services)
        services.close()
    cores = os.cpu_count()
    write("search", measured, f"Measured on {cores} cores, {datetime.now(UTC):%Y-%m-%d}.")


if __name__ == "__main__":
    main()
