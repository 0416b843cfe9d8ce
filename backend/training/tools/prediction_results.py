"""The results of a checkpoint's predictions: the table, the measures, the samples to show."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils._pytree import tree_map

from backend.base.errors import BackendError
from backend.records.jobs.metric_names import in_spreadsheet
from backend.records.jobs.prediction import (
    BOXES,
    CLASSES,
    TOP,
    VALUES,
    Box,
    ClassMeasures,
    Guess,
    PredictedSample,
    Prediction,
)
from backend.records.library.preview import SamplePart, SamplePreview
from backend.training.tools import class_measures
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.preview import class_names, evenly
from backend.training.tools.thumbnails import (
    as_array,
    leaves,
    part,
    picture_layout,
    target_text,
)
from backend.training.user_code import UserCodeError, UserData, shape_of

_HEAD = ("index", "target", "prediction", "confidence")
_ALL_SHOWN, _SOME_SHOWN = 200, 48
_MISTAKES, _OF_EACH_CLASS, _OF_ALL_CLASSES = 48, 5, 240
_MOST_CLASSES = 200
_MOST_BOXES, _MOST_PARTS = 50, 8
_MOST_VALUES = 16
_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[-+]?\d+)?")
_SHOW_S = 20.0
"""For reading the samples to show once more."""


class PredictionResults:
    """Collects predictions batch by batch. In a ``with``, which closes the table."""

    def __init__(self, table: Path, data: UserData, count: int, files: Sequence[str]) -> None:
        self._data = data
        self._files = files
        self._names = class_names(data.user_dataset)
        self._file = table.open("w", encoding="utf-8", newline="")
        self._table = csv.writer(self._file)
        top = [f"top_{n}{what}" for n in range(2, TOP + 1) for what in ("", "_confidence")]
        self._table.writerow([*_HEAD, *top, *(["file"] if files else [])])
        self._blanks = [""] * len(top)
        self._shown = set(evenly(count, count if count <= _ALL_SHOWN else _SOME_SHOWN))
        self._outputs: dict[int, Any] = {}
        self._task = ""
        self._classes = 0
        self._rows: list[int] = []
        self._targets: list[torch.Tensor] = []
        self._top: list[torch.Tensor] = []
        self._confidences: list[torch.Tensor] = []
        self._known: dict[int, PredictedSample] = {}

    def __enter__(self) -> PredictionResults:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, rows: Sequence[int], output: Any, target: Any, example: Any) -> None:
        """Add a batch.

        Args:
            rows: The numbers of its samples.
            target: Their targets; None for files.
            example: Targets of this loader, which say whether there are classes.
        """
        task = _task_of(output, example, len(rows))
        if self._task not in ("", task):
            raise BackendError(
                f"The model's output for a batch of {len(rows)} has another form than for the "
                f"others: {shape_of(output)}."
            )
        self._task = task
        begin = len(self._rows)
        self._rows.extend(rows)
        if task == CLASSES:
            self._add_classes(rows, output, target)
            return
        for place, row in enumerate(rows):
            own = "" if target is None else target_text(_one(target, place, len(rows)), self._names)
            found = _one(output, place, len(rows))
            if begin + place in self._shown:
                self._outputs[begin + place] = found
            predicted, confidence = self._text(found)
            cells = (row, _cell(own), _cell(predicted), confidence, *self._blanks)
            self._table.writerow([*cells, *map(in_spreadsheet, self._files[row : row + 1])])

    def _add_classes(self, rows: Sequence[int], output: torch.Tensor, target: Any) -> None:
        count = output.shape[1]
        self._classes = max(self._classes, count)
        confidence, top = _shares(output).topk(min(TOP, count), dim=1)
        targets = _class_numbers(target, len(rows))
        if targets is None:
            targets = torch.full((len(rows),), -1)
        self._targets.append(targets.cpu().int())
        self._top.append(top.int())
        self._confidences.append(confidence)
        words = [in_spreadsheet(self._name(number)) for number in range(count)]
        own = [words[n] if 0 <= n < count else "" for n in targets.tolist()]
        columns: list[Sequence[Any]] = [rows, own]
        for names, shares in zip(
            top.T.tolist(), confidence.double().T.numpy().round(6).tolist(), strict=True
        ):
            columns += [[words[n] for n in names], shares]
        columns += [[""] * len(rows)] * (2 * (TOP - len(top[0])))
        if self._files:
            columns.append([in_spreadsheet(self._files[row]) for row in rows])
        self._table.writerows(zip(*columns, strict=True))

    def _text(self, value: Any) -> tuple[str, float | str]:
        """Return an output as text, and the confidence in it if it has one."""
        if self._task == BOXES:
            boxes = [
                f"{name} {score:.3g} {corners}" for name, score, corners in self._boxes_of(value)
            ]
            scores = [score for _, score, _ in self._boxes_of(value)]
            return "; ".join(boxes), round(max(scores), 6) if scores else ""
        array = as_array(value)
        if array is not None and 1 < array.size <= _MOST_VALUES:
            return f"[{', '.join(f'{one:.6g}' for one in array.reshape(-1).tolist())}]", ""
        return target_text(value, []), ""

    def _boxes_of(self, value: Mapping[str, Any]) -> Iterator[tuple[str, float, list[float]]]:
        corners = torch.as_tensor(value["boxes"]).reshape(-1, 4).tolist()[:_MOST_BOXES]
        ones = torch.ones(len(corners))
        scores = torch.as_tensor(value.get("scores", ones)).reshape(-1).tolist()
        labels = torch.as_tensor(value.get("labels", ones.int())).reshape(-1).tolist()
        for label, score, box in zip(labels, scores, corners, strict=False):
            yield self._name(int(label)), float(score), [round(corner, 2) for corner in box]

    def _name(self, number: int) -> str:
        return self._names[number] if 0 <= number < len(self._names) else str(number)

    # --- the result ---------------------------------------------------------------------------

    def prediction(self, metrics: Mapping[str, float], notes: Sequence[str]) -> Prediction:
        """Return the summary of what was added."""
        self._file.flush()
        count = len(self._rows)
        deadline = time.monotonic() + _SHOW_S
        is_shown = count <= _ALL_SHOWN or self._task != CLASSES
        shown = sorted(place for place in self._shown if place < count) if is_shown else []
        found = Prediction(
            task=self._task,
            samples=count,
            metrics=dict(metrics),
            shown=self._samples(shown, deadline),
            notes=tuple(notes),
        )
        return self._with_classes(found, deadline) if self._task == CLASSES else found

    def _with_classes(self, found: Prediction, deadline: float) -> Prediction:
        target = torch.cat(self._targets).numpy()
        predicted = torch.cat([top[:, 0] for top in self._top]).numpy()
        confidence = torch.cat([shares[:, 0] for shares in self._confidences]).numpy()
        if self._classes > _MOST_CLASSES:
            return replace(
                found,
                notes=(
                    *found.notes,
                    f"Measures of single classes are computed for at most {_MOST_CLASSES} "
                    f"classes; there are {self._classes}.",
                ),
            )
        each = max(1, min(_OF_EACH_CLASS, _OF_ALL_CLASSES // self._classes))
        best = class_measures.most_confident_of_each(predicted, confidence, each)
        if not (target >= 0).any():
            return replace(found, best=self._samples(best.tolist(), deadline))
        counts = class_measures.confusion(target, predicted, self._classes)
        wrong = class_measures.most_confident_mistakes(target, predicted, confidence, _MISTAKES)
        return replace(
            found,
            classes=tuple(
                ClassMeasures(self._name(number), int(row[0]), *map(_share, row[1:]))
                for number, row in enumerate(zip(*class_measures.measures(counts), strict=True))
            ),
            confusion=tuple(map(tuple, counts.tolist())),
            mistakes=self._samples(wrong.tolist(), deadline),
            best=self._samples(best.tolist(), deadline),
        )

    def _samples(self, places: Sequence[int], deadline: float) -> tuple[PredictedSample, ...]:
        for place in places:
            if place not in self._known:
                self._known[place] = self._sample(place, deadline - time.monotonic())
        return tuple(self._known[place] for place in places)

    def _sample(self, place: int, left_s: float) -> PredictedSample:
        row = self._rows[place]
        data, target = self._item(row, left_s)
        own = "" if self._files or target is None else target_text(target, self._names)
        shown = SamplePreview(row, _parts("data", data), own)
        file = self._files[row] if self._files else ""
        if self._task == CLASSES:
            guesses = self._guesses(place)
            return PredictedSample(shown, guesses[0].name, guesses, file=file)
        output = self._outputs[place]
        text, _ = self._text(output)
        if self._task == BOXES:
            return PredictedSample(shown, text, boxes=self._boxes(output, data), file=file)
        return PredictedSample(shown, text, output=_parts("output", output), file=file)

    def _item(self, row: int, left_s: float) -> tuple[Any, Any]:
        """Read a sample once more; nothing if the time is over or it cannot be read again."""
        if left_s <= 0:
            return (), None
        try:
            with tool_protocol.at_most(left_s):
                item = self._data.item(row)
        except (tool_protocol.OutOfTime, UserCodeError):
            return (), None
        is_pair = isinstance(item, (tuple, list)) and len(item) == 2
        return (item[0], item[1]) if is_pair else (item, None)

    def _guesses(self, place: int) -> tuple[Guess, ...]:
        for top, shares in zip(self._top, self._confidences, strict=True):
            if place < len(top):
                numbers, confidence = top[place].tolist(), shares[place].tolist()
                return tuple(
                    Guess(self._name(number), share)
                    for number, share in zip(numbers, confidence, strict=True)
                )
            place -= len(top)
        raise AssertionError("a place beyond the samples")

    def _boxes(self, output: Mapping[str, Any], data: Any) -> tuple[Box, ...]:
        shapes = (
            array.shape for _, one in leaves("", data) if (array := as_array(one)) is not None
        )
        shape = next((shape for shape in shapes if picture_layout(tuple(shape))), None)
        if shape is None:
            return ()
        axes = {"CHW": (1, 2), "HWC": (0, 1), "HW": (0, 1)}[picture_layout(tuple(shape))]
        height, width = (shape[axis] for axis in axes)
        return tuple(
            Box(name, score, (x1 / width, y1 / height, x2 / width, y2 / height))
            for name, score, (x1, y1, x2, y2) in self._boxes_of(output)
        )


def _task_of(output: Any, target: Any, size: int) -> str:
    if (
        isinstance(output, torch.Tensor)
        and output.is_floating_point()
        and output.ndim == 2
        and output.shape[0] == size
        and output.shape[1] > 1
        and _class_numbers(target, size) is not None
    ):
        return CLASSES
    is_list = isinstance(output, (list, tuple)) and len(output) == size
    if is_list and all(isinstance(one, Mapping) and "boxes" in one for one in output):
        return BOXES
    return VALUES


def _class_numbers(target: Any, size: int) -> torch.Tensor | None:
    """Return one whole number for each sample, None if these targets are no classes."""
    if not isinstance(target, torch.Tensor) or target.numel() != size:
        return None
    is_whole = not (target.is_floating_point() or target.is_complex() or target.dtype is torch.bool)
    return target.reshape(-1) if is_whole else None


def _shares(output: torch.Tensor) -> torch.Tensor:
    """Return probabilities: the output if it is that already, otherwise its softmax."""
    values = output.float().cpu()
    sums = values.sum(dim=1)
    if (values >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        return values
    return values.softmax(dim=1)


def _one(value: Any, place: int, size: int) -> Any:
    """Return the part of a batch that belongs to one sample."""

    def is_batch(one: Any) -> bool:
        return isinstance(one, torch.Tensor) and one.shape[:1] == (size,)

    if isinstance(value, (list, tuple)) and len(value) == size and not any(map(is_batch, value)):
        return value[place]
    return tree_map(lambda leaf: leaf[place] if is_batch(leaf) else leaf, value)


def _parts(path: str, value: Any) -> tuple[SamplePart, ...]:
    return tuple(part(*leaf) for leaf in islice(leaves(path, value), _MOST_PARTS))


def _cell(text: str) -> str:
    """Return a text for a spreadsheet; a negative number is no formula."""
    return text if _NUMBER.fullmatch(text) else in_spreadsheet(text)


def _share(value: Any) -> float | None:
    return None if numpy.isnan(value) else float(value)
