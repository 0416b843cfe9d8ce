"""Reads pictures in a folder for each class: rose/1.jpg, tulip/2.jpg.

Folders train, val and test around the folders of the classes are the sets, or else lists such as
train.txt and test.txt; without them a share of each class is drawn for validation. The classes are
sorted by name, as torchvision sorts them.
"""

import os

from labels import PictureNames, parts_of_lists
from notes import Notes
from picture_set import PictureSet
from splits import (
    PICTURES,
    advice_without_classes,
    files,
    masks_of,
    other_files,
    part_of,
    part_of_folder,
    sort_by_class,
)

SIDE = 64
CHANNELS = 3
WHITE = 0
AUGMENT = "none"
BAD_PICTURES = "stop"
VALIDATION_SHARE = 0.2
SEED = 1


class UserDataset(PictureSet):
    """The pictures to train on: a tensor of CHANNELS × SIDE × SIDE from 0 to 1, and the class."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        notes = Notes()
        samples = find_samples(folder, notes)
        self.classes = sorted({name for _, name, _ in samples})
        if len(self.classes) < 2 or all(map(part_of, self.classes)):
            advice = advice_without_classes(files(folder, *PICTURES))
            if advice:
                raise ValueError(advice)
        # Nor do names such as cars_train and cars_test make classes.
        if self.classes and all(map(part_of, self.classes)):
            raise ValueError(
                f"the folders {' and '.join(self.classes)} are sets: put the pictures into a "
                "folder for each class, or add a table with the label of each picture"
            )
        if len(self.classes) < 2:
            finding = f"only “{self.classes[0]}” has one" if self.classes else "none has one"
            raise ValueError(f"pictures must be in a folder for each class, but {finding}")
        labelled = [(path, self.classes.index(name), part) for path, name, part in samples]
        super().__init__(folder, labelled, self.is_validation, globals(), notes)
        self.reading_notes.add_missing(self.classes, {label for _, label in self.samples})


class UserValDataset(UserDataset):
    """The pictures that the model never trains on."""

    is_validation = True


def find_samples(folder: str, notes: Notes) -> list[tuple[str, str, str]]:
    """Path, class and part (training, validation, test or "") of each picture in a class."""
    all_paths = [path.replace(os.sep, "/") for path in files(folder, "")]
    picture_paths = [path for path in all_paths if path.lower().endswith(PICTURES)]
    masks = {*masks_of(picture_paths)}
    notes.add("Left out, because they are masks of pictures beside them", sorted(masks), "picture")
    samples, level = sort_by_class([path for path in picture_paths if path not in masks])
    unclassed_paths = [path for path, name, _ in samples if not name]
    notes.add("Left out, because they are in no folder of a class", unclassed_paths, "picture")
    samples = [sample for sample in samples if sample[1]]
    if not any(part for _, _, part in samples):
        samples = listed_samples(folder, samples, notes)
    like_sets = sorted(filter(part_of_folder, {name for _, name, _ in samples}))
    notes.add("Read as classes, although they are named like sets", like_sets, "folder")
    class_folders = {"/".join(path.split("/")[: level + 1]) for path, _, _ in samples}
    notes.add(*other_files(all_paths, class_folders), "file")
    sibling_folders = {
        os.path.join(os.path.dirname(path), name).replace(os.sep, "/")
        for path in class_folders
        for name in os.listdir(os.path.join(folder, os.path.dirname(path)))
    }
    empty_folders = [
        path
        for path in sibling_folders - class_folders
        if os.path.isdir(os.path.join(folder, path))
    ]
    notes.add("No class, because they have no picture", sorted(empty_folders), "folder")
    return samples


def listed_samples(
    folder: str, samples: list[tuple[str, str, str]], notes: Notes
) -> list[tuple[str, str, str]]:
    """The samples with the parts that lists give them; of lists for training, those in a list."""
    lists = files(folder, ".txt", ".lst", ".csv")
    parts, used_lists = parts_of_lists(
        folder, lists, PictureNames([path for path, _, _ in samples])
    )
    notes.add("Read as lists of the sets", used_lists, "file")
    unlisted = [path for path, _, _ in samples if path not in parts]
    if "training" not in parts.values():
        unlisted = []
    notes.add("Left out, because no list of a set has them", unlisted, "picture")
    omitted = {*unlisted}
    return [(path, name, parts.get(path, "")) for path, name, _ in samples if path not in omitted]
