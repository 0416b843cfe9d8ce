"""Estimate of the remaining time, which is right from a fifth of the run on (S6)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.heartbeat import RankHeartbeat
from backend.training import evaluation
from backend.training.data import ValidationOrder
from backend.training.eta import Eta
from backend.training.evaluation import Evaluation
from backend.training.strategies.base import SingleProcess
from backend.training.train_state import Batch


@dataclass(frozen=True)
class Schedule:
    """A steady job. Times are seconds; ``jitter`` is the share by which steps differ."""

    epochs: int = 10
    steps: int = 100
    step_s: float = 0.01
    jitter: float = 0.2
    evaluation_batches: int = 0
    evaluation_batch_s: float = 0.004
    save_every: int = 0
    save_s: float = 0.0


SCHEDULES = {
    "nothing between the steps": Schedule(),
    "an evaluation as long as two epochs": Schedule(evaluation_batches=500),
    "one epoch, evaluated at its end": Schedule(epochs=1, steps=1000, evaluation_batches=300),
    "two epochs": Schedule(epochs=2, steps=400, evaluation_batches=150, evaluation_batch_s=0.003),
    "checkpoints that stop the training": Schedule(epochs=4, steps=500, save_every=50, save_s=0.2),
    "all of it, in long steps": Schedule(
        epochs=3,
        steps=60,
        step_s=40.0,
        evaluation_batches=20,
        evaluation_batch_s=15,
        save_every=10,
        save_s=60,
    ),
}
FLUSH_S = 0.5


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_s06_the_error_is_at_most_15_percent_from_a_fifth_on(schedule: Schedule) -> None:
    chance = random.Random(3)
    now = 0.0
    eta = Eta(lambda: now)
    eta.plan(schedule.evaluation_batches)
    estimates: list[tuple[float, float]] = []
    pending: list[float] = []
    done = 0
    step_count = schedule.epochs * schedule.steps

    def flush(evaluations: int) -> None:
        if pending:
            eta.add_steps(len(pending), sum(pending))
            pending.clear()
        remaining_s = eta.remaining_s(step_count - done, evaluations)
        if remaining_s is not None:
            estimates.append((now, remaining_s))

    for epoch in range(schedule.epochs):
        evaluations = schedule.epochs - epoch if schedule.evaluation_batches else 0
        for _ in range(schedule.steps):
            seconds = schedule.step_s * chance.uniform(1 - schedule.jitter, 1 + schedule.jitter)
            now += seconds
            done += 1
            pending.append(seconds)
            if sum(pending) >= FLUSH_S:
                flush(evaluations)
            if schedule.save_every and done % schedule.save_every == 0:
                now += schedule.save_s
                eta.add_save(schedule.save_s)
        if schedule.evaluation_batches:
            eta.begin_evaluation()
            for tenth in range(1, 11):
                now += schedule.evaluation_batches * schedule.evaluation_batch_s / 10
                eta.add_batches(tenth * schedule.evaluation_batches // 10)
                flush(evaluations)
            eta.end_evaluation(schedule.evaluation_batches * schedule.evaluation_batch_s)
    end_s = now
    late_estimates = [
        (time_s, remaining_s)
        for time_s, remaining_s in estimates
        if 0.2 * end_s <= time_s < 0.999 * end_s
    ]
    assert len(late_estimates) > 10
    # In the last twentieth what counts is the share of that twentieth: a second is a second.
    worst = max(
        abs(remaining_s - (end_s - time_s)) / max(end_s - time_s, 0.05 * end_s)
        for time_s, remaining_s in late_estimates
    )
    assert worst <= 0.15


@given(st.floats(1e-4, 10.0), st.floats(1e-4, 10.0), st.integers(1, 5000), st.integers(0, 9))
def test_before_the_first_validation_its_time_is_that_of_its_rehearsal(
    step_s: float, batch_s: float, batches: int, evaluations: int
) -> None:
    eta = Eta()
    eta.plan(batches, batch_s)
    eta.add_steps(20, 20 * step_s)
    assert eta.remaining_s(100, evaluations) == pytest.approx(
        100 * step_s + evaluations * batches * batch_s
    )


@pytest.mark.parametrize(
    ("workers", "batch_s"), [(0, 5.0 + 2.0), (1, 5.0), (2, 2.5)], ids=["none", "one", "two"]
)
def test_a_rehearsal_measures_a_batch_that_is_not_the_first(
    monkeypatch: pytest.MonkeyPatch, workers: int, batch_s: float
) -> None:
    """The loading of a batch takes 5 s, the model 2 s, and 60 s the first time."""
    now_s = 0.0
    monkeypatch.setattr(evaluation.time, "perf_counter", lambda: now_s)

    class Samples(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 10

        def __getitems__(self, indices: list[int]) -> list[Any]:
            nonlocal now_s
            now_s += 5.0 * len(indices) / 8
            return [(torch.ones(2), torch.ones(1)) for _ in indices]

    class Model(torch.nn.Module):
        shapes: ClassVar[list[int]] = []

        def forward(self, data: torch.Tensor) -> torch.Tensor:
            nonlocal now_s
            now_s += (2.0 if len(data) in self.shapes else 60.0) * len(data) / 8
            self.shapes.append(len(data))
            return data

        def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return output.sum()

    Model.shapes.clear()
    order = ValidationOrder(10, 8, 0, 1)
    batches = torch.utils.data.DataLoader(Samples(), batch_sampler=order, num_workers=workers)
    rehearsed = Evaluation(
        batches,
        order,
        SingleProcess(),
        torch.device("cpu"),
        RankHeartbeat.inherited(),
        Batch(),
        False,
    ).rehearse(Model())
    assert (rehearsed, Model.shapes) == (pytest.approx(batch_s), [8, 2, 8])


def test_s06_a_changed_pace_is_followed_within_two_minutes() -> None:
    eta = Eta()
    for _ in range(100):
        eta.add_steps(10, 10.0)
    for _ in range(13):
        eta.add_steps(5, 10.0)
    assert eta.remaining_s(100, 0) == pytest.approx(200.0)


def test_s06_nothing_is_said_before_ten_steps() -> None:
    eta = Eta()
    eta.add_steps(9, 0.9)
    assert eta.remaining_s(100, 0) is None
    eta.add_steps(1, 0.1)
    assert eta.remaining_s(100, 0) == pytest.approx(10.0)
    assert eta.remaining_s(0, 0) == 0.0


@pytest.mark.parametrize("planned_steps", [0, 1, 12])
def test_nothing_is_said_where_more_steps_were_made_than_planned(planned_steps: int) -> None:
    """A script that names no total has planned none."""
    eta = Eta()
    eta.add_steps(20, 2.0)
    assert eta.remaining_s(planned_steps - 20, 0) is None


def test_s06_the_pace_spreads_evaluations_and_checkpoints_over_the_steps() -> None:
    eta = Eta()
    eta.add_steps(100, 10.0)
    eta.add_save(2.0)
    eta.end_evaluation(5.0)
    assert eta.step_pace_s(100, has_evaluations=True) == pytest.approx(0.1 + 0.02 + 0.05)
    assert eta.step_pace_s(100, has_evaluations=False) == pytest.approx(0.12)
