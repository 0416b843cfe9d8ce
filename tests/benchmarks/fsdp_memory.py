"""Measure the memory of a rank that shares weights and optimizer state, against DDP.

Usage: python -m tests.benchmarks.fsdp_memory [--blocks N] [--width N]

Two ranks train a stack of square layers with Adam. The figure is the largest growth of the memory
of rank 0 from before its model was built.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.backend.training.training_rig import new_training

MODEL = """
import torch
from torch import nn
from resource import RUSAGE_SELF, getrusage

def rss_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin_bytes, self.peak_bytes = rss_bytes(), 0
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Linear({width}, {width}), nn.Tanh()) for _ in range({blocks}))
        )
    def forward(self, x):
        self.peak_bytes = max(self.peak_bytes, rss_bytes() - self.begin_bytes)
        return self.layers(x)
    def loss(self, output, target):
        return output.square().mean()
    def metrics(self, output, target):
        return {{"megabytes": self.peak_bytes / 1e6}}
"""
LOADER = """
import torch

class UserDataset(torch.utils.data.Dataset):
    def __init__(self, path):
        self.x = torch.randn(64, {width}, generator=torch.Generator().manual_seed(1))
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return self.x[index], 0
"""


def measure(strategy: str, blocks: int, width: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        training = new_training(
            Path(folder),
            model=MODEL.format(blocks=blocks, width=width),
            loader=LOADER.format(width=width),
            strategy={"name": strategy},
            optimizer={"name": "adam", "lr": 1e-4},
            epochs=2,
            batch_size=4,
        )
        training.is_forked = False
        # The C library returns freed memory of each size at once.
        training.train_well(MALLOC_ARENA_MAX="1", MALLOC_TRIM_THRESHOLD_="0")
        return max(training.curve("megabytes").values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--width", type=int, default=3000)
    args = parser.parse_args()
    figures = {name: measure(name, args.blocks, args.width) for name in ("ddp", "fsdp")}
    for name, megabytes in figures.items():
        sys.stdout.write(f"{name}: {megabytes:,.0f} MB a rank\n")
    sys.stdout.write(f"fsdp / ddp: {figures['fsdp'] / figures['ddp']:.2f}\n")


if __name__ == "__main__":
    main()
