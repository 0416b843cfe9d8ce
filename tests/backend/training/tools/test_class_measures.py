"""Measures of a classification, against their definitions."""

from __future__ import annotations

import numpy
import pytest

from backend.training.tools import class_measures

TARGET = numpy.array([0, 0, 0, 1, 1, 2, -1])
PREDICTED = numpy.array([0, 0, 1, 1, 0, 0, 2])
CONFIDENCE = numpy.array([0.9, 0.5, 0.6, 0.8, 0.95, 0.6, 0.99])


def test_rows_are_targets_and_columns_predictions_and_unknown_targets_do_not_count() -> None:
    matrix = class_measures.confusion(TARGET, PREDICTED, 3)
    assert matrix.tolist() == [[2, 1, 0], [1, 1, 0], [1, 0, 0]]


def test_precision_recall_and_f1_are_undefined_without_samples() -> None:
    counts = class_measures.confusion(TARGET, PREDICTED, 4)
    count, precision, recall, f1 = class_measures.measures(counts)
    assert count.tolist() == [3, 2, 1, 0]
    assert precision[:2].tolist() == pytest.approx([2 / 4, 1 / 2])
    assert recall[:3].tolist() == pytest.approx([2 / 3, 1 / 2, 0.0])
    assert f1[:3].tolist() == pytest.approx([2 * 2 / 7, 2 * 1 / 4, 0.0])
    assert numpy.isnan(precision[2:]).all()
    assert numpy.isnan([recall[3], f1[3]]).all()


def test_the_most_confident_mistakes_come_first() -> None:
    mistakes = class_measures.most_confident_mistakes(TARGET, PREDICTED, CONFIDENCE, 2)
    assert mistakes.tolist() == [4, 2]


def test_each_predicted_class_has_its_most_confident_samples() -> None:
    indices = class_measures.most_confident_by_class(PREDICTED, CONFIDENCE, 2)
    assert indices.tolist() == [4, 0, 3, 2, 6]
