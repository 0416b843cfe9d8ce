"""The measures of a finished job, from its history."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backend.records.jobs.config import JobConfig
from backend.records.jobs.history_update import HistoryUpdate
from backend.records.jobs.metric_names import STALENESS, VALIDATION
from backend.records.studies.study import Measure

_ACCURACY = f"{VALIDATION}accuracy"
_PRECISIONS = {
    Measure.AVERAGE_PRECISION: ("AP50", "AP50 of validation"),
    Measure.STRICT_PRECISION: ("AP75", "AP75 of validation"),
    Measure.TRAINING_PRECISION: ("AP50 of training",),
    Measure.TEST_PRECISION: ("AP50 of test",),
}
"""The first of these metrics that the history has."""


def measures_of(config: JobConfig, history: HistoryUpdate) -> dict[Measure, float]:
    """Return what the history of a job has; a measure that it does not have is left out."""
    found: dict[Measure, float] = {}
    accuracy = _known(history, _ACCURACY)
    if len(accuracy):
        found[Measure.ERROR] = 100 * (1 - float(accuracy[-1]))
    trained = _known(history, "accuracy", history.epochs[-1:])
    if len(trained):
        found[Measure.TRAINING_ERROR] = 100 * (1 - float(trained.mean()))
    for measure, names in _PRECISIONS.items():
        for name in names:
            precision = _known(history, f"{VALIDATION}{name}")
            if len(precision):
                found.setdefault(measure, 100 * float(precision[-1]))
    staleness = _known(history, STALENESS[0])
    if len(staleness):
        found[Measure.STALENESS] = float(staleness.mean())
    epochs = _epochs(config, history)
    if epochs:
        # From the first update to the last one: it does not depend on how many there are.
        found[Measure.EPOCH_TIME] = statistics.median(float(own.sum()) for own in epochs)
        step_s = statistics.median(float(own.mean()) for own in epochs)
        found[Measure.RATE] = config.global_batch_size / step_s
    return found


def _known(history: HistoryUpdate, name: str, epochs: Sequence[int] = ()) -> NDArray[np.float64]:
    """Return the finite values of a metric, of these epochs or of all."""
    values = np.asarray(history.metrics.get(name, ()), np.float64)
    wanted = np.isin(history.epochs[: len(values)], epochs) if len(epochs) else True
    return values[np.isfinite(values) & wanted]


def _epochs(config: JobConfig, history: HistoryUpdate) -> list[NDArray[np.float64]]:
    """Return the seconds of each step of all epochs but the first, without their first step.

    The validation and the start of a run come before the first step of an epoch.
    """
    rate = np.asarray(history.metrics.get("samples_per_second", ()), np.float64)
    epochs = np.asarray(history.epochs)[: len(rate)]
    found = []
    for number in np.unique(epochs)[1:]:
        own = config.global_batch_size / rate[epochs == number][1:]
        if len(own) and np.isfinite(own).all():
            found.append(own)
    return found
