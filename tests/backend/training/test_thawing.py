"""Parameters that a model freezes, thaws, replaces or adds while it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backend.training.loop import all_parameters
from tests.backend.training.test_resume import assert_bit_equal
from tests.backend.training.training_rig import LOADER, Training, new_training

MODEL = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.late = nn.Linear(16, 16).requires_grad_(False)
        self.swapped = nn.Linear(16, 16)
        self.wide = nn.Linear(16, 20_000).requires_grad_(False)
        self.last = nn.Linear(16, 3)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
    def change(self):
        self.steps += 1
        if self.steps == 3:
            self.late.requires_grad_()
        if self.steps == 4:
            self.swapped.weight = nn.Parameter(self.swapped.weight.detach() / 2)
        if self.steps == 5:
            self.first.requires_grad_(False)
            self.wide.weight.requires_grad_()
        if self.steps == 7:
            self.first.weight.requires_grad_()
    def forward(self, x):
        if self.training:
            self.change()
        x = torch.tanh(self.first(x))
        x = x + torch.tanh(self.late(x)) + torch.tanh(self.swapped(x))
        return self.last(x + self.wide(x).mean(1, keepdim=True))
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
"""
STEPS = 8


def settings(strategy: str, optimizer: dict[str, Any]) -> dict[str, Any]:
    ranks = 1 if strategy == "alone" else 2
    return {
        "model": MODEL,
        "epochs": STEPS,
        # Each step holds the whole dataset.
        "batch_size": 96 // ranks,
        "processes": ranks,
        "optimizer": optimizer,
        "strategy": {"name": strategy, "lr_scaling": "none"},
    }


OPTIMIZERS: dict[str, Any] = {
    "sgd": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
    "adagrad": {"lr": 0.01},
}


@pytest.mark.parametrize(
    ("strategy", "optimizer"),
    [("alone", "adagrad"), ("allreduce", "sgd"), ("allreduce", "adagrad"), ("ddp", "sgd")],
)
def test_frozen_thawed_and_replaced_parameters_train_as_in_plain_pytorch(
    tmp_path: Path, strategy: str, optimizer: str
) -> None:
    optimizer_settings = OPTIMIZERS[optimizer]
    training = new_training(
        tmp_path, **settings(strategy, {"name": optimizer, **optimizer_settings})
    )
    training.train_well()
    space: dict[str, Any] = {}
    exec(MODEL + LOADER, space)
    torch.manual_seed(training.config.seed)
    model: Any = space["UserModel"]()
    previous_values = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    data = space["UserDataset"]("")
    rules: Any = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}[optimizer]
    plain_optimizer = rules(model.parameters(), **optimizer_settings)
    losses = []
    for step in range(1, STEPS + 1):
        plain_optimizer.zero_grad()
        loss = model.loss(model(data.x), data.y)
        if step == 4:
            plain_optimizer.add_param_group({"params": [model.swapped.weight]})
        loss.backward()
        plain_optimizer.step()
        losses.append(loss.item())
    assert list(training.curve("loss").values()) == pytest.approx(losses, rel=1e-6)
    trained = torch.load(training.latest(), weights_only=True)["model"]
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(trained[name], tensor, rtol=0, atol=1e-6, msg=name)
        assert torch.equal(trained[name], previous_values[name]) == (name == "wide.bias"), name
    assert "From step 3 on these are trained, too: late.weight, late.bias" in training.log()


def assert_resumes_change_nothing(
    tmp_path: Path, stops: tuple[int, ...], common_settings: dict[str, Any]
) -> Training:
    """Compare a job with one that ends at each of these epochs and resumes; return the first."""
    straight_job = new_training(tmp_path, name="straight", **common_settings)
    straight_job.train_well()
    resumed_job = new_training(tmp_path, name="parts", **common_settings)
    settings = {name: value for name, value in common_settings.items() if name != "model"}
    for epochs in (*stops, settings["epochs"]):
        resumed_job.with_config(**{**settings, "epochs": epochs})
        resumed_job.train_well(resume_from=resumed_job.latest() if resumed_job.run else "")
    assert resumed_job.run == len(stops) + 1
    assert_bit_equal(straight_job, resumed_job)
    return straight_job


