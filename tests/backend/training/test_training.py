"""Training of a job by its ranks, as its settings ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.status import LOSS_NOT_A_NUMBER
from backend.training.loop import Trainer
from backend.training.strategies.base import SingleProcess
from tests.backend.training.training_rig import LOADER, MODEL, Training, new_training

SINGLE_PROCESS: dict[str, Any] = {"processes": 1, "strategy": {"name": "alone"}}

LINEAR = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        return self.layer(x)
    def loss(self, output, target):
        return ((output.squeeze(1) - 100.0 * target) ** 2).mean()
"""


@pytest.mark.parametrize("phase", [Phase.COMPUTING, Phase.SAVING])
def test_f16_a_rank_that_waits_for_a_value_of_another_is_not_taken_for_hung(phase: Phase) -> None:
    phases: list[Phase] = []

    class WatchedStrategy(SingleProcess):
        def gather(self, value: Any) -> list[Any]:
            phases.append(trainer.beat.read()[1])
            return super().gather(value)

    trainer = Trainer.__new__(Trainer)
    trainer.beat = RankHeartbeat.inherited()
    trainer.strategy = WatchedStrategy()
    trainer.beat.beat(phase)
    trainer._gather("value")
    assert (phases, trainer.beat.read()[1]) == ([Phase.WAITING_FOR_OTHERS], phase)


def train_one_step(tmp_path: Path, code: str, **settings: Any) -> tuple[Training, Any, Any]:
    """Train a model for a step on two ranks; return the new model, too, and the whole dataset.

    The step holds the whole dataset, in whatever order.
    """
    training = new_training(
        tmp_path,
        model=code,
        epochs=1,
        batch_size=48,
        optimizer={"name": "sgd", "lr": 0.1},
        strategy={"name": "allreduce", "lr_scaling": "none"},
        **settings,
    )
    training.train_well()
    space: dict[str, Any] = {}
    exec(code + LOADER, space)
    torch.manual_seed(training.config.seed)
    return training, space["UserModel"](), space["UserDataset"]("")


def test_the_reduced_gradient_is_clipped_not_each_ranks_own(tmp_path: Path) -> None:
    training, model, data = train_one_step(tmp_path, LINEAR, gradient_norm=1.0)
    model.loss(model(data.x), data.y).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    trained = torch.load(training.latest(), weights_only=True)["model"]
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(trained[name], tensor, rtol=1e-5, atol=1e-6)
    assert training.curve("gradient_norm")[1] == pytest.approx(float(norm), rel=1e-5)


@pytest.mark.parametrize(
    "schedule",
    [
        {"name": "cosine", "warmup_epochs": 1.5, "eta_min": 0.001},
        {"name": "step", "step_size": 2, "gamma": 0.5},
        {"name": "exponential", "gamma": 0.9, "warmup_epochs": 1},
    ],
)
def test_s09_the_rate_in_the_history_is_the_rate_in_the_preview(
    tmp_path: Path, schedule: dict[str, Any]
) -> None:
    training = new_training(tmp_path, epochs=4, schedule=schedule, **SINGLE_PROCESS)
    training.train_well()
    planned_rates = {n + 1: learning_rate(training.config, 12, n) for n in range(48)}
    logged_rates = training.curve("learning_rate")
    assert logged_rates.keys() == planned_rates.keys()
    assert all(logged_rates[n] == float(f"{planned_rates[n]:.9g}") for n in planned_rates)


def test_the_validation_is_the_same_on_two_ranks_and_ends_the_training_when_it_stands_still(
    tmp_path: Path,
) -> None:
    still: dict[str, Any] = {
        "model": MODEL.replace("nn.BatchNorm1d(16), ", ""),
        "optimizer": {"name": "sgd", "lr": 1e-30},
    }
    training = new_training(
        tmp_path,
        epochs=50,
        early_stop={"metric": "validation/accuracy", "mode": "max", "patience_epochs": 3},
        **still,
    )
    training.train_well()
    assert list(training.curve("validation/loss")) == [6, 12, 18, 24]
    assert Path(training.latest()).name == "epoch-0004-step-000024.pt"
    early_finish = (
        "Stopped early at step 24 of 300: “validation/accuracy” has not improved for 3 epochs."
    )
    assert training.status()["early_finish"] == early_finish
    single_job = new_training(tmp_path, name="alone", epochs=1, **still, **SINGLE_PROCESS)
    single_job.train_well()
    for curve in ("validation/loss", "validation/accuracy"):
        (value,) = single_job.curve(curve).values()
        assert set(training.curve(curve).values()) == {value}


