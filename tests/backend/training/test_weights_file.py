"""Files of weights that hold other things: the weights are taken, and nothing of the file runs."""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import os
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from backend.base.errors import BackendError
from backend.training.weights_file import load_weights, read_weights

WEIGHTS = {"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.ones(2)}


class Config(dict[str, Any]):
    """A dict of a script of the user."""


class Steps(list[int]):
    """A list of a script of the user."""


class Schedule:
    def __init__(self) -> None:
        self.steps = [1, 2]


class Payload:
    """Runs a command when it is read by pickle."""

    def __init__(self, command: Any, argument: str) -> None:
        self.command, self.argument = command, argument

    def __reduce__(self) -> Any:
        return self.command, (self.argument,)


OTHER_OBJECTS: dict[str, Any] = {
    "numpy float": numpy.float64(0.984),
    "numpy array": numpy.zeros((2, 2)),
    "namespace": argparse.Namespace(lr=0.1, data=Path("/data")),
    "date": datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC),
    "time": datetime.timedelta(1),
    "path": Path("/x"),
    "defaultdict": collections.defaultdict(list, {"a": [1]}),
    "config": Config(lr=0.1, inner=Config(a=1)),
    "steps": Steps([1, 2, 3]),
    "object": Schedule(),
    "module": torch.nn.Linear(2, 2),
    "optimizer": torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1),
    "nested": {"deep": [{"x": (numpy.float32(1), Config(y=Schedule()))}]},
    "plain": {"epoch": 3, "note": "text", "set": {1, 2}},
}


@pytest.mark.parametrize("is_old", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("name", OTHER_OBJECTS)
def test_weights_are_read_whatever_is_next_to_them(tmp_path: Path, name: str, is_old: bool) -> None:
    path = tmp_path / "best.pt"
    content = {"epoch": 3, name: OTHER_OBJECTS[name], "state_dict": WEIGHTS}
    torch.save(content, path, _use_new_zipfile_serialization=not is_old)
    if is_old and name == "module":
        # The format before PyTorch 1.6 stores the source of a module.
        with pytest.raises(BackendError, match="is not a weights file") as caught:
            read_weights(path)
        assert "add_safe_globals" not in caught.value.message
        assert "python -c" in caught.value.remedy
        return
    weights, other_names = read_weights(path)
    assert list(weights) == list(WEIGHTS)
    assert all(torch.equal(weights[key], WEIGHTS[key]) for key in WEIGHTS)
    assert other_names == ("epoch", name)


@pytest.mark.parametrize("key", ["", "model"])
def test_a_class_of_the_user_around_the_weights_does_not_hide_them(
    tmp_path: Path, key: str
) -> None:
    weights = Config(WEIGHTS, best_acc=numpy.float64(1))
    torch.save({key: weights} if key else weights, tmp_path / "a.pt")
    assert list(load_weights(tmp_path / "a.pt")) == list(WEIGHTS)


@pytest.mark.parametrize("command", [os.system, exec, os.mkdir])
@pytest.mark.parametrize("is_old", [False, True])
def test_nothing_of_the_file_runs(tmp_path: Path, command: Any, is_old: bool) -> None:
    made_file = tmp_path / "made"
    argument = {
        os.system: f"touch {made_file}",
        exec: f"open({str(made_file)!r}, 'w')",
        os.mkdir: str(made_file),
    }[command]
    path = tmp_path / "a.pt"
    content = {"state_dict": WEIGHTS, "x": Payload(command, argument)}
    torch.save(content, path, _use_new_zipfile_serialization=not is_old)
    with contextlib.suppress(BackendError):
        assert list(load_weights(path)) == list(WEIGHTS)
    assert not made_file.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 numbers", b"\x80\x02N.", b"hello"])
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(BackendError, match=r"a\.pt (is not a weights file|contains no named)"):
        load_weights(tmp_path / "a.pt")
