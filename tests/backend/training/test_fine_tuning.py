"""A job begins with the weights of another one, of which parts start new or stay frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backend.base.errors import BackendError
from tests.backend.training.test_not_finite import train_here
from tests.backend.training.training_rig import MODEL, Training, new_training, pausing_model

SINGLE_PROCESS: dict[str, Any] = {"processes": 1, "strategy": {"name": "alone"}, "epochs": 1}
FIVE_CLASSES = MODEL.replace("nn.Linear(16, 3)", "nn.Linear(16, 5)")


def saved_checkpoint(training: Training) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(training.latest(), weights_only=True)
    return state


@pytest.fixture
def pretrained(tmp_path: Path) -> Training:
    training = new_training(tmp_path, name="pretrained", **SINGLE_PROCESS)
    train_here(training)
    return training


def test_other_classes_start_with_a_new_layer_and_the_pretrained_others(
    tmp_path: Path, pretrained: Training
) -> None:
    job = new_training(tmp_path, model=FIVE_CLASSES, name="refused", **SINGLE_PROCESS)
    with pytest.raises(BackendError) as refusal:
        train_here(job, start_from=pretrained.latest())
    assert "7 of the model's 9 weights match" in str(refusal.value)
    assert 'start_from_except = ["layers.4."]' in refusal.value.remedy
    rate = {"optimizer": {"name": "sgd", "lr": 1e-30}}
    job = new_training(
        tmp_path, model=FIVE_CLASSES, start_from_except=["layers.4."], **rate, **SINGLE_PROCESS
    )
    train_here(job, start_from=pretrained.latest())
    pretrained_state, tuned_state = (
        saved_checkpoint(pretrained)["model"],
        saved_checkpoint(job)["model"],
    )
    assert torch.equal(pretrained_state["layers.0.weight"], tuned_state["layers.0.weight"])
    assert tuned_state["layers.4.weight"].shape == (5, 16)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_what_is_frozen_keeps_its_weights_and_has_no_state_in_the_optimizer(
    tmp_path: Path, optimizer: str
) -> None:
    changes = {"optimizer": {"name": optimizer, "lr": 0.05, "weight_decay": 0.1}}
    job = new_training(tmp_path, freeze=["layers.0.", "layers.1.bias"], **changes, **SINGLE_PROCESS)
    untrained_job = new_training(
        tmp_path, name="untrained", **{**SINGLE_PROCESS, "optimizer": {"name": "sgd", "lr": 1e-30}}
    )
    train_here(job)
    train_here(untrained_job)
    state, first = saved_checkpoint(job), saved_checkpoint(untrained_job)["model"]
    changed_names = {
        name
        for name, value in state["model"].items()
        if not torch.allclose(value.double(), first[name].double(), atol=1e-9)
    }
    assert changed_names >= {"layers.4.weight", "layers.4.bias", "layers.1.weight"}
    assert not changed_names & {"layers.0.weight", "layers.0.bias", "layers.1.bias"}
    assert state["optimized"] == ["layers.1.weight", "layers.4.weight", "layers.4.bias"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"freeze": ["layers."]}, "has no parameters to train"),
        ({"freeze": ["fc."]}, "The setting freeze has “fc.”, but no name of the model begins"),
        ({"freeze": ["layers.0", "\x1b["]}, "The setting freeze has “?[”"),
    ],
)
def test_what_cannot_be_frozen_is_refused_with_its_name(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BackendError) as refusal:
        train_here(new_training(tmp_path, **settings, **SINGLE_PROCESS))
    assert message in str(refusal.value)


def test_a_name_that_the_model_lacks_cannot_start_new(tmp_path: Path, pretrained: Training) -> None:
    job = new_training(tmp_path, start_from_except=["head."], **SINGLE_PROCESS)
    with pytest.raises(BackendError, match=r"start_from_except has “head\.”"):
        train_here(job, start_from=pretrained.latest())


@pytest.mark.parametrize("strategy", ["ddp", "downpour"])
@pytest.mark.slow
def test_frozen_layers_stay_so_with_several_processes_and_after_a_resume(
    tmp_path: Path, strategy: str
) -> None:
    settings: dict[str, Any] = {"strategy": {"name": strategy}, "epochs": 3}
    job = new_training(tmp_path, model=pausing_model(MODEL), freeze=["layers.0."], **settings)
    job.train_well(stop_condition=lambda: job.step() >= 2, **job.pause_environment)
    first = saved_checkpoint(job)["model"]
    job.train_well(resume_from=job.latest())
    last_state = saved_checkpoint(job)["model"]
    assert torch.equal(first["layers.0.weight"], last_state["layers.0.weight"])
    assert not torch.equal(first["layers.4.weight"], last_state["layers.4.weight"])


OWN_OPTIMIZER = (
    MODEL
    + """
    def optimizer(self, parameters, lr):
        weights = [p for p in parameters if p.ndim > 1]
        others = [p for p in parameters if p.ndim <= 1]
        return torch.optim.AdamW(
            [{"params": weights, "lr": lr}, {"params": others, "lr": lr / 10}], weight_decay=0.1
        )
