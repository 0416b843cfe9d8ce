"""Reads pictures with the boxes of objects from YOLO's label files.

The file of images/train/1.jpg is labels/train/1.txt or 1.txt beside it. A line is one object: its
class, then the middle, width and height of its box, or the corners of its outline, as shares of the
picture's sides. Lists such as train.txt and val.txt, or else folders are the sets. The names of the
classes are in a YAML file, in classes.txt or in a .names file.
"""

import os
import re

from boxes import Boxes, Sample
from labels import PictureNames, comparable, parts_of_lists
from notes import Notes
from splits import PICTURES, files, part_of

SIDE = 256
CHANNELS = 3
WHITE = 0
AUGMENT = "none"
BAD_PICTURES = "stop"
VALIDATION_SHARE = 0.2
SEED = 1

YAML_NAMES = re.compile(r"""^["']?names["']?\s*:""", re.MULTILINE)
QUOTED = r"""'(?:''|[^'])*'|"(?:\\.|[^"\\])*\""""
SPACE = r"(?:\s|(?<!\S)#.*(?:\n|\Z))*"
"""Spaces, ends of lines and comments."""
KEY = r"""["']?(?P<key>\d+)["']?\s*:"""
IN_BRACKETS = re.compile(
    rf"""{SPACE}(?:{KEY}(?:\s+|(?=["'])))?(?P<name>{QUOTED}|[^\s,[\]{{}}"'#][^,[\]{{}}\n]*?)"""
    rf"{SPACE}(?:,|(?=[\]}}]))"
)
ON_A_LINE = re.compile(
    rf"{SPACE}(?:-|(?<=[ \t]){KEY})[ \t]+(?P<name>{QUOTED}|.*?)[ \t]*(?:(?<=[ \t])#.*)?(?=\n|\Z)"
)
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(.))", re.IGNORECASE)


class UserDataset(Boxes):
    """The pictures to train on, with boxes and labels: see boxes.py."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        notes = Notes()
        samples, classes = find_samples(folder, notes)
        super().__init__(folder, samples, classes, self.is_validation, globals(), notes)


class UserValDataset(UserDataset):
    """The pictures that the model never trains on."""

    is_validation = True


def find_samples(folder: str, notes: Notes) -> tuple[list[Sample], list[str]]:
    """The pictures with their boxes, and the names of the classes."""
    labels = {comparable(path): path for path in files(folder, ".txt")}
    pictures = files(folder, *PICTURES)
    parts, lists = parts_of_lists(folder, files(folder, ".txt"), PictureNames(pictures))
    notes.add("Read as lists of the sets", lists, "file")
    samples, outlines, used_labels = [], [], set()
    for path in pictures:
        sibling_label = comparable(f"{os.path.splitext(path)[0]}.txt")
        names = [re.sub(r"(^|/)images/", r"\1labels/", sibling_label), sibling_label]
        label = next((labels[name] for name in names if name in labels), None)
        if label is not None:
            boxes, numbers, outline_count = read_labels(os.path.join(folder, label))
            used_labels.add(label)
            outlines += [label] * outline_count
            part = parts.get(path) or part_of(os.path.dirname(path))
            samples.append(Sample(path, part, boxes, numbers, (1, 1)))
    if not samples:
        raise ValueError("the dataset has no text file with boxes that is named like a picture")
    notes.add("Read as the box around an outline", outlines, "object")
    names = names_of(folder, notes)
    class_count = max((int(name) for sample in samples for name in sample.names), default=-1) + 1
    unnamed = [str(number) for number in range(len(names), class_count)]
    notes.add("Named by their number, because no file names them", unnamed, "class")
    classes = [*names, *unnamed]
    return [
        sample._replace(names=[classes[int(name)] for name in sample.names]) for sample in samples
    ], classes


def read_labels(path: str) -> tuple[list[tuple[float, float, float, float]], list[str], int]:
    """The boxes in a file as shares of the sides, the numbers of their classes, the outlines."""
    boxes, numbers, outlines = [], [], 0
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = file.read().splitlines()
    for row, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            number, *values = map(float, line.split())
            if number < 0 or number % 1 or len(values) < 4:
                raise ValueError
            if max(values) > 1.5 or min(values) < -0.5:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"{os.path.basename(path)}, line {row} is no class with a box in shares of the "
                f"sides: “{line.strip()[:40]}”"
            ) from None
        if len(values) >= 6 and len(values) % 2 == 0:
            x_values, y_values = values[0::2], values[1::2]
            boxes.append((min(x_values), min(y_values), max(x_values), max(y_values)))
            outlines += 1
        else:
            x, y, width, height = values[:4]
            boxes.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
        numbers.append(str(int(number)))
    return boxes, numbers, outlines


def names_of(folder: str, notes: Notes) -> list[str]:
    for path in files(folder, ".yaml", ".yml", "classes.txt", ".names"):
        with open(os.path.join(folder, path), encoding="utf-8-sig", errors="replace") as file:
            text = file.read()
        if not path.lower().endswith((".yaml", ".yml")):
            return [line.strip() for line in text.splitlines() if line.strip()]
        names = yaml_names(text)
        count = re.search(r"^nc\s*:\s*(\d+)", text, re.MULTILINE)
        if names and count is not None and int(count[1]) != len(names):
            notes.add(f"Names {len(names)} classes, although its nc is {count[1]}", [path], "file")
        if names:
            return names
    return []


def yaml_names(text: str) -> list[str]:
    """The names in a YAML file: a list or numbered, in brackets or one on each line."""
    start = YAML_NAMES.search(text)
    names: dict[int, str] = {}
    if start is not None:
        bracket = re.compile(rf"{SPACE}[\[{{]").match(text, start.end())
        form, position = (IN_BRACKETS, bracket.end()) if bracket else (ON_A_LINE, start.end())
        while match := form.match(text, position):
            names[int(match["key"] or len(names))] = unquoted(match["name"])
            position = match.end()
    return [names.get(number, str(number)) for number in range(max(names, default=-1) + 1)]


def unquoted(name: str) -> str:
    if name[:1] == "'":
        return name[1:-1].replace("''", "'")
    if name[:1] == '"':
        return ESCAPE.sub(lambda m: m[3] or chr(int(m[1] or m[2], 16)), name[1:-1])
    return name
