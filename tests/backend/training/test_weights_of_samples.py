"""A loader may say how often each sample is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from backend.training.user_code import UserCodeError
from tests.backend.training.test_not_finite import train_here
from tests.backend.training.training_rig import LOADER, new_training


def loader_with(weights: str) -> str:
    return LOADER.replace(
        "    def __len__(self):",
        f"        if self.COUNT == 96:\n            self.weights = {weights}\n"
        "    def __len__(self):",
    ).replace(
        "return self.x[index]",
        "assert self.COUNT != 96 or index < 10 or len(self.weights) > 96\n"
        "        return self.x[index]",
    )


@pytest.mark.parametrize(
    "weights",
    ["[1.0] * 10 + [0.0] * 86", "torch.arange(96) < 10", "__import__('numpy').eye(96)[9]"],
)
def test_a_sample_without_weight_is_never_read(tmp_path: Path, weights: str) -> None:
    job = new_training(
        tmp_path, loader=loader_with(weights), processes=1, strategy={"name": "alone"}, epochs=1
    )
    train_here(job)
    assert job.step() == 12


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("[1.0] * 95", "have the shape [95]"),
        ("[[1.0] * 96]", "have the shape [1, 96]"),
        ("[0] * 96", "only zeros"),
        ("[-1.0] + [1.0] * 95", "negative"),
        ("[float('nan')] * 96", "negative or infinite"),
        ("[float('inf')] * 96", "infinite"),
        ("['a'] * 96", "are a list"),
        ("{0: 1.0}", "are a dict"),
        ("3", "have the shape []"),
    ],
)
def test_other_weights_are_refused_with_what_they_are(
    tmp_path: Path, weights: str, message: str
) -> None:
    job = new_training(
        tmp_path, loader=loader_with(weights), processes=1, strategy={"name": "alone"}
    )
    with pytest.raises(UserCodeError) as refusal:
        train_here(job)
    assert message in str(refusal.value)
    assert "not a number for each of the 96 items" in str(refusal.value)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "downpour"])
def test_every_strategy_draws_by_the_weights(tmp_path: Path, strategy: str) -> None:
    job = new_training(
        tmp_path, loader=loader_with("[1.0] * 10 + [0.0] * 86"), strategy={"name": strategy}
    )
    job.train_well()
    assert torch.load(job.latest(), weights_only=True)["course"]["epoch"] == 4
