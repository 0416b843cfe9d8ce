"""Weights are taken from files with other things, without running them, and fit or are refused."""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import os
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from backend.base.errors import BackendError
from backend.records.jobs.checkpoint import Checkpoint
from backend.training.checkpoint import FORMAT, write_checkpoint
from backend.training.weights_file import fit_weights, load_weights, read_weights

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


def net(width: int = 3) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.Linear(width, 1))


def test_weights_come_from_state_dicts_safetensors_and_checkpoints(
    tmp_path: Path,
) -> None:
    from safetensors.torch import save_file

    source = net()
    torch.save(source.state_dict(), tmp_path / "plain.pt")
    torch.save({"state_dict": source.state_dict()}, tmp_path / "wrapped.pt")
    for prefix in ("module.", "_orig_mod.", "module._orig_mod.", "model."):
        renamed_state = {f"{prefix}{name}": value for name, value in source.state_dict().items()}
        torch.save({"state_dict": renamed_state}, tmp_path / f"{prefix}pt")
    torch.save({"net": source.state_dict(), "epoch": 3}, tmp_path / "net.pt")
    save_file(source.state_dict(), tmp_path / "weights.safetensors")
    record = Checkpoint("epoch-0001-step-000001", 1, 1, 1, 0, 0, "", "", "", {})
    write_checkpoint(tmp_path, {"format": FORMAT, "model": source.state_dict()}, record)
    for path in (*tmp_path.glob("*.pt"), tmp_path / "weights.safetensors"):
        target = net()
        fit_weights(target, load_weights(path), path.name)
        assert torch.equal(target[0].weight, source[0].weight), path  # type: ignore[index]


def test_a_models_own_part_called_module_keeps_its_name_and_a_missing_prefix_is_added() -> None:
    wrapped_net = torch.nn.ModuleDict({"module": net()})
    source = torch.nn.ModuleDict({"module": net()})
    assert fit_weights(wrapped_net, source.state_dict(), "own.pt") == ""
    assert torch.equal(wrapped_net["module"][0].weight, source["module"][0].weight)  # type: ignore[index]
    bare_net = net()
    assert "prefix “module.” was added" in fit_weights(wrapped_net, bare_net.state_dict(), "b.pt")
    assert torch.equal(wrapped_net["module"][0].weight, bare_net[0].weight)  # type: ignore[index]


class TiedModel(torch.nn.Module):
    """Weights, buffers and parts of them that are in one memory."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        first_layer, second_layer = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.names = {"first_layer.weight"}
        if kind == "weights":
            second_layer.weight = first_layer.weight
            self.names = {"first_layer.weight", "second_layer.weight"}
        self.first_layer, self.second_layer = first_layer, second_layer
        if kind == "list":
            self.many = torch.nn.ModuleList([first_layer, second_layer, first_layer])
            self.names = {"many.0.weight", "many.2.weight", "first_layer.weight"}
            self.first_layer = first_layer
        if kind == "buffers":
            self.register_buffer("whole", torch.randn(6))
            self.register_buffer("part", self.whole[2:5])
            self.names = {"part"}
        if kind == "transposed":
            self.turned = torch.nn.Parameter(first_layer.weight.detach().t())
            self.names = {"first_layer.weight"}
        if kind == "halves":
            self.register_buffer("both", torch.randn(2, 3))
            self.register_buffer("first", self.both[0])
            self.register_buffer("second", self.both[1])
            self.names = {"both"}
        if kind == "in forward":
            self.names = {"second_layer.weight"}

    def tie(self) -> None:
        self.second_layer.weight = self.first_layer.weight


@pytest.mark.parametrize(
    "kind", ["weights", "list", "buffers", "transposed", "halves", "in forward"]
)
def test_one_name_in_the_file_is_enough_for_tied_weights(kind: str, tmp_path: Path) -> None:
    import safetensors.torch

    source = TiedModel(kind)
    if kind == "in forward":
        source.tie()
    state = source.state_dict()
    for missing_name in sorted(source.names):
        part = {
            name: value.contiguous().clone()
            for name, value in state.items()
            if name != missing_name
        }
        safetensors.torch.save_file(part, tmp_path / "part.safetensors")
        target = TiedModel(kind)
        pass_batch = target.tie if kind == "in forward" else None
        fit_weights(target, load_weights(tmp_path / "part.safetensors"), "part", pass_batch)
        for name, value in target.state_dict().items():
            assert torch.equal(value, state[name]), (missing_name, name)


def test_a_memory_that_the_file_has_only_in_part_is_not_complete() -> None:
    model = TiedModel("halves")
    state = {n: v for n, v in model.state_dict().items() if n not in ("both", "second")}
    with pytest.raises(BackendError, match="not in the file: both, second"):
        fit_weights(model, state, "part.pt")


def test_f53_weights_that_do_not_fit_are_refused_whole(tmp_path: Path) -> None:
    target = net()
    previous_state = {k: v.clone() for k, v in target.state_dict().items()}
    with pytest.raises(BackendError, match=r"1 of the model's 4 weights match.*0\.weight \[5, 2\]"):
        fit_weights(target, net(5).state_dict(), "a.pt")
    with pytest.raises(BackendError, match="no name matches"):
        fit_weights(target, {"conv.weight": torch.zeros(1)}, "a.pt")
    part = {k: v for k, v in net().state_dict().items() if k != "1.bias"}
    with pytest.raises(BackendError, match=r"3 of the model's 4 weights match; .*1\.bias"):
        fit_weights(target, part, "a.pt")
    assert all(torch.equal(v, previous_state[k]) for k, v in target.state_dict().items())
    for content in (b"", b"text", pickle.dumps({"a": 1})):
        (tmp_path / "no.pt").write_bytes(content)
        with pytest.raises(BackendError, match=r"no\.pt"):
            load_weights(tmp_path / "no.pt")
        (tmp_path / "no.safetensors").write_bytes(content)
        with pytest.raises(BackendError, match=r"no\.safetensors"):
            load_weights(tmp_path / "no.safetensors")
    torch.save(net(), tmp_path / "whole.pt")
    with pytest.raises(BackendError, match=r"whole\.pt"):
        load_weights(tmp_path / "whole.pt")
    with pytest.raises(BackendError, match="does not exist"):
        load_weights(tmp_path / "none.pt")