"""
)


def test_a_model_may_make_its_optimizer_which_is_saved_and_resumed(tmp_path: Path) -> None:
    settings = {**SINGLE_PROCESS, "epochs": 2, "schedule": {"name": "cosine"}}
    straight = new_training(tmp_path, model=OWN_OPTIMIZER, name="straight", **settings)
    train_here(straight)
    state = saved_checkpoint(straight)["optimizer"]
    assert [group["rate_factor"] for group in state["param_groups"]] == pytest.approx([1.0, 0.1])
    last_rate = straight.curve("learning_rate")[24]
    assert [g["lr"] for g in state["param_groups"]] == pytest.approx([last_rate, last_rate / 10])
    halves = new_training(tmp_path, model=OWN_OPTIMIZER, name="halves", **settings)
    halves.with_config(**settings, checkpoint={"every_steps": 7, "keep_latest": 99})
    train_here(halves)
    train_here(halves, str(halves.folder.checkpoints / "epoch-0001-step-000007.pt"))
    for name, value in saved_checkpoint(straight)["model"].items():
        assert torch.equal(value, saved_checkpoint(halves)["model"][name]), name


@pytest.mark.parametrize("settings", [{"lr_of": {"layers.0.": 0.1}}, {"no_decay": True}])
def test_settings_of_groups_are_refused_for_a_model_that_makes_its_optimizer(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    job = new_training(tmp_path, model=OWN_OPTIMIZER, **settings, **SINGLE_PROCESS)
    with pytest.raises(BackendError, match="makes its own optimizer, to which lr_of and no_decay"):
        train_here(job)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "The model's optimizer returns NoneType, not an optimizer"),
        (
            "return torch.optim.SGD(parameters[:1], lr=lr)",
            "has 1 of the 6 parameters that it was called with, and 0 others",
        ),
        ("return torch.optim.SGD(parameters, lr)[0]", "The model's optimizer"),
    ],
)
def test_an_optimizer_of_the_model_that_cannot_be_used_is_refused(
    tmp_path: Path, body: str, message: str
) -> None:
    model = MODEL + f"    def optimizer(self, parameters, lr):\n        {body}\n"
    with pytest.raises(BackendError) as refusal:
        train_here(new_training(tmp_path, model=model, **SINGLE_PROCESS))
    assert message in str(refusal.value)


def test_a_rate_of_a_layer_that_the_model_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"lr_of has “head\."):
        train_here(new_training(tmp_path, lr_of={"head.": 0.5}, **SINGLE_PROCESS))


def test_rates_of_layers_that_train_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="lr_of gives all layers the rate 0"):
        train_here(new_training(tmp_path, lr_of={"layers.": 0}, **SINGLE_PROCESS))
