"""The learning rate of each step: what the form draws and the loop sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.config import JobConfig, Optimizer, Schedule, StrategyConfig
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.placement import Placement
from backend.records.jobs.torch_options import SCHEDULES

STEPS = 100


def job(
    schedule: Schedule, workers: int = 1, scaling: str = "linear", **settings: Any
) -> JobConfig:
    return JobConfig(
        name="x",
        model="m",
        dataset="d",
        loader="l",
        epochs=10,
        batch_size=1,
        optimizer=Optimizer("sgd", 0.1),
        placement=(Placement("a", workers),),
        strategy=StrategyConfig(lr_scaling=scaling),
        schedule=schedule,
        **settings,
    )


def rates(config: JobConfig) -> list[float]:
    return [learning_rate(config, STEPS, step) for step in range(config.epochs * STEPS)]


def test_a_constant_rate_is_the_scaled_rate_at_every_step() -> None:
    assert set(rates(job(Schedule(), workers=4))) == {0.4}
    assert set(rates(job(Schedule(), workers=4, scaling="sqrt"))) == {0.2}
    assert set(rates(job(Schedule(), workers=4, scaling="none"))) == {0.1}


def test_warm_up_rises_from_one_workers_rate_to_the_scaled_one_and_stays() -> None:
    curve = rates(job(Schedule(warmup_epochs=2), workers=4))
    rising = curve[: 2 * STEPS]
    assert rising == sorted(rising)
    assert rising[0] == pytest.approx(0.1, abs=0.01)
    assert rising[-1] == pytest.approx(0.4)
    assert set(curve[2 * STEPS :]) == {0.4}


def test_warm_up_with_nothing_to_scale_rises_from_nought() -> None:
    curve = rates(job(Schedule(warmup_epochs=1)))
    assert curve[0] == pytest.approx(0.1 / STEPS)
    assert curve[STEPS - 1] == pytest.approx(0.1)


def test_warm_up_of_half_an_epoch_ends_in_its_middle() -> None:
    curve = rates(job(Schedule(warmup_epochs=0.5)))
    assert curve[STEPS // 2 - 1] == pytest.approx(0.1)
    assert curve[STEPS // 2 - 2] < 0.1


def test_cosine_begins_at_the_peak_and_ends_at_the_lowest_rate() -> None:
    curve = rates(job(Schedule("cosine", settings={"eta_min": 0.01})))
    assert curve[0] == pytest.approx(0.1)
    assert curve[len(curve) // 2] == pytest.approx(0.055)
    assert curve[-1] == pytest.approx(0.01, abs=1e-5)
    assert curve == sorted(curve, reverse=True)


def test_cosine_after_warm_up_takes_only_the_rest_of_the_job() -> None:
    curve = rates(job(Schedule("cosine", warmup_epochs=2), workers=2))
    assert curve[2 * STEPS] == pytest.approx(0.2)
    assert curve[6 * STEPS] == pytest.approx(0.1)
    assert curve[-1] == pytest.approx(0.0, abs=1e-5)


def test_step_falls_by_its_factor_every_so_many_epochs() -> None:
    curve = rates(job(Schedule("step", settings={"step_size": 3, "gamma": 0.5})))
    for epoch, expected_rate in ((0, 0.1), (2, 0.1), (3, 0.05), (5, 0.05), (6, 0.025), (9, 0.0125)):
        of_epoch = curve[epoch * STEPS : (epoch + 1) * STEPS]
        assert of_epoch == [pytest.approx(expected_rate)] * STEPS


def test_exponential_falls_by_its_factor_each_epoch() -> None:
    curve = rates(job(Schedule("exponential", settings={"gamma": 0.9})))
    assert [curve[epoch * STEPS] for epoch in range(10)] == [
        pytest.approx(0.1 * 0.9**epoch) for epoch in range(10)
    ]


@given(
    st.sampled_from(["constant", "step", "exponential", "cosine"]),
    st.floats(0, 20),
    st.integers(1, 64),
    st.integers(1, 1000),
    st.integers(0, 20_000),
)
def test_a_rate_is_never_below_nought_nor_above_the_peak(
    name: str, warmup: float, workers: int, steps_per_epoch: int, step: int
) -> None:
    config = job(Schedule(name, warmup_epochs=warmup), workers)
    rate = learning_rate(config, steps_per_epoch, step)
    assert 0 <= rate <= 0.1 * workers * (1 + 1e-9)


SCHEDULERS: dict[str, Any] = {
    "milestones": (
        {"milestones": (2, 5)},
        lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, (200, 500)),
    ),
    "polynomial": (
        {"power": 0.9},
        lambda optimizer: torch.optim.lr_scheduler.PolynomialLR(optimizer, 10 * STEPS, 0.9),
    ),
    "one-cycle": (
        {"pct_start": 0.4},
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 0.1, 10 * STEPS, pct_start=0.4, cycle_momentum=False
        ),
    ),
    "cosine-restarts": (
        {"t_0": 2, "t_mult": 3, "eta_min": 0.01},
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
            optimizer, 2 * STEPS, 3, 0.01
        ),
    ),
}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_rate_of_each_step_is_that_of_pytorchs_scheduler(name: str) -> None:
    settings, scheduler_of = SCHEDULERS[name]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = scheduler_of(optimizer)
    expected = []
    for _ in range(10 * STEPS):
        expected.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    assert rates(job(Schedule(name, settings=settings))) == pytest.approx(expected, rel=1e-9)


def test_a_plateau_lowers_the_rate_once_for_each_time_without_gain() -> None:
    config = job(Schedule("plateau", settings={"gamma": 0.5}), workers=2)
    rate_of = [learning_rate(config, STEPS, 7, plateaus=count) for count in range(3)]
    assert rate_of == pytest.approx([0.2, 0.1, 0.05])


@given(
    st.sampled_from(sorted(SCHEDULES)),
    st.integers(1, 40),
    st.integers(1, 50),
    st.floats(0, 3),
    st.integers(0, 5000),
)
def test_no_schedule_exceeds_the_scaled_rate_or_ends_below_zero(
    name: str, epochs: int, steps: int, warmup: float, step: int
) -> None:
    schedule = Schedule(name, warmup_epochs=0.0 if name == "one-cycle" else warmup)
    config = replace(job(schedule, workers=4), epochs=epochs)
    assert 0 <= learning_rate(config, steps, step) <= 0.4 * (1 + 1e-12)
