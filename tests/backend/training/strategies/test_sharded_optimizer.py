"""Training of a job whose ranks share the state of the optimizer, compared to DDP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backend.training.training_rig import MODEL, Training, new_training, pausing_model

SHARED = {"name": "ddp", "shard": "optimizer"}
# Each rank says of how many parameters it keeps a state; a job shows the mean over the ranks.
COUNTED = MODEL.replace(
    '        return {"accuracy"',
    "        import gc\n"
    "        optimizers = [o for o in gc.get_objects() if isinstance(o, torch.optim.Optimizer)]\n"
    '        return {"states": float(max(len(o.state) for o in optimizers)), "accuracy"',
)
ADAM: dict[str, Any] = {"optimizer": {"name": "adamw", "lr": 0.01}, "gradient_norm": 0.5}


def state_of(training: Training) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(training.latest(), weights_only=True)
    return state


def assert_same_states(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name, value in first["model"].items():
        assert torch.equal(value, second["model"][name]), name
    first_states, second_states = (state["optimizer"]["state"] for state in (first, second))
    assert first_states.keys() == second_states.keys() != set()
    for index, values in first_states.items():
        for key, value in values.items():
            assert torch.equal(value, second_states[index][key]), (index, key)


def test_updates_and_checkpoint_are_those_of_ddp_and_a_rank_keeps_its_share(
    tmp_path: Path,
) -> None:
    plain, shared = (
        new_training(tmp_path, model=COUNTED, name=name, strategy=strategy, epochs=2, **ADAM)
        for name, strategy in (("plain", {"name": "ddp"}), ("shared", SHARED))
    )
    plain.train_well()
    shared.train_well()
    assert plain.curve("states")[12] == 6
    assert shared.curve("states")[12] == 3, "six parameters on two ranks"
    assert_same_states(state_of(plain), state_of(shared))
    for curve in ("loss", "gradient_norm", "validation/loss"):
        assert shared.curve(curve) == plain.curve(curve)


@pytest.mark.parametrize(
    "second_setup",
    [
        (SHARED, 2),
        pytest.param((SHARED, 3), marks=pytest.mark.slow),
        pytest.param(({"name": "alone"}, 1), marks=pytest.mark.slow),
        pytest.param(({"name": "fsdp"}, 2), marks=pytest.mark.slow),
    ],
)
def test_a_stopped_job_continues_with_its_whole_state(
    tmp_path: Path, second_setup: tuple[dict[str, Any], int]
) -> None:
    model = pausing_model(MODEL)
    stopped = new_training(tmp_path, model=model, strategy=SHARED, **ADAM)
    stopped.train_well(stop_condition=lambda: stopped.step() >= 2, **stopped.pause_environment)
    assert len(state_of(stopped)["optimizer"]["state"]) == 6
    strategy, processes = second_setup
    stopped.with_config(strategy=strategy, processes=processes, **ADAM)
    stopped.train_well(resume_from=stopped.latest())
    losses = list(stopped.curve("loss").values())
    assert losses[-1] < losses[0]
    if second_setup == (SHARED, 2):
        straight = new_training(tmp_path, model=model, name="straight", strategy=SHARED, **ADAM)
        straight.train_well()
        assert_same_states(state_of(straight), state_of(stopped))
