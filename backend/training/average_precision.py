"""Average precision of detections as COCO defines it: 101 points of recall, 100 boxes a picture.

Outputs and targets are those of torchvision: a dict for each picture with ``boxes``, ``labels``
and, of an output, ``scores``. A target may name its ``set``, which is then measured by itself.

A box that the target marks in ``iscrowd`` (COCO) or ``difficult`` (Pascal VOC) need not be found: a
detection that hits no other box and overlaps with a marked box is left out. The overlap with a
crowd is the share of the detection inside the crowd, as a detection is of one object.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch

OVERLAPS = (0.5, 0.75)
"""The thresholds: the least intersection over union of a hit."""
_POINTS = tuple(number * 0.01 for number in range(101))
_MAX_BOXES = 100


class PictureMatches(NamedTuple):
    """Number of true boxes of a picture by class, and its detections, the most certain first.

    A detection is its score, and whether it is a hit for each of `OVERLAPS`, None if it is left out
    there. All values are plain, as they travel between ranks.
    """

    group: str
    true_counts: Mapping[int, int]
    detections: Mapping[int, Sequence[tuple[float, tuple[bool | None, ...]]]]


class ClassPrecision(NamedTuple):
    """Number of true boxes of a class, and for each of `OVERLAPS` the precision by recall."""

    label: int
    box_count: int
    curves: tuple[tuple[float, ...], ...]

    def area(self, number: int) -> float:
        """Return the average precision for the threshold with this index in `OVERLAPS`."""
        return math.fsum(self.curves[number]) / len(_POINTS)


def matches_of(output: Any, target: Any) -> list[PictureMatches]:
    """Match the detections of a batch with its targets; [] for another task."""
    if not (isinstance(output, (list, tuple)) and isinstance(target, (list, tuple))):
        return []
    if len(output) != len(target):
        return []
    matches = [match_picture(*pair) for pair in zip(output, target, strict=True)]
    return [result for result in matches if result is not None] if all(matches) else []


def match_picture(output: Any, target: Any) -> PictureMatches | None:
    """Match the detections of one picture with its true boxes; None for another task."""
    if not (_has_boxes(output, "scores") and _has_boxes(target)):
        return None
    boxes, labels = _boxes(output)
    true_boxes, true_labels = _boxes(target)
    scores = torch.as_tensor(output["scores"]).detach().cpu().double()
    is_finite = boxes.isfinite().all(1) & scores.isfinite()
    crowd, difficult = (
        _box_flags(target, key, len(true_boxes)) for key in ("iscrowd", "difficult")
    )
    detections, true_counts = {}, {}
    for label in {*labels.tolist(), *true_labels.tolist()}:
        indices = (is_finite & (labels == label)).nonzero().flatten()
        indices = indices[scores[indices].argsort(descending=True, stable=True)][:_MAX_BOXES]
        is_label = true_labels == label
        class_boxes = true_boxes[is_label & ~crowd & ~difficult]
        true_counts[label] = len(class_boxes)
        class_overlaps = overlaps(boxes[indices], class_boxes).tolist()
        optional_overlaps = torch.cat(
            [
                torch.zeros(len(indices), 1),
                overlaps(boxes[indices], true_boxes[is_label & difficult & ~crowd]),
                overlaps(boxes[indices], true_boxes[is_label & crowd], by_first=True),
            ],
            1,
        )
        max_optional = optional_overlaps.amax(1).tolist()
        hits = zip(
            *(
                _match_boxes(class_overlaps, len(class_boxes), threshold, max_optional)
                for threshold in OVERLAPS
            ),
            strict=True,
        )
        detections[label] = list(zip(scores[indices].tolist(), hits, strict=True))
    return PictureMatches(str(target.get("set", "")), true_counts, detections)


def overlaps(
    boxes: torch.Tensor, other_boxes: torch.Tensor, *, by_first: bool = False
) -> torch.Tensor:
    """Return the intersection over the union of each two boxes, or over the first one."""
    low = torch.maximum(boxes[:, None, :2], other_boxes[:, :2])
    high = torch.minimum(boxes[:, None, 2:], other_boxes[:, 2:])
    intersection = (high - low).clamp(min=0).prod(2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)[:, None]
    union = (
        area
        if by_first
        else area + (other_boxes[:, 2:] - other_boxes[:, :2]).prod(1) - intersection
    )
    return torch.where(intersection > 0, intersection / union, 0.0)


def precision_by_class(pictures: Iterable[PictureMatches]) -> list[ClassPrecision]:
    """Return the precision of each class that has true boxes. Pictures are in their order."""
    pictures = list(pictures)
    counts: dict[int, int] = {}
    for picture in pictures:
        for label, count in picture.true_counts.items():
            counts[label] = counts.get(label, 0) + count
    precisions = []
    for label, count in sorted(counts.items()):
        if count:
            detections = [
                detection for picture in pictures for detection in picture.detections.get(label, ())
            ]
            detections.sort(key=lambda detection: -detection[0])
            curves = (
                _curve([hit for _, hits in detections if (hit := hits[number]) is not None], count)
                for number in range(len(OVERLAPS))
            )
            precisions.append(ClassPrecision(label, count, tuple(curves)))
    return precisions


def mean_precisions(pictures: Sequence[PictureMatches]) -> dict[str, float]:
    """Return the mean over the classes of each set, by the name of its metric."""
    means = {}
    for group in dict.fromkeys(picture.group for picture in pictures):
        classes = precision_by_class(picture for picture in pictures if picture.group == group)
        for number, threshold in enumerate(OVERLAPS):
            name = f"AP{threshold * 100:.0f}" + (f" of {group}" if group else "")
            if classes:
                means[name] = math.fsum(precision.area(number) for precision in classes) / len(
                    classes
                )
    return means


def _has_boxes(value: Any, *keys: str) -> bool:
    """Return whether a value has boxes as rows of four, and all ``keys`` for each box."""
    if not isinstance(value, Mapping) or any(key not in value for key in keys):
        return False
    shape = getattr(value.get("boxes"), "shape", None)
    if shape is None or ((len(shape) != 2 or shape[1] != 4) and shape[:1] != (0,)):
        return False
    box_values = [value[key] for key in ("labels", *keys) if key in value]
    return all(getattr(box_value, "shape", None) == shape[:1] for box_value in box_values)


def _boxes(value: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    boxes = torch.as_tensor(value["boxes"]).detach().cpu().double().reshape(-1, 4)
    labels = torch.as_tensor(value.get("labels", torch.ones(len(boxes)))).detach().cpu()
    return boxes, labels.long()


def _box_flags(target: Mapping[str, Any], key: str, count: int) -> torch.Tensor:
    """Return a flag for each true box; all False without a flag for each box in the target."""
    flags = target.get(key)
    marks = torch.as_tensor(() if flags is None else flags).detach().cpu().reshape(-1).bool()
    return marks if len(marks) == count else torch.zeros(count, dtype=torch.bool)


def _match_boxes(
    box_overlaps: list[list[float]], count: int, threshold: float, optional_overlaps: list[float]
) -> list[bool | None]:
    """Match each detection with the free true box with which it overlaps most.

    ``optional_overlaps``: the overlap of each detection with boxes that need not be found.
    """
    is_free = [True] * count
    hits: list[bool | None] = []
    for row, optional_overlap in zip(box_overlaps, optional_overlaps, strict=True):
        best_overlap, best_index = min(threshold, 1 - 1e-10), -1
        for number, overlap in enumerate(row):
            if is_free[number] and overlap >= best_overlap:
                best_overlap, best_index = overlap, number
        is_optional = best_index < 0 and optional_overlap >= min(threshold, 1 - 1e-10)
        hits.append(None if is_optional else best_index >= 0)
        if best_index >= 0:
            is_free[best_index] = False
    return hits


def _curve(right: Sequence[bool], count: int) -> tuple[float, ...]:
    """Return the best precision at or after each point of recall; 0 beyond the highest recall."""
    hit_sums = list(accumulate(right, initial=0))[1:]
    best_precisions = [hit / number for number, hit in enumerate(hit_sums, 1)]
    for index in range(len(best_precisions) - 2, -1, -1):
        best_precisions[index] = max(best_precisions[index], best_precisions[index + 1])
    curve, index = [], 0
    for point in _POINTS:
        while index < len(hit_sums) and hit_sums[index] / count < point:
            index += 1
        curve.append(best_precisions[index] if index < len(hit_sums) else 0.0)
    return tuple(curve)
