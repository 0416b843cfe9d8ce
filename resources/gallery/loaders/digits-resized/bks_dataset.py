"""Reads the built-in handwritten digits in any size, with any share of them for validation.

Source: E. Alpaydin, C. Kaynak, Optical recognition of handwritten digits (UCI, 1998).
"""

import os

import numpy
import torch
from torch.nn import functional

SIDE = 8
VALIDATION_SHARE = 0.2


class UserDataset(torch.utils.data.Dataset):
    """The pictures to train on: a tensor of 1 × SIDE × SIDE from 0 to 1, and the digit."""

    classes = tuple("0123456789")

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, "digits.csv.gz")
        table = torch.from_numpy(numpy.loadtxt(path, delimiter=",", dtype=numpy.float32))
        rows = table[self.choose(len(table))]
        pictures = rows[:, :64].reshape(-1, 1, 8, 8) / 16
        if SIDE != 8:
            pictures = functional.interpolate(pictures, size=SIDE, mode="bilinear")
        self.pictures, self.digits = pictures, rows[:, 64].long()

    def choose(self, count: int) -> numpy.ndarray:
        """Row numbers that belong to this set."""
        return shuffled(count)[int(count * VALIDATION_SHARE) :]

    def __len__(self) -> int:
        return len(self.digits)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.pictures[index], self.digits[index]


class UserValDataset(UserDataset):
    """The pictures that the model never trains on."""

    def choose(self, count: int) -> numpy.ndarray:
        return shuffled(count)[: int(count * VALIDATION_SHARE)]


def shuffled(count: int) -> numpy.ndarray:
    """The same order in every process and every run, so that the two sets never mix."""
    return numpy.random.default_rng(1).permutation(count)
