"""Batch L-BFGS with a coordinator: what it finds, what it does twice and what it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backend.training.data import deal_portions
from tests.backend.training.test_asynchronous import synchronized_model
from tests.backend.training.test_resume import assert_bit_equal
from tests.backend.training.training_rig import MODEL, ROOT, Training, new_training, pausing_model

DIGITS = ROOT / "resources" / "gallery" / "digits"
MLP = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
    def forward(self, x):
        return self.layers(x)
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
    def metrics(self, output, target):
        return {"accuracy": (output.argmax(1) == target).float().mean().item()}
"""


def sandblaster(folder: Path, name: str = "job", *, workers: int = 2, **settings: Any) -> Training:
    strategy = {"name": "sandblaster", "portion": 16, **settings.pop("strategy", {})}
    job_settings = {"optimizer": {"name": "lbfgs", "lr": 1.0}, **settings}
    return new_training(folder, name=name, strategy=strategy, processes=workers + 1, **job_settings)


def digits(folder: Path, model: str, **settings: Any) -> Training:
    loader = (DIGITS / "loader" / "bks_dataset.py").read_text()
    training = sandblaster(folder, model=model, loader=loader, batch_size=64, **settings)
    (training.sources / "files").rmdir()
    (training.sources / "files").symlink_to(DIGITS / "dataset")
    return training


def test_sandblaster_finds_the_losses_of_torchs_lbfgs_in_one_process(tmp_path: Path) -> None:
    training = digits(tmp_path, MLP, epochs=12, strategy={"portion": 128})
    training.train_well()
    sources = training.sources
    space: dict[str, Any] = {}
    for source in (MLP, (DIGITS / "loader" / "bks_dataset.py").read_text()):
        exec(source, space)
    data = space["UserDataset"](str(sources / "files"))
    torch.manual_seed(training.config.seed)
    model = space["UserModel"]()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model.loss(model(data.pictures), data.digits)
        torch.autograd.backward(loss)
        return loss

    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=1, max_eval=26, history_size=10, line_search_fn="strong_wolfe"
    )
    expected = {}
    for step in range(1, 13):
        optimizer.step(closure)
        expected[step] = closure().item()
    assert training.curve("loss") == pytest.approx(expected, rel=0.01)
    assert expected[12] < 0.3


@pytest.mark.slow
def test_the_digits_of_the_gallery_are_learned_in_twenty_iterations(tmp_path: Path) -> None:
    model = (DIGITS / "model" / "bks_model.py").read_text()
    training = digits(tmp_path, model, epochs=20, strategy={"portion": 64})
    training.train_well()
    assert training.curve("validation/accuracy")[20] >= 0.9


def test_the_number_of_workers_changes_nothing_but_rounding(tmp_path: Path) -> None:
    one_worker, three_workers = (
        sandblaster(tmp_path, f"on {workers}", workers=workers, epochs=3) for workers in (1, 3)
    )
    for training in (one_worker, three_workers):
        training.train_well()
    assert len(one_worker.curve("loss")) == 3
    for curve in ("loss", "accuracy"):
        assert one_worker.curve(curve) == pytest.approx(three_workers.curve(curve), rel=1e-4)


# Running means of batch normalization also see the part of the iteration that is made again.
STEADY = MODEL.replace("nn.BatchNorm1d(16)", "nn.Identity()")
PAUSED_MODEL = pausing_model(STEADY, "self.judged and self.training")
"""Its second iteration waits for the stop: under load, the stop of a model that napped came as late
as the validation after it."""


def test_stopped_within_an_iteration_and_resumed_is_bit_equal_to_straight(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "workers": 1,
        "epochs": 4,
        "model": PAUSED_MODEL,
        "batch_size": 32,
        "strategy": {"portion": 32},
    }
    straight_job, resumed_job = (
        sandblaster(tmp_path, name, **settings) for name in ("straight", "halves")
    )
    straight_job.train_well()
    resumed_job.train_well(
        stop_condition=lambda: resumed_job.step() >= 1, **resumed_job.pause_environment
    )
    progress = torch.load(resumed_job.latest(), weights_only=True)["course"]
    assert (progress["step"], progress["epoch_step"]) == (1, 0)
    resumed_job.train_well(resume_from=resumed_job.latest())
    assert_bit_equal(straight_job, resumed_job)


