"""Reads pictures with the boxes of objects from an XML file for each, in Pascal VOC's form.

Lists in ImageSets/Main (train.txt, val.txt, test.txt) name the sets, or else folders do.
"""

import os
from xml.etree import ElementTree

from boxes import Boxes, Sample
from labels import PictureNames, comparable
from notes import Notes
from splits import PICTURES, files, part_of, part_of_folder

SIDE = 256
CHANNELS = 3
WHITE = 0
AUGMENT = "none"
BAD_PICTURES = "stop"
VALIDATION_SHARE = 0.2
SEED = 1


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
    pictures = PictureNames(files(folder, *PICTURES))
    part_by_name = parts_by_name(folder)
    samples, unlisted_paths = [], []
    for path in files(folder, ".xml"):
        name = os.path.splitext(os.path.basename(path))[0]
        part = (
            part_by_name.get(comparable(name), "")
            if part_by_name
            else part_of(os.path.dirname(path))
        )
        if part_by_name and not part:
            unlisted_paths.append(path)
        else:
            sample = read_annotation(folder, path, part, pictures)
            if sample is not None:
                samples.append(sample)
    if not samples:
        raise ValueError("the dataset has no XML file with an <annotation> of a picture")
    notes.add("Left out, because no list in ImageSets/Main has them", unlisted_paths, "XML file")
    if not any(any(sample.difficult or ()) for sample in samples):
        samples = [sample._replace(difficult=None) for sample in samples]
    edges = [edge for sample in samples for box in sample.boxes for edge in box[2:]]
    if edges and max(edges) <= 1:
        # Shares of the sides are not counted from 1.
        samples = [
            sample._replace(boxes=[(x + 1, y + 1, right, bottom) for x, y, right, bottom in boxes])
            for sample in samples
            for boxes in [sample.boxes]
        ]
    return samples, sorted({name for sample in samples for name in sample.names})


def parts_by_name(folder: str) -> dict[str, str]:
    """The set of each picture, by its name without ending, from ImageSets/Main."""
    parts = {}
    for path in files(folder, ".txt"):
        part = part_of_folder(os.path.splitext(os.path.basename(path))[0])
        if part and os.path.basename(os.path.dirname(path)) == "Main":
            with open(os.path.join(folder, path), encoding="utf-8-sig") as file:
                parts.update({comparable(line.split()[0]): part for line in file if line.strip()})
    return parts


def read_annotation(folder: str, path: str, part: str, pictures: PictureNames) -> Sample | None:
    try:
        root = ElementTree.parse(os.path.join(folder, path)).getroot()
        if root.tag == "annotations":
            raise ValueError("it has CVAT's form; export the task as “Pascal VOC” or “COCO”")
        if root.tag != "annotation":
            return None
        boxes, names, difficult = [], [], []
        for element in root.iter("object"):
            edges = [number(element, f"bndbox/{edge}") for edge in ("xmin", "ymin", "xmax", "ymax")]
            # Corners count pixels from 1, and the last one is inside.
            boxes.append((edges[0] - 1, edges[1] - 1, edges[2], edges[3]))
            names.append((element.findtext("name") or "").strip() or "object")
            difficult.append((element.findtext("difficult") or "").strip() == "1")
        size = None
        if root.find("size/width") is not None:
            width, height = (int(number(root, f"size/{edge}")) for edge in ("width", "height"))
            size = (width, height)
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    stem = os.path.splitext(os.path.basename(path))[0]
    name = (root.findtext("filename") or "").strip()
    picture = pictures.find(name, part) or pictures.find(stem, part) or name or stem
    return Sample(picture, part, boxes, names, size, tuple(difficult))


def number(element: ElementTree.Element, path: str) -> float:
    text = element.findtext(path)
    if text is None:
        raise ValueError(f"<{path}> is missing")
    return float(text)
