"""Training of a job whose ranks average their weights every few steps (local SGD)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backend.records.jobs.config import StrategyConfig
from backend.training.strategies.base import SingleProcess
from backend.training.strategies.local_steps import LocalSteps, Periods
from tests.backend.training.training_rig import MODEL, Training, new_training, pausing_model

# 96 samples in steps of 2 × 8: six steps of an epoch, in periods of 4 and 2.
EVERY_FOUR = {"name": "ddp", "average_every": 4, "outer_lr": 0.7, "outer_momentum": 0.9}
TANH = MODEL.replace("nn.BatchNorm1d(16), nn.ReLU()", "nn.Tanh()").replace("0.2", "0.0")


def local_job(tmp_path: Path, name: str = "job", model: str = MODEL, **settings: Any) -> Training:
    return new_training(tmp_path, model=model, name=name, **{"strategy": EVERY_FOUR, **settings})


def state_of(training: Training) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(training.latest(), weights_only=True)
    return state


def assert_equal_tensors(first: Any, second: Any) -> None:
    if isinstance(first, torch.Tensor):
        assert torch.equal(first, second)
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for key, value in first.items():
            assert_equal_tensors(value, second[key])


@pytest.mark.parametrize(
    ("strategy", "optimizer"),
    [
        ("ddp", "sgd"),
        pytest.param("ddp", "adam", marks=pytest.mark.slow),
        pytest.param("allreduce", "adam", marks=pytest.mark.slow),
    ],
)
def test_a_resume_within_a_period_continues_bit_for_bit_as_the_run_that_saved_it(
    tmp_path: Path, strategy: str, optimizer: str
) -> None:
    job = local_job(
        tmp_path,
        strategy={**EVERY_FOUR, "name": strategy},
        optimizer={"name": optimizer, "lr": 0.02, "weight_decay": 0.01},
        checkpoint={"every_steps": 3, "keep_latest": 50},
    )
    job.train_well()
    curves = ("loss", "gradient_norm", "accuracy", "validation/loss")
    straight_state, straight_curves = state_of(job), {name: job.curve(name) for name in curves}
    losses = list(straight_curves["loss"].values())
    assert sum(losses[-5:]) < sum(losses[:5])
    early_path = min(job.folder.checkpoints.glob("*.pt"), key=lambda path: path.stat().st_mtime_ns)
    assert torch.load(early_path, weights_only=True)["course"]["step"] == 3
    job.train_well(resume_from=str(early_path))
    assert {name: job.curve(name) for name in curves} == straight_curves
    resumed_state = state_of(job)
    for key in ("model", "optimizer", "periods"):
        assert_equal_tensors(straight_state[key], resumed_state[key])


@pytest.mark.parametrize(
    "second_setup",
    [
        ({"name": "alone"}, 1),
        (EVERY_FOUR, 3),
        pytest.param(({"name": "ddp"}, 2), marks=pytest.mark.slow),
        pytest.param(({"name": "fsdp"}, 2), marks=pytest.mark.slow),
        pytest.param(({**EVERY_FOUR, "name": "allreduce"}, 3), marks=pytest.mark.slow),
    ],
)
def test_a_stop_within_a_period_continues_on_other_ranks_and_with_other_strategies(
    tmp_path: Path, second_setup: tuple[dict[str, Any], int]
) -> None:
    job = local_job(tmp_path, model=pausing_model(TANH))
    job.train_well(stop_condition=lambda: job.step() >= 2, **job.pause_environment)
    position = state_of(job)["course"]
    assert position["epoch_step"] % 4, "the stop is within a period"
    strategy, processes = second_setup
    job.with_config(strategy=strategy, processes=processes)
    job.train_well(resume_from=job.latest())
    losses = list(job.curve("loss").values())
    assert losses[-1] < losses[0]
    assert state_of(job)["course"]["epoch"] == 4


def test_periods_of_one_step_are_the_steps_of_ddp(tmp_path: Path) -> None:
    """The mean of weights after a step is the weight after a step of the mean gradient."""
    plain = local_job(tmp_path, "plain", TANH, strategy={"name": "ddp"}, batch_size=48)
    local = local_job(
        tmp_path, "local", TANH, strategy={"name": "ddp", "average_every": 2}, batch_size=48
    )
    plain.train_well()
    local.train_well()
    assert len(local.curve("loss")) == 3, "each epoch is one step, and ends its period"
    for curve in ("loss", "validation/loss"):
        assert local.curve(curve) == pytest.approx(plain.curve(curve), rel=1e-5), curve


class _CountingRanks(SingleProcess, LocalSteps):
    """A single rank that counts what it sends."""

    sent_bytes = 0

    def send(self, values: torch.Tensor, name: str, *, is_adasum: bool = False) -> Any:
        self.sent_bytes += values.numel() * values.element_size()

    def receive(self, handle: Any) -> None:
        pass


def test_a_step_sends_the_weights_once_in_a_period_and_nesterov_moves_them() -> None:
    model = torch.nn.Linear(1000, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    strategy = _CountingRanks()
    settings = {"average_every": 20, "outer_lr": 0.5, "outer_momentum": 0.8}
    periods = Periods(StrategyConfig("ddp", settings=settings), strategy, None)
    reference = torch.zeros(1, 1000, requires_grad=True)
    with torch.no_grad():
        reference.copy_(model.weight)
    outer = torch.optim.SGD([reference], lr=0.5, momentum=0.8, nesterov=True)
    periods.use_model(model, ["weight"])
    for step in range(1, 61):
        with torch.no_grad():
            model.weight.add_(0.01 * step)
        periods.end_step(step, optimizer, is_last=False)
        if step % 20 == 0:
            reference.grad = -torch.full_like(reference, 0.01 * sum(range(step - 19, step + 1)))
            outer.step()
            assert torch.allclose(model.weight, reference, atol=1e-5)
    assert strategy.sent_bytes == 3 * 4000, "DDP sends 4,000 bytes in each of 60 steps"
