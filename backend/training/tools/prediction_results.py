"""The results of a checkpoint's predictions: the table, the measures, the samples to show."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy
import torch

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.records.base import number_format
from backend.records.jobs.metric_names import spreadsheet_text
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
from backend.training.tools.preview import class_names, spread_indices
from backend.training.tools.thumbnails import (
    Array,
    as_array,
    display_part,
    leaves,
    picture_layout,
    target_text,
)
from backend.training.user_code import UserCodeError, UserData, shape_of

_COLUMNS = ("index", "target", "prediction", "confidence")
_SHOW_ALL_LIMIT, _SHOWN_COUNT = 200, 48
_MISTAKE_LIMIT, _SAMPLES_PER_CLASS, _CLASS_SAMPLES = 48, 5, 240
_CLASS_LIMIT = 200
_BOX_LIMIT, _PART_LIMIT = 50, 8
_VALUE_LIMIT = 16
_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[-+]?\d+)?")
_NAN_TEXT = "not a number"
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
        top_columns = [
            f"top_{n}{suffix}" for n in range(2, TOP + 1) for suffix in ("", "_confidence")
        ]
        self._table.writerow([*_COLUMNS, *top_columns, *(["file"] if files else [])])
        self._blanks = [""] * len(top_columns)
        self._shown_positions = set(
            spread_indices(count, count if count <= _SHOW_ALL_LIMIT else _SHOWN_COUNT)
        )
        self._outputs: dict[int, Any] = {}
        self._truths: dict[int, Any] = {}
        self._matches: list[average_precision.PictureMatches] = []
        self._task = ""
        self._classes = 0
        self._rows: list[int] = []
        self._targets: list[torch.Tensor] = []
        self._top: list[torch.Tensor] = []
        self._confidences: list[torch.Tensor] = []
        self._sample_cache: dict[int, PredictedSample] = {}
        self._nan_rows: list[int] = []

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
                parts = [sample_part(output, form.output, index, size) for index in range(size)]
        except (LookupError, TypeError, AttributeError) as error:
            raise BackendError(
                f"The model's output for a batch of {size} has another form than for the "
                f"others: {shape_of(output)}."
            ) from error
        start = len(self._rows)
        self._rows.extend(rows)
        if shares is not None:
            self._task = CLASSES
            self._add_classes(rows, shares, target)
            return
        is_boxes = all(isinstance(index, Mapping) and "boxes" in index for index in parts)
        self._task = BOXES if is_boxes else VALUES
        for offset, row in enumerate(rows):
            sample_target = self._target(form, target, offset, size)
            picture_matches = average_precision.match_picture(parts[offset], sample_target)
            self._matches += [picture_matches] if picture_matches is not None else []
            if start + offset in self._shown_positions:
                self._outputs[start + offset] = (
                    _box_fields(parts[offset]) if is_boxes else parts[offset]
                )
                self._truths[start + offset] = (
                    _box_fields(sample_target) if picture_matches is not None else {}
                )
            prediction_label, confidence = self._text(parts[offset])
            target_label = "" if sample_target is None else _value_text(sample_target, self._names)
            cells = (row, _cell(target_label), _cell(prediction_label), confidence, *self._blanks)
            self._table.writerow([*cells, *map(spreadsheet_text, self._files[row : row + 1])])

    def _target(self, form: BatchForm, target: Any, index: int, size: int) -> Any:
        try:
            return sample_part(target, form.target, index, size)
        except (LookupError, TypeError, AttributeError):  # Of another form in this batch.
            return None

    def _add_classes(self, rows: Sequence[int], shares: torch.Tensor, target: Any) -> None:
        count = shares.shape[1]
        self._classes = max(self._classes, count)
        confidence, top = shares.topk(min(TOP, count), dim=1)
        is_nan = shares.isnan().any(1)
        top[is_nan] = -1
        self._nan_rows += [rows[index] for index in is_nan.nonzero().flatten().tolist()]
        targets = class_numbers(target, len(rows))
        if targets is None:
            targets = torch.full((len(rows),), -1)
        self._targets.append(targets.cpu().int())
        self._top.append(top.int())
        self._confidences.append(confidence)
        labels = [spreadsheet_text(self._name(number)) for number in range(count)]
        target_labels = [
            labels[n] if 0 <= n < count else str(n) if n > 0 else "" for n in targets.tolist()
        ]
        columns: list[Sequence[Any]] = [rows, target_labels]
        for class_indices, class_shares in zip(
            top.T.tolist(), confidence.double().T.numpy().round(6).tolist(), strict=True
        ):
            columns += [
                [labels[n] if n >= 0 else _NAN_TEXT for n in class_indices],
                [
                    share if n >= 0 else ""
                    for n, share in zip(class_indices, class_shares, strict=True)
                ],
            ]
        columns += [[""] * len(rows)] * (2 * (TOP - len(top[0])))
        if self._files:
            columns.append([spreadsheet_text(self._files[row]) for row in rows])
        self._table.writerows(zip(*columns, strict=True))

    def _text(self, value: Any) -> tuple[str, float | str]:
        """Return an output as text, and the confidence in it if it has one."""
        if self._task == BOXES:
            boxes = [
                f"{name} {score:.3g} {corners}"
                for name, score, corners in read_boxes(value, self._names)
            ]
            scores = [score for _, score, _ in read_boxes(value, self._names)]
            return "; ".join(boxes), round(max(scores), 6) if scores else ""
        return _value_text(value, []), ""

    def _name(self, number: int) -> str:
        return class_name(number, self._names)

    # --- the result ---------------------------------------------------------------------------

    def prediction(self, metrics: Mapping[str, float], notes: Sequence[str]) -> Prediction:
        """Return the summary of what was added."""
        self._file.flush()
        count = len(self._rows)
        deadline = time.monotonic() + _SHOW_S
        shows_samples = count <= _SHOW_ALL_LIMIT or self._task != CLASSES
        positions = (
            sorted(position for position in self._shown_positions if position < count)
            if shows_samples
            else []
        )
        summary = Prediction(
            task=self._task,
            sample_count=count,
            metrics=dict(metrics),
            examples=self._samples(positions, deadline),
            notes=(*notes, *(self._form.notes if self._form else ()), *self._nan_note()),
            detections=tuple(
                DetectionMeasures(self._name(measures.label), measures.box_count, *measures.curves)
                for measures in average_precision.precision_by_class(self._matches)
            ),
        )
        return self._with_classes(summary, deadline) if self._task == CLASSES else summary

    def _nan_note(self) -> Iterator[str]:
        if self._nan_rows:
            count = number_format.count_of(len(self._nan_rows), len(self._rows))
            first_name = (
                Path(self._files[self._nan_rows[0]]).name
                if self._files
                else f"sample {number_format.count(self._nan_rows[0])}"
            )
            yield (
                f"The output of {count} samples is not a number (NaN), first of {first_name}: they "
                "have no prediction and are left out of the measures of the classes."
            )

    def _with_classes(self, summary: Prediction, deadline: float) -> Prediction:
        target = torch.cat(self._targets).numpy()
        predicted_classes = torch.cat([top[:, 0] for top in self._top]).numpy()
        confidence = torch.cat([shares[:, 0] for shares in self._confidences]).numpy()
        target[predicted_classes < 0] = -1
        if self._classes > _CLASS_LIMIT:
            return replace(
                summary,
                notes=(
                    *summary.notes,
                    f"Measures of single classes are computed for at most {_CLASS_LIMIT} "
                    f"classes; there are {self._classes}.",
                ),
            )
        class_limit = max(1, min(_SAMPLES_PER_CLASS, _CLASS_SAMPLES // self._classes))
        best_positions = class_measures.most_confident_by_class(
            predicted_classes, confidence, class_limit
        )
        best_positions = best_positions[predicted_classes[best_positions] >= 0]
        if not (target >= 0).any():
            return replace(summary, best=self._samples(best_positions.tolist(), deadline))
        counts = class_measures.confusion(target, predicted_classes, self._classes)
        mistakes = class_measures.most_confident_mistakes(
            target, predicted_classes, confidence, _MISTAKE_LIMIT
        )
        return replace(
            summary,
            classes=tuple(
                ClassMeasures(self._name(number), int(row[0]), *map(_share, row[1:]))
                for number, row in enumerate(zip(*class_measures.measures(counts), strict=True))
            ),
            confusion=tuple(map(tuple, counts.tolist())),
            mistakes=self._samples(mistakes.tolist(), deadline),
            best=self._samples(best_positions.tolist(), deadline),
        )

    def _samples(self, positions: Sequence[int], deadline: float) -> tuple[PredictedSample, ...]:
        for position in positions:
            if position not in self._sample_cache:
                self._sample_cache[position] = self._sample(position, deadline - time.monotonic())
        return tuple(self._sample_cache[position] for position in positions)

    def _sample(self, position: int, remaining_s: float) -> PredictedSample:
        row = self._rows[position]
        data, target = self._item(row, remaining_s)
        target_label = "" if self._files or target is None else target_text(target, self._names)
        sample_preview = SamplePreview(row, sample_parts("data", data), target_label)
        file = self._files[row] if self._files else ""
        if self._task == CLASSES:
            guesses = self._guesses(position)
            name = guesses[0].name if guesses else _NAN_TEXT
            return PredictedSample(sample_preview, name, guesses, file=file)
        output = self._outputs[position]
        text, _ = self._text(output)
        if self._task == BOXES:
            true_class = self._truths[position]
            truth = self._drawn_boxes(true_class, data) if true_class else ()
            boxes = self._drawn_boxes(output, data)
            return PredictedSample(sample_preview, text, boxes=boxes, truth=truth, file=file)
        return PredictedSample(
            sample_preview, text, output=sample_parts("output", output), file=file
        )

    def _item(self, row: int, remaining_s: float) -> tuple[Any, Any]:
        """Read a sample once more; nothing if the time is over or it cannot be read again."""
        if remaining_s <= 0:
            return (), None
        try:
            with tool_protocol.time_limit(remaining_s):
                item = self._data.item(row)
        except (tool_protocol.OutOfTime, UserCodeError) as error:
            swallowed(error)
            return (), None
        is_pair = isinstance(item, (tuple, list)) and len(item) == 2
        return (item[0], item[1]) if is_pair else (item, None)

    def _guesses(self, position: int) -> tuple[Guess, ...]:
        for top, shares in zip(self._top, self._confidences, strict=True):
            if position < len(top):
                numbers, confidence = top[position].tolist(), shares[position].tolist()
                return tuple(
                    Guess(self._name(number), share)
                    for number, share in zip(numbers, confidence, strict=True)
                    if number >= 0
                )
            position -= len(top)
        raise AssertionError("a place beyond the samples")

    def _drawn_boxes(self, output: Mapping[str, Any], data: Any) -> tuple[Box, ...]:
        shapes = (
            array.shape for _, leaf in leaves("", data) if (array := as_array(leaf)) is not None
        )
        shape = next((shape for shape in shapes if picture_layout(tuple(shape))), None)
        return picture_boxes(read_boxes(output, self._names), shape)


BoxRow = tuple[str, float, list[float]]
"""The name, the score and the corners of a box, in pixels."""


def class_name(number: int, names: Sequence[str]) -> str:
    return names[number] if 0 <= number < len(names) else str(number)


def read_boxes(value: Mapping[str, Any], names: Sequence[str]) -> Iterator[BoxRow]:
    """Yield the boxes of a detector's output, or of a target."""
    corners = torch.as_tensor(value["boxes"]).reshape(-1, 4).tolist()[:_BOX_LIMIT]
    default_scores = torch.ones(len(corners))
    scores = torch.as_tensor(value.get("scores", default_scores)).reshape(-1).tolist()
    labels = torch.as_tensor(value.get("labels", default_scores.int())).reshape(-1).tolist()
    for label, score, box in zip(labels, scores, corners, strict=False):
        yield class_name(int(label), names), float(score), [round(corner, 2) for corner in box]


