"""Inspections of a checkpoint: weights, changes, gradients, activations, saliency."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PySide6.QtGui import QColor, QImage

from backend.base.errors import BackendError
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.library.inspection import CheckpointInspection
from backend.training.checkpoint import write_checkpoint
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.inspect_checkpoint import inspect_checkpoint

GALLERY = Path(__file__).parents[4] / "resources/gallery/digits"
RECORD = Checkpoint("a", 1, 1, 10, 0, 0, "", "", "2026-11-20T14:02:00Z")
HEAD = """
import torch
from torch import nn

from torch.nn import functional

class UserModel(nn.Module):
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
"""
LINEAR = """
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10, bias=False)

    def forward(self, data):
        return self.layer(data.flatten(1))
"""
InspectModel = Callable[..., CheckpointInspection]


@pytest.fixture
def inspect_model(tmp_path: Path) -> InspectModel:
    """Inspect weights of a model, which are the first checkpoint; the second is compared."""

    def inspect(body: str, *weights: dict[str, torch.Tensor], **request: Any) -> Any:
        model = tmp_path / "model"
        model.mkdir(exist_ok=True)
        (model / "bks_model.py").write_text(HEAD + body)
        for name, state in zip(("a", "b"), weights, strict=False):
            write_checkpoint(tmp_path, {"format": 1, "model": state}, replace(RECORD, name=name))
        full_request = {
            "model": model,
            "loader": GALLERY / "loader",
            "dataset": GALLERY / "dataset",
            "checkpoint": tmp_path / "a.pt",
            "sample": 0,
            "batch_size": 8,
            "against": tmp_path / "b.pt" if len(weights) > 1 else "",
            **request,
        }
        with contextlib.closing(tool_protocol.Report(tmp_path / "progress")) as report:
            raw = inspect_checkpoint(full_request, report)
        inspection = CheckpointInspection.from_dict(raw)
        assert inspection.to_dict() == raw
        return inspection

    return inspect


def test_weights_are_those_of_the_checkpoint_and_their_change_is_the_difference(
    inspect_model: InspectModel,
) -> None:
    weight = torch.zeros(10, 64)
    weight[3, :32] = 2.0
    inspection = inspect_model(
        LINEAR, {"layer.weight": weight}, {"layer.weight": torch.ones(10, 64)}
    )
    (row,) = inspection.weights
    assert (row.name, row.shape, row.is_trained) == ("layer.weight", (10, 64), True)
    assert (row.values.count, row.values.zeros, row.values.spread.high) == (640, 608, 2.0)
    assert row.change is not None
    assert (row.change.spread.low, row.change.spread.high) == (-1.0, 1.0)
    assert row.values.spread.histogram is not None
    assert sum(row.values.spread.histogram.counts) == 640
    assert row.gradient is not None
    assert row.gradient.spread.std
    assert inspection.loss is not None
    assert inspection.top_output == 3


def test_a_weight_that_is_no_number_is_counted(inspect_model: InspectModel) -> None:
    weight = torch.full((10, 64), float("nan"))
    weight[0, 0] = float("inf")
    spread = inspect_model(LINEAR, {"layer.weight": weight}).weights[0].values.spread
    assert (spread.nan_count, spread.inf_count) == (639, 1)


def test_saliency_is_bright_where_the_largest_output_comes_from(
    inspect_model: InspectModel,
) -> None:
    weight = torch.zeros(10, 64)
    weight[3, 63] = 5.0
    weight[3, :63] = 1.0
    inspection = inspect_model(LINEAR, {"layer.weight": weight})
    (saliency,) = inspection.saliency
    assert saliency.method == "Input gradient"
    picture = QImage.fromData(base64.b64decode(saliency.part.png))
    grey = [QColor(picture.pixel(n % 8, n // 8)).lightness() for n in range(64)]
    assert grey == [0] * 63 + [255]
    assert inspection.data[0].display_kind == "image"


def test_convolutions_show_feature_maps_and_grad_cam(inspect_model: InspectModel) -> None:
    source = (GALLERY / "model/bks_model.py").read_text()
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    weights = namespace["UserModel"]().state_dict()
    inspection = inspect_model(source.partition("class UserModel(nn.Module):")[2], weights)
    rows = {row.name: row for row in inspection.activations}
    assert list(rows) == [*(f"features.{n}" for n in range(6)), "classify"]
    assert [len(row.maps) for row in rows.values()] == [6] * 6 + [0]
    assert rows["features.0"].maps[0].shape == (8, 8)
    relu = rows["features.1"].values
    assert relu.spread.low == 0
    assert 0 < relu.zero_share < 1
    assert [saliency.method for saliency in inspection.saliency] == [
        "Input gradient",
        "Grad-CAM of features.2",
    ]
    assert inspection.saliency[1].part.shape == (8, 8)


def test_a_model_that_changes_its_input_in_place_is_shown(inspect_model: InspectModel) -> None:
    body = LINEAR.replace("data.flatten(1)", "data.sub_(0.5).relu_().flatten(1)")
    inspection = inspect_model(body, {"layer.weight": torch.ones(10, 64)})
    assert inspection.saliency
    assert inspection.warnings == ()


def test_a_model_without_gradients_has_warnings(inspect_model: InspectModel) -> None:
    body = LINEAR.replace("self.layer(data.flatten(1))", "self.layer(data.flatten(1)).detach()")
    inspection = inspect_model(body, {"layer.weight": torch.ones(10, 64)})
    assert [warning.partition(":")[0] for warning in inspection.warnings] == [
        "There is no saliency",
        "There are no gradients",
    ]
    assert inspection.weights[0].gradient is None


@pytest.mark.parametrize(
    ("state", "request_", "message"),
    [
        ({"layer.weight": torch.ones(9, 64)}, {}, "do not belong to this model"),
        ({"other.weight": torch.ones(10, 64)}, {}, "do not belong to this model"),
        ({"layer.weight": torch.ones(10, 64)}, {"sample": 5000}, "There is no sample 5"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_sentence(
    inspect_model: InspectModel,
    state: dict[str, torch.Tensor],
    request_: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(BackendError) as caught:
        inspect_model(LINEAR, state, **request_)
    assert message in caught.value.message