def test_a_run_that_resumes_after_a_thaw_continues_as_if_it_had_never_stopped(
    tmp_path: Path,
) -> None:
    common_settings = settings("allreduce", {"name": "sgd", **OPTIMIZERS["sgd"]})
    assert_resumes_change_nothing(tmp_path, (2, 3, 4, 6), common_settings)


def test_a_parameter_with_a_new_name_is_refused_at_that_step(tmp_path: Path) -> None:
    model = MODEL.replace("self.late.requires_grad_()", "self.head = nn.Linear(2, 2)")
    training = new_training(
        tmp_path, **{**settings("allreduce", {"name": "sgd", "lr": 0.1}), "model": model}
    )
    assert training.train() != 0
    assert "state_dict: head.weight, head.bias" in training.error()["sentence"]
    assert training.step() == 2


def test_weights_tied_in_forward_train_and_resume(tmp_path: Path) -> None:
    model = MODEL.replace(
        "x = torch.tanh(self.first(x))",
        "self.swapped.weight = self.late.weight\n        x = torch.tanh(self.first(x))",
    ).replace("self.change()", "pass")
    common_settings = settings("allreduce", {"name": "sgd", **OPTIMIZERS["sgd"]})
    straight_job = assert_resumes_change_nothing(tmp_path, (3,), common_settings | {"model": model})
    del common_settings["model"]
    weights = straight_job.latest()
    new_job = new_training(
        tmp_path, name="fresh", **{**common_settings, "model": model, "epochs": 1}
    )
    state = torch.load(weights, weights_only=True)["model"]
    del state["swapped.weight"]
    torch.save(state, tmp_path / "part.pt")
    new_job.train_well(start_from=str(tmp_path / "part.pt"))


THAWING = MODEL.replace(
    "self.swapped.weight = nn.Parameter(self.swapped.weight.detach() / 2)", "pass"
)
ADAGRAD = {"name": "adagrad", "lr": 0.01}
SERVED: list[dict[str, Any]] = [
    {"strategy": {"name": "downpour"}, "optimizer": ADAGRAD},
    {"strategy": {"name": "sandblaster"}, "optimizer": {"name": "lbfgs", "lr": 1.0}},
]


@pytest.mark.parametrize("settings", SERVED, ids=["downpour", "sandblaster"])
def test_an_alarm_names_parameters_that_servers_do_not_train(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    training = new_training(tmp_path, model=MODEL, epochs=2, **settings)
    training.train_well()
    (alarm,) = training.status()["alarms"]
    assert alarm["kind"] == "not-trained"
    assert "has replaced or added swapped.weight since" in alarm["sentence"]
    assert f"{settings['strategy']['name']} does not train that" in alarm["sentence"]


MOMENTUM = {"name": "sgd", **OPTIMIZERS["sgd"]}
THAWN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "downpour"}, MOMENTUM),
    ({"name": "downpour"}, ADAGRAD),
    ({"name": "downpour", "servers": 2}, ADAGRAD),
    ({"name": "downpour", "servers": 3, "n_fetch": 1}, {"name": "adamw", "lr": 0.01}),
    ({"name": "dc-asgd"}, MOMENTUM),
    ({"name": "dc-asgd", "servers": 2}, {"name": "sgd", "lr": 0.1}),
]


def one_worker(strategy: dict[str, Any], optimizer: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": THAWING,
        "epochs": STEPS,
        "batch_size": 96,
        "processes": strategy.get("servers", 1) + 1,
        "optimizer": optimizer,
        "strategy": strategy,
    }


