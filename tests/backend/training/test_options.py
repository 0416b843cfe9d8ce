"""Each option of training learns, changes what is computed, and resumes bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backend.training.test_resume import assert_bit_equal
from tests.backend.training.training_rig import MODEL, Training, new_training, pausing_model

OPTIONS: dict[str, dict[str, Any]] = {
    "bfloat16": {"precision": "bfloat16"},
    "accumulation": {"accumulate": 3, "batch_size": 4},
    "average": {"ema": 0.9},
    "no decay": {
        "no_decay": True,
        "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.5},
    },
    "rate of a layer": {"lr_of": {"layers.0.": 0.1, "layers.": 2}},
    "one cycle": {"schedule": {"name": "one-cycle"}},
    "plateau": {"schedule": {"name": "plateau", "patience": 1, "min_delta": 9.0}},
}
SYNCHRONOUS = ("alone", "allreduce", "ddp", "fsdp")


def settings_of(option: str, strategy: str) -> dict[str, Any]:
    changes = OPTIONS[option]
    processes = 1 if strategy == "alone" else 3 if strategy in ("downpour", "dc-asgd") else 2
    job_settings = {
        "processes": processes,
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    }
    return {
        **job_settings,
        **changes,
        "strategy": {"name": strategy, **changes.get("strategy", {})},
    }


def weights(training: Training) -> torch.Tensor:
    state = torch.load(training.latest(), weights_only=True)["model"]
    return torch.cat([value.double().flatten() for value in state.values()])


@pytest.mark.parametrize(
    ("strategy", "option"),
    [
        pytest.param(strategy, option, marks=[pytest.mark.slow] * (strategy != "alone"))
        for strategy in SYNCHRONOUS
        for option in OPTIONS
        # An average needs all weights.
        if (strategy, option) != ("fsdp", "average")
    ],
)
def test_a_job_with_the_option_learns_and_resumes_bit_for_bit(
    tmp_path: Path, option: str, strategy: str
) -> None:
    settings = settings_of(option, strategy)
    model = pausing_model(MODEL, f"self.steps > {4 * settings.get('accumulate', 1)}")
    straight, halves = (
        new_training(tmp_path, model=model, name=name, **settings)
        for name in ("straight", "halves")
    )
    straight.train_well()
    losses = list(straight.curve("loss").values())
    assert sum(losses[-5:]) < sum(losses[:5])
    plain = new_training(tmp_path, name="plain", **settings_of_default(strategy))
    plain.train_well()
    assert not torch.equal(weights(plain), weights(straight))
    halves.train_well(stop_condition=lambda: halves.step() >= 2, **halves.pause_environment)
    assert halves.step() < straight.step()
    halves.train_well(resume_from=halves.latest())
    assert_bit_equal(straight, halves)


def settings_of_default(strategy: str) -> dict[str, Any]:
    return {
        "processes": 1 if strategy == "alone" else 2,
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
        "strategy": {"name": strategy},
    }


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [*SYNCHRONOUS, "downpour"])
def test_a_compiled_model_trains_and_resumes(tmp_path: Path, strategy: str) -> None:
    """What is computed may differ in the last digits; names and course are those of the model."""
    settings = {**settings_of(next(iter(OPTIONS)), strategy), "precision": "float32"}
    model = MODEL.replace("0.2", "0.0")
    plain = new_training(tmp_path, model=model, name="plain", **settings)
    plain.train_well()
    compiled = new_training(
        tmp_path, model=pausing_model(model), name="compiled", compile=True, **settings
    )
    compiled.train_well(stop_condition=lambda: compiled.step() >= 2, **compiled.pause_environment)
    compiled.train_well(resume_from=compiled.latest())
    assert "Compil" not in compiled.log()
    if strategy != "downpour":
        assert compiled.curve("loss") == pytest.approx(plain.curve("loss"), rel=1e-3)


@pytest.mark.parametrize(
    "strategy",
    ["alone", *(pytest.param(name, marks=pytest.mark.slow) for name in SYNCHRONOUS[1:])],
)
def test_the_passes_of_a_step_are_one_larger_batch(tmp_path: Path, strategy: str) -> None:
    """Train with one process and with several, without parts that depend on the batch size."""
    model = MODEL.replace("nn.BatchNorm1d(16)", "nn.Tanh()").replace("0.2", "0.0")
    large_batch = {**settings_of_default(strategy), "batch_size": 12}
    parts = {**large_batch, "batch_size": 4, "accumulate": 3, "strategy": {"name": strategy}}
    larger, passes = (
        new_training(tmp_path, model=model, name=name, **settings)
        for name, settings in (("larger", large_batch), ("passes", parts))
    )
    # The rate is scaled by the passes, too.
    passes.with_config(**{**parts, "strategy": {"name": strategy, "lr_scaling": "none"}})
    larger.with_config(**{**large_batch, "strategy": {"name": strategy, "lr_scaling": "none"}})
    larger.train_well()
    passes.train_well()
    assert passes.step() == larger.step()
    for curve in ("loss", "accuracy", "gradient_norm", "validation/loss"):
        assert passes.curve(curve) == pytest.approx(larger.curve(curve), rel=1e-5), curve
    assert torch.allclose(weights(passes), weights(larger), rtol=1e-5, atol=1e-7)


def test_a_stop_between_two_numbers_of_passes_leaves_no_sample_out(tmp_path: Path) -> None:
    settings = {**settings_of_default("alone"), "batch_size": 4}
    training = new_training(tmp_path, model=pausing_model(MODEL), name="job", **settings)
    training.train_well(stop_condition=lambda: training.step() >= 2, **training.pause_environment)
    position = torch.load(training.latest(), weights_only=True)["course"]["position"]
    assert 0 < position < 96
    training.with_config(**settings, accumulate=2)
    training.train_well(resume_from=training.latest())
    steps = sorted(training.curve("loss"))
    assert len(steps) == position // 4 + (96 - position) // 8 + 2 * 12
