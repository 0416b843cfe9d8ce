"""DDP trains as allreduce does, without Horovod."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from backend.base.errors import BackendError
from backend.training.strategies.rendezvous import interface_of
from tests.backend.training.test_resume import assert_bit_equal
from tests.backend.training.training_rig import MODEL, new_training

FLAKY_LAYER = MODEL.replace(
    "self.layers = nn.Sequential(",
    "self.unused = nn.Linear(2, 2)\n"
    "        self.sometimes = nn.Linear(3, 3)\n"
    "        self.steps = 0\n"
    "        self.layers = nn.Sequential(",
).replace(
    "return self.layers(x)",
    "import os\n"
    "        self.steps += 1\n"
    "        out = self.layers(x)\n"
    "        if (self.steps + int(os.environ['OMPI_COMM_WORLD_RANK'])) % 2:\n"
    "            out = self.sometimes(out)\n"
    "        return out",
)
"""A layer that no step uses, and one that the ranks use in turn."""

ODD_TYPES = """
import torch
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3, sparse=True)
        self.short = nn.Linear(4, 3, dtype=torch.bfloat16)
        self.long_one = nn.Linear(4, 3, dtype=torch.float64)
        self.turn = nn.Parameter(torch.ones(3, dtype=torch.complex64))
    def forward(self, x):
        rows = self.table((x[:, 0].abs() * 2).long().clamp(max=4))
        turned = (rows.to(torch.complex64) * self.turn).real
        return turned + self.short(x.bfloat16()).float() + self.long_one(x.double()).float()
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
"""


def trained(folder: Path, name: str, strategy: str, **settings: Any) -> dict[str, Any]:
    training = new_training(folder, name=name, strategy={"name": strategy}, **settings)
    training.train_well()
    state: dict[str, Any] = torch.load(training.latest(), weights_only=True)
    return {**state, "losses": training.curve("loss")}


@pytest.mark.parametrize("model", [FLAKY_LAYER, ODD_TYPES], ids=["unused parameters", "odd types"])
def test_ddp_and_allreduce_are_bit_equal_on_two_ranks(tmp_path: Path, model: str) -> None:
    settings = {"model": model, "epochs": 2}
    ddp_weights = trained(tmp_path, "ddp", "ddp", **settings)
    allreduce_weights = trained(tmp_path, "allreduce", "allreduce", **settings)
    assert len(ddp_weights["losses"]) == 12
    assert ddp_weights["losses"] == allreduce_weights["losses"]
    for name, tensor in allreduce_weights["model"].items():
        assert torch.equal(tensor, ddp_weights["model"][name]), name


def test_a_job_stopped_with_allreduce_resumes_with_ddp_as_if_it_had_never_stopped(
    tmp_path: Path,
) -> None:
    straight_job = new_training(tmp_path, name="straight", epochs=4)
    straight_job.train_well()
    resumed_job = new_training(tmp_path, name="halves", epochs=2)
    resumed_job.train_well()
    resumed_job.with_config(epochs=4, strategy={"name": "ddp"})
    resumed_job.train_well(resume_from=resumed_job.latest())
    assert_bit_equal(straight_job, resumed_job)


def test_an_interface_is_found_by_the_subnet_that_mpirun_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def address(text: str) -> SimpleNamespace:
        return SimpleNamespace(family=socket.AF_INET, address=text)

    interfaces = {
        "lo": [address("127.0.0.1")],
        "eth1": [address("192.168.4.2"), address("10.1.0.2")],
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: interfaces)
    assert interface_of("") == ("lo", "127.0.0.1")
    assert interface_of("192.0.2.0/24,10.1.0.0/16") == ("eth1", "10.1.0.2")
    with pytest.raises(BackendError, match=r"no network address in 192\.0\.2\.0/24"):
        interface_of("192.0.2.0/24")