@pytest.mark.parametrize(("strategy", "optimizer"), THAWN)
def test_servers_train_thawed_parameters(
    tmp_path: Path, strategy: dict[str, Any], optimizer: dict[str, Any]
) -> None:
    common_settings = one_worker(strategy, optimizer)
    served_job = new_training(tmp_path, name="served", **common_settings)
    served_job.train_well()
    common_settings |= {"processes": 1, "strategy": {"name": "alone"}}
    single_job = new_training(tmp_path, name="alone", **common_settings)
    single_job.train_well()
    assert_bit_equal(single_job, served_job)
    assert "alarms" not in served_job.status() or not served_job.status()["alarms"]


@pytest.mark.parametrize(
    ("strategy", "optimizer"), [THAWN[2], THAWN[4]], ids=["downpour", "dc-asgd"]
)
def test_a_served_run_that_resumes_continues_as_if_it_had_never_stopped(
    tmp_path: Path, strategy: dict[str, Any], optimizer: dict[str, Any]
) -> None:
    common_settings = one_worker(strategy, optimizer)
    straight_job = assert_resumes_change_nothing(tmp_path, (1, 2, 4, 6), common_settings)
    assert "late.weight" in straight_job.log()


COORDINATED = one_worker({"name": "sandblaster"}, {"name": "lbfgs", "lr": 0.5}) | {
    # A run that resumes evaluates once more, so nothing that counts may change the network.
    "model": THAWING.replace(
        'register_buffer("steps", torch.zeros((), dtype=torch.long))', "steps = 0"
    )
    .replace("self.steps == 5", "self.steps == 3")
    .replace("self.first.requires_grad_(False)", "pass"),
}


def test_a_coordinator_trains_thawed_parameters_like_a_job_that_begins_then(tmp_path: Path) -> None:
    resumed_job = new_training(tmp_path, name="resumed", **{**COORDINATED, "epochs": 1})
    resumed_job.train_well()
    weights = resumed_job.latest()
    model = COORDINATED["model"].replace("Linear(16, 16).requires_grad_(False)", "Linear(16, 16)")
    model = model.replace("self.last =", "self.wide.weight.requires_grad_()\n        self.last =")
    later_job = new_training(tmp_path, name="later", **{**COORDINATED, "model": model, "epochs": 7})
    later_job.train_well(start_from=weights)
    settings = {name: value for name, value in COORDINATED.items() if name != "model"}
    resumed_job.with_config(**settings)
    resumed_job.train_well(resume_from=weights)
    earlier_losses, later_losses = (
        list(resumed_job.curve("loss").values()),
        list(later_job.curve("loss").values()),
    )
    # Another order of the parameters: sums differ in their last bits.
    assert earlier_losses[1:] == pytest.approx(later_losses, rel=1e-4)
    assert later_losses[-1] < later_losses[0]


def test_a_resumed_coordinated_run_trains_thawed_parameters(tmp_path: Path) -> None:
    straight_job = assert_resumes_change_nothing(tmp_path, (2, 5), COORDINATED)
    assert torch.load(straight_job.latest(), weights_only=True)["ranks"][0]["frozen"] == [
        "wide.bias"
    ]


@pytest.mark.parametrize("settings", SERVED, ids=["downpour", "sandblaster"])
def test_workers_have_the_frozen_weights_that_the_job_begins_with(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    model = MODEL.replace("self.change()", "assert (self.late.weight == 7).all()")
    training = new_training(tmp_path, model=model, epochs=1, **settings)
    space: dict[str, Any] = {}
    exec(MODEL, space)
    weights = space["UserModel"]().state_dict()
    weights["late.weight"].fill_(7)
    torch.save(weights, tmp_path / "weights.pt")
    training.train_well(start_from=str(tmp_path / "weights.pt"))
    training.with_config(epochs=2, **settings)
    training.train_well(resume_from=training.latest())


def test_all_parameters_are_those_of_torch() -> None:
    space: dict[str, Any] = {}
    exec(MODEL, space)
    model = space["UserModel"]()
    model.twin, model.late.bias, model.none = model.first, None, None
    assert set(all_parameters(model)) == set(model.parameters())
