"""Reads pictures in a folder for each class: rose/1.jpg, tulip/2.jpg.

Folders train, val and test around the folders of the classes are the sets; without them a share
of each class is drawn for validation. The classes are sorted by name, as torchvision sorts them.
"""

import os
import warnings

import torch
from pictures import ENDINGS, augmented, is_readable, square_picture
from splits import divide, files, part_of_folder

SIDE = 64
CHANNELS = 3
AUGMENT = "none"
BAD_PICTURES = "stop"
VALIDATION_SHARE = 0.2
SEED = 1


class UserDataset(torch.utils.data.Dataset):
    """The pictures to train on: a tensor of CHANNELS × SIDE × SIDE from 0 to 1, and the class."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        self.folder = folder
        samples = find_samples(folder)
        self.classes = sorted({name for _, name, _ in samples})
        if len(self.classes) < 2:
            only = f"only “{self.classes[0]}” has one" if self.classes else "none has one"
            raise ValueError(f"pictures must be in a folder for each class, but {only}")
        names = [name for _, name, _ in samples]
        held = divide([part for _, _, part in samples], names, VALIDATION_SHARE, SEED)
        self.samples = [
            (path, self.classes.index(name))
            for (path, name, _), is_held in zip(samples, held, strict=True)
            if is_held is self.is_validation
        ]
        if BAD_PICTURES == "skip":
            self.samples = [sample for sample in self.samples if is_readable(folder, sample[0])]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.samples[index]
        try:
            picture = self.read(os.path.join(self.folder, path))
        except ValueError as error:
            raise ValueError(f"{error}, or set bad_pictures to “skip”") from error
        return picture if self.is_validation else augmented(picture, AUGMENT), label

    def read(self, path: str) -> torch.Tensor:
        return square_picture(path, CHANNELS, SIDE)


class UserValDataset(UserDataset):
    """The pictures that the model never trains on."""

    is_validation = True


def find_samples(folder: str) -> list[tuple[str, str, str]]:
    """Path, class and part (training, validation, test or "") of each picture in a class."""
    found = []
    for path in files(folder, *ENDINGS):
        parents = path.split(os.sep)[:-1]
        place = next((n for n, name in enumerate(parents) if part_of_folder(name)), -1)
        found.append((path, parents, place))
    if any(place >= 0 for _, _, place in found):
        found = [one for one in found if one[2] >= 0]
    elif found:
        # Folders around all pictures, such as the name of the dataset, are no classes.
        shared = os.path.commonpath([os.path.dirname(path) for path, _, _ in found])
        above = len(shared.split(os.sep)) if shared else 0
        found = [(path, parents, above - 1) for path, parents, _ in found]
    samples, tops = [], set()
    for path, parents, place in found:
        if len(parents) > place + 1:
            part = part_of_folder(parents[place]) if place >= 0 else ""
            samples.append((path, parents[place + 1], part))
            tops.add(os.path.join(folder, *parents[: place + 1]))
    warn_of_empty(tops, {name for _, name, _ in samples})
    return samples


def warn_of_empty(tops: set[str], classes: set[str]) -> None:
    for top in sorted(tops):
        for name in sorted(set(os.listdir(top)) - classes):
            if os.path.isdir(os.path.join(top, name)) and not part_of_folder(name):
                warnings.warn(f"the folder {name} has no pictures: it is no class", stacklevel=2)
