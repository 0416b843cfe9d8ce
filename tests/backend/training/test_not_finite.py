"""No number that is not finite reaches the weights that a job saves, wherever it comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs.checkpoint_files import list_checkpoints
from backend.records.base.atomic_files import read_json
from backend.records.jobs.checkpoint import Checkpoint, checkpoint_to_resume, retired_checkpoints
from backend.records.jobs.config import CheckpointPolicy
from backend.records.jobs.heartbeat import RankHeartbeat
from backend.records.jobs.launch import Launch
from backend.training.data import TrainingOrder
from backend.training.finite import BufferWatch, not_finite_names
from backend.training.loop import Trainer
from backend.training.rank import Rank
from backend.training.step_recorder import NotANumber
from backend.training.strategies.base import SingleProcess
from tests.backend.training.training_rig import LOADER, Training, new_training
from tests.fakes.mounted_root import MOUNTED

MODEL = """
import gc
import torch
from torch import nn

class UserModel(nn.Module):
    PLACE, STEP = "none", 0
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.last = nn.Linear(16, 3)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("mask", torch.full((3,), float("-inf")))
        self.register_buffer("unset", torch.full((3,), float("nan")))
        self.steps = 0
    def forward(self, x):
        if self.training and self.PLACE == "input" and self.steps + 1 == self.STEP:
            x = x * float("nan")
        return self.last(self.layers(x))
    def loss(self, output, target):
        loss = nn.functional.cross_entropy(output, target)
        self.steps += self.training
        bias, fault = self.last.bias, self.PLACE if self.steps == self.STEP else ""
        if not self.training:
            fault = "loss" if self.PLACE == "validation" else ""
        # Each is 0, and has a gradient.
        zeros = bias - bias.detach()
        if fault in ("loss", "infinite loss"):
            return loss * float("nan" if fault == "loss" else "inf")
        if fault == "gradient":
            return loss + zeros.abs().sqrt().sum()
        if fault == "large gradient":
            return loss + 1e30 * zeros.sum()
        if fault == "buffer":
            self.seen.fill_(float("nan"))
        if fault == "weights":
            bias.data.fill_(float("nan"))
        if fault == "optimizer":
            for optimizer in [o for o in gc.get_objects() if type(o) is torch.optim.Adam]:
                for state in optimizer.state.values():
                    state["exp_avg_sq"].fill_(float("inf"))
        return loss
