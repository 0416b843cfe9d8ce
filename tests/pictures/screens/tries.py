"""A checkpoint that is tried: on nothing yet, on a file, on a whole set, next to another one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from backend.records.jobs.prediction import (
    BOXES,
    CLASSES,
    Box,
    ClassMeasures,
    DetectionMeasures,
    Guess,
    PredictedSample,
    Prediction,
    PredictionInput,
)
from tests.pictures import lab
from tests.pictures.gallery import BOTH_THEMES, LARGE, LARGE_SMALL, SMALL, SMALLEST, screen
from tests.pictures.screens.jobs import open_job
from tests.pictures.screens.library import digits
from tests.pictures.stage import Stage
from widgets.jobs.checkpoints.try_dialog import TryDialog, TryRequest


def _answer(number: int, answer: int, share: float) -> PredictedSample:
    further_digits = [digit for digit in range(10) if digit != answer][:4]
    guesses = (Guess(str(answer), share), *(Guess(str(o), (1 - share) / 4) for o in further_digits))
    return PredictedSample(digits()[number], str(answer), guesses)


def photo_prediction() -> Prediction:
    """A file that is a digit."""
    answer = _answer(3, 3, 0.962)
    sample = replace(answer.sample, index=0, target="")
    examples = (replace(answer, sample=sample, file="/home/mai/a three.png"),)
    return Prediction(CLASSES, 1, examples=examples, best=examples)


def set_prediction(classes: int = 10, class_size: int = 36) -> Prediction:
    """A set with some mistakes."""
    chance = np.random.default_rng(3)
    counts = np.zeros((classes, classes), int)
    for row in range(classes):
        predictions = np.where(
            chance.random(class_size) < 0.92, row, chance.integers(0, classes, class_size)
        )
        counts[row] = np.bincount(predictions, minlength=classes)
    hits = counts.diagonal()
    measures = tuple(
        ClassMeasures(
            str(n) if classes <= 10 else f"species {n}",
            class_size,
            hits[n] / counts[:, n].sum(),
            hits[n] / class_size,
            2 * hits[n] / (class_size + counts[:, n].sum()),
        )
        for n in range(classes)
    )
    mistakes = tuple(
        _answer(n, (int(digits()[n].target) + 1) % 10, 0.99 - n / 30) for n in range(14)
    )
    best = tuple(_answer(n, int(digits()[n].target), 0.99) for n in range(20, 40))
    return Prediction(
        CLASSES,
        classes * class_size,
        {"validation/loss": 0.2514, "validation/accuracy": float(hits.sum() / counts.sum())},
        measures,
        tuple(map(tuple, counts.tolist())),
        mistakes,
        best,
    )


def long_class_prediction() -> Prediction:
    """A set whose classes have names that are wider than a column of the matrix."""
    names = ("circle", "square", "triangle")
    prediction = set_prediction(3)
    mistakes = tuple(
        replace(
            mistake,
            sample=replace(mistake.sample, target=names[n % 3]),
            prediction=names[(n + 1) % 3],
            guesses=(Guess(names[(n + 1) % 3], 0.998), Guess(names[n % 3], 0.002)),
        )
        for n, mistake in enumerate(prediction.mistakes)
    )
    classes = tuple(
        replace(measures, name=name)
        for measures, name in zip(prediction.classes, names, strict=True)
    )
    return replace(prediction, classes=classes, mistakes=mistakes)


def _dialog(stage: Stage) -> TryDialog:
    open_job(stage, lab.FINISHED)
    checkpoints = lab.checkpoints(lab.FINISHED)
    dialog = TryDialog(lab.FINISHED, checkpoints, checkpoints[-1].name, "/home/mai", stage.window)
    dialog.show_library(["digits@2", "plankton@1"], ["digits@1"])
    return stage.lay_over(dialog)


def _dialog_with_answers(
    stage: Stage, *predictions: Prediction, kind: str = "validation"
) -> TryDialog:
    dialog = _dialog(stage)
    names = tuple(checkpoint.name for checkpoint in reversed(lab.checkpoints(lab.FINISHED)))[
        : len(predictions)
    ]
    dialog._input_kind.choose(kind)
    dialog._update_controls()
    if len(names) > 1:
        dialog._other_checkpoint.choose(names[1])
    request = TryRequest(lab.FINISHED.id, names, PredictionInput())
    dialog.show_answers(request, predictions)
    return dialog


screen("try", (LARGE, SMALL, SMALLEST))(_dialog)
screen("try-file", LARGE_SMALL, BOTH_THEMES)(
    lambda stage: _dialog_with_answers(stage, photo_prediction(), kind="files")
)
screen("try-set", (LARGE, SMALL, SMALLEST), BOTH_THEMES)(
    lambda stage: _dialog_with_answers(stage, set_prediction())
)
screen("try-named-classes")(lambda stage: _dialog_with_answers(stage, long_class_prediction()))
screen("try-other")(lambda stage: _dialog_with_answers(stage, set_prediction(100), kind="other"))
screen("try-two")(
    lambda stage: _dialog_with_answers(stage, set_prediction(), set_prediction(10, 30))
)
screen("try-under-way")(lambda stage: _dialog(stage).show_progress(0.3, "Computing predictions…"))
screen("try-refused")(
    lambda stage: _dialog(stage).show_error(
        "The loader has no method read. Add def read(self, path) to UserDataset."
    )
)


def detections() -> Prediction:
    """A detector's answers for a set: the average precision, and boxes over the pictures."""
    boxes = (Box("copepod", 0.93, (0.1, 0.1, 0.6, 0.5)), Box("egg", 0.41, (0.5, 0.6, 0.9, 0.9)))
    truth = (Box("copepod", 1.0, (0.12, 0.08, 0.62, 0.55)), Box("egg", 1.0, (0.1, 0.6, 0.3, 0.9)))
    examples = tuple(
        PredictedSample(replace(sample, target="2 boxes"), "2 boxes", boxes=boxes, truth=truth)
        for sample in digits()[:12]
    )
    recall = np.arange(101) / 100
    measures = tuple(
        DetectionMeasures(name, count, *(tuple((1 - recall**p).tolist()) for p in powers))
        for name, count, powers in (("copepod", 31, (6, 2)), ("egg", 9, (1.4, 0.5)))
    )
    metrics = {"validation/loss": 0.61, "validation/AP50": 0.76, "validation/AP75": 0.5}
    return Prediction(BOXES, 12, metrics, detections=measures, examples=examples)


screen("try-boxes", LARGE_SMALL, BOTH_THEMES)(
    lambda stage: _dialog_with_answers(stage, detections())
)


@screen("try-boxes-without-targets")
def try_boxes(stage: Stage) -> None:
    """A detector's answer without true boxes: no measures."""
    examples = tuple(replace(example, truth=()) for example in detections().examples)
    note = "There are no metrics: The model's loss raised KeyError: 'boxes'."
    _dialog_with_answers(stage, Prediction(BOXES, 12, examples=examples, notes=(note,)))
