"""Training of a job that sends matrices of low rank in place of large gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backend.records.jobs.config import StrategyConfig
from backend.training.strategies.power_sgd import RANK, PowerSgd
from tests.backend.training.test_local_steps import assert_equal_tensors, state_of
from tests.backend.training.training_rig import MODEL, new_training

LOW_RANK = {"name": "ddp", "compression": "powersgd"}
WIDE = MODEL.replace("nn.Dropout(0.2), ", "nn.Linear(16, 128), nn.Tanh(), ").replace(
    "nn.Linear(16, 3)", "nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 3)"
)


class CountingRank(PowerSgd):
    """A single rank that counts what it sends."""

    sent_bytes = 0

    def send(self, values: torch.Tensor, name: str, *, is_adasum: bool = False) -> Any:
        self.sent_bytes += values.numel() * values.element_size()

    def receive(self, handle: Any) -> None:
        pass


def test_little_is_sent_and_what_is_left_out_follows_in_later_steps() -> None:
    torch.manual_seed(1)
    model = torch.nn.Linear(200, 100)
    strategy = CountingRank(StrategyConfig("ddp", settings=LOW_RANK), "localhost")
    strategy.adopt(model, 4)
    gradient = torch.randn(100, 200)
    received = torch.zeros(100, 200)
    shares = []
    for step in range(1, 201):
        strategy.zero()
        model.weight.grad = gradient.clone()
        model.bias.grad = torch.ones(100)
        strategy.reduce()
        assert model.weight.grad is not None
        assert torch.linalg.matrix_rank(model.weight.grad) == RANK
        received += model.weight.grad
        shares.append(float((received / step - gradient).norm() / gradient.norm()))
    assert shares[-1] < 0.15 < 0.9 < shares[0]
    assert strategy.sent_bytes / 200 < 0.07 * 4 * 100 * 200


def test_a_gradient_that_is_nan_leaves_no_error_behind() -> None:
    model = torch.nn.Linear(200, 100)
    strategy = CountingRank(StrategyConfig("ddp", settings=LOW_RANK), "localhost")
    strategy.adopt(model, 4)
    for value in (float("nan"), 1.0):
        strategy.zero()
        model.weight.grad = torch.full((100, 200), value)
        strategy.reduce()
    assert model.weight.grad is not None
    assert torch.isfinite(model.weight.grad).all()
    strategy.zero()
    strategy.reduce()
    assert model.weight.grad is None, "no rank used it"


def test_a_resume_continues_bit_for_bit_as_the_run_that_saved_it(tmp_path: Path) -> None:
    job = new_training(
        tmp_path,
        model=WIDE,
        strategy=LOW_RANK,
        checkpoint={"every_steps": 4, "keep_latest": 50},
    )
    job.train_well()
    losses = job.curve("loss")
    straight_state = state_of(job)
    assert sum(list(losses.values())[-5:]) < sum(list(losses.values())[:5])
    assert straight_state["strategy"]["errors"].keys() == {"layers.3.weight", "layers.5.weight"}
    early_path = min(job.folder.checkpoints.glob("*.pt"), key=lambda path: path.stat().st_mtime_ns)
    job.train_well(resume_from=str(early_path))
    assert job.curve("loss") == losses
    for key in ("model", "optimizer", "strategy"):
        assert_equal_tensors(straight_state[key], state_of(job)[key])


@pytest.mark.slow
@pytest.mark.parametrize("setup", [(LOW_RANK, 3), ({"name": "alone"}, 1)])
def test_a_checkpoint_continues_on_other_ranks(
    tmp_path: Path, setup: tuple[dict[str, Any], int]
) -> None:
    job = new_training(
        tmp_path, model=WIDE, strategy=LOW_RANK, checkpoint={"every_steps": 4, "keep_latest": 50}
    )
    job.train_well()
    early_path = min(job.folder.checkpoints.glob("*.pt"), key=lambda path: path.stat().st_mtime_ns)
    strategy, processes = setup
    job.with_config(strategy=strategy, processes=processes)
    job.train_well(resume_from=str(early_path))
    losses = list(job.curve("loss").values())
    assert losses[-1] < losses[0]
