"""Test error by staleness: asynchronous SGD, both forms of delay compensation, and plain SGD.

Zheng et al. (arXiv 1609.08326, table 1) find the error of delay-compensated SGD below that of
asynchronous SGD and close to that of plain SGD. Here the delay is made (`Simulator`), so only the
updates differ: the built-in digits, 8 epochs, batches of 16, learning rate 0.1, five seeds.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch

from backend.records.jobs.launch import Launch
from backend.services.context.example import EXAMPLE
from backend.training.parameter_server import Delays
from backend.training.simulation import Simulator
from tests.backend.training.training_rig import job, parsed
from tests.benchmarks.figures import Figure

SEEDS = range(1, 6)
STALENESS = (8, 16)
STRATEGIES: dict[str, dict[str, Any]] = {
    "asgd": {"name": "downpour"},
    "dc-asgd constant": {"name": "dc-asgd", "variant": "constant"},
    "dc-asgd adaptive": {"name": "dc-asgd"},
}


def measure() -> list[Figure]:
    torch.set_num_threads(1)
    plain = [error("asgd", 0, seed) for seed in SEEDS]
    figures = []
    for staleness in STALENESS:
        errors = {name: [error(name, staleness, seed) for seed in SEEDS] for name in STRATEGIES}
        gain = tuple(
            asgd - dc for asgd, dc in zip(errors["asgd"], errors["dc-asgd adaptive"], strict=True)
        )
        shown = {"plain SGD": plain, **errors}
        context = "; ".join(f"{name} {_mean(values)}" for name, values in shown.items())
        figures.append(
            Figure(
                "staleness",
                f"error, asgd − dc-asgd, {staleness} updates late",
                gain,
                0.0,
                "%",
                at_least=True,
                context=context,
            )
        )
    return figures


def error(name: str, staleness: int, seed: int) -> float:
    """Return the error on the validation digits after training, in percent."""
    config = parsed(
        job(
            seed=seed,
            epochs=8,
            batch_size=16,
            optimizer={"name": "sgd", "lr": 0.1},
            strategy=STRATEGIES[name],
        )
    )
    sources = {kind: str(EXAMPLE / kind) for kind in ("model", "loader", "dataset")}
    launch = Launch(
        job_id="simulation",
        run=1,
        config=config,
        argv=(),
        ranks=(),
        model_source=sources["model"],
        loader_source=sources["loader"],
        dataset_files=sources["dataset"],
    )
    accuracy = Simulator(launch, Delays(staleness)).run()[-1].values["validation/accuracy"]
    assert accuracy is not None
    return 100 * (1 - accuracy)


def _mean(values: list[float]) -> str:
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f} %"
