"""Average precision equals that of pycocotools, on one rank and on many."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from backend.training.average_precision import (
    OVERLAPS,
    match_picture,
    matches_of,
    mean_precisions,
    precision_by_class,
)
from backend.training.data import ValidationOrder
from backend.training.evaluation import BatchValues, average_values
from backend.training.strategies.wire_format import decode, encode
from backend.training.user_code import WeightedMean
from tests.backend.training.training_rig import new_training

Picture = tuple[dict[str, Any], dict[str, Any]]


def pictures(seed: int) -> list[Picture]:
    """Draw pictures of several classes: detections near true boxes and anywhere, equal scores."""
    random = numpy.random.default_rng(seed)
    classes = int(random.integers(1, 5))
    pairs = []
    for _ in range(int(random.integers(1, 8))):
        true_boxes = _boxes(random, int(random.integers(0, 9)))
        near_boxes = true_boxes + random.normal(0, random.choice([0.5, 4.0]), true_boxes.shape)
        boxes = numpy.concatenate([near_boxes, _boxes(random, int(random.choice([0, 6, 120])))])
        boxes[:, 2:] = numpy.maximum(boxes[:, 2:], boxes[:, :2] + 1)
        labels = random.integers(0, classes, len(true_boxes))
        output = {
            "boxes": torch.from_numpy(boxes),
            "scores": torch.from_numpy(random.random(len(boxes)).round(int(random.choice([1, 9])))),
            "labels": torch.from_numpy(
                numpy.concatenate(
                    [labels, random.integers(0, classes, len(boxes) - len(true_boxes))]
                )
            ),
        }
        crowds = torch.from_numpy(random.random(len(true_boxes)) < (seed % 2) / 3)
        target = {
            "boxes": torch.from_numpy(true_boxes),
            "labels": torch.from_numpy(labels),
            "iscrowd": crowds.long(),
        }
        pairs.append((output, target))
    return pairs


def _boxes(random: numpy.random.Generator, count: int) -> numpy.ndarray:
    corner, size = random.uniform(0, 80, (count, 2)), random.uniform(2, 40, (count, 2))
    return numpy.concatenate([corner, corner + size], 1)


def reference_precision(pairs: Sequence[Picture]) -> Mapping[int, Sequence[float]]:
    """Return the average precision by class as pycocotools computes it."""

    def annotation_rows(values: Mapping[str, Any], image: int) -> list[dict[str, Any]]:
        rows = []
        for number, (x1, y1, x2, y2) in enumerate(values["boxes"].double().tolist()):
            box = [x1, y1, x2 - x1, y2 - y1]
            row = {"image_id": image, "category_id": int(values["labels"][number]), "bbox": box}
            score = {"score": float(values["scores"][number])} if "scores" in values else {}
            crowd = int(values["iscrowd"][number]) if "iscrowd" in values else 0
            rows.append({**row, **score, "area": box[2] * box[3], "iscrowd": crowd})
        return rows

    truth, detections = COCO(), COCO()
    row_pairs = [(annotation_rows(o, n), annotation_rows(t, n)) for n, (o, t) in enumerate(pairs)]
    labels = sorted({row["category_id"] for parts in row_pairs for part in parts for row in part})
    with contextlib.redirect_stdout(io.StringIO()):
        for coco, side in ((detections, 0), (truth, 1)):
            rows = [row for parts in row_pairs for row in parts[side]]
            coco.dataset = {
                "images": [{"id": number} for number in range(len(pairs))],
                "categories": [{"id": label} for label in labels],
                "annotations": [{**row, "id": number} for number, row in enumerate(rows, 1)],
            }
            coco.createIndex()
        evaluation = COCOeval(truth, detections, "bbox")
        evaluation.params.iouThrs = numpy.array(OVERLAPS)
        evaluation.evaluate()
        evaluation.accumulate()
    precision = evaluation.eval["precision"][:, :, :, 0, 2]
    return {
        label: [float(precision[number, :, index].mean()) for number in range(len(OVERLAPS))]
        for index, label in enumerate(labels)
        if precision[0, 0, index] >= 0
    }


@pytest.mark.parametrize("seed", range(60))
def test_the_average_precision_equals_that_of_pycocotools(seed: int) -> None:
    pairs = pictures(seed)
    expected = reference_precision(pairs)
    precisions = precision_by_class(
        precision for pair in pairs if (precision := match_picture(*pair)) is not None
    )
    assert {precision.label for precision in precisions} == set(expected)
    for precision in precisions:
        areas = [precision.area(number) for number in range(len(OVERLAPS))]
        assert areas == pytest.approx(expected[precision.label], abs=1e-6)


def test_the_reference_finds_some_right_and_some_wrong() -> None:
    values = [area for seed in range(60) for areas in reference_precision(pictures(seed)).values()
              for area in areas]  # fmt: skip
    assert 0.1 < float(numpy.mean(values)) < 0.9


@pytest.mark.parametrize(
    ("detections", "expected"),
    [
        # One detection of the box that is asked for, and others.
        ([[0, 0, 4, 4]], 1.0),
        ([[20, 0, 24, 4], [0, 0, 4, 4]], 1.0),
        ([[20, 0, 24, 4], [20, 0, 24, 4], [0, 0, 4, 4]], 1.0),
        ([[20, 0, 22, 4], [0, 0, 4, 4]], 1.0),
        ([[20, 0, 21, 4], [0, 0, 4, 4]], 0.5),
        ([[60, 0, 64, 4], [0, 0, 4, 4]], 0.5),
        ([[20, 0, 24, 4]], 0.0),
    ],
)
def test_a_detection_of_a_difficult_box_is_neither_right_nor_wrong(
    detections: list[list[float]], expected: float
) -> None:
    target = {
        "boxes": torch.tensor([[0.0, 0, 4, 4], [20, 0, 24, 4]]),
        "labels": torch.ones(2, dtype=torch.int64),
        "difficult": torch.tensor([0, 1]),
    }
    output = {
        "boxes": torch.tensor(detections, dtype=torch.float32),
        "labels": torch.ones(len(detections), dtype=torch.int64),
        "scores": torch.linspace(0.9, 0.5, len(detections)),
    }
    assert mean_precisions(matches_of([output], [target]))["AP50"] == pytest.approx(expected)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_measure_the_same_as_one(ranks: int) -> None:
    pairs = pictures(4) * 3
    order = ValidationOrder(len(pairs), 2, 0, 1)
    expected = mean_precisions(matches_of(*map(list, zip(*pairs, strict=True))))
    batch_values = []
    for rank in range(ranks):
        for number in ValidationOrder(len(pairs), 2, rank, ranks).batch_numbers():
            output, target = zip(*(pairs[n] for n in order.batch_indices(number)), strict=True)
            share = WeightedMean.with_weight(0.5 + number, 1.0 + number)
            values = BatchValues.of_batch(
                torch.tensor(1.0), {"share": share}, list(output), list(target)
            )
            message = decode(encode(values.to_message()))
            batch_values.append((number, BatchValues.from_message(message)))
    numbers = range(order.batch_count)
    expected_share = sum((0.5 + n) * (1 + n) for n in numbers) / sum(1 + n for n in numbers)
    assert average_values(batch_values, order) == {
        "validation/loss": 1.0,
        "validation/share": pytest.approx(expected_share),
        **{f"validation/{name}": value for name, value in expected.items()},
    }


def test_each_set_is_measured_by_itself() -> None:
    pairs = pictures(4)
    named_pairs = [(o, {**t, "set": "test"}) for o, t in pairs] + [
        ({key: value[:0] for key, value in o.items()}, {**t, "set": "training"}) for o, t in pairs
    ]
    total_means = mean_precisions(matches_of(*map(list, zip(*pairs, strict=True))))
    set_means = mean_precisions(matches_of(*map(list, zip(*named_pairs, strict=True))))
    assert set_means == {
        "AP50 of test": total_means["AP50"],
        "AP75 of test": total_means["AP75"],
        "AP50 of training": 0.0,
        "AP75 of training": 0.0,
    }


def test_a_metric_of_the_user_of_this_name_stays() -> None:
    output, target = map(list, zip(*pictures(4), strict=True))
    values = BatchValues.of_batch(torch.tensor(1.0), {"AP50": 0.125}, output, target)
    assert average_values([(0, values)], ValidationOrder(1, 1, 0, 1))["validation/AP50"] == 0.125


BOXES = torch.tensor([[0.0, 0, 4, 4]])


@pytest.mark.parametrize(
    ("output", "target"),
    [
        (torch.zeros(2, 3), torch.zeros(2)),
        ([{"boxes": BOXES}], [{"boxes": BOXES}]),
        ([{"boxes": BOXES, "scores": torch.ones(1)}], torch.zeros(1)),
        ([{"boxes": BOXES, "scores": torch.ones(2)}], [{"boxes": BOXES}]),
        ([{"boxes": BOXES, "scores": torch.ones(1)}] * 2, [{"boxes": BOXES}]),
        ([{"boxes": torch.ones(1, 5), "scores": torch.ones(1)}], [{"boxes": BOXES}]),
        ([{"boxes": [[0, 0, 4, 4]], "scores": [1.0]}], [{"boxes": BOXES}]),
        ([{"boxes": BOXES, "scores": torch.ones(1)}], [{"masks": BOXES}]),
        ([], []),
    ],
)
def test_another_task_has_none(output: Any, target: Any) -> None:
    assert mean_precisions(matches_of(output, target)) == {}


@pytest.mark.parametrize(
    ("boxes", "scores", "precision"),
    [
        ([[0.0, 0, 4, 4]], [0.9], 1.0),
        ([[0.0, 0, 4, 4], [float("nan"), 0, 4, 4]], [0.9, 0.99], 1.0),
        ([[0.0, 0, 4, 4], [9, 9, 10, 10]], [0.9, float("nan")], 1.0),
        ([[9.0, 9, 10, 10], [0, 0, 4, 4]], [0.99, 0.9], 0.5),
        ([[1.0, 1, 1, 1]], [0.9], 0.0),
        ([], [], 0.0),
    ],
)
def test_odd_detections_count_as_they_should(
    boxes: list[list[float]], scores: list[float], precision: float
) -> None:
    output = {"boxes": torch.tensor(boxes), "scores": torch.tensor(scores)}
    assert mean_precisions(matches_of([output], [{"boxes": BOXES}]))["AP50"] == pytest.approx(
        precision
    )


BOX_MODEL = """
import torch
from torch import nn


