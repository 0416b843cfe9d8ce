"""TensorBoard events of the weights of a model."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from backend.base.errors import BackendError
from backend.training.checkpoint import write_checkpoint
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.weight_events import weight_events
from tests.backend.training.tools.test_inspect_checkpoint import GALLERY, HEAD, LINEAR, RECORD

BRANCH = LINEAR.replace(
    "return self", "int('x') if torch.jit.is_tracing() else None\n        return self"
)


def write(folder: Path, body: str, steps: dict[str, int]) -> dict[str, Any]:
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "bks_model.py").write_text(HEAD + body)
    request = {
        "model": model,
        "loader": GALLERY / "loader",
        "dataset": GALLERY / "dataset",
        "folder": folder / "weights",
        "checkpoints": [(folder / f"{name}.pt", step) for name, step in steps.items()],
    }
    with contextlib.closing(tool_protocol.Report(folder / "progress")) as report:
        return weight_events(request, report)


def save(folder: Path, name: str, state: dict[str, torch.Tensor]) -> None:
    write_checkpoint(folder, {"format": 1, "model": state}, replace(RECORD, name=name))


def test_the_weights_of_each_checkpoint_are_a_histogram_at_its_step(tmp_path: Path) -> None:
    weight = torch.full((10, 64), 2.0)
    weight[0, 0] = torch.nan
    save(tmp_path, "a", {"layer.weight": weight})
    save(tmp_path, "b", {"layer.weight": torch.full((10, 64), 3.0)})
    assert write(tmp_path, LINEAR, {"a": 10}) == {"graph": True}
    # What was written before stays.
    (tmp_path / "a.pt").unlink()
    assert write(tmp_path, LINEAR, {"a": 10, "b": 20}) == {"graph": True}
    events = EventAccumulator(str(tmp_path / "weights"), {"histograms": 0}).Reload()
    first, second = events.Histograms("layer.weight")
    assert [first.step, second.step] == [10, 20]
    assert (first.histogram_value.num, second.histogram_value.num) == (639, 640)
    assert (first.histogram_value.max, second.histogram_value.max) == (2.0, 3.0)
    assert any("layer" in node.name for node in events.Graph().node)
    assert len(list((tmp_path / "weights").iterdir())) == 3


def test_a_forward_that_cannot_be_traced_has_weights_and_no_graph(tmp_path: Path) -> None:
    save(tmp_path, "a", {"layer.weight": torch.ones(10, 64)})
    assert write(tmp_path, BRANCH, {"a": 10}) == {"graph": False}
    assert len(list((tmp_path / "weights").iterdir())) == 1


def test_a_checkpoint_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    save(tmp_path, "a", {"layer.weight": torch.ones(2, 2)})
    with pytest.raises(BackendError):
        write(tmp_path, LINEAR, {"a": 10})
    assert [file.suffix for file in (tmp_path / "weights").iterdir()] == [".graph"]
