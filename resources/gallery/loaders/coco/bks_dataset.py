"""Reads pictures with the boxes of objects from JSON files in COCO's form.

A file instances*.json is used, or else each with images, annotations and categories. Files named
train and val are the sets.
"""

import contextlib
import json
import math
import os

from boxes import Boxes, Sample
from labels import PictureNames
from notes import Notes
from splits import PICTURES, files, part_of

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
    json_paths = files(folder, ".json")
    json_paths = [
        path for path in json_paths if os.path.basename(path).startswith("instances")
    ] or json_paths
    pictures = PictureNames(files(folder, *PICTURES))
    samples: list[Sample] = []
    categories: dict[str, str] = {}
    for path in json_paths:
        content = read_json(os.path.join(folder, path))
        if not isinstance(content, dict) or not {"images", "annotations", "categories"} <= set(
            content
        ):
            continue
        try:
            categories.update(
                {str(category["id"]): str(category["name"]) for category in content["categories"]}
            )
            samples += samples_of(content, categories, pictures, part_of(path), notes)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not in COCO's form: {error!r}") from error
    if not samples:
        raise ValueError("the dataset has no JSON file with images, annotations and categories")
    classes = [categories[key] for key in sorted(categories, key=lambda key: (len(key), key))]
    used_names = {name for sample in samples for name in sample.names}
    unused_names = [name for name in classes if name not in used_names]
    notes.add("Without an object in the dataset", unused_names, "class")
    return samples, classes


def read_json(path: str) -> object:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except ValueError as error:
        raise ValueError(f"{os.path.basename(path)} is no JSON: {error}") from error


def samples_of(
    content: dict,
    categories: dict[str, str],
    pictures: PictureNames,
    part: str,
    notes: Notes,
) -> list[Sample]:
    # Some programs write numbers as texts, also only some of them.
    objects: dict[str, list[dict]] = {str(entry["id"]): [] for entry in content["images"]}
    crowds, boxless, orphans = [], [], []
    for entry in content["annotations"]:
        lack = ""
        if str(entry["image_id"]) not in objects:
            lack = f"for image {entry['image_id']}, which is not in “images”"
        elif str(entry["category_id"]) not in categories:
            lack = f"of category {entry['category_id']}, which is not in “categories”"
        if lack and BAD_PICTURES != "skip":
            name = entry.get("id", "without an id")
            remedy = "add it there, or set bad_pictures to “skip” to leave such annotations out"
            raise ValueError(f"annotation {name} is {lack}; {remedy}")
        target = crowds if entry.get("iscrowd") else objects.get(str(entry["image_id"]), orphans)
        is_boxed = len(entry.get("bbox") or ()) == 4
        (orphans if lack else target if is_boxed else boxless).append(entry)
    for reason, annotations in (
        ("they are crowds", crowds),
        ("they have no box", boxless),
        ("their image or category is not in the file", orphans),
    ):
        names = [f"annotation {entry.get('id', '')}" for entry in annotations]
        notes.add(f"Left out, because {reason}", names, "object")
    samples = []
    for image in content["images"]:
        annotations_of_image = objects[str(image["id"])]
        corners = [
            (x, y, x + width, y + height)
            for x, y, width, height in map(box_of, annotations_of_image)
        ]
        sides = [int(float(image.get(side) or 0)) for side in ("width", "height")]
        size = (sides[0], sides[1]) if all(sides) else None
        path = pictures.find(image["file_name"], part) or image["file_name"].lstrip("./")
        names = [categories[str(entry["category_id"])] for entry in annotations_of_image]
        samples.append(Sample(path, part, corners, names, size))
    return samples


def box_of(annotation: dict) -> list[float]:
    """Left, top, width and height."""
    with contextlib.suppress(TypeError, ValueError):
        box = [float(number) for number in annotation["bbox"]]
        if all(map(math.isfinite, box)):
            return box
    name, text = annotation.get("id", "without an id"), json.dumps(annotation["bbox"])
    raise ValueError(f"the box of annotation {name} has not four numbers: {text[:60]}")
