"""A job records what it says about ten fixed validation samples, and trains as without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backend.records.jobs.sample_history import SampleHistory, read_samples
from tests.backend.training.test_resume import RANDOM_LOADER, assert_bit_equal
from tests.backend.training.training_rig import LOADER, MODEL, Training, new_training

NAMED = LOADER.replace("COUNT, SEED = 96, 1", "COUNT, SEED, classes = 96, 1, ['a', 'b', 'c']")
DETECTOR = MODEL.replace(
    "        return self.layers(x)",
    "        y = self.layers(x.mean((1, 2, 3))[:, None].repeat(1, 4))\n"
    "        box = torch.tensor([[4.0, 4.0, 8.0, 12.0]])\n"
    "        return [dict(boxes=box, scores=v[:1], labels=torch.ones(1).long(), y=v) for v in y]",
).split("    def metrics")[0].replace(
    "return nn.functional.cross_entropy(output, target)",
    "return sum(part['y'].square().sum() for part in output)",
)  # fmt: skip
PICTURES = NAMED.replace(
    "return self.x[index], self.y[index]",
    "picture = self.x[index].repeat(4)[None, None].repeat(3, 16, 1)\n"
    "        target = dict(boxes=torch.tensor([[0.0, 0.0, 8.0, 8.0]]), labels=torch.zeros(1))\n"
    "        return picture, target\n"
    "    def collate(self, items):\n"
    "        return torch.stack([item[0] for item in items]), [item[1] for item in items]",
)
REGRESSION = MODEL.replace(
    "nn.functional.cross_entropy(output, target)", "(output.sum(1) - target).square().mean()"
)


def samples_of(training: Training) -> SampleHistory:
    return read_samples(training.folder.samples)


@pytest.mark.parametrize(
    ("strategy", "processes"),
    [
        ({"name": "alone"}, 1),
        ({"name": "ddp"}, 2),
        ({"name": "downpour"}, 3),
        ({"name": "consensus"}, 2),
        pytest.param({"name": "allreduce"}, 2, marks=pytest.mark.slow),
        pytest.param({"name": "fsdp"}, 2, marks=pytest.mark.slow),
        pytest.param({"name": "sandblaster"}, 2, marks=pytest.mark.slow),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_each_validation_adds_the_answers_whichever_rank_has_them(
    tmp_path: Path, strategy: dict[str, Any], processes: int
) -> None:
    settings: dict[str, Any] = {"strategy": strategy, "processes": processes}
    if strategy["name"] == "sandblaster":
        settings["optimizer"] = {"name": "lbfgs", "lr": 1.0}
    training = new_training(tmp_path, loader=NAMED, **settings)
    training.train_well()
    history = samples_of(training)
    assert [sample.sample.index for sample in history.samples] == [37 * n // 10 for n in range(10)]
    steps = [validation.step for validation in history.validations]
    validated_steps = list(training.curve("validation/loss"))
    # Of an epoch of some milliseconds the answers may be more than 2 %: then some have none.
    assert steps[0] == validated_steps[0]
    assert set(steps) <= set(validated_steps)
    guesses = [sample.guesses[0] for n in range(len(steps)) for sample in history.at(n)]
    assert {guess.name for guess in guesses} <= {"a", "b", "c"}
    assert all(1 / 3 <= (guess.confidence or 0) <= 1 for guess in guesses)
    assert {sample.sample.target for sample in history.samples} <= {"a", "b", "c"}


def test_recording_changes_nothing_of_the_training(tmp_path: Path) -> None:
    settings = {"processes": 1, "strategy": {"name": "alone"}}
    jobs = [
        new_training(
            tmp_path, loader=RANDOM_LOADER, name=str(flag), follow_samples=flag, **settings
        )
        for flag in (True, False)
    ]
    for training in jobs:
        training.train_well()
    assert_bit_equal(*jobs)
    assert [training.folder.samples.exists() for training in jobs] == [True, False]


def test_a_resume_repeats_the_validations_after_its_checkpoint(tmp_path: Path) -> None:
    settings = {"processes": 1, "strategy": {"name": "alone"}}
    training = new_training(tmp_path, checkpoint={"keep_latest": 9}, **settings)
    training.train_well()
    straight = {validation.step: validation for validation in samples_of(training).validations}
    first = min(training.folder.checkpoints.glob("*.pt"))
    assert torch.load(first, weights_only=True)["course"]["epoch"] == 2
    training.train_well(resume_from=str(first))
    resumed = samples_of(training)
    assert [v for v in resumed.validations if straight.get(v.step, v) != v] == []
    assert [validation.step for validation in resumed.validations][:2] == [12, 24]
    assert training.folder.samples.read_text().count("samples") == 1


def test_boxes_are_shares_of_the_picture_and_numbers_are_not_shown(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"processes": 1, "strategy": {"name": "alone"}, "epochs": 1}
    settings["optimizer"] = {"name": "sgd", "lr": 1e-6}
    detector = new_training(tmp_path, model=DETECTOR, loader=PICTURES, **settings)
    detector.train_well()
    sample = samples_of(detector).at(0)[0]
    assert [box.corners for box in sample.boxes] == [(0.25, 0.25, 0.5, 0.75)]
    assert [(box.name, box.corners) for box in sample.truth] == [("a", (0, 0, 0.5, 0.5))]
    assert sample.sample.parts[0].png
    regression = new_training(tmp_path, model=REGRESSION, name="numbers", **settings)
    regression.train_well()
    assert samples_of(regression) == SampleHistory()
