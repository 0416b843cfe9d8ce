"""A resume continues as if the job had never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backend.training.test_not_finite import train_here
from tests.backend.training.training_rig import LOADER, MODEL, Training, new_training, pausing_model

RANDOM_LOADER = LOADER.replace(
    "return self.x[index], self.y[index]",
    "import random, numpy\n"
    "        noise = torch.randn(4) + random.random() + float(numpy.random.rand())\n"
    "        return self.x[index] + 0.1 * noise, self.y[index]",
)


def assert_bit_equal(first_job: Training, second_job: Training) -> None:
    first_state = torch.load(first_job.latest(), weights_only=True)
    second_state = torch.load(second_job.latest(), weights_only=True)
    assert first_state["model"].keys() == second_state["model"].keys()
    for name, tensor in first_state["model"].items():
        assert torch.equal(tensor, second_state["model"][name]), name
    for number, state in first_state["optimizer"]["state"].items():
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, second_state["optimizer"]["state"][number][name])
    for curve in ("loss", "learning_rate", "gradient_norm", "accuracy", "validation/loss"):
        assert first_job.curve(curve) == second_job.curve(curve), curve


@pytest.mark.parametrize(
    ("processes", "strategy", "workers", "optimizer"),
    [
        (1, "alone", 0, "adamw"),
        (2, "allreduce", 1, "adam"),
        pytest.param(2, "allreduce", 0, "sgd", marks=pytest.mark.slow),
        pytest.param(4, "allreduce", 0, "rmsprop", marks=pytest.mark.slow),
    ],
)
def test_stopped_and_resumed_is_bit_equal_to_straight(
    tmp_path: Path, processes: int, strategy: str, workers: int, optimizer: str
) -> None:
    settings = {
        "processes": processes,
        "strategy": {"name": strategy},
        "loader_workers": workers,
        "optimizer": {"name": optimizer, "lr": 0.01},
        "schedule": {"name": "cosine", "warmup_epochs": 0.5},
        "gradient_norm": 0.5,
        "epochs": 3,
    }
    straight_job, resumed_job = (
        new_training(
            tmp_path, model=pausing_model(MODEL), loader=RANDOM_LOADER, name=name, **settings
        )
        for name in ("straight", "halves")
    )
    straight_job.train_well()
    resumed_job.train_well(
        stop_condition=lambda: resumed_job.step() >= 2, **resumed_job.pause_environment
    )
    stopped_state = torch.load(resumed_job.latest(), weights_only=True)
    assert stopped_state["course"]["step"] < 3 * 96 // (8 * processes)
    resumed_job.train_well(resume_from=resumed_job.latest())
    assert {entry["run"] for entry in resumed_job.history()} == {1, 2}
    assert_bit_equal(straight_job, resumed_job)


def test_a_stop_inside_the_validation_changes_nothing_that_comes_after(tmp_path: Path) -> None:
    """The loader draws random numbers in the validation too, which begins again in the resume."""
    settings = {"processes": 1, "strategy": {"name": "alone"}, "epochs": 3}
    loader = RANDOM_LOADER.replace("37, 2", "400, 2")
    model = pausing_model(MODEL, "self.judged and not self.training")
    straight_job, resumed_job = (
        new_training(tmp_path, model=model, loader=loader, name=name, **settings)
        for name in ("straight", "halves")
    )
    straight_job.train_well()
    resumed_job.train_well(
        stop_condition=lambda: resumed_job.status_is("EVALUATING"), **resumed_job.pause_environment
    )
    assert resumed_job.curve("validation/loss") == {}
    resumed_job.train_well(resume_from=resumed_job.latest())
    assert_bit_equal(straight_job, resumed_job)


def test_on_other_ranks_by_smaller_batches_the_epoch_goes_on_at_the_same_sample(
    tmp_path: Path,
) -> None:
    sample_file = tmp_path / "seen"
    logging = LOADER.replace(
        "return self.x[index], self.y[index]",
        "import os\n"
        "        if self.COUNT == 96:\n"
        f"            with open({str(sample_file)!r}, 'a') as file:\n"
        "                file.write(f'{index}\\n')\n"
        "        return self.x[index], self.y[index]",
    )
    training = new_training(
        tmp_path, model=pausing_model(MODEL), loader=logging, epochs=4, batch_size=4
    )
    training.train_well(stop_condition=lambda: training.step() >= 2, **training.pause_environment)
    progress = torch.load(training.latest(), weights_only=True)["course"]
    samples = sample_file.read_text().split()
    assert len(samples) == progress["step"] * 8 < 4 * 96
    training.with_config(processes=1, epochs=4, batch_size=2, strategy={"name": "alone"})
    training.train_well(resume_from=training.latest())
    samples = sample_file.read_text().split()
    assert len(samples) == 4 * 96
    for epoch in range(4):
        assert sorted(map(int, samples[epoch * 96 : (epoch + 1) * 96])) == list(range(96))
    assert sorted(training.curve("loss")) == list(range(1, max(training.curve("loss")) + 1))


def test_s07_start_from_a_checkpoint_begins_at_its_weights(tmp_path: Path) -> None:
    settings = {"processes": 1, "strategy": {"name": "alone"}}
    source = new_training(tmp_path, name="source", epochs=2, **settings)
    source.train_well()
    tuned_job = new_training(
        tmp_path,
        name="fine",
        epochs=1,
        optimizer={"name": "sgd", "lr": 1e-30},
        checkpoint={"every_epochs": 1},
        **settings,
    )
    tuned_job.train_well(start_from=source.latest())
    parameters = torch.load(source.latest(), weights_only=True)["model"]
    tuned_state = torch.load(tuned_job.latest(), weights_only=True)["model"]
    for name, tensor in parameters.items():
        if "running" not in name and "num_batches" not in name:
            assert torch.equal(tensor, tuned_state[name]), name
    assert tuned_job.step() == 12


@pytest.mark.parametrize("batch_size", [9, 16, 96])
def test_a_validation_before_which_a_resume_makes_no_step_is_on_its_curve(
    tmp_path: Path, batch_size: int
) -> None:
    settings: dict[str, Any] = {"processes": 1, "strategy": {"name": "alone"}, "epochs": 2}
    training = new_training(tmp_path, checkpoint={"every_steps": 11, "keep_latest": 99}, **settings)
    train_here(training)
    losses = training.curve("loss")
    training.with_config(batch_size=batch_size, **settings)
    train_here(training, str(training.folder.checkpoints / "epoch-0001-step-000011.pt"))
    # 8 samples of the first epoch are left.
    steps = [11, 11 + 96 // batch_size]
    assert sorted(training.curve("validation/loss")) == steps
    resumed_losses = training.curve("loss")
    assert sorted(resumed_losses) == [*range(1, steps[1] + 1)]
    assert {step: resumed_losses[step] for step in range(1, 12)} == {
        step: losses[step] for step in range(1, 12)
    }
