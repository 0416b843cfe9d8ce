"""The smallest job that is a job: a linear model on numbers, in the users' own format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ALONE = {"strategy": {"name": "alone"}}
CALM = {"PAUSE_S": "0.01", "HOROVOD_CYCLE_TIME": "50"}
"""For jobs that train until they are stopped: ranks that never pause keep every core busy."""
ENDLESS = {"epochs": 100_000, "environment": CALM}

MODEL = """
import torch
from torch import nn


class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, data):
        return self.layer(data)

    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)

    def metrics(self, output, target):
        return {"accuracy": (output.argmax(1) == target).float().mean()}
"""
LOADER = """
import os
import time
import torch


class UserDataset(torch.utils.data.Dataset):
    seed, count = 1, 512
    gate = os.environ.get("GATE", "")

    def __init__(self, folder):
        made = torch.Generator().manual_seed(self.seed)
        self.data = torch.randn(self.count, 4, generator=made)
        self.target = (self.data.sum(1) > 0).long()
        self.pause = float(os.environ.get("PAUSE_S", "0"))
        self.paused_until = os.environ.get("PAUSED_UNTIL", "")

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        while self.gate and not os.path.exists(self.gate):
            time.sleep(0.01)
        if self.pause and not os.path.exists(self.paused_until):
            time.sleep(self.pause)
        return self.data[index], self.target[index]


class UserValDataset(UserDataset):
    seed, count = 2, 64
    gate = ""
"""


def write_sources(folder: Path) -> tuple[Path, Path, Path]:
    """Model, loader and an empty dataset, as folders to import or to train from."""
    model, loader, dataset = (folder / name for name in ("model", "loader", "dataset"))
    for part in (model, loader, dataset):
        part.mkdir(parents=True, exist_ok=True)
    (model / "bks_model.py").write_text(MODEL)
    (loader / "bks_dataset.py").write_text(LOADER)
    (dataset / "README").write_text("The loader makes its own numbers.\n")
    return model, loader, dataset


def raw_job(processes: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "name": "tiny",
        "model": "tiny",
        "dataset": "tiny",
        "loader": "tiny",
        "epochs": 4,
        "batch_size": 8,
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
        "placement": [{"node": "this-computer", "processes": processes}],
        **changes,
    }
