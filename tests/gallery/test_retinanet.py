"""RetinaNet: anchors, loss, suppression and decoding against plain references."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional

from backend.training.user_code import load_model
from tests.gallery.figures import SERVICE

GALLERY = SERVICE
SMALL = {"backbone": "resnet-18", "width": 8, "first": 8, "side": 64}


def build_detector(folder: Path, **settings: object) -> Any:
    code_folder = folder / "-".join(map(str, settings.values()))
    GALLERY.write("retinanet", {key: str(value) for key, value in settings.items()}, code_folder)
    return load_model(code_folder)


def module_of(model: nn.Module) -> ModuleType:
    return sys.modules[type(model).__module__]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch.manual_seed(1)
    return build_detector(tmp_path_factory.mktemp("model"), **SMALL, classes=3)


def some_boxes(count: int, generator: torch.Generator) -> torch.Tensor:
    corner = torch.rand(count, 2, generator=generator) * 40
    return torch.cat([corner, corner + 2 + torch.rand(count, 2, generator=generator) * 30], 1)


@pytest.fixture(scope="module")
def reference_nms() -> onnxruntime.InferenceSession:
    """Return onnxruntime's NonMaxSuppression for one picture and class."""
    kinds = {"boxes": 1, "scores": 1, "most": 7, "overlap": 1}
    shapes = {"boxes": [1, None, 4], "scores": [1, 1, None], "most": [1], "overlap": [1]}
    inputs = [onnx.helper.make_tensor_value_info(n, kinds[n], shapes[n]) for n in kinds]
    output = onnx.helper.make_tensor_value_info("kept", 7, [None, 3])
    node = onnx.helper.make_node("NonMaxSuppression", list(kinds), ["kept"])
    graph = onnx.helper.make_graph([node], "nms", inputs, [output])
    nms_model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
    )
    return onnxruntime.InferenceSession(nms_model.SerializeToString())


def test_suppression_equals_that_of_onnxruntime(
    model: Any, reference_nms: onnxruntime.InferenceSession
) -> None:
    nms = module_of(model).nms
    kept_shares = []
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        count = 1 + seed % 60
        boxes, scores = some_boxes(count, generator), torch.rand(count, generator=generator)
        if seed % 3 == 0:  # Of equal scores the first one is kept.
            scores = (scores * 4).round() / 4
        overlap = (0.3, 0.5, 0.7)[seed % 3]
        (kept_rows,) = reference_nms.run(
            None,
            {
                "boxes": boxes[None].numpy(),
                "scores": scores[None, None].numpy(),
                "most": torch.tensor([count]).numpy(),
                "overlap": torch.tensor([overlap]).numpy(),
            },
        )
        assert nms(boxes, scores, overlap).tolist() == kept_rows[:, 2].tolist(), seed
        kept_shares.append(len(kept_rows) / count)
    assert 0.2 < sum(kept_shares) / 200 < 0.95
    assert nms(torch.zeros(0, 4), torch.zeros(0), 0.5).tolist() == []


