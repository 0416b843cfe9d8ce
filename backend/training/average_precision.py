"""Average precision of detections as COCO defines it: 101 points of recall, 100 boxes a picture.

Outputs and targets are those of torchvision: a dict for each picture with ``boxes``, ``labels``
and, of an output, ``scores``. A target may name its ``set``, which is then measured by itself.

A box that the target marks in ``iscrowd`` (COCO) or ``difficult`` (Pascal VOC) need not be found: a
detection that is right with no other box and overlaps with it is left out. The overlap with a crowd
is the share of the detection that is in it, as a detection is of one object.
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

    A detection is its score, and whether it is right for each of `OVERLAPS`, None if it is left out
    there. It has plain values only, as it travels between ranks.
    """

    group: str
    true: Mapping[int, int]
    found: Mapping[int, Sequence[tuple[float, tuple[bool | None, ...]]]]


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
    crowd, difficult = (_marks(target, key, len(true_boxes)) for key in ("iscrowd", "difficult"))
    found, true = {}, {}
    for label in {*labels.tolist(), *true_labels.tolist()}:
        own = (is_number & (labels == label)).nonzero().flatten()
        own = own[scores[own].argsort(descending=True, stable=True)][:_MOST]
        of_label = true_labels == label
        there = true_boxes[of_label & ~crowd & ~difficult]
        true[label] = len(there)
        shared = overlaps(boxes[own], there).tolist()
        with_optional = torch.cat(
            [
                torch.zeros(len(own), 1),
                overlaps(boxes[own], true_boxes[of_label & difficult & ~crowd]),
                overlaps(boxes[own], true_boxes[of_label & crowd], of_first=True),
            ],
            1,
        )
        optional = with_optional.amax(1).tolist()
        right = zip(
            *(_right(shared, len(there), least, optional) for least in OVERLAPS), strict=True
        )
        found[label] = list(zip(scores[own].tolist(), right, strict=True))
    return PictureMatches(str(target.get("set", "")), true, found)


def overlaps(some: torch.Tensor, others: torch.Tensor, *, of_first: bool = False) -> torch.Tensor:
    """Return the intersection over the union of each two boxes, or over the first one."""
    low = torch.maximum(some[:, None, :2], others[:, :2])
    high = torch.minimum(some[:, None, 2:], others[:, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    own = (some[:, 2:] - some[:, :2]).prod(1)[:, None]
    union = own if of_first else own + (others[:, 2:] - others[:, :2]).prod(1) - shared
    return torch.where(shared > 0, shared / union, 0.0)


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
                _curve([hit for _, right in every if (hit := right[number]) is not None], count)
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


def _marks(target: Mapping[str, Any], key: str, count: int) -> torch.Tensor:
    """Return which true boxes have a mark; none, if the target has not one for each."""
    given = target.get(key)
    marks = torch.as_tensor(() if given is None else given).detach().cpu().reshape(-1).bool()
    return marks if len(marks) == count else torch.zeros(count, dtype=torch.bool)


def _right(
    shared: list[list[float]], count: int, least: float, optional: list[float]
) -> list[bool | None]:
    """Give each detection the true box with which it overlaps most, if none before it took that.

    ``optional``: how much each detection overlaps with boxes that need not be found.
    """
    free = [True] * count
    right: list[bool | None] = []
    for row, aside in zip(shared, optional, strict=True):
        best, place = min(least, 1 - 1e-10), -1
        for number, overlap in enumerate(row):
            if free[number] and overlap >= best:
                best, place = overlap, number
        is_optional = place < 0 and aside >= min(least, 1 - 1e-10)
        right.append(None if is_optional else place >= 0)
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
