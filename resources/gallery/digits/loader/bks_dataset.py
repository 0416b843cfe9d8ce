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

    def read(self, path: str) -> torch.Tensor:
        """The data of a sample from a picture file: optional, for "Try it" on a checkpoint."""
        ink = grey_values(path)
        if ink.mean() > 0.5:
            ink = 1 - ink  # dark ink on bright paper
        ink = (ink - ink.min()) / (ink.max() - ink.min()).clamp(min=1e-6)
        is_ink = ink > 0.3
        rows, columns = is_ink.any(1).nonzero(), is_ink.any(0).nonzero()
        if not len(rows):
            raise ValueError("there is nothing written in the picture")
        ink = ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        # The digits of the dataset fill the height and stand in the middle.
        side = max(ink.shape)
        top, left = (side - ink.shape[0]) // 2, (side - ink.shape[1]) // 2
        square = torch.zeros(1, 1, side, side)
        square[0, 0, top : top + ink.shape[0], left : left + ink.shape[1]] = ink
        small = torch.nn.functional.interpolate(square, size=8, mode="area")[0]
        return small / small.max()


class UserValDataset(UserDataset):
    """The pictures that the model never trains on."""

    def choose(self, count: int) -> numpy.ndarray:
        return shuffled(count)[: int(count * VALIDATION_SHARE)]


def grey_values(path: str) -> torch.Tensor:
    """The picture in a file of any usual format, from 0 (black) to 1."""
    from PySide6.QtGui import QImage  # on the computer with the window, which reads such files

    image = QImage(path).convertToFormat(QImage.Format.Format_Grayscale8)
    if image.isNull():
        raise ValueError("this is not a picture")
    height, width, stride = image.height(), image.width(), image.bytesPerLine()
    pixels = numpy.frombuffer(image.constBits(), numpy.uint8).reshape(height, stride)
    return torch.from_numpy(pixels[:, :width] / numpy.float32(255))


def shuffled(count: int) -> numpy.ndarray:
    """The same order in every process and every run, so that the two sets never mix."""
    return numpy.random.default_rng(1).permutation(count)
