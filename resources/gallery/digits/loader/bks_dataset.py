"""Reads the handwritten digits: how a dataset's files become pairs of data and target.

A loader is a file `bks_dataset.py` with a class `UserDataset`, made with the path of the dataset's
folder. A second class `UserValDataset`, if there is one, gives the data for validation.
"""

import os

import numpy
import torch

VALIDATION_SHARE = 0.2


class UserDataset(torch.utils.data.Dataset):
    """The pictures to train on: a tensor of 1 × 8 × 8 from 0 to 1, and the digit."""

    def __init__(self, folder: str) -> None:
        table = numpy.loadtxt(
            os.path.join(folder, "digits.csv.gz"), delimiter=",", dtype=numpy.float32
        )
        rows = table[self.choose(len(table))]
        self.pictures = torch.from_numpy(rows[:, :64].reshape(-1, 1, 8, 8) / 16)
        self.digits = torch.from_numpy(rows[:, 64].astype(numpy.int64))

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
