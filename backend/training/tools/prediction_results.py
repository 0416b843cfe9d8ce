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

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.base import number_format
from backend.records.jobs.metric_names import in_spreadsheet
from backend.records.jobs.prediction import (
    BOXES,
    CLASSES,
    TOP,
    VALUES,
    Box,
    ClassMeasures,
    DetectionMeasures,
    Guess,
    PredictedSample,
    Prediction,
)
from backend.records.library.preview import SamplePart, SamplePreview
from backend.training import average_precision
from backend.training.tools import class_measures
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.batch_form import (
    BatchForm,
    class_numbers,
    first_axis_form,
    sample_part,
)
from backend.training.tools.preview import class_names, evenly
from backend.training.tools.thumbnails import (
    Array,
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
_NO_NUMBER = "not a number"
_SHOW_S = 20.0
"""For reading the samples to show once more."""


class PredictionResults:
    """Collects predictions batch by batch. In a ``with``, which closes the table."""

    def __init__(
        self, table: Path, data: UserData, form: BatchForm | None, count: int, files: Sequence[str]
    ) -> None:
        """``form``: without one, the first batch is the only example."""
        self._data = data
        self._form = form
        self._files = files
        self._names = class_names(data.user_dataset)
        # A file's name that is not UTF-8 is written as it is on the disk.
        self._file = table.open("w", encoding="utf-8", errors="surrogateescape", newline="")
        self._table = csv.writer(self._file)
        top = [f"top_{n}{what}" for n in range(2, TOP + 1) for what in ("", "_confidence")]
        self._table.writerow([*_HEAD, *top, *(["file"] if files else [])])
        self._blanks = [""] * len(top)
        self._shown = set(evenly(count, count if count <= _ALL_SHOWN else _SOME_SHOWN))
        self._outputs: dict[int, Any] = {}
        self._truths: dict[int, Any] = {}
        self._matches: list[average_precision.PictureMatches] = []
        self._task = ""
        self._classes = 0
        self._rows: list[int] = []
        self._targets: list[torch.Tensor] = []
        self._top: list[torch.Tensor] = []
        self._confidences: list[torch.Tensor] = []
        self._known: dict[int, PredictedSample] = {}
        self._missing: list[int] = []

    def __enter__(self) -> PredictionResults:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, rows: Sequence[int], output: Any, target: Any) -> None:
        """Add a batch.

        Args:
            rows: The numbers of its samples.
            target: Their targets; of files, those of another sample.
        """
        size = len(rows)
        form = self._form = self._form or first_axis_form(output, target, size)
        if self._files:
            target = None
        try:
            shares = form.class_shares(output, size)
            parts = []
            if shares is None:
                parts = [sample_part(output, form.output, one, size) for one in range(size)]
        except (LookupError, TypeError, AttributeError) as error:
            raise BackendError(
                f"The model's output for a batch of {size} has another form than for the "
                f"others: {shape_of(output)}."
            ) from error
        begin = len(self._rows)
        self._rows.extend(rows)
        if shares is not None:
            self._task = CLASSES
            self._add_classes(rows, shares, target)
            return
        is_boxes = all(isinstance(one, Mapping) and "boxes" in one for one in parts)
        self._task = BOXES if is_boxes else VALUES
        for place, row in enumerate(rows):
            own = self._target(form, target, place, size)
            matched = average_precision.match(parts[place], own)
            self._matches += [matched] if matched is not None else []
            if begin + place in self._shown:
                self._outputs[begin + place] = _shown(parts[place]) if is_boxes else parts[place]
                self._truths[begin + place] = _shown(own) if matched is not None else {}
            predicted, confidence = self._text(parts[place])
            words = "" if own is None else _value_text(own, self._names)
            cells = (row, _cell(words), _cell(predicted), confidence, *self._blanks)
            self._table.writerow([*cells, *map(in_spreadsheet, self._files[row : row + 1])])

    def _target(self, form: BatchForm, target: Any, place: int, size: int) -> Any:
        try:
            return sample_part(target, form.target, place, size)
        except (LookupError, TypeError, AttributeError):  # Of another form in this batch.
            return None

    def _add_classes(self, rows: Sequence[int], shares: torch.Tensor, target: Any) -> None:
        count = shares.shape[1]
        self._classes = max(self._classes, count)
        confidence, top = shares.topk(min(TOP, count), dim=1)
        missing = shares.isnan().any(1)
        top[missing] = -1
        self._missing += [rows[place] for place in missing.nonzero().flatten().tolist()]
        targets = class_numbers(target, len(rows))
        if targets is None:
            targets = torch.full((len(rows),), -1)
        self._targets.append(targets.cpu().int())
        self._top.append(top.int())
        self._confidences.append(confidence)
        words = [in_spreadsheet(self._name(number)) for number in range(count)]
        own = [words[n] if 0 <= n < count else str(n) if n > 0 else "" for n in targets.tolist()]
        columns: list[Sequence[Any]] = [rows, own]
        for names, sure in zip(
            top.T.tolist(), confidence.double().T.numpy().round(6).tolist(), strict=True
        ):
            columns += [
                [words[n] if n >= 0 else _NO_NUMBER for n in names],
                [one if n >= 0 else "" for n, one in zip(names, sure, strict=True)],
            ]
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
        return _value_text(value, []), ""

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
            sample_count=count,
            metrics=dict(metrics),
            examples=self._samples(shown, deadline),
            notes=(*notes, *(self._form.notes if self._form else ()), *self._missing_note()),
            detections=tuple(
                DetectionMeasures(self._name(one.label), one.boxes, *one.curves)
                for one in average_precision.by_class(self._matches)
            ),
        )
        return self._with_classes(found, deadline) if self._task == CLASSES else found

    def _missing_note(self) -> Iterator[str]:
        if self._missing:
            count = number_format.count_of(len(self._missing), len(self._rows))
            first = (
                Path(self._files[self._missing[0]]).name
                if self._files
                else f"sample {number_format.count(self._missing[0])}"
            )
            yield (
                f"The output of {count} samples is not a number (NaN), first of {first}: they "
                "have no prediction and are left out of the measures of the classes."
            )

    def _with_classes(self, found: Prediction, deadline: float) -> Prediction:
        target = torch.cat(self._targets).numpy()
        predicted = torch.cat([top[:, 0] for top in self._top]).numpy()
        confidence = torch.cat([shares[:, 0] for shares in self._confidences]).numpy()
        target[predicted < 0] = -1
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
        best = class_measures.most_confident_by_class(predicted, confidence, each)
        best = best[predicted[best] >= 0]
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
            name = guesses[0].name if guesses else _NO_NUMBER
            return PredictedSample(shown, name, guesses, file=file)
        output = self._outputs[place]
        text, _ = self._text(output)
        if self._task == BOXES:
            true = self._truths[place]
            truth = self._boxes(true, data) if true else ()
            boxes = self._boxes(output, data)
            return PredictedSample(shown, text, boxes=boxes, truth=truth, file=file)
        return PredictedSample(shown, text, output=_parts("output", output), file=file)

    def _item(self, row: int, left_s: float) -> tuple[Any, Any]:
        """Read a sample once more; nothing if the time is over or it cannot be read again."""
        if left_s <= 0:
            return (), None
        try:
            with tool_protocol.at_most(left_s):
                item = self._data.item(row)
        except (tool_protocol.OutOfTime, UserCodeError) as error:
            swallowed(error)
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
                    if number >= 0
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