def test_anchors_follow_the_table(model: Any) -> None:
    shapes = [(8, 6), (4, 3), (2, 2), (1, 1), (1, 1)]
    anchors = module_of(model).anchors_of(shapes, torch.device("cpu"))
    expected_anchors = []
    for (height, width), stride in zip(shapes, (8, 16, 32, 64, 128), strict=True):
        cells = itertools.product(range(height), range(width))
        ratios = (1 / 2, 1 / 1, 2 / 1, 1 / 8, 1 / 6, 1 / 4)
        for (row, column), power, ratio in itertools.product(cells, range(3), ratios):
            area = (32 / 8 * stride * 2 ** (power / 3)) ** 2
            w, h = math.sqrt(area / ratio), math.sqrt(area * ratio)
            x, y = (column + 0.5) * stride, (row + 0.5) * stride
            expected_anchors.append([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
    assert len(anchors) == 18 * sum(height * width for height, width in shapes)
    torch.testing.assert_close(anchors, torch.tensor(expected_anchors))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_the_focal_loss_is_that_of_the_paper(tmp_path: Path, gamma: float) -> None:
    focal_loss = module_of(build_detector(tmp_path, **SMALL, gamma=gamma)).focal_loss
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(50, 3, generator=generator, dtype=torch.float64) * 4
    classes = (torch.rand(50, 3, generator=generator) < 0.3).double()
    for logit, target_value, loss in zip(
        logits.flatten().tolist(),
        classes.flatten().tolist(),
        focal_loss(logits, classes).flatten().tolist(),
        strict=True,
    ):
        p = 1 / (1 + math.exp(-logit))
        p, alpha = (p, 0.25) if target_value else (1 - p, 0.75)
        assert loss == pytest.approx(-alpha * (1 - p) ** gamma * math.log(p), rel=1e-9)
    if gamma == 0:
        weight = 0.25 * classes + 0.75 * (1 - classes)
        torch.testing.assert_close(
            focal_loss(logits, classes),
            functional.binary_cross_entropy_with_logits(logits, classes, weight, reduction="none"),
        )


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_the_slope_of_the_loss_is_finite_for_any_certainty(tmp_path: Path, gamma: float) -> None:
    focal_loss = module_of(build_detector(tmp_path, **SMALL, gamma=gamma)).focal_loss
    logits = torch.tensor([-200.0, -90, -20, 0, 20, 90, 200], requires_grad=True)
    for target_value in (0.0, 1.0):
        (slope,) = torch.autograd.grad(
            focal_loss(logits, torch.full((7,), target_value)).sum(), logits, retain_graph=True
        )
        assert slope.isfinite().all()
        assert (slope * (1 if target_value else -1) <= 0).all(), "each step goes to the truth"


def test_anchors_are_positive_negative_or_ignored_by_their_overlap(model: Any) -> None:
    assign = module_of(model).assign
    anchors = torch.tensor(
        [[0.0, 0, 10, 10], [0, 0, 10, 5], [0, 0, 10, 4.9], [0, 0, 10, 4], [0, 0, 10, 3.9],
         [50, 50, 60, 60]]
    )  # fmt: skip
    state, box_index = assign(anchors, torch.tensor([[90.0, 90, 91, 91], [0, 0, 10, 10]]))
    assert state.tolist() == [1, 1, -1, -1, 0, 0]
    assert box_index[:2].tolist() == [1, 1]
    assert assign(anchors, torch.zeros(0, 4))[0].tolist() == [0] * 6


def test_the_offsets_of_a_box_decode_to_the_box(model: Any) -> None:
    module, generator = module_of(model), torch.Generator().manual_seed(2)
    anchors, boxes = some_boxes(99, generator), some_boxes(99, generator)
    decoded_boxes = module.decode(module.encode(anchors, boxes), anchors)
    torch.testing.assert_close(decoded_boxes, boxes, rtol=1e-4, atol=1e-4)
    assert module.decode(torch.full((99, 4), 1e6), anchors).isfinite().all()


def test_each_object_is_found_once_in_its_class_and_inside_the_picture(model: Any) -> None:
    module = module_of(model)
    anchors = torch.tensor([[0.0, 0, 20, 20], [0, 0, 21, 20], [30, 30, 60, 60], [0, 0, 20, 21]])
    logits = torch.full((4, 3), -9.0)
    logits[0, 0], logits[1, 0], logits[3, 2], logits[2, 1] = 2.0, 1.0, 0.0, 3.0
    detections = module.detect(logits, torch.zeros(4, 4), anchors, (40, 50))
    assert detections["labels"].tolist() == [1, 0, 2]
    assert detections["boxes"].tolist() == [[30, 30, 50, 40], [0, 0, 20, 20], [0, 0, 20, 21]]
    assert detections["scores"].tolist() == pytest.approx([0.9526, 0.8808, 0.5], abs=1e-4)


@pytest.mark.parametrize("shape", [(64, 64), (96, 64), (65, 100), (32, 200)])
def test_pictures_of_any_size_have_an_anchor_for_each_output(
    model: Any, shape: tuple[int, int]
) -> None:
    pictures = torch.rand(2, 3, *shape)
    for detection in model.train()(pictures):
        assert detection["logits"].shape == (len(detection["anchors"]), 3)
        assert detection["offsets"].shape == detection["anchors"].shape
        assert "boxes" not in detection
    for detection in model.eval()(pictures):
        assert {"boxes", "scores", "labels"} <= detection.keys()


def test_pictures_without_text_train_as_well(model: Any) -> None:
    empty = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    box_target = {"boxes": torch.tensor([[4.0, 4, 40, 30]]), "labels": torch.tensor([2])}
    for target in ([empty, empty], [box_target, empty]):
        loss = model.loss(model.train()(torch.rand(2, 3, 64, 64)), target)
        loss.backward()
        assert loss.isfinite()
        assert all(
            parameter.grad is None or parameter.grad.isfinite().all()
            for parameter in model.parameters()
        )


def test_a_label_that_the_network_does_not_have_is_named(model: Any) -> None:
    target = [{"boxes": torch.tensor([[4.0, 4, 40, 30]]), "labels": torch.tensor([3])}]
    with pytest.raises(ValueError, match="a label is 3, but the network has 3 classes from 0"):
        model.loss(model.train()(torch.rand(1, 3, 64, 64)), target)


def test_the_backbones_have_the_parameters_of_resnets_without_classifier(tmp_path: Path) -> None:
    with torch.device("meta"):
        for name, parameters in (("resnet-18", 11_176_512), ("resnet-50", 23_508_032)):
            detector = build_detector(tmp_path, backbone=name)
            assert (
                sum(parameter.numel() for parameter in detector.backbone.parameters()) == parameters
            )
        # Of RetinaNet with ResNet-50: pyramid, and heads with 18 anchors at each place.
        square, lateral = 256 * 256 * 9 + 256, (512 + 1024 + 2048) * 256 + 3 * 256
        pyramid = lateral + 4 * square + 2048 * 256 * 9 + 256
        heads = 8 * square + (256 * 9 + 1) * 18 * 5
        assert (
            sum(parameter.numel() for parameter in detector.parameters())
            == parameters + pyramid + heads
        )


@pytest.mark.slow
def test_a_small_retinanet_learns_to_find_a_box(tmp_path: Path) -> None:
    torch.manual_seed(3)
    model = build_detector(tmp_path, **{**SMALL, "width": 16, "first": 16}, classes=2, anchor=16)
    pictures = torch.rand(4, 3, 64, 64) * 0.2
    target = []
    for number, picture in enumerate(pictures):
        left = 8 * number
        picture[:, 16:32, left : left + 32] = 1.0
        box = torch.tensor([[left, 16.0, left + 32, 32]])
        target.append({"boxes": box, "labels": torch.tensor([1])})
    optimizer = torch.optim.Adam(model.parameters(), 0.002)
    model.train()
    for _ in range(100):
        loss = model.loss(model(pictures), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        detections = model.eval()(pictures)
    for detection, true_boxes in zip(detections, target, strict=True):
        assert detection["labels"][:1].tolist() == [1]
        assert module_of(model).overlaps(detection["boxes"][:1], true_boxes["boxes"]).item() > 0.5
