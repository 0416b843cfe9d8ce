"""What a search says: its trials, what cannot be searched, and its file."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w

from backend.records.jobs.job_file import parse_job
from backend.records.sweeps.search import MAX_TRIALS, Proposal, Search, SearchResult
from backend.records.sweeps.spec import (
    Sweep,
    applicable_axes,
    expand,
    read_sweep,
    sweep_file,
    sweep_title,
)
from backend.records.sweeps.values import Axis, ValueRange, parse_axis
from tests.backend.records.sweeps.test_sweep_spec import DIGITS

RATE = parse_axis("optimizer.lr", "1e-4..1e-1:log")
BATCH = Axis("batch_size", (16, 32))
GOAL = Search("validation/accuracy", trials=3)


def errors(search: Search, *axes: Axis, **base: Any) -> list[str]:
    sweep = Sweep({**DIGITS, **base}, axes or (RATE,), search=search)
    return [error.message for error in expand(sweep).errors]


def test_trials_are_numbered_jobs_with_the_values_of_the_base() -> None:
    expansion = expand(Sweep(DIGITS, (RATE, BATCH), search=GOAL), "sweep:digits-k3pf")
    assert expansion.errors == ()
    assert [job.name for job in expansion.jobs] == [
        "digits trial 1",
        "digits trial 2",
        "digits trial 3",
    ]
    assert [parse_job(job.raw).errors for job in expansion.jobs] == [()] * 3
    assert {job.raw["optimizer"]["lr"] for job in expansion.jobs} == {0.05}
    assert sweep_title("sweep:digits-k3pf", [job.name for job in expansion.jobs]) == "digits"
    assert sweep_title("sweep:a-k3pf", ["my trial lr=0.1", "my trial lr=0.2"]) == "my trial"


def test_a_base_that_needs_a_searched_value_gets_one() -> None:
    base = {**DIGITS, "batch_size": "8 or 16"}
    [job, *_] = expand(Sweep(base, (BATCH,), search=GOAL)).jobs
    assert job.raw["batch_size"] in BATCH.values


def test_a_grid_has_as_many_trials_as_combinations_and_500_trials_are_possible() -> None:
    grid = Search("loss", sampler="grid", trials=30)
    assert len(expand(Sweep(DIGITS, (BATCH,), search=grid)).jobs) == 2
    many = Search("loss", trials=MAX_TRIALS)
    assert len(expand(Sweep(DIGITS, (RATE,), search=many)).jobs) == MAX_TRIALS == 500


@pytest.mark.parametrize(
    ("search", "axes", "message"),
    [
        (Search("loss", trials=501), (), "sweep.search.trials: must be 1 to 500, not 501."),
        (Search("loss", at_once=0), (), "sweep.search.at_once: must be 1 to 100, not 0."),
        (Search(" "), (), "sweep.search.goal: names no metric, such as validation/accuracy."),
        (
            Search("score\n<b>"),
            (),
            "sweep.search.better: must say which values of score?<b> are better: lower or higher.",
        ),
        (Search("score", better="up"), (), "which values of score are better: lower or higher."),
        (Search("loss", sampler="bo"), (), "“bo” must be one of tpe, cma-es, random, grid."),
        (Search("loss", pruner="x"), (), "must be one of median, halving, hyperband, never."),
        (Search("loss", sampler="cma-es"), (BATCH,), "cma-es needs a setting with a range"),
        (Search("loss", sampler="grid"), (RATE,), "optimizer.lr: is a range without steps"),
        (
            Search("loss"),
            (Axis("optimizer.lr", span=ValueRange(0.1, 0.01)),),
            "optimizer.lr: goes from 0.1 to 0.01; the first must be the lower one.",
        ),
        (
            Search("loss"),
            (Axis("optimizer.lr", span=ValueRange(-1, 0.1)),),
            "optimizer.lr: “-1” must be above 0.",
        ),
        (
            Search("loss"),
            (Axis("batch_size", (16,)), parse_axis("epochs", "1.5..2.5")),
            "batch_size: has only one value; there is nothing to search.",
        ),
        (
            Search("loss"),
            (Axis("loader", ("a", "b")),),
            "loader: cannot be searched: it decides which files or nodes a job has.",
        ),
    ],
)
def test_bad_searches_are_refused_with_the_setting_and_the_reason(
    search: Search, axes: tuple[Axis, ...], message: str
) -> None:
    assert any(message in error for error in errors(search, *axes)), errors(search, *axes)


def test_a_setting_with_one_value_is_searched_beside_one_with_several() -> None:
    assert errors(GOAL, Axis("batch_size", (16,)), RATE) == []


def test_a_search_draws_its_values_itself_and_slurm_has_its_own_queue() -> None:
    sweep = Sweep(DIGITS, (RATE,), draws=4, search=GOAL)
    assert [e.message for e in expand(sweep).errors] == [
        "sweep.random: a search draws its values itself; remove it."
    ]
    assert "slurm: has a queue of its own; a search needs nodes." in errors(GOAL, slurm={})


def test_a_search_is_the_same_after_its_file() -> None:
    search = Search("loss", "lower", 7, 2, "random", "hyperband")
    sweep = Sweep(DIGITS, (RATE, BATCH), seed=5, search=search)
    assert read_sweep(tomllib.loads(tomli_w.dumps(sweep_file(sweep)))) == (sweep, ())
    _, [error] = read_sweep({**DIGITS, "sweep": {"search": {"trails": 3}, "axes": {"lr": "1, 2"}}})
    assert error.message == "sweep.search: trails is unknown."


def test_a_setting_of_another_optimizer_is_not_proposed() -> None:
    names = Axis("optimizer.name", ("sgd", "adam"))
    momentum = parse_axis("optimizer.momentum", "0..0.9")
    for name, paths in (
        ("sgd", ["optimizer.name", "optimizer.momentum"]),
        ("adam", ["optimizer.name"]),
    ):
        values: dict[str, Any] = {}
        proposed_paths = []
        for axis in applicable_axes((momentum, names), values):
            proposed_paths.append(axis.path)
            values[axis.path] = name
        assert proposed_paths == paths


def test_the_best_trial_is_one_that_was_not_given_up() -> None:
    trials = tuple(
        Proposal("job", number, {}, state, value)
        for number, (state, value) in enumerate(
            [("pruned", 0.9), ("complete", 0.5), ("complete", 0.7), ("failed", None)], 1
        )
    )
    for better, number in (("higher", 3), ("lower", 2)):
        best = SearchResult(Search("m", better), trials=trials).best
        assert best is not None
        assert best.number == number
