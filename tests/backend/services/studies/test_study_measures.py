"""The measures of a job from its history."""

from __future__ import annotations

import statistics
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.job_file import parse_job
from backend.records.studies.study import Measure
from backend.services.studies.measures import measures_of
from backend.training.async_server import PushRate
from tests.integration.tiny import raw_job

NAN = float("nan")


def test_a_job_gives_its_last_error_its_mean_staleness_and_its_median_epoch() -> None:
    config = parse_job(raw_job(2)).config
    assert config is not None
    rate = [1.0, 1.0, 1.0, 0.1, 16.0, 16.0, 0.1, 8.0, 8.0, 0.1, 16.0, 16.0]
    history = HistoryUpdate(
        steps=range(1, 13),
        epochs=[1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4],
        metrics={
            "samples_per_second": rate,
            "accuracy": [0.0] * 9 + [0.5, 1.0, NAN],
            "loss": [9.0] * 9 + [0.25, 0.75, NAN],
            "validation/loss": [NAN] * 2 + [0.5] + [NAN] * 8 + [0.125],
            "validation/accuracy": [NAN] * 2 + [0.5] + [NAN] * 8 + [0.75],
            "staleness mean": [NAN, 2.0, 4.0] + [NAN] * 9,
        },
    )
    assert measures_of(config, history) == {
        Measure.ERROR: pytest.approx(25.0),
        Measure.TRAINING_ERROR: pytest.approx(25.0),
        Measure.LOSS: 0.125,
        Measure.TRAINING_LOSS: 0.5,
        Measure.STALENESS: 3.0,
        Measure.EPOCH_TIME: 2.0,
        Measure.RATE: 16.0,
        Measure.WHOLE_EPOCH_TIME: 162.0,
    }


@given(
    st.lists(st.lists(st.floats(1e-3, 2.0), min_size=2, max_size=250), min_size=2, max_size=4),
)
def test_an_epoch_with_servers_takes_from_its_first_push_to_its_last(
    gaps_s: list[list[float]],
) -> None:
    config = parse_job(raw_job(2)).config
    assert config is not None
    curves: dict[str, list[float]] = {"pushes per second": [], "samples_per_second": []}
    epochs = []
    for number, epoch_gaps_s in enumerate(gaps_s, 1):
        push_rate = PushRate(0.0)
        for now_s in accumulate(epoch_gaps_s):
            for name, value in push_rate.add(now_s, 7).items():
                curves[name].append(value)
            epochs.append(number)
    measures = measures_of(config, HistoryUpdate(epochs=epochs, metrics=curves))
    expected = statistics.median(sum(epoch_gaps_s[1:]) for epoch_gaps_s in gaps_s[1:])
    assert measures[Measure.EPOCH_TIME] == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (
            {"AP50": [NAN, 0.2, 0.4], "AP75": [NAN, 0.1, 0.3]},
            {Measure.AVERAGE_PRECISION: 40.0, Measure.STRICT_PRECISION: 30.0},
        ),
        (
            {
                f"AP{minimum} of {part}": [share]
                for minimum, part, share in (
                    *(("50", "training", 0.9), ("50", "validation", 0.8), ("50", "test", 0.7)),
                    *(("75", "training", 0.6), ("75", "validation", 0.5), ("75", "test", 0.4)),
                )
            },
            {
                Measure.AVERAGE_PRECISION: 80.0,
                Measure.STRICT_PRECISION: 50.0,
                Measure.TRAINING_PRECISION: 90.0,
                Measure.TEST_PRECISION: 70.0,
            },
        ),
        ({"AP50": [NAN]}, {}),
        ({"AP50 of another": [0.5]}, {}),
        ({"AP50": [0.1], "AP50 of validation": [0.2]}, {Measure.AVERAGE_PRECISION: 10.0}),
        ({"AP50": [0.0]}, {Measure.AVERAGE_PRECISION: 0.0}),
    ],
)
def test_a_job_gives_its_last_average_precision(
    metrics: dict[str, list[float]], expected: dict[Measure, float]
) -> None:
    config = parse_job(raw_job(1)).config
    assert config is not None
    curves = {f"validation/{name}": values for name, values in metrics.items()}
    measures = measures_of(config, HistoryUpdate(metrics=curves))
    assert measures == {measure: pytest.approx(value) for measure, value in expected.items()}


def test_a_job_without_a_history_gives_nothing() -> None:
    config = parse_job(raw_job(1)).config
    assert config is not None
    assert measures_of(config, HistoryUpdate()) == {}