class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        outputs = self.layer(x)
        if self.training:
            return outputs
        box = {"boxes": torch.tensor([[0.0, 0, 4, 4]]), "labels": torch.zeros(1, dtype=torch.int64)}
        return [{**box, "scores": row[:1].sigmoid(), "raw": row} for row in outputs]

    def loss(self, output, target):
        rows = output if torch.is_tensor(output) else torch.stack([o["raw"] for o in output])
        weights = torch.tensor([float(t["labels"].numel()) for t in target])
        return (rows.square().sum(1) * weights).sum(), weights.sum()

    def metrics(self, output, target):
        boxes = torch.tensor([float(t["labels"].numel()) for t in target])
        return {"boxes": (boxes.square().sum(), boxes.sum())}
"""
BOX_LOADER = """
import torch


class UserDataset(torch.utils.data.Dataset):
    count = 16

    def __init__(self, folder):
        pass

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        number = 1 + index % 3
        boxes = torch.tensor([[0.0, 0, 4, 4], [20, 20, 24, 24], [40, 40, 44, 44]])[:number]
        target = {"boxes": boxes, "labels": torch.zeros(number, dtype=torch.int64)}
        return torch.tensor([index, index % 2, 1.0, 0.5]) / 16, target

    def collate(self, items):
        return torch.stack([x for x, _ in items]), [target for _, target in items]


class UserValDataset(UserDataset):
    count = 11
"""


@pytest.mark.parametrize(
    ("strategy", "processes"),
    [({"name": "alone"}, 1), ({"name": "allreduce"}, 2), ({"name": "ddp"}, 2),
     ({"name": "downpour", "servers": 1}, 2), ({"name": "downpour", "servers": 1}, 3)],
)  # fmt: skip
def test_boxes_and_weights_of_means_are_measured_on_the_ranks_of_every_strategy(
    tmp_path: Path, strategy: dict[str, Any], processes: int
) -> None:
    training = new_training(
        tmp_path, model=BOX_MODEL, loader=BOX_LOADER, strategy=strategy, processes=processes,
        epochs=1, batch_size=4, optimizer={"name": "sgd", "lr": 1e-12},
    )  # fmt: skip
    training.train_well()
    (precision,) = training.curve("validation/AP50").values()
    # The one box that is found is 11 of the 21 that there are.
    assert precision == pytest.approx(0.5, abs=0.05)
    (mean_boxes,) = training.curve("validation/boxes").values()
    counts = [1 + n % 3 for n in range(11)]
    assert mean_boxes == pytest.approx(sum(n * n for n in counts) / sum(counts))
