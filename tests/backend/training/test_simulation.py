"""The simulation of delay trains as the job would, and reports the staleness that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from backend.records.base.atomic_files import read_json
from backend.records.jobs.launch import Launch
from backend.training.parameter_server import Delays
from backend.training.simulation import Simulator
from tests.backend.training.test_not_finite import train_here
from tests.backend.training.training_rig import Training, new_training

SETTINGS: dict[str, Any] = {"epochs": 2, "gradient_norm": 0.5}


def simulator(folder: Path, delays: Delays, **strategy: Any) -> Simulator:
    strategy = {"name": "downpour", **strategy}
    training = new_training(
        folder,
        name=f"simulated-{delays.delay}-{delays.is_random}",
        strategy=strategy,
        optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9},
        **SETTINGS,
    )
    training.prepare()
    return Simulator(Launch.from_dict(read_json(training.folder.launch)), delays)


def train_single(folder: Path) -> Training:
    single_job = new_training(
        folder, name="alone", processes=1, strategy={"name": "alone"}, **SETTINGS
    )
    # In this process, because sums depend on the number of threads.
    train_here(single_job)
    return single_job


def test_without_delay_it_is_plain_training_bit_by_bit(tmp_path: Path) -> None:
    single_job = train_single(tmp_path)
    simulation = simulator(tmp_path, Delays(0))
    epochs = simulation.run()
    weights = torch.load(single_job.latest(), weights_only=True)["model"]
    for name, value in simulation.model.state_dict().items():
        assert torch.equal(value, weights[name]), name
    validation_losses = single_job.curve("validation/loss")
    assert (
        float(f"{epochs[-1].values['validation/loss']:.9g}")
        == validation_losses[max(validation_losses)]
    )


def test_the_staleness_is_the_delay_after_the_first_pushes(tmp_path: Path) -> None:
    epochs = simulator(tmp_path, Delays(4)).run()
    assert [epoch.staleness_max for epoch in epochs] == [4, 4]
    assert epochs[1].staleness_mean == 4
    assert epochs[0].staleness_mean == (0 + 1 + 2 + 3 + 8 * 4) / 12


def test_a_random_delay_is_the_same_each_time(tmp_path: Path) -> None:
    first = simulator(tmp_path / "a", Delays(4, is_random=True)).run()
    second_epochs = simulator(tmp_path / "b", Delays(4, is_random=True)).run()
    assert first == second_epochs
    assert len({epoch.staleness_mean for epoch in first}) == 2