def picture_boxes(boxes: Iterable[BoxRow], shape: Sequence[int] | None) -> tuple[Box, ...]:
    """Return boxes in shares of a picture of this shape; none if it is no picture's."""
    layout = picture_layout(tuple(shape or ()))
    if not layout or shape is None:
        return ()
    height, width = (shape[axis] for axis in {"CHW": (1, 2), "HWC": (0, 1), "HW": (0, 1)}[layout])
    return tuple(
        Box(name, score, tuple(map(_rounded_share, corners, (width, height, width, height))))
        for name, score, corners in boxes
    )


def _rounded_share(corner: float, length: int) -> float:
    return round(corner / length, 4)


def _box_fields(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a detector's output that is shown: the rest may be large."""
    return {key: output[key] for key in ("boxes", "scores", "labels") if key in output}


def _value_text(value: Any, names: list[str]) -> str:
    """Return an output or a target as text: its numbers if they are few."""
    if isinstance(value, Mapping) and "boxes" in value:
        return target_text(value, names)
    parts = list(islice(leaves("", value), _PART_LIMIT + 1))
    texts = []
    for path, leaf in parts[:_PART_LIMIT]:
        array = as_array(leaf)
        is_short = array is not None and array.ndim and 1 < array.size <= _VALUE_LIMIT
        text = _numbers(array) if array is not None and is_short else target_text(leaf, names)
        texts.append(f"{path.lstrip('.')}: {text}" if path else text)
    return "; ".join([*texts, *(["…"] if len(parts) > _PART_LIMIT else [])])


def _numbers(array: Array) -> str:
    """Return the numbers of an array, rows in brackets."""
    if array.ndim:
        return f"[{', '.join(map(_numbers, array))}]"
    number = array.item()
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def sample_parts(path: str, value: Any) -> tuple[SamplePart, ...]:
    return tuple(display_part(*leaf) for leaf in islice(leaves(path, value), _PART_LIMIT))


def _cell(text: str) -> str:
    """Return a text for a spreadsheet; a negative number is no formula."""
    return text if _NUMBER.fullmatch(text) else spreadsheet_text(text)


def _share(value: Any) -> float | None:
    return None if numpy.isnan(value) else float(value)
