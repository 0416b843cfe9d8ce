"""Training and validation set: by the names of folders and files, or drawn by a seed."""

import os
import re
from collections.abc import Hashable, Sequence

import numpy

PARTS = {
    "train": "training", "training": "training",
    "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test", "t10k": "test",
}  # fmt: skip


def part_of_folder(name: str) -> str:
    """The part that a folder is named for, such as train2017; "" for another name."""
    return PARTS.get(name.lower().rstrip("0123456789"), "")


def part_of(path: str) -> str:
    """The part that a word in a relative path names, "" if none does."""
    words = re.split(r"[^a-z0-9]+|(?<=[a-z])(?=[0-9])", path.lower())
    return next((PARTS[word] for word in reversed(words) if word in PARTS), "")


def divide(
    parts: Sequence[str], classes: Sequence[Hashable], share: float, seed: int
) -> list[bool | None]:
    """Whether each sample is for validation; None: it is in neither set.

    Samples named for validation are, or else those named for testing. Without either, a share of
    each class is drawn.

    Args:
        parts: For each sample: training, validation, test or "".
        classes: For each sample; all the same where samples have none.
    """
    held = "validation" if "validation" in parts else "test"
    if held in parts and not {"validation", "test"} >= set(parts):
        return [part == held if part in (held, "training", "") else None for part in parts]
    members: dict[Hashable, list[int]] = {}
    for number in numpy.random.default_rng(seed).permutation(len(parts)).tolist():
        members.setdefault(classes[number], []).append(number)
    drawn = {n for own in members.values() for n in own[: round(len(own) * share)]}
    if not drawn and len(parts) > 1:
        drawn = {max(members.values(), key=len)[0]}
    return [number in drawn for number in range(len(parts))]


def files(folder: str, *endings: str) -> list[str]:
    """Relative paths of the files below a folder with these endings, sorted."""
    return sorted(
        os.path.relpath(os.path.join(place, name), folder)
        for place, _, names in os.walk(folder)
        for name in names
        if name.lower().endswith(endings) and not name.startswith(".")
    )