def test_an_early_stop_on_an_unmeasured_metric_lists_the_measured_ones(tmp_path: Path) -> None:
    training = new_training(tmp_path, early_stop={"metric": "validation/f1"}, **SINGLE_PROCESS)
    assert training.train() == 1
    assert "“validation/f1”" in training.error()["sentence"]
    assert "validation/accuracy" in training.error()["sentence"]


def test_m17_fifty_epochs_leave_three_files_and_the_last_is_one(tmp_path: Path) -> None:
    training = new_training(
        tmp_path,
        epochs=50,
        checkpoint={"every_epochs": 5, "keep_latest": 2, "keep_best": 1},
        **SINGLE_PROCESS,
    )
    training.train_well()
    checkpoint_names = sorted(path.stem for path in training.folder.checkpoints.glob("*.pt"))
    assert len(checkpoint_names) <= 3
    assert checkpoint_names[-1] == "epoch-0050-step-000600"
    assert Path(training.latest()).stem == checkpoint_names[-1]
    values = training.curve("validation/loss")
    best_step = min((step for step in values if step % 60 == 0), key=values.__getitem__)
    assert any(name.endswith(f"{best_step:06d}") for name in checkpoint_names)
    sidecars = sorted(path.stem for path in training.folder.checkpoints.glob("epoch*.json"))
    assert sidecars == checkpoint_names


def test_checkpoints_by_steps_come_at_those_steps(tmp_path: Path) -> None:
    training = new_training(
        tmp_path, epochs=2, checkpoint={"every_steps": 5, "keep_latest": 9}, **SINGLE_PROCESS
    )
    training.train_well()
    steps = sorted(int(p.stem[-6:]) for p in training.folder.checkpoints.glob("*.pt"))
    assert steps == [5, 10, 15, 20, 24]


def test_checkpoints_by_the_clock_are_agreed(tmp_path: Path) -> None:
    slow_model = MODEL.replace(
        "return self.layers(x)", "import time; time.sleep(.02); return self.layers(x)"
    )
    training = new_training(
        tmp_path,
        model=slow_model,
        epochs=6,
        checkpoint={"every_minutes": 0.005, "keep_latest": 99},
    )
    training.train_well()
    assert len(list(training.folder.checkpoints.glob("*.pt"))) >= 3


def test_f21_s12_a_loss_that_is_no_number_in_one_rank_ends_all_at_that_step(tmp_path: Path) -> None:
    faulty_model = MODEL.replace(
        "return nn.functional.cross_entropy(output, target)",
        "import os\n"
        "        self.steps = getattr(self, 'steps', 0) + self.training\n"
        "        loss = nn.functional.cross_entropy(output, target)\n"
        "        bad = self.steps == 8 and os.environ.get('OMPI_COMM_WORLD_RANK', '1') == '1'\n"
        "        return loss * float('nan') if bad and self.training else loss",
    )
    training = new_training(tmp_path, model=faulty_model)
    assert training.train() != 0
    culprit = training.error(1)
    assert culprit["sentence"] == "The loss of rank 1 became NaN at step 8 (epoch 2)."
    assert (culprit["cause"], "gradient clipping" in culprit["remedy"]) == (LOSS_NOT_A_NUMBER, True)
    assert "became NaN at step 8" in training.log()
    assert "Traceback" not in training.log(), "the frames of the program add nothing"
    assert training.error(1)["secondary"] is False
    first = training.error(0)
    assert first["secondary"] is True
    assert Path(training.latest()).stem == "epoch-0001-step-000006"
    assert sorted(training.curve("loss")) == list(range(1, 8)), "step 8 is there, as no number"
    assert training.history()[-1]["totalIter"] == 8

    going_on = new_training(
        tmp_path, model=faulty_model, name="going-on", stop_on_nan=False, **SINGLE_PROCESS
    )
    going_on.train_well()
    assert sorted(set(range(1, 37)) - set(going_on.curve("loss"))) == [8]
    weights = torch.load(going_on.latest(), weights_only=True)["model"]
    assert all(torch.isfinite(t).all() for t in weights.values()), "the step was left out"


def test_a_batch_may_be_nested_and_a_metric_a_tensor(tmp_path: Path) -> None:
    loader = LOADER.replace(
        "return self.x[index], self.y[index]",
        "return {'x': (self.x[index], [self.x[index]])}, {'label': self.y[index]}",
    )
    model = (
        MODEL.replace("self.layers(x)", "{'out': [self.layers(x['x'][0] + x['x'][1][0])]}")
        .replace(
            "cross_entropy(output, target)", "cross_entropy(output['out'][0], target['label'])"
        )
        .replace("output.argmax", "output['out'][0].argmax")
        .replace("== target", "== target['label']")
        .replace(".mean().item()}", ".mean(), 'loss': 1}")
    )
    training = new_training(tmp_path, model=model, loader=loader, epochs=1, **SINGLE_PROCESS)
    training.train_well()
    assert set(training.curve("user/loss").values()) == {1.0}
    assert len(training.curve("accuracy")) == 12


