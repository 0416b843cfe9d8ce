"""The curves of a job, fed by its history: places on every axis, and what happened on the way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from backend.records.jobs.history import HistoryUpdate, RunStart
from widgets.plots.curve_data import XAxis
from widgets.plots.run_curves import RunCurves, metric_title

NAN = math.nan
START_S = 1_700_000_000.0


def history(first: int, losses: list[float], *, run: int = 1, **fields: object) -> HistoryUpdate:
    steps = list(range(first, first + len(losses)))
    evaluated = [step / 100 if step % 10 == 0 else NAN for step in steps]
    all_fields: dict[str, object] = {
        "metrics": {"loss": losses, "validation/loss": evaluated},
        "run_starts": (RunStart(run, first),),
        "epochs_done": [step / 10 for step in steps],
        **fields,
    }
    return HistoryUpdate(
        steps,
        [(step - 1) // 10 + 1 for step in steps],
        [2.0 * step for step in steps],
        started_s=START_S,
        **all_fields,  # type: ignore[arg-type]  # as the caller says
    )


@pytest.fixture
def curves() -> RunCurves:
    curves = RunCurves()
    assert curves.append(history(1, [1.0] * 30)) == ("loss", "validation/loss")
    return curves


def test_a_resumed_run_replaces_its_repeated_steps(curves: RunCurves) -> None:
    assert curves.append(history(11, [0.5] * 10, run=2, drop_from=11)) == ()
    loss = curves.get("loss")
    assert loss is not None
    assert loss.raw.tolist() == [1.0] * 10 + [0.5] * 10
    assert curves.evaluations().tolist() == [10, 20]
    assert [(start.run, start.first_step) for start in curves.run_starts()] == [(1, 1), (2, 11)]
    curves.append(history(1, [0.1] * 5, drop_from=0))
    assert [start.run for start in curves.run_starts()] == [1]


def test_within_an_epoch_points_lie_side_by_side(curves: RunCurves) -> None:
    loss = curves.get("loss")
    assert loss is not None
    assert loss.x(XAxis.EPOCH).tolist() == [step / 10 for step in range(1, 31)]


def test_the_place_is_the_epoch_number_if_its_length_is_unknown() -> None:
    curves = RunCurves()
    curves.append(history(1, [1.0] * 20, epochs_done=()))
    loss = curves.get("loss")
    assert loss is not None
    assert loss.x(XAxis.EPOCH).tolist() == [1.0] * 10 + [2.0] * 10


def test_times_are_those_of_the_clock_and_count_from_the_run(curves: RunCurves) -> None:
    validation = curves.get("validation/loss")
    assert validation is not None
    assert validation.x(XAxis.CLOCK)[0] == START_S + 20
    assert validation.x(XAxis.TIME).tolist() == [20.0, 40.0, 60.0]


def test_only_metrics_of_every_step_have_gaps() -> None:
    curves = RunCurves()
    curves.append(history(1, [1.0, NAN, *[1.0] * 18]))
    loss, validation = curves.get("loss"), curves.get("validation/loss")
    assert loss is not None
    assert validation is not None
    assert math.isnan(loss.raw[1])
    assert validation.raw.tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    ("rates", "lowered"),
    [
        ([0.1] * 10 + [0.01] * 10 + [0.001] * 10, [11, 21]),
        ([0.01 * n for n in range(1, 11)] + [0.1] * 20, []),
        ([0.1 * (1 + math.cos(math.pi * n / 30)) / 2 for n in range(30)], []),
        ([0.1 * 0.95 ** (n // 10) for n in range(30)], []),
        ([0.1] * 30, []),
    ],
    ids=["step", "warm-up", "cosine", "exponential", "constant"],
)
def test_only_a_schedule_in_steps_lowers_the_rate_at_once(
    rates: list[float], lowered: list[int]
) -> None:
    curves = RunCurves()
    curves.append(history(1, [1.0] * 30, metrics={"learning_rate": rates}))
    assert curves.rate_steps().tolist() == lowered


@pytest.mark.parametrize(
    ("axis", "positions"),
    [
        (XAxis.STEP, [10, 25]),
        (XAxis.EPOCH, [1.0, 2.5]),
        (XAxis.TIME, [20, 50]),
        (XAxis.CLOCK, [START_S + 20, START_S + 50]),
    ],
)
def test_a_step_has_its_place_on_every_axis(
    curves: RunCurves, axis: XAxis, positions: list[float]
) -> None:
    assert curves.x_at_steps(np.array([10.0, 25.0]), axis).tolist() == positions


def test_a_step_before_the_first_or_of_a_job_without_curves_has_no_place(
    curves: RunCurves,
) -> None:
    assert np.isnan(curves.x_at_steps(np.array([0.0]), XAxis.TIME)).all()
    assert np.isnan(RunCurves().x_at_steps(np.array([3.0]), XAxis.EPOCH)).all()


def test_metrics_have_headings() -> None:
    assert [metric_title(name) for name in ("loss", "validation/mAP", "mAP", "dice")] == [
        "Loss",
        "Validation mAP",
        "mAP",
        "Dice",
    ]
