"""A job whose ranks share weights and optimizer state trains as one whose ranks have all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backend.training.training_rig import MODEL, Training, held, new_training

TANH = MODEL.replace("nn.BatchNorm1d(16), nn.ReLU()", "nn.Tanh()").replace("0.2", "0.0")
ADAM: dict[str, Any] = {"optimizer": {"name": "adam", "lr": 0.01}, "epochs": 2}


def state_of(training: Training) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(training.latest(), weights_only=True)
    return state


def trained(tmp_path: Path, strategy: str, processes: int = 2, **settings: Any) -> Training:
    training = new_training(
        tmp_path,
        model=settings.pop("model", TANH),
        name=f"{strategy}-{processes}",
        processes=processes,
        strategy={"name": strategy},
        **{**ADAM, **settings},
    )
    training.train_well()
    return training


def test_the_updates_are_those_of_ddp_and_the_checkpoint_is_whole(tmp_path: Path) -> None:
    whole, sharded = trained(tmp_path, "ddp"), trained(tmp_path, "fsdp")
    for curve in ("loss", "accuracy", "gradient_norm", "validation/loss", "validation/accuracy"):
        assert sharded.curve(curve) == pytest.approx(whole.curve(curve), rel=1e-4), curve
    ours, theirs = state_of(sharded), state_of(whole)
    assert ours["optimized"] == theirs["optimized"]
    for name, value in theirs["model"].items():
        assert torch.allclose(ours["model"][name], value, rtol=1e-3, atol=1e-5), name
    for index, entries in theirs["optimizer"]["state"].items():
        for key, value in entries.items():
            other = ours["optimizer"]["state"][index][key]
            assert other.shape == value.shape
            assert torch.allclose(other, value, rtol=1e-2, atol=1e-5), key


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("fsdp", 2), ("alone", 1)),
        pytest.param(("ddp", 2), ("fsdp", 3), marks=pytest.mark.slow),
        pytest.param(("fsdp", 3), ("ddp", 2), marks=pytest.mark.slow),
        pytest.param(("fsdp", 2), ("fsdp", 3), marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_continues_on_other_ranks_and_with_other_strategies(
    tmp_path: Path, first: tuple[str, int], then: tuple[str, int]
) -> None:
    settings: dict[str, Any] = {**ADAM, "strategy": {"name": first[0]}, "processes": first[1]}
    job = new_training(tmp_path, model=held(TANH), **settings)
    job.train_well(when=lambda: job.step() >= 2, **job.hold)
    before = state_of(job)["course"]["position"]
    job.with_config(**{**ADAM, "strategy": {"name": then[0]}, "processes": then[1]})
    job.train_well(resume_from=job.latest())
    assert 0 < before < 96
    losses = list(job.curve("loss").values())
    assert losses[-1] < losses[0]
    assert state_of(job)["course"]["epoch"] == 3


def test_ranks_with_fewer_batches_of_the_validation_wait_for_none(tmp_path: Path) -> None:
    """37 samples in batches of 16 are three, of which one of two ranks has one."""
    whole = trained(tmp_path, "ddp", batch_size=16)
    sharded = trained(tmp_path, "fsdp", batch_size=16)
    expected = whole.curve("validation/loss")
    assert sharded.curve("validation/loss") == pytest.approx(expected, rel=1e-4)


def test_layers_that_thaw_are_refused(tmp_path: Path) -> None:
    thawing = TANH.replace(
        "    def forward(self, x):",
        "        self.layers[0].weight.requires_grad_(False)\n    def forward(self, x):",
    ).replace(
        "        return self.layers(x)",
        "        self.calls = getattr(self, 'calls', 0) + self.training\n"
        "        self.layers[0].weight.requires_grad_(self.calls > 3)\n"
        "        return self.layers(x)",
    )
    job = new_training(tmp_path, model=thawing, **ADAM, strategy={"name": "fsdp"})
    assert job.train() != 0
    error = job.first_error()
    assert "trains other layers than in its first step" in str(error)


def test_a_model_whose_output_is_a_dictionary_trains(tmp_path: Path) -> None:
    model = (
        TANH.replace("return self.layers(x)", "return {'scores': self.layers(x)}")
        .replace("output", "output['scores']")
        .replace("def loss(self, output['scores'], target)", "def loss(self, output, target)")
        .replace("def metrics(self, output['scores'], target)", "def metrics(self, output, target)")
    )
    trained(tmp_path, "fsdp", model=model)
