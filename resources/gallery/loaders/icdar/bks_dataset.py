"""Reads pictures with regions of text, as the ICDAR competitions describe them.

The file of img_1.jpg is gt_img_1.txt or img_1.txt. A line is one region: eight numbers (the
corners of a quadrilateral) or four (left, top, right, bottom), and the text.
"""

import os
import re

from boxes import Boxes, Sample
from labels import comparable
from notes import Notes
from splits import PICTURES, files, part_of

SIDE = 256
CHANNELS = 3
WHITE = 0
AUGMENT = "none"
BAD_PICTURES = "stop"
VALIDATION_SHARE = 0.2
SEED = 1

NUMBER = r"\s*[+-]?[0-9]+(?:\.[0-9]+)?\s*"
LINE = re.compile(rf"({NUMBER}(?:,{NUMBER}){{7}}|{NUMBER}(?:[, ]{NUMBER}){{3}})(?:[, \t](.*))?")
ILLEGIBLE = "###"


class UserDataset(Boxes):
    """The pictures to train on, with boxes of text: see boxes.py."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        notes = Notes()
        samples, classes = find_samples(folder, notes)
        super().__init__(folder, samples, classes, self.is_validation, globals(), notes)


class UserValDataset(UserDataset):
    """The pictures that the model never trains on."""

    is_validation = True


def find_samples(folder: str, notes: Notes) -> tuple[list[Sample], list[str]]:
    """The pictures with their regions, and the only class."""
    regions = {}
    for path in files(folder, ".txt"):
        name = comparable(os.path.splitext(os.path.basename(path))[0]).removeprefix("gt_")
        regions[part_of(os.path.dirname(path)), name] = path
    samples, skipped = [], []
    for path in files(folder, *PICTURES):
        name = comparable(os.path.splitext(os.path.basename(path))[0])
        part = part_of(os.path.dirname(path))
        region_file = regions.get((part, name)) or regions.get(("", name))
        if region_file is not None:
            boxes, illegible = read_regions(os.path.join(folder, region_file))
            skipped += [path] * illegible
            samples.append(Sample(path, part, boxes, ["text"] * len(boxes)))
    if not samples:
        raise ValueError("the dataset has no text file with regions that is named like a picture")
    notes.add("Left out, because their text is illegible (###)", skipped, "region")
    return samples, ["text"]


def read_regions(path: str) -> tuple[list[tuple[float, float, float, float]], int]:
    """The boxes in a file, and the number of illegible regions."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = file.read().splitlines()
    boxes, illegible = [], 0
    for line_number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = LINE.fullmatch(line.strip())
        values = [float(value) for value in re.findall(r"[+-]?[0-9.]+", match[1])] if match else []
        # Shares of the sides, as YOLO writes them after the class, are no pixels.
        if match is None or max(values[1:]) <= 1:
            raise ValueError(
                f"{os.path.basename(path)}, line {line_number} is no region: “{line.strip()[:40]}”"
            )
        if (match[2] or "").strip(' "') == ILLEGIBLE:
            illegible += 1
            continue
        x_values, y_values = values[0::2], values[1::2]
        boxes.append((min(x_values), min(y_values), max(x_values), max(y_values)))
    return boxes, illegible
