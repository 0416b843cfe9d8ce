"""Rule that ends a training whose metric no longer improves."""

from __future__ import annotations

import math
from collections.abc import Iterable

from backend.base.errors import BackendError
from backend.records.jobs.config import EarlyStop
from backend.training.train_state import TrainState


def judge(
    rule: EarlyStop, value: float | None, measured: Iterable[str], course: TrainState
) -> None:
    """Count an epoch that is over, and record in the state whether it was the last.

    Args:
        value: Of the metric that the rule watches, as rank 0 knows it: it has all values.
        measured: The names of the job's metrics.

    Raises:
        BackendError: The job does not measure the rule's metric.
    """
    if value is None:
        raise BackendError(
            f"The early stop watches “{rule.metric}”, which this job does not measure.",
            f"It measures {', '.join(sorted(measured))}.",
        )
    best = course.best
    gain = math.inf if best is None else best - value
    if rule.mode == "max" and best is not None:
        gain = value - best
    if math.isfinite(value) and gain > rule.min_delta:
        course.best = value
        course.epochs_without_gain = 0
    else:
        course.epochs_without_gain += 1
    course.ended_early = course.epochs_without_gain >= rule.patience_epochs