BOWL = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.tensor([3.0, -2.0, 5.0]))
    def forward(self, x):
        return self.weights
    def loss(self, weights, target):
        return ((weights - 1.0) ** 2).sum() + START
"""
"""No kernel decides where it has converged: it has a minimum at 1."""


def converging(folder: Path, start: str = "0.0", **settings: Any) -> Training:
    bowl = BOWL.replace("START", start)
    return sandblaster(folder, model=bowl, workers=1, epochs=40, batch_size=32, **settings)


def test_a_job_that_has_converged_ends_and_counts_only_steps_that_moved(tmp_path: Path) -> None:
    training = converging(tmp_path, checkpoint={"every_epochs": 25})
    training.train_well()
    status, losses = training.status(), training.curve("loss")
    last_step = status["step"]
    assert 1 < last_step < 10
    assert (
        status["early_finish"] == f"Converged at step {last_step} of 40: no step lowers the loss."
    )
    assert status["epoch"] == last_step
    assert list(losses) == list(range(1, last_step + 1)) == list(training.curve("validation/loss"))
    assert sorted(set(losses.values()), reverse=True) == list(losses.values()), "each lowered it"
    assert min(training.curve("evaluations").values()) >= 1
    assert Path(training.latest()).stem == f"epoch-{last_step:04}-step-{last_step:06}"
    training.train_well(resume_from=training.latest())
    resumed_status = training.status()
    assert (resumed_status["step"], resumed_status["early_finish"]) == (
        last_step,
        status["early_finish"],
    )
    assert resumed_status["epoch"] == last_step
    assert training.curve("loss") == losses


def test_a_job_that_begins_where_no_step_is_possible_has_one_step(tmp_path: Path) -> None:
    training = converging(tmp_path)
    model = training.sources / "model" / "bks_model.py"
    model.write_text(model.read_text().replace("[3.0, -2.0, 5.0]", "[1.0, 1.0, 1.0]"))
    training.train_well()
    assert training.curve("loss") == {1: 0.0}
    assert training.status()["early_finish"].startswith("Converged at step 1 of 40")


def test_a_loss_that_is_nan_ends_the_job_also_if_other_jobs_leave_such_steps_out(
    tmp_path: Path,
) -> None:
    training = converging(tmp_path, start="float('nan')", stop_on_nan=False)
    assert training.train() == 1
    assert "became NaN at step 1 (epoch 1)." in training.error()["sentence"]
    assert list(training.curve("evaluations")) == [1]


def test_a_portion_of_a_slow_worker_is_computed_twice_and_does_not_delay_the_step(
    tmp_path: Path,
) -> None:
    # The slow one is in its first portion until the first step is over.
    held_up = synchronized_model(tmp_path / "begun").replace(
        "return self.layers(x)",
        "import json\n"
        "        is_slow = self.training and os.environ['OMPI_COMM_WORLD_RANK'] == '2'\n"
        "        path = os.environ['STATUS']\n"
        "        while is_slow and not (os.path.exists(path) and json.load(open(path))['step']):\n"
        "            time.sleep(0.01)\n"
        "        return self.layers(x)",
    )
    training = sandblaster(tmp_path, model=held_up, epochs=3, strategy={"portion": 8})
    training.train_well(**training.pause_environment)
    assert training.curve("backup copies")[1] >= 1
    assert len(training.curve("loss")) == 3


def test_each_sample_is_in_one_portion_and_the_portions_are_of_about_one_size() -> None:
    portions = deal_portions(65, 32, 8, 1)
    assert sorted(sample for portion in portions for batch in portion for sample in batch) == list(
        range(65)
    )
    assert [sum(len(batch) for batch in portion) for portion in portions] == [22, 22, 21]
    assert all(len(batch) in (7, 8) for portion in portions for batch in portion)
