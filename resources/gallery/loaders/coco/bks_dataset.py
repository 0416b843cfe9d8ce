"""Reads pictures with the boxes of objects from JSON files in COCO's form.

A file instances*.json is used, or else each with images, annotations and categories. Files named
train and val are the sets.
"""

import json
import os

from boxes import Boxes, Sample, find_picture
from notes import Notes
from pictures import ENDINGS
from splits import files, part_of

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
    found = files(folder, ".json")
    found = [path for path in found if os.path.basename(path).startswith("instances")] or found
    known: dict[str, list[str]] = {}
    for path in files(folder, *ENDINGS):
        known.setdefault(os.path.basename(path), []).append(path)
    samples: list[Sample] = []
    categories: dict[int, str] = {}
    for path in found:
        content = read_json(os.path.join(folder, path))
        if not isinstance(content, dict) or not {"images", "annotations", "categories"} <= set(
            content
        ):
            continue
        try:
            categories.update({one["id"]: str(one["name"]) for one in content["categories"]})
            samples += samples_of(content, categories, known, part_of(path), notes)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} is not in COCO's form: {error!r}") from error
    if not samples:
        raise ValueError("the dataset has no JSON file with images, annotations and categories")
    return samples, [categories[key] for key in sorted(categories)]


def read_json(path: str) -> object:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except ValueError as error:
        raise ValueError(f"{os.path.basename(path)} is no JSON: {error}") from error


def samples_of(
    content: dict,
    categories: dict[int, str],
    known: dict[str, list[str]],
    part: str,
    notes: Notes,
) -> list[Sample]:
    objects: dict[int, list[dict]] = {one["id"]: [] for one in content["images"]}
    crowds, bare = [], []
    for one in content["annotations"]:
        if one["image_id"] not in objects:
            raise ValueError(f"an annotation is for image {one['image_id']}, which does not exist")
        if one["category_id"] not in categories:
            raise ValueError(f"an annotation is of category {one['category_id']}, without a name")
        target = crowds if one.get("iscrowd") else objects[one["image_id"]]
        (target if len(one.get("bbox", ())) == 4 else bare).append(one)
    for reason, annotations in (("they are crowds", crowds), ("they have no box", bare)):
        names = [f"annotation {one.get('id', '')}" for one in annotations]
        notes.add(f"Left out, because {reason}", names, "object")
    samples = []
    for image in content["images"]:
        own = objects[image["id"]]
        corners = [
            (x, y, x + width, y + height) for x, y, width, height in (o["bbox"] for o in own)
        ]
        size = (image["width"], image["height"]) if "width" in image and "height" in image else None
        path = find_picture(known, image["file_name"], part)
        names = [categories[one["category_id"]] for one in own]
        samples.append(Sample(path, part, corners, names, size))
    return samples
