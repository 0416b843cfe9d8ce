"""What a job will take: time from a job like it, checkpoints by the rule that keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.records.jobs.config import JobConfig, Optimizer, StrategyConfig
from backend.records.jobs.flat_settings import setting_changes
from backend.records.jobs.forecast import (
    SimilarJob,
    checkpoint_bytes,
    checkpoints_kept,
    forecast,
    parameter_memory_bytes,
    similar_job_of,
    similar_jobs,
)
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.torch_options import OPTIMIZERS, STRATEGIES
from backend.records.jobs.view import JobView
from backend.records.library.item import Pin
from tests.integration.tiny import raw_job
from tests.job_views import replace_fields

PINS = {key: Pin("tiny", 1, "ab" * 32) for key in ("model", "dataset", "loader")}


def config(**settings: object) -> JobConfig:
    job_config = parse_job(raw_job(1, **settings)).config
    assert job_config is not None
    return job_config


def job(name: str, **settings: object) -> JobView:
    return JobView(
        name, name, config(**settings), "", RunStatus(JobState.FINISHED, step=9), pins=PINS
    )


def names(*jobs: JobView) -> list[str]:
    return [view.name for view in similar_jobs(config(), PINS, jobs)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_and_strategy_has_a_size_of_its_state(
    strategy: str, optimizer: str
) -> None:
    settings = replace(
        config(), optimizer=Optimizer(optimizer, 0.1), strategy=StrategyConfig(strategy)
    )
    if settings.strategy.has_coordinator == (optimizer == "lbfgs"):
        assert checkpoint_bytes(100, settings) >= 100
        assert parameter_memory_bytes(100, settings) >= 100


def test_a_job_takes_as_long_as_its_twin_took_a_step() -> None:
    job_forecast = forecast(config(epochs=10), 64, similar_job_of(job("a"), 0.2), 1_000_000)
    assert (job_forecast.total_steps, job_forecast.lasts_s, job_forecast.pace_source) == (
        640,
        128.0,
        "a",
    )
    assert job_forecast.disk_bytes == 3_000_000


def test_gpu_hours_and_energy_are_foreseen_from_the_twin() -> None:
    gpus = [{"node": "gpu1", "gpus": ["GPU-a", "GPU-b"]}]
    measured_job = replace_fields(job("a", placement=gpus), energy_j=9_000.0)
    job_forecast = forecast(
        config(epochs=10, placement=gpus), 64, similar_job_of(measured_job, 0.2), None
    )
    assert (job_forecast.gpu_s, job_forecast.energy_j) == (2 * 128.0, 640 * 1_000.0)
    unknown = forecast(config(epochs=10, placement=gpus), 64, similar_job_of(job("a"), 0.2), None)
    assert (unknown.gpu_s, unknown.energy_j) == (256.0, None)
    on_processors = forecast(config(epochs=10), 64, similar_job_of(job("a"), 0.2), None)
    assert (on_processors.gpu_s, on_processors.energy_j) == (None, None)


def test_the_time_outside_steps_is_taken_from_the_twin() -> None:
    times = {"started_at": "2026-11-22T07:00:00Z", "updated_at": "2026-11-22T07:00:20Z"}
    finished_job = replace_fields(job("a"), run=1, step=40, **times)
    assert similar_job_of(finished_job, 0.2) == SimilarJob("a", 0.2, 12.0)
    job_forecast = forecast(config(epochs=1), 100, similar_job_of(finished_job, 0.2), None)
    assert job_forecast.lasts_s == 32.0
    # Of a run that was resumed, the last stretch alone is known.
    assert similar_job_of(replace_fields(finished_job, run=2), 0.2) == SimilarJob("a", 0.2)


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 16},
        {"placement": [{"node": "this-computer", "processes": 2}]},
        {"placement": [{"node": "gpu1", "gpus": ["GPU-1"]}]},
    ],
    ids=["batch", "processes", "kind"],
)
def test_a_job_of_another_pace_predicts_no_time(settings: dict[str, object]) -> None:
    assert names(job("a", **settings), job("b", epochs=1)) == ["b"]
    job_forecast = forecast(config(), 64, None, None)
    assert (job_forecast.lasts_s, job_forecast.disk_bytes, job_forecast.pace_source) == (
        None,
        None,
        "",
    )


def test_a_job_that_made_no_step_or_trained_something_else_is_no_twin() -> None:
    other_job = replace(job("other"), pins={**PINS, "dataset": Pin("more", 1, "ab" * 32)})
    assert names(replace_fields(job("draft"), step=0), other_job) == []


@pytest.mark.parametrize("pace", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_an_invalid_pace_predicts_nothing(pace: float | None) -> None:
    assert similar_job_of(job("a"), pace) is None


def test_the_twin_on_the_same_node_with_the_same_files_comes_first() -> None:
    other_node = job("far", placement=[{"node": "gpu1", "processes": 1}])
    older = replace(job("older"), pins={**PINS, "model": Pin("tiny", 2, "cd" * 32)})
    assert names(other_node, older, job("near")) == ["near", "older", "far"]


@pytest.mark.parametrize(
    ("policy", "epochs", "kept_count"),
    [
        ({"every_epochs": 5, "keep_latest": 1, "keep_best": 2}, 50, 3),
        ({"every_epochs": 5, "keep_latest": 10, "keep_best": 5}, 20, 4),
        ({"every_epochs": 1, "keep_latest": 1, "keep_best": 0}, 50, 2),
        ({"every_epochs": 50}, 3, 1),
        ({"every_steps": 100, "keep_latest": 9}, 2, 2),
    ],
)
def test_m17_the_forecast_counts_the_checkpoints_that_stay(
    policy: dict[str, int], epochs: int, kept_count: int
) -> None:
    assert checkpoints_kept(config(epochs=epochs, checkpoint=policy), 64, None) == kept_count


@pytest.mark.parametrize(
    ("optimizer", "numbers"),
    [
        (Optimizer("sgd", 0.1), 1),
        (Optimizer("sgd", 0.1, {"momentum": 0.9}), 2),
        (Optimizer("adamw", 0.1), 3),
        (Optimizer("adam", 0.1, {"amsgrad": True}), 4),
        (Optimizer("rmsprop", 0.1, {"centered": True, "momentum": 0.5}), 4),
    ],
)
def test_a_checkpoint_holds_the_weights_and_the_optimizer_state(
    optimizer: Optimizer, numbers: int
) -> None:
    assert checkpoint_bytes(1000, replace(config(), optimizer=optimizer)) == numbers * 1000


def test_a_checkpoint_of_the_adaptive_correction_holds_its_mean_squares() -> None:
    constant, adaptive = (
        replace(config(), strategy=StrategyConfig("dc-asgd", settings={"variant": variant}))
        for variant in ("constant", "adaptive")
    )
    extra_bytes = checkpoint_bytes(1000, adaptive) - checkpoint_bytes(1000, constant)
    assert extra_bytes == 1000


def test_the_pace_of_a_strategy_with_servers_is_that_of_its_pushes() -> None:
    two = [{"node": "this-computer", "processes": 2}]
    served = job("served", placement=two, strategy={"name": "downpour"})
    ring = job("ring", placement=two)
    assert similar_jobs(served.config, PINS, (ring, served)) == (served,)
    assert similar_jobs(ring.config, PINS, (ring, served)) == (ring,)


def test_only_changed_settings_are_differences() -> None:
    old_job = raw_job(1)
    now = raw_job(1, name="other", seed=1, epochs=9, optimizer={"name": "sgd", "lr": 0.1})
    changes = [
        (change.label, change.old_text, change.new_text) for change in setting_changes(old_job, now)
    ]
    assert changes == [
        ("Epochs", "4", "9"),
        ("Learning rate", "0.05", "0.1"),
        ("Momentum", "0.9", "0.0"),
    ]
    assert setting_changes(old_job, dict(old_job)) == ()


def test_a_setting_at_fault_is_a_difference_as_it_was_typed_and_nothing_else_is() -> None:
    old_job = raw_job(1)
    changes = setting_changes(old_job, raw_job(1, epochs="many"))
    assert [(change.key, change.old_text, change.new_text) for change in changes] == [
        ("epochs", "4", "many")
    ]
    (nodes,) = setting_changes(old_job, raw_job(1, placement=[]))
    assert nodes.key == "placement"


def test_a_setting_missing_in_the_template_is_no_difference() -> None:
    template = {"epochs": 4, "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}}
    assert [change.key for change in setting_changes(template, raw_job(1))] == ["optimizer.lr"]
