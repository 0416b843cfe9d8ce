"""Average precision of detections as COCO defines it: 101 points of recall, 100 boxes a picture.

Outputs and targets are those of torchvision: a dict for each picture with ``boxes``, ``labels``
and, of an output, ``scores``. A target may name its ``set``, which is then measured by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch

OVERLAPS = (0.5, 0.75)
"""The least intersection over union of a detection that is right."""
_POINTS = tuple(number * 0.01 for number in range(101))
_MOST = 100


class PictureMatches(NamedTuple):
    """The true boxes of a picture, counted by class, and its detections, the most certain first.

    A detection is its score, and whether it is right for each of `OVERLAPS`. It has plain values
    only, as it travels between ranks.
    """

    group: str
    true: Mapping[int, int]
    found: Mapping[int, Sequence[tuple[float, tuple[bool, ...]]]]


class ClassPrecision(NamedTuple):
    """The true boxes of a class, counted, and for each of `OVERLAPS` the precision by recall."""

    label: int
    boxes: int
    curves: tuple[tuple[float, ...], ...]

    def area(self, number: int) -> float:
        """Return the average precision for this one of `OVERLAPS`."""
        return math.fsum(self.curves[number]) / len(_POINTS)


def matches_of(output: Any, target: Any) -> list[PictureMatches]:
    """Match the detections of a batch with its targets; [] for another task."""
    if not (isinstance(output, (list, tuple)) and isinstance(target, (list, tuple))):
        return []
    if len(output) != len(target):
        return []
    found = [match(*pair) for pair in zip(output, target, strict=True)]
    return [one for one in found if one is not None] if all(found) else []


def match(output: Any, target: Any) -> PictureMatches | None:
    """Match the detections of one picture with its true boxes; None for another task."""
    if not (_has_boxes(output, "scores") and _has_boxes(target)):
        return None
    boxes, labels = _boxes(output)
    true_boxes, true_labels = _boxes(target)
    scores = torch.as_tensor(output["scores"]).detach().cpu().double()
    is_number = boxes.isfinite().all(1) & scores.isfinite()
    found, true = {}, {}
    for label in {*labels.tolist(), *true_labels.tolist()}:
        own = (is_number & (labels == label)).nonzero().flatten()
        own = own[scores[own].argsort(descending=True, stable=True)][:_MOST]
        there = true_boxes[true_labels == label]
        true[label] = len(there)
        shared = overlaps(boxes[own], there).tolist()
        right = zip(*(_right(shared, len(there), least) for least in OVERLAPS), strict=True)
        found[label] = list(zip(scores[own].tolist(), right, strict=True))
    return PictureMatches(str(target.get("set", "")), true, found)


def overlaps(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return the intersection over the union of each two boxes."""
    low = torch.maximum(some[:, None, :2], others[:, :2])
    high = torch.minimum(some[:, None, 2:], others[:, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    areas = (some[:, 2:] - some[:, :2]).prod(1)[:, None] + (others[:, 2:] - others[:, :2]).prod(1)
    return torch.where(shared > 0, shared / (areas - shared), 0.0)


def by_class(pictures: Iterable[PictureMatches]) -> list[ClassPrecision]:
    """Return the precision of each class that has true boxes. Pictures are in their order."""
    pictures = list(pictures)
    counts: dict[int, int] = {}
    for picture in pictures:
        for label, count in picture.true.items():
            counts[label] = counts.get(label, 0) + count
    found = []
    for label, count in sorted(counts.items()):
        if count:
            every = [one for picture in pictures for one in picture.found.get(label, ())]
            every.sort(key=lambda one: -one[0])
            curves = (
                _curve([right[number] for _, right in every], count)
                for number in range(len(OVERLAPS))
            )
            found.append(ClassPrecision(label, count, tuple(curves)))
    return found


def means(pictures: Sequence[PictureMatches]) -> dict[str, float]:
    """Return the mean over the classes by the name of a metric, of each set."""
    found = {}
    for group in dict.fromkeys(picture.group for picture in pictures):
        classes = by_class(picture for picture in pictures if picture.group == group)
        for number, least in enumerate(OVERLAPS):
            name = f"AP{least * 100:.0f}" + (f" of {group}" if group else "")
            if classes:
                found[name] = math.fsum(one.area(number) for one in classes) / len(classes)
    return found


def _has_boxes(value: Any, *keys: str) -> bool:
    """Return whether a value has boxes as rows of four, with a label and such values for each."""
    if not isinstance(value, Mapping) or any(key not in value for key in keys):
        return False
    shape = getattr(value.get("boxes"), "shape", None)
    if shape is None or ((len(shape) != 2 or shape[1] != 4) and shape[:1] != (0,)):
        return False
    others = [value[key] for key in ("labels", *keys) if key in value]
    return all(getattr(one, "shape", None) == shape[:1] for one in others)


def _boxes(value: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    boxes = torch.as_tensor(value["boxes"]).detach().cpu().double().reshape(-1, 4)
    labels = torch.as_tensor(value.get("labels", torch.ones(len(boxes)))).detach().cpu()
    return boxes, labels.long()


def _right(shared: list[list[float]], count: int, least: float) -> list[bool]:
    """Give each detection the true box with which it overlaps most, if none before it took that."""
    free = [True] * count
    right = []
    for row in shared:
        best, place = min(least, 1 - 1e-10), -1
        for number, overlap in enumerate(row):
            if free[number] and overlap >= best:
                best, place = overlap, number
        right.append(place >= 0)
        if place >= 0:
            free[place] = False
    return right


def _curve(right: Sequence[bool], count: int) -> tuple[float, ...]:
    """Return the best precision from each point of recall on; 0 beyond the highest recall."""
    hits = list(accumulate(right, initial=0))[1:]
    best = [hit / number for number, hit in enumerate(hits, 1)]
    for place in range(len(best) - 2, -1, -1):
        best[place] = max(best[place], best[place + 1])
    curve, place = [], 0
    for point in _POINTS:
        while place < len(hits) and hits[place] / count < point:
            place += 1
        curve.append(best[place] if place < len(hits) else 0.0)
    return tuple(curve)