def test_a_metric_may_have_any_name_and_takes_the_place_of_none(tmp_path: Path) -> None:
    reserved_names = ("loss", "learning_rate", "step", "epoch", "validation/loss", "user/loss")
    unusual_names = ("recall (IoU = 0.5)", "=1+1", "samples/s, 日本")
    entries = ", ".join(
        f"{name!r}: {number + 7}" for number, name in enumerate((*reserved_names, *unusual_names))
    )
    model = MODEL.replace('return {"accuracy"', f'return {{{entries}, "accuracy"')
    early_stop = {"metric": "validation/user/step", "mode": "min", "patience_epochs": 1}
    checkpoint_policy = {"best_metric": "validation/user/validation/loss"}
    training = new_training(
        tmp_path,
        model=model,
        epochs=3,
        early_stop=early_stop,
        checkpoint=checkpoint_policy,
        **SINGLE_PROCESS,
    )
    training.train_well()
    for number, name in enumerate(
        (*(f"user/{reserved_name}" for reserved_name in reserved_names), *unusual_names)
    ):
        for prefix in ("", "validation/"):
            assert set(training.curve(prefix + name).values()) == {number + 7.0}
    assert len(training.curve("validation/loss")) == 2, "the early stop found what it watches"
    assert max(training.curve("validation/loss").values()) < 7
    assert max(training.curve("loss").values()) < 7
    assert not {"step", "epoch"} & training.history()[-1]["metrics"].keys()


def test_a_user_collate_is_used(tmp_path: Path) -> None:
    loader = LOADER.replace(
        "    def __len__",
        "    def collate(self, items):\n"
        "        x, y = zip(*items)\n"
        "        return torch.stack(x) * 0, torch.stack(y)\n"
        "    def __len__",
    )
    training = new_training(
        tmp_path, model=LINEAR, loader=loader, epochs=1, gradient_norm=1e9, **SINGLE_PROCESS
    )
    training.train_well()
    weights = torch.load(training.latest(), weights_only=True)["model"]["layer.weight"]
    torch.manual_seed(training.config.seed)
    assert torch.equal(weights, nn.Linear(4, 1).weight), "no input, no gradient"


WIDE = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 100_000)
        self.second = nn.Linear(100_000, 32)
        self.last = nn.Linear(32, 3).double()
        self.scale = nn.Parameter(torch.full((3,), 0.5, dtype=torch.bfloat16))
        self.turn = nn.Parameter(torch.ones(3, dtype=torch.complex64))
        self.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
    def forward(self, x):
        out = self.last(torch.tanh(self.second(torch.tanh(self.first(x)))).double())
        return out * self.scale.double() * self.turn.abs().double() * self.frozen
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
"""


def test_large_models_of_mixed_types_go_out_in_several_pieces(tmp_path: Path) -> None:
    training, model, data = train_one_step(tmp_path, WIDE)
    previous_values = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.loss(model(data.x), data.y).backward()
    torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1).step()
    trained = torch.load(training.latest(), weights_only=True)["model"]
    for name, tensor in model.state_dict().items():
        change, expected = trained[name] - previous_values[name], tensor - previous_values[name]
        torch.testing.assert_close(change, expected, rtol=0.02, atol=1e-6)
        assert torch.any(change != 0) == (name not in ("unused", "frozen")), name


KERAS = """
import keras
import torch
from keras import layers

class UserModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = layers.Dense(16, activation="relu")
        self.last = layers.Dense(3)
    def call(self, x):
        return self.last(self.first(x))
    def loss(self, output, target):
        return torch.nn.functional.cross_entropy(output, target)
"""


@pytest.mark.slow
def test_a_keras_model_on_the_torch_backend_trains_and_resumes(tmp_path: Path) -> None:
    training = new_training(tmp_path, model=KERAS, epochs=4, environment={"KERAS_BACKEND": "torch"})
    training.train_well()
    losses = list(training.curve("validation/loss").values())
    assert losses[-1] < losses[0]
    training.with_config(epochs=5, environment={"KERAS_BACKEND": "torch"})
    training.train_well(resume_from=training.latest())
    assert training.step() == 30