def _shown(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a detector's output that is shown: the rest may be large."""
    return {key: output[key] for key in ("boxes", "scores", "labels") if key in output}


def _value_text(value: Any, names: list[str]) -> str:
    """Return an output or a target as text: its numbers if they are few."""
    if isinstance(value, Mapping) and "boxes" in value:
        return target_text(value, names)
    parts = list(islice(leaves("", value), _MOST_PARTS + 1))
    texts = []
    for path, one in parts[:_MOST_PARTS]:
        array = as_array(one)
        is_short = array is not None and array.ndim and 1 < array.size <= _MOST_VALUES
        text = _numbers(array) if array is not None and is_short else target_text(one, names)
        texts.append(f"{path.lstrip('.')}: {text}" if path else text)
    return "; ".join([*texts, *(["…"] if len(parts) > _MOST_PARTS else [])])


def _numbers(array: Array) -> str:
    """Return the numbers of an array, rows in brackets."""
    if array.ndim:
        return f"[{', '.join(map(_numbers, array))}]"
    number = array.item()
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def _parts(path: str, value: Any) -> tuple[SamplePart, ...]:
    return tuple(part(*leaf) for leaf in islice(leaves(path, value), _MOST_PARTS))


def _cell(text: str) -> str:
    """Return a text for a spreadsheet; a negative number is no formula."""
    return text if _NUMBER.fullmatch(text) else in_spreadsheet(text)


def _share(value: Any) -> float | None:
    return None if numpy.isnan(value) else float(value)
