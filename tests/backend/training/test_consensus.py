"""Consensus training: a network over several ranks, one part each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backend.training.test_resume import RANDOM_LOADER, assert_bit_equal
from tests.backend.training.training_rig import MODEL, Training, new_training, pausing_model

PAUSED_MODEL = pausing_model(
    MODEL.replace(
        "class UserModel",
        "class Hold(nn.Module):\n    def forward(self, x):\n        return x\n\nclass UserModel",
    ).replace("nn.ReLU()", "Hold(), nn.ReLU()"),
    "self.steps > 8",
    statement="return x\n",
)


BYTES = ("of part 1", "of part 2", "of part 3", "whole")


def split_job(folder: Path, name: str = "job", *, parts: int = 2, **settings: Any) -> Training:
    strategy = {"name": "consensus", **settings.pop("strategy", {})}
    return new_training(folder, name=name, strategy=strategy, processes=parts, **settings)


def test_one_part_trains_bit_by_bit_as_one_process(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "epochs": 2,
        "gradient_norm": 0.5,
        "schedule": {"name": "cosine", "warmup_epochs": 0.5},
    }
    single_job = new_training(
        tmp_path, name="alone", processes=1, strategy={"name": "alone"}, **settings
    )
    single_job.train_well()
    one_part = split_job(tmp_path, "one", parts=1, **settings)
    one_part.train_well()
    assert_bit_equal(single_job, one_part)


UNSPLIT_MODEL = MODEL.replace("nn.Dropout(0.2), ", "")
THAWING = UNSPLIT_MODEL.replace(
    "class UserModel",
    """class Late(nn.Module):
    steps = 0
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16).requires_grad_(False)
    def forward(self, x):
        self.steps += self.training
        self.layer.requires_grad_(4 <= self.steps < 9)
        return x + self.layer(x)

class UserModel""",
).replace("nn.ReLU(), ", "nn.ReLU(), Late(), ")


@pytest.mark.parametrize("model", [UNSPLIT_MODEL, THAWING], ids=["whole", "thawing"])
def test_two_parts_train_as_the_whole_network_and_save_all_of_it(
    tmp_path: Path, model: str
) -> None:
    settings: dict[str, Any] = {"epochs": 2, "model": model, "gradient_norm": 0.5}
    single_job = new_training(
        tmp_path, name="alone", processes=1, strategy={"name": "alone"}, **settings
    )
    single_job.train_well()
    parts = split_job(tmp_path, "parts", **settings)
    parts.train_well()
    single_state, parts_state = (
        torch.load(job.latest(), weights_only=True) for job in (single_job, parts)
    )
    for kind in ("model", "optimizer"):
        torch.testing.assert_close(parts_state[kind], single_state[kind], rtol=1e-4, atol=1e-5)
    for curve in ("loss", "accuracy", "gradient_norm", "validation/loss"):
        assert parts.curve(curve) == pytest.approx(single_job.curve(curve), rel=1e-4), curve
    assert "The network is cut after “layers." in parts.log()


def test_stopped_and_resumed_is_bit_equal_to_straight(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "parts": 3,
        "epochs": 2,
        "model": PAUSED_MODEL.replace("nn.ReLU(), ", "nn.Linear(16, 16), nn.ReLU(), "),
        "loader": RANDOM_LOADER,
        "strategy": {"cut": ["layers.0", "layers.2"], "inner_rounds": 2},
    }
    straight_job, resumed_job = (
        split_job(tmp_path, name, **settings) for name in ("straight", "halves")
    )
    straight_job.train_well()
    resumed_job.train_well(
        stop_condition=lambda: resumed_job.step() >= 2, **resumed_job.pause_environment
    )
    assert resumed_job.step() < 24
    resumed_job.train_well(resume_from=resumed_job.latest())
    assert_bit_equal(straight_job, resumed_job)
    for name in (
        *(f"{figure} at cut {cut}" for figure in ("residual", "multiplier") for cut in (1, 2)),
        *(f"objective of part {part}" for part in (1, 2, 3)),
    ):
        assert len(straight_job.curve(name)) == 24, name
    bytes_of = {name: straight_job.curve(f"activation bytes {name}")[1] for name in BYTES}
    unsplit_bytes = bytes_of.pop("whole")
    assert min(bytes_of.values()) > 0
    assert unsplit_bytes < sum(bytes_of.values()), "parts also hold copies and multipliers"


def test_parts_that_do_not_fit_the_model_end_the_job_with_a_sentence(tmp_path: Path) -> None:
    training = split_job(tmp_path, strategy={"cut": ["layer.0"]})
    assert training.train() == 1
    assert training.first_error()["sentence"] == (
        "strategy.cut names “layer.0”, but the model has no such module. It has layers, layers.0, "
        "layers.1, layers.2 and 2 more."
    )


def test_the_random_numbers_of_the_loader_are_the_same_on_all_ranks(tmp_path: Path) -> None:
    """The first rank reads the data and the last one the targets, which it makes by chance."""
    loader = RANDOM_LOADER.replace("self.y[index]", "int(noise[0] > 0)", 1).replace(
        "self.x[index] + 0.1 * noise", "noise"
    )
    training = split_job(tmp_path, loader=loader, epochs=6)
    training.train_well()
    assert training.curve("validation/accuracy")[72] > 0.8


def test_a_published_form_trains_on_two_ranks_and_shows_its_disagreement(tmp_path: Path) -> None:
    training = split_job(tmp_path, epochs=1, strategy={"variant": "dual-layer-normalised"})
    training.train_well()
    assert len(training.curve("residual at cut 1")) == 12
    assert training.curve("multiplier at cut 1") == {}


@pytest.mark.slow
def test_default_settings_learn_the_digits_in_twenty_epochs(tmp_path: Path) -> None:
    digits = Path(__file__).parents[3] / "resources/gallery/digits"
    training = split_job(
        tmp_path,
        model=(digits / "model/bks_model.py").read_text(),
        loader=(digits / "loader/bks_dataset.py").read_text(),
        epochs=20,
        batch_size=32,
    )
    (training.sources / "files").rmdir()
    (training.sources / "files").symlink_to(digits / "dataset")
    training.train_well()
    assert training.curve("validation/accuracy")[20 * 44] >= 0.9
