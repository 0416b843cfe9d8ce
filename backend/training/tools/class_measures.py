"""Measures of a classification, from the numbers of the true and of the predicted classes."""

from __future__ import annotations

from typing import Any

import numpy
import numpy.typing

Array = numpy.typing.NDArray[Any]


def confusion(target: Array, predicted_classes: Array, classes: int) -> Array:
    """Count the samples of each class (rows) by the predicted class (columns).

    Samples whose target is no class, such as -1, are left out.
    """
    has_class = (target >= 0) & (target < classes)
    pairs = target[has_class].astype(numpy.int64) * classes + predicted_classes[has_class]
    return numpy.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def measures(counts: Array) -> tuple[Array, Array, Array, Array]:
    """Return count, precision, recall and their harmonic mean; NaN where one is not defined."""
    hits = numpy.diag(counts).astype(float)
    targets, answers = counts.sum(axis=1), counts.sum(axis=0)
    with numpy.errstate(invalid="ignore"):
        return targets, hits / answers, hits / targets, 2 * hits / (targets + answers)


def most_confident_mistakes(
    target: Array, predicted_classes: Array, confidence: Array, limit: int
) -> Array:
    """Return the places of the wrong predictions, the most confident first."""
    mistakes = numpy.flatnonzero((target >= 0) & (target != predicted_classes))
    return mistakes[numpy.argsort(-confidence[mistakes], kind="stable")][:limit]


def most_confident_by_class(predicted_classes: Array, confidence: Array, limit: int) -> Array:
    """Return the places of the most confident predictions of each class, class by class."""
    order = numpy.lexsort((-confidence, predicted_classes))
    by_class = predicted_classes[order]
    rank_in_class = numpy.arange(len(order)) - numpy.searchsorted(by_class, by_class)
    return order[rank_in_class < limit]
