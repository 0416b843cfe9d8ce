"""Largest batch of a network that is split over two processes, against that of the whole network.

The project report *Distributed neural network training* (2017) found 4095 against 2608 samples,
1.57 times as many, on one model of GPU. Here each process may add a fixed number of bytes to its
data segment (RLIMIT_DATA) from before its part of the network is built. The network is a chain of
equal blocks, because a process also has what passes the cut, some times: of a shallow network that
is as much as what the cut saves.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.backend.training.training_rig import new_training
from tests.benchmarks.figures import Figure

_LIMIT_BYTES = 200_000_000
_BLOCKS = (8, 24)
_NO_MEMORY = ("allocate memory", "could not create a primitive")
"""Messages of PyTorch and of oneDNN."""
_TOLERANCE = 0.03
"""Relative distance of the largest batch that fits from the smallest one that does not."""
_MODEL = """
import torch
from resource import RLIMIT_DATA, setrlimit
from torch import nn

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        with open("/proc/self/status") as file:
            sizes = dict(line.split(":") for line in file)
        data_bytes = int(sizes["VmData"].split()[0]) * 1024
        setrlimit(RLIMIT_DATA, (data_bytes + {limit_bytes},) * 2)
        convolutions = (nn.Conv2d(16 if n else 3, 16, 3, padding=1) for n in range({blocks}))
        layers = (nn.Sequential(layer, nn.ReLU()) for layer in convolutions)
        self.layers = nn.Sequential(*layers, nn.MaxPool2d(16), nn.Flatten(), nn.Linear(16, 10))
    def forward(self, x):
        return self.layers(x)
    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
"""
_LOADER = """
import torch

class UserDataset(torch.utils.data.Dataset):
    def __init__(self, path):
        pass
    def __len__(self):
        return {count}
    def __getitem__(self, index):
        return torch.zeros(3, 16, 16), index % 10
"""


def measure() -> list[Figure]:
    figures = []
    for blocks in _BLOCKS:
        whole = _largest_batch("alone", 1, blocks)
        split = _largest_batch("consensus", 2, blocks)
        figures.append(
            Figure(
                "X8",
                f"largest batch of {blocks} blocks, split over two / whole",
                (split / whole,),
                1.57 if blocks == max(_BLOCKS) else 1,
                at_least=True,
                context=f"{split} and {whole} samples, {_LIMIT_BYTES / 1e6:g} MB a process",
            )
        )
    return figures


def _largest_batch(strategy: str, processes: int, blocks: int) -> int:
    """Return the largest batch with which three steps end without an error of the allocation."""
    fitting_size, failing_size = 16, 4096
    while failing_size - fitting_size > _TOLERANCE * fitting_size:
        size = round((fitting_size * failing_size) ** 0.5)
        if _fits(strategy, processes, blocks, size):
            fitting_size = size
        else:
            failing_size = size
    return fitting_size


def _fits(strategy: str, processes: int, blocks: int, batch_size: int) -> bool:
    """Return whether a job ends well.

    Raises:
        RuntimeError: The job failed for another reason than its memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        training = new_training(
            Path(folder),
            model=_MODEL.format(blocks=blocks, limit_bytes=_LIMIT_BYTES),
            loader=_LOADER.format(count=3 * batch_size),
            strategy={"name": strategy},
            processes=processes,
            epochs=1,
            batch_size=batch_size,
        )
        training.is_forked = False
        # The C library returns freed memory of each size at once.
        code = training.train(MALLOC_ARENA_MAX="1", MALLOC_TRIM_THRESHOLD_="0")
        messages = training.log() + str(training.first_error()) if code else ""
        if code and not any(message in messages for message in _NO_MEMORY):
            raise RuntimeError(messages)
        return code == 0
