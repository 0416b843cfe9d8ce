"""Reads arrays of samples and targets from .npz and .npy files.

Names say what an array is: x, data, images or features are samples; y, target or labels are
targets; train, val or test in the name are the set. Without a set a share is drawn for validation.
"""

import os
import re
import zipfile
import zlib

import numpy
import torch
from notes import Notes
from pictures import augmented, open_picture, tensor_of
from splits import divide, files, part_of

TASK = "auto"
AUGMENT = "none"
VALIDATION_SHARE = 0.2
SEED = 1

MOST_CLASSES = 50

SAMPLES = {"x", "data", "image", "images", "features", "inputs", "input", "samples"}
TARGETS = {"y", "target", "targets", "label", "labels", "outputs", "output", "classes"}


class UserDataset(torch.utils.data.Dataset):
    """The samples to train on, and a class or a vector of numbers for each."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        self.reading_notes = notes = Notes()
        arrays = read_folder(folder, notes)
        parts = sorted(arrays)
        self.kind = arrays[parts[0]]["samples"].shape[1:], arrays[parts[0]]["samples"].dtype
        for part in parts:
            if arrays[part]["samples"].shape[1:] != self.kind[0]:
                raise ValueError(
                    f"the {part} samples have another shape than the {parts[0]} samples"
                )
        targets, classes = targets_of([arrays[part]["targets"] for part in parts], notes)
        if classes:
            self.classes = classes
        part_of_row = [part for part in parts for _ in arrays[part]["samples"]]
        labels = targets.tolist() if classes else [0] * len(targets)
        membership = divide(part_of_row, labels, VALIDATION_SHARE, SEED)
        notes.add_unused([f"row {n}" for n in range(len(membership))], membership, "sample")
        rows = numpy.array([is_held is self.is_validation for is_held in membership])
        samples = numpy.concatenate([arrays[part]["samples"] for part in parts])
        self.samples, self.targets = samples[rows], torch.from_numpy(targets[rows])
        if classes:
            notes.add_missing(classes, set(self.targets.tolist()))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        sample = prepared(self.samples[index])
        if is_picture(*self.kind) and not self.is_validation:
            sample = augmented(sample, AUGMENT)
        return sample, self.targets[index]

    def read(self, path: str) -> torch.Tensor:
        """A sample in an .npy file, or a picture: for "Try it"."""
        if path.lower().endswith(".npy"):
            sample = load(path)[""]
            return prepared(sample[0] if sample.ndim == len(self.kind[0]) + 1 else sample)
        channels, height, width = prepared(self.samples[0]).shape
        return tensor_of(open_picture(path, channels).resize((width, height)))

    def read_all(self, path: str) -> list[torch.Tensor]:
        """Each sample of an .npy file, or the one of a picture."""
        samples = load(path)[""] if path.lower().endswith(".npy") else numpy.empty(0)
        is_batch = samples.ndim == len(self.kind[0]) + 1 and len(samples) > 0
        return [*map(prepared, samples)] if is_batch else [self.read(path)]


class UserValDataset(UserDataset):
    """The samples that the model never trains on."""

    is_validation = True


def is_picture(shape: tuple[int, ...], dtype: numpy.dtype) -> bool:
    """Whether a sample is a picture: a square or bytes, or with 1, 3 or 4 channels."""
    if len(shape) == 3:
        return shape[0] in (1, 3, 4) or shape[2] in (1, 3, 4)
    return len(shape) == 2 and (dtype == numpy.uint8 or shape[0] == shape[1])


def prepared(sample: numpy.ndarray) -> torch.Tensor:
    is_bytes = sample.dtype == numpy.uint8
    values = torch.from_numpy(numpy.array(sample, numpy.float32)) / (255 if is_bytes else 1)
    if values.ndim == 3 and values.shape[2] in (1, 3, 4) and values.shape[0] not in (1, 3, 4):
        values = values.permute(2, 0, 1).contiguous()
    is_grey = values.ndim == 2 and is_picture(sample.shape, sample.dtype)
    return values[None] if is_grey else values


def targets_of(parts: list[numpy.ndarray], notes: Notes) -> tuple[numpy.ndarray, list[str]]:
    """Class numbers with their names, or 32-bit vectors without names."""
    targets = numpy.concatenate(parts)
    targets = targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
    is_rows = TASK != "numbers" and targets.ndim == 2 and targets.shape[1] > 1
    if is_rows and set(numpy.unique(targets)) == {0, 1} and (targets.sum(1) == 1).all():
        # One-hot.
        return targets.argmax(1).astype(numpy.int64), [str(n) for n in range(targets.shape[1])]
    is_text, is_float = targets.dtype.kind in "SU", targets.dtype.kind == "f"
    is_whole = targets.dtype.kind in "biuSU" or (
        is_float and bool((numpy.isfinite(targets) & (targets == numpy.round(targets))).all())
    )
    if targets.ndim == 1 and is_whole and (TASK != "numbers" or is_text):
        values, numbers = numpy.unique(targets, return_inverse=True)
        # Most values of a count, an age or a time are there once; those of classes repeat.
        is_class = is_text or targets.dtype.kind == "b" or TASK == "classes"
        is_class = is_class or (
            2 * len(values) <= len(targets)
            and (len(values) <= MOST_CLASSES or values[-1] - values[0] == len(values) - 1)
        )
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in values.tolist()]
        names = [text.removesuffix(".0") for text in texts] if is_float else texts
        if is_class and is_float and TASK == "auto":
            notes.add("Decimals that are whole and repeat are read as classes", names, "value")
        if is_class:
            return numbers.astype(numpy.int64), names
        notes.add("Whole numbers are read as numbers, because few repeat", names, "value")
    if TASK == "classes":
        raise ValueError(f"the targets are no classes, but {targets.dtype} of {targets.shape}")
    return targets.astype(numpy.float32).reshape(len(targets), -1), []


def read_folder(folder: str, notes: Notes) -> dict[str, dict[str, numpy.ndarray]]:
    """The samples and targets of each part: training, validation, test or ""."""
    arrays_by_part: dict[str, dict[str, numpy.ndarray]] = {}
    array_names, unknown_names = [], []
    for path in files(folder, ".npz", ".npy"):
        for key, array in load(os.path.join(folder, path)).items():
            name = f"{path}/{key}"
            tokens = set(re.split(r"[^a-z]+", (key or os.path.basename(path)).lower()))
            tokens |= {
                fragment for token in tokens for fragment in re.split("train|test|val", token)
            }
            kind = "targets" if tokens & TARGETS else "samples" if tokens & SAMPLES else ""
            array_names.append(name.rstrip("/"))
            if not (kind and array.ndim):
                unknown_names.append(name.rstrip("/"))
            else:
                part_arrays = arrays_by_part.setdefault(part_of(name), {})
                if kind in part_arrays:
                    raise ValueError(f"there are two arrays of {kind}: {', '.join(array_names)}")
                part_arrays[kind] = array
    # A test set without targets, as in competitions, cannot measure.
    notes.add("Left out, because no name says what they are", unknown_names, "array")
    incomplete_parts = [
        f"those for {part}" for part, part_arrays in arrays_by_part.items() if len(part_arrays) < 2
    ]
    notes.add("Left out, because samples or targets are missing", incomplete_parts, "set")
    complete_parts = {
        part: part_arrays for part, part_arrays in arrays_by_part.items() if len(part_arrays) == 2
    }
    if not complete_parts:
        content = (
            f"it has {', '.join(array_names[:10])}"
            if array_names
            else "it has no .npz or .npy file"
        )
        raise ValueError(f"the dataset has no arrays named x and y, or data and target: {content}")
    for part, part_arrays in complete_parts.items():
        if len(part_arrays["samples"]) != len(part_arrays["targets"]):
            counts = (
                f"{len(part_arrays['samples'])} samples and {len(part_arrays['targets'])} targets"
            )
            raise ValueError(f"there are {counts} {('for ' + part) if part else ''}".strip())
    return complete_parts


def load(path: str) -> dict[str, numpy.ndarray]:
    """The arrays of a file by name; that of an .npy file has the name ""."""
    try:
        if path.lower().endswith(".npy"):
            return {"": numpy.load(path, mmap_mode="r", allow_pickle=False)}
        with open(path, "rb") as file, numpy.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{os.path.basename(path)} cannot be read: {error}") from error
