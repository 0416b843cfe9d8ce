"""Metrics that are not among those of the first step, or not among those of each rank."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from backend.datastore.jobs.history_reader import read_history
from backend.training.step_sync import MAX_LATER_METRICS
from tests.backend.training.training_rig import MODEL, new_training

BODY = """
        import os
        self.steps = getattr(self, "steps", 0) + self.training
        rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
        if not self.training:
            return {"judged": 1.0}
        found = {"always": float(rank)}
        if self.steps >= 5:
            found["late"] = 10.0 * self.steps + rank
        if rank == 1 and self.steps > 2:
            found["of one rank"] = self.steps
        if self.steps % 6 == 0:
            found["last batch"] = 1.0
        if self.steps >= 3:
            found["loss of D" if self.steps % 2 else "loss of G"] = self.steps
        found[f"in epoch {(self.steps + 5) // 6}"] = 1.0
        if self.steps > 3:
            found["no number"] = float("nan")
        return found
"""
LATER = MODEL[: MODEL.index("        return {")] + BODY


def test_a_metric_that_comes_later_has_a_curve_from_then_on_and_gaps_before(tmp_path: Path) -> None:
    training = new_training(tmp_path, model=LATER)
    training.train_well()
    steps = range(1, 19)
    expected_curves = {
        "always": dict.fromkeys(steps, 0.5),
        "late": {step: 10.0 * step + 0.5 for step in steps if step >= 5},
        "of one rank": {step: float(step) for step in steps if step > 2},
        "last batch": dict.fromkeys((6, 12, 18), 1.0),
        "loss of D": {step: float(step) for step in steps if step >= 3 and step % 2},
        "loss of G": {step: float(step) for step in steps if step >= 3 and not step % 2},
        "in epoch 2": dict.fromkeys(range(7, 13), 1.0),
        "validation/judged": dict.fromkeys((6, 12, 18), 1.0),
        "no number": {},
    }
    assert {name: training.curve(name) for name in expected_curves} == expected_curves
    read, _ = read_history(training.folder.history)
    columns: dict[str, Any] = dict(read.metrics)
    for name, curve in expected_curves.items():
        values = dict(zip(map(int, read.steps), columns[name], strict=True))
        assert {step: v for step, v in values.items() if not math.isnan(v)} == curve, name
    assert training.status()["alarms"] == []


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"processes": 1, "strategy": {"name": "alone"}},
        {"strategy": {"name": "downpour"}, "optimizer": {"name": "adagrad", "lr": 0.05}},
    ],
    ids=["allreduce", "alone", "downpour"],
)
def test_names_without_end_are_bounded_and_named(tmp_path: Path, settings: dict[str, Any]) -> None:
    many_names_model = MODEL.replace(
        'return {"accuracy"',
        "self.steps = getattr(self, 'steps', 0) + self.training\n"
        "        return {**{f'{self.steps}/{n}': 1.0 for n in range(20)}, 'accuracy'",
    )
    training = new_training(tmp_path, model=many_names_model, epochs=2, **settings)
    training.train_well()
    names = {name for entry in training.history() for name in entry["metrics"] if "/" in name}
    user_names = {name for name in names if not name.startswith("validation/")}
    assert len(user_names) == 20 + MAX_LATER_METRICS
    assert training.step() > 7
    (alarm,) = training.status()["alarms"]
    assert f"more than {MAX_LATER_METRICS} new names" in alarm["sentence"]
    assert "7/0" in alarm["sentence"]
    assert len(training.curve("accuracy")) == training.step()