"""
STEP_TARGETS = ("loss", "infinite loss", "input", "gradient", "large gradient", "buffer")
TARGETS = (*STEP_TARGETS, "weights", "optimizer")
EPOCHS, LAST = 2, 24
ADAM = {"name": "adam", "lr": 0.01}


def faulty_model(target: str, step: int) -> str:
    return MODEL.replace('"none", 0', f'"{target}", {step}')


def job_with(tmp_path: Path, target: str, step: int, **settings: Any) -> Training:
    raw: dict[str, Any] = {
        "epochs": EPOCHS,
        "optimizer": ADAM,
        "checkpoint": {"every_steps": 3, "keep_latest": 99, "best_metric": "validation/loss"},
        **settings,
    }
    return new_training(tmp_path, model=faulty_model(target, step), **raw)


def train_here(training: Training, resume_from: str = "", start_from: str = "") -> Trainer:
    """Train in this process, which takes a tenth of the time of a rank."""
    training.prepare(resume_from, start_from)
    launch = Launch.from_dict(read_json(training.folder.launch))
    beat = RankHeartbeat.inherited()
    services = Rank(training.folder, training.run, beat)._make_rank0_services(launch)
    trainer = Trainer(launch, SingleProcess(), torch.device("cpu"), beat, services)
    try:
        trainer.run()
    finally:
        services.watcher.close()
        services.reporter.close()
        services.checkpointer.wait()
    return trainer


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors_in(part)


def holds_a_fault(record: Checkpoint) -> bool:
    content = torch.load(record.path, weights_only=True)
    meant = {"mask", "unset"}
    content["model"] = {k: v for k, v in content["model"].items() if k not in meant}
    for rank in content["ranks"]:
        rank["buffers"] = {k: v for k, v in rank["buffers"].items() if k not in meant}
    parts = content["model"], content["optimizer"]["state"], content["ranks"]
    return not all(t.isfinite().all() for t in tensors_in(parts) if t.is_floating_point())


def require_sound_checkpoints(training: Training, step: int) -> list[Checkpoint]:
    """No checkpoint with a fault is the newest, the best or resumed from; each is marked."""
    checkpoints = list_checkpoints(
        OpenJob(training.folder.path, MOUNTED), training.config.checkpoint
    )
    has_fault = {record.name: holds_a_fault(record) for record in checkpoints}
    assert {record.name: bool(record.not_finite) for record in checkpoints} == has_fault
    chosen_checkpoints = [
        *(c for c in checkpoints if c.is_latest or c.is_best),
        checkpoint_to_resume(checkpoints, None),
    ]
    assert not any(has_fault[record.name] for record in chosen_checkpoints if record is not None)
    return list(checkpoints)


def alarms_of(training: Training) -> dict[str, int]:
    return {alarm["kind"]: alarm["step"] for alarm in training.status()["alarms"]}


def plain_loop(training: Training, bad_step: int) -> nn.Module:
    """Train in plain PyTorch, without the batch of one step."""
    space: dict[str, Any] = {}
    exec(MODEL + LOADER, space)
    torch.manual_seed(training.config.seed)
    model: Any = space["UserModel"]()
    data = space["UserDataset"]("")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    order = TrainingOrder(96, training.config.batch_size, 0, 1, training.config.seed)
    step = 0
    for epoch in range(1, EPOCHS + 1):
        order.epoch = epoch
        for batch in order:
            step += 1
            if step != bad_step:
                optimizer.zero_grad()
                model.loss(model(data.x[list(batch)]), data.y[list(batch)]).backward()
                optimizer.step()
    return model


def check(training: Training, target: str, step: int, *, has_ended: bool) -> None:
    checkpoints = require_sound_checkpoints(training, step)
    if target in STEP_TARGETS:
        assert alarms_of(training) == {"not-a-number": step}
        assert not any(record.not_finite for record in checkpoints)
    if training.config.stop_on_nan:
        assert has_ended
        # What no step shows is seen in the next step, or in the next checkpoint.
        assert target not in STEP_TARGETS or training.history()[-1]["totalIter"] == step
        source = checkpoint_to_resume(checkpoints, None)
        assert (source.step if source is not None else 0) < step
    else:
        assert not has_ended
        assert set(alarms_of(training)) & {"not-a-number", "bad-checkpoint"}
        missing = set(range(1, LAST + 1)) - set(training.curve("loss"))
        assert target not in ("loss", "input") or missing == {step}


CASES = [
    (target, stop, step)
    for (target, stop), step in zip(
        ((target, stop) for target in TARGETS for stop in (True, False)),
        cycle((1, 13, LAST, 12, 2)),
        strict=False,
    )
]
ALL_CASES = [(p, s, n) for p in TARGETS for s in (True, False) for n in (1, 13, LAST)]


def run_case(tmp_path: Path, target: str, stop: bool, step: int) -> None:
    settings = {"processes": 1, "strategy": {"name": "alone"}}
    # Before the first step Adam has no state.
    step = max(step, 2) if target == "optimizer" else step
    training = job_with(tmp_path, target, step, stop_on_nan=stop, **settings)
    error: NotANumber | None = None
    try:
        train_here(training)
    except NotANumber as ended:
        error = ended
    check(training, target, step, has_ended=error is not None)
    if target in STEP_TARGETS and error is not None:
        assert f"at step {step} (epoch" in error.message
    if target in STEP_TARGETS and not stop:
        saved = torch.load(training.latest(), weights_only=True)["model"]
        for name, value in plain_loop(training, step).state_dict().items():
            assert torch.equal(saved[name].nan_to_num(), value.nan_to_num()), name


@pytest.mark.parametrize(("target", "stop", "step"), CASES)
def test_a_number_that_is_not_finite_ruins_nothing(
    tmp_path: Path, target: str, stop: bool, step: int
) -> None:
    run_case(tmp_path, target, stop, step)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "stop", "step"), [c for c in ALL_CASES if c not in CASES])
def test_a_number_that_is_not_finite_ruins_nothing_at_any_step(
    tmp_path: Path, target: str, stop: bool, step: int
) -> None:
    run_case(tmp_path, target, stop, step)


STRATEGIES: dict[str, dict[str, Any]] = {
    "allreduce": {},
    "compressed": {"strategy": {"name": "allreduce", "compression": "fp16"}},
    "ddp": {"strategy": {"name": "ddp"}},
    "downpour": {
        "processes": 4,
        "optimizer": {"name": "adagrad", "lr": 0.05},
        "strategy": {"name": "downpour", "servers": 2},
    },
    "dc-asgd": {
        "processes": 3,
        "optimizer": {"name": "sgd", "lr": 0.05},
        "strategy": {"name": "dc-asgd", "n_fetch": 3},
    },
    "sandblaster": {
        "processes": 3,
        "optimizer": {"name": "lbfgs", "lr": 1.0},
        "strategy": {"name": "sandblaster", "portion": 48},
    },
    "consensus": {"strategy": {"name": "consensus", "cut": ["layers.0"]}},
}


def run_ranks(tmp_path: Path, name: str, target: str, stop: bool, step: int) -> None:
    settings = STRATEGIES[name]
    training = job_with(tmp_path, target, step, stop_on_nan=stop, **settings)
    code = training.train()
    # L-BFGS has one loss for the whole job: its next step would begin where this one did.
    stop |= name == "sandblaster"
    assert (code != 0) is stop, training.log()
    checkpoints = require_sound_checkpoints(training, step)
    assert "not-a-number" in alarms_of(training)
    assert stop or checkpoints, "a job that goes on saves"
    assert not any(record.not_finite for record in checkpoints)


@pytest.mark.parametrize("name", ["ddp", "downpour", "sandblaster", "consensus"])
def test_no_strategy_applies_a_gradient_that_is_not_finite(tmp_path: Path, name: str) -> None:
    run_ranks(tmp_path, name, "gradient", False, 2)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("target", ["loss", "input", "gradient", "large gradient", "buffer"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_saves_what_is_not_finite(
    tmp_path: Path, name: str, target: str, stop: bool
) -> None:
    if name == "consensus" and target == "input":
        # A traced network asks nothing of its input.
        target = "infinite loss"
    # L-BFGS decides how many portions a worker reads, at least one.
    step = 1 if name == "sandblaster" else 1 + (len(name) + len(target)) % 3
    run_ranks(tmp_path, name, target, stop, step)


def test_a_validation_that_is_not_finite_raises_an_alarm(tmp_path: Path) -> None:
    training = job_with(
        tmp_path, "validation", 0, processes=1, strategy={"name": "alone"}, epochs=1
    )
    train_here(training)
    assert alarms_of(training) == {"bad-validation": 12}
    (alarm,) = training.status()["alarms"]
    assert alarm["sentence"] == "The validation after step 12 gave NaN for validation/loss."
    assert not any(c.is_best for c in require_sound_checkpoints(training, 12))


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 9)), min_size=1, max_size=9), st.data())
def test_what_is_removed_to_free_space_is_never_the_last_good_checkpoint(
    values: list[tuple[bool, float]], data: st.DataObject
) -> None:
    checkpoints = [
        Checkpoint(
            *(f"c{number}", 1, 1, number, 0, 1, "", "", ""),
            metrics={"validation/loss": value},
            not_finite="weight" if is_bad else "",
        )
        for number, (is_bad, value) in enumerate(values, 1)
    ]
    policy = CheckpointPolicy(
        keep_latest=data.draw(st.integers(1, 3)), keep_best=data.draw(st.integers(0, 2))
    )
    remaining_checkpoints = [
        c for c in checkpoints if c not in retired_checkpoints(checkpoints, policy)
    ]
    assert checkpoint_to_resume(remaining_checkpoints, None) == checkpoint_to_resume(
        checkpoints, None
    )
    usable = [c for c in checkpoints if not c.not_finite]
    assert checkpoint_to_resume(checkpoints, None) == (usable[-1] if usable else None)
    if policy.keep_best and usable:
        assert (
            min(usable, key=lambda c: c.metrics["validation/loss"] or 0.0) in remaining_checkpoints
        )


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, -1.5, 1e30, math.inf, -math.inf, math.nan]), max_size=4),
        max_size=4,
    ),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_each_tensor_with_a_fault_is_named(values: list[list[float]], dtype: torch.dtype) -> None:
    tensors = {f"t{n}": torch.tensor(row, dtype=dtype) for n, row in enumerate(values)}
    bad = [f"t{n}" for n, row in enumerate(values) if not all(map(math.isfinite, row))]
    nan = [f"t{n}" for n, row in enumerate(values) if any(map(math.isnan, row))]
    assert not_finite_names({"model": tensors, "optimized": list(tensors)}) == bad
    assert not_finite_names({"model": tensors}) == nan
    assert not_finite_names({"model": tensors}, expected_names=nan) == []
    state = {n: {"sum": tensor} for n, tensor in enumerate(tensors.values())}
    expected_names = [f"sum of {name}" for name in bad]
    assert (
        not_finite_names({"optimizer": {"state": state}, "optimized": list(tensors)})
        == expected_names
    )


def test_a_step_that_is_left_out_restores_buffers_that_it_replaced_or_resized() -> None:
    model = nn.Module()
    for name in ("replaced", "resized", "counted"):
        model.register_buffer(name, torch.ones(3, dtype=torch.int64 if name == "counted" else None))
    model.register_buffer("later", None)
    watch = BufferWatch(model, torch.device("cpu"), may_restore=True)
    for _ in range(2):
        watch.save()
        model.replaced = torch.full((2,), math.nan)
        model.resized.resize_(5).fill_(math.inf)
        model.counted += 1
        is_nan = watch.has_nan()
        assert is_nan is not None
        assert bool(is_nan)
        watch.restore()
        assert all(torch.equal(buffer, torch.ones(3).to(buffer)) for buffer in model.buffers())
