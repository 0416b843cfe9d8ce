"""The measures of a finished job, from its history."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from backend.records.jobs.config import JobConfig
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.metric_names import (
    PUSH_WINDOW,
    PUSHES_PER_SECOND,
    STALENESS,
    VALIDATION,
)
from backend.records.studies.study import Measure

_ACCURACY = f"{VALIDATION}accuracy"
_PRECISIONS = {
    Measure.AVERAGE_PRECISION: ("AP50", "AP50 of validation"),
    Measure.STRICT_PRECISION: ("AP75", "AP75 of validation"),
    Measure.TRAINING_PRECISION: ("AP50 of training",),
    Measure.TEST_PRECISION: ("AP50 of test",),
}
"""The metrics of each measure; the first of them that the history has counts."""


def measures_of(config: JobConfig, history: HistoryUpdate) -> dict[Measure, float]:
    """Return the measures that the history of a job has."""
    measures: dict[Measure, float] = {}
    accuracy = _finite_values(history, _ACCURACY)
    if len(accuracy):
        measures[Measure.ERROR] = 100 * (1 - float(accuracy[-1]))
    training_accuracy = _finite_values(history, "accuracy", history.epochs[-1:])
    if len(training_accuracy):
        measures[Measure.TRAINING_ERROR] = 100 * (1 - float(training_accuracy.mean()))
    for measure, names in _PRECISIONS.items():
        for name in names:
            precision = _finite_values(history, f"{VALIDATION}{name}")
            if len(precision):
                measures.setdefault(measure, 100 * float(precision[-1]))
    staleness = _finite_values(history, STALENESS[0])
    if len(staleness):
        measures[Measure.STALENESS] = float(staleness.mean())
    epochs = _later_epochs(config, history)
    if epochs:
        # From the first update to the last, so that the time does not depend on their number.
        measures[Measure.EPOCH_TIME] = statistics.median(epoch.seconds for epoch in epochs)
        step_s = statistics.median(epoch.seconds / epoch.steps for epoch in epochs)
        measures[Measure.RATE] = config.global_batch_size / step_s
        whole_epochs_s = [
            epoch.whole_seconds for epoch in epochs if math.isfinite(epoch.whole_seconds)
        ]
        if whole_epochs_s:
            measures[Measure.WHOLE_EPOCH_TIME] = statistics.median(whole_epochs_s)
    return measures


def _finite_values(
    history: HistoryUpdate, name: str, epochs: Sequence[int] = ()
) -> NDArray[np.float64]:
    """Return the finite values of a metric, of these epochs or of all epochs."""
    values = np.asarray(history.metrics.get(name, ()), np.float64)
    is_wanted = np.isin(history.epochs[: len(values)], epochs) if len(epochs) else True
    return values[np.isfinite(values) & is_wanted]


class _Epoch(NamedTuple):
    """An epoch from its first step to its last step.

    ``whole_seconds`` include the first step, which contains the previous validation; NaN for
    strategies with servers, which do not measure them.
    """

    steps: int
    seconds: float
    whole_seconds: float


def _later_epochs(config: JobConfig, history: HistoryUpdate) -> list[_Epoch]:
    """Return all epochs but the first, whose first step contains the start of the run."""
    sample_rates = np.asarray(history.metrics.get("samples_per_second", ()), np.float64)
    pushes = np.asarray(history.metrics.get(PUSHES_PER_SECOND, ()), np.float64)[: len(sample_rates)]
    epoch_numbers = np.asarray(history.epochs)[: len(sample_rates)]
    epochs = []
    for number in np.unique(epoch_numbers)[1:]:
        is_in_epoch = epoch_numbers == number
        steps = int(is_in_epoch.sum()) - 1
        if len(pushes):
            epoch = _Epoch(steps, _seconds_of_pushes(pushes[is_in_epoch]), math.nan)
        else:
            step_seconds = config.global_batch_size / sample_rates[is_in_epoch]
            epoch = _Epoch(steps, float(step_seconds[1:].sum()), float(step_seconds.sum()))
        if steps and math.isfinite(epoch.seconds):
            epochs.append(epoch)
    return epochs


def _seconds_of_pushes(rates: NDArray[np.float64]) -> float:
    """Return the seconds from the first push of an epoch to the last push.

    A rate is that of the last `PUSH_WINDOW` pushes, so adjacent windows add up to the epoch.
    """
    counts = range(len(rates), 0, -PUSH_WINDOW)
    until_last_s = sum(min(count, PUSH_WINDOW) / rates[count - 1] for count in counts)
    return float(until_last_s - 1 / rates[0])
