"""Training of a job whose ranks share weights and optimizer state, compared to other strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backend.training.training_rig import MODEL, Training, new_training, pausing_model

TANH = MODEL.replace("nn.BatchNorm1d(16), nn.ReLU()", "nn.Tanh()").replace("0.2", "0.0")
ADAM: dict[str, Any] = {"optimizer": {"name": "adam", "lr": 0.01}, "epochs": 2}


def state_of(training: Training) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(training.latest(), weights_only=True)
    return state


def trained_job(tmp_path: Path, strategy: str, processes: int = 2, **settings: Any) -> Training:
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
    ddp_job, fsdp_job = trained_job(tmp_path, "ddp"), trained_job(tmp_path, "fsdp")
    for curve in ("loss", "accuracy", "gradient_norm", "validation/loss", "validation/accuracy"):
        assert fsdp_job.curve(curve) == pytest.approx(ddp_job.curve(curve), rel=1e-4), curve
    fsdp_state, ddp_state = state_of(fsdp_job), state_of(ddp_job)
    assert fsdp_state["optimized"] == ddp_state["optimized"]
    for name, value in ddp_state["model"].items():
        assert torch.allclose(fsdp_state["model"][name], value, rtol=1e-3, atol=1e-5), name
    for index, entries in ddp_state["optimizer"]["state"].items():
        for key, value in entries.items():
            fsdp_value = fsdp_state["optimizer"]["state"][index][key]
            assert fsdp_value.shape == value.shape
            assert torch.allclose(fsdp_value, value, rtol=1e-2, atol=1e-5), key


@pytest.mark.parametrize(
    ("first_setup", "second_setup"),
    [
        (("fsdp", 2), ("alone", 1)),
        pytest.param(("ddp", 2), ("fsdp", 3), marks=pytest.mark.slow),
        pytest.param(("fsdp", 3), ("ddp", 2), marks=pytest.mark.slow),
        pytest.param(("fsdp", 2), ("fsdp", 3), marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_continues_on_other_ranks_and_with_other_strategies(
    tmp_path: Path, first_setup: tuple[str, int], second_setup: tuple[str, int]
) -> None:
    name, processes = first_setup
    settings: dict[str, Any] = {**ADAM, "strategy": {"name": name}, "processes": processes}
    job = new_training(tmp_path, model=pausing_model(TANH), **settings)
    job.train_well(stop_condition=lambda: job.step() >= 2, **job.pause_environment)
    position = state_of(job)["course"]["position"]
    name, processes = second_setup
    job.with_config(**{**ADAM, "strategy": {"name": name}, "processes": processes})
    job.train_well(resume_from=job.latest())
    assert 0 < position < 96
    losses = list(job.curve("loss").values())
    assert losses[-1] < losses[0]
    assert state_of(job)["course"]["epoch"] == 3


def test_ranks_with_fewer_batches_of_the_validation_wait_for_none(tmp_path: Path) -> None:
    """Validate 37 samples in batches of 16: three batches on two ranks."""
    ddp_job = trained_job(tmp_path, "ddp", batch_size=16)
    fsdp_job = trained_job(tmp_path, "fsdp", batch_size=16)
    expected = ddp_job.curve("validation/loss")
    assert fsdp_job.curve("validation/loss") == pytest.approx(expected, rel=1e-4)


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
    trained_job(tmp_path, "fsdp", model=model)
