"""Reads pictures and labels from IDX files, the form of MNIST, gzipped or not.

A file begins with two zeros, the type of its values and the number of its dimensions, then the
length of each. Files of several dimensions are the samples, those of one are the labels. Files
named train, val, test or t10k are the sets; without them a share is drawn for validation.
"""

import gzip
import os
import struct
import zlib

import numpy
import torch
from notes import Notes
from pictures import augmented, open_picture, tensor_of
from splits import divide, files, part_of

EXCHANGE = False
AUGMENT = "none"
VALIDATION_SHARE = 0.2
SEED = 1

TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


class UserDataset(torch.utils.data.Dataset):
    """The samples to train on: bytes as values from 0 to 1, and the class."""

    is_validation = False

    def __init__(self, folder: str) -> None:
        data, labels, parts = read_folder(folder)
        class_labels = sorted({int(label) for part_labels in labels for label in part_labels})
        self.classes = [str(label) for label in class_labels]
        membership = divide(
            [part for part, part_labels in zip(parts, labels, strict=True) for _ in part_labels],
            [int(label) for part_labels in labels for label in part_labels],
            VALIDATION_SHARE,
            SEED,
        )
        self.reading_notes = Notes()
        self.reading_notes.add_unused(
            [f"number {n}" for n in range(len(membership))], membership, "sample"
        )
        rows = numpy.array([is_held is self.is_validation for is_held in membership])
        self.data = torch.from_numpy(numpy.concatenate(data)[rows])
        numbers = numpy.searchsorted(class_labels, numpy.concatenate(labels))[rows]
        self.labels = torch.from_numpy(numbers.astype(numpy.int64))
        self.reading_notes.add_missing(self.classes, set(self.labels.tolist()))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        sample = prepared(self.data[index])
        if sample.ndim == 3 and not self.is_validation:
            sample = augmented(sample, AUGMENT)
        return sample, self.labels[index]

    def read(self, path: str) -> torch.Tensor:
        """The picture in a file, bright on dark as in MNIST: for "Try it"."""
        height, width = prepared(self.data[0]).shape[-2:]
        picture = tensor_of(open_picture(path, 1).resize((width, height)))
        return 1 - picture if picture.mean() > 0.5 else picture


class UserValDataset(UserDataset):
    """The samples that the model never trains on."""

    is_validation = True


def prepared(sample: torch.Tensor) -> torch.Tensor:
    sample = sample.float() / 255 if sample.dtype == torch.uint8 else sample.float()
    if sample.ndim == 2:
        return (sample.T if EXCHANGE else sample)[None].contiguous()
    return sample


def read_folder(folder: str) -> tuple[list[numpy.ndarray], list[numpy.ndarray], list[str]]:
    """For each pair of files: the samples, their labels, and the part that the names say."""
    data, labels = {}, {}
    for path in files(folder, ""):
        if "idx" in path.lower() or "ubyte" in path.lower():
            array = read_idx(os.path.join(folder, path))
            (labels if array.ndim == 1 else data)[part_of(path), pair_of(path)] = array
    if not data:
        raise ValueError(
            "the dataset has no IDX file with samples, such as train-images-idx3-ubyte"
        )
    keys = sorted(data)
    by_part = {part: array for (part, _), array in labels.items()}
    matching_labels = []
    for key in keys:
        sample_labels = labels[key] if key in labels else by_part.get(key[0])
        if sample_labels is None:
            raise ValueError(f"the {key[0] or 'only'} samples have no file of labels")
        if len(sample_labels) != len(data[key]):
            raise ValueError(f"{len(data[key])} {key[0]} samples have {len(sample_labels)} labels")
        if data[key].shape[1:] != data[keys[0]].shape[1:]:
            raise ValueError("the files have samples of different sizes")
        if sample_labels.dtype.kind == "f":
            raise ValueError("the labels are not whole numbers")
        matching_labels.append(sample_labels)
    return [data[key] for key in keys], matching_labels, [part for part, _ in keys]


def pair_of(path: str) -> str:
    """What the names of two files that belong together have alike."""
    name = path.lower().removesuffix(".gz").split("idx")[0]
    return name.replace("images", "").replace("labels", "")


def read_idx(path: str) -> numpy.ndarray:
    """The array in a file; ValueError if it is no IDX file, or cut off."""
    name = os.path.basename(path)
    with open(path, "rb") as file:
        content = file.read()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{name} is cut off or damaged: {error}") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES or not content[3]:
        raise ValueError(f"{name} is no IDX file: it begins with {content[:4].hex() or 'nothing'}")
    kind, dimensions = numpy.dtype(TYPES[content[2]]), content[3]
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", content[4:start].ljust(start - 4, b"\0"))
    expected_bytes = kind.itemsize
    for length in shape:
        expected_bytes *= length
    if len(content) != start + expected_bytes:
        fault_label = "is cut off" if len(content) < start + expected_bytes else "is too long"
        raise ValueError(
            f"{name} {fault_label}: {len(content)} bytes and not {start + expected_bytes}"
        )
    values = numpy.frombuffer(content, kind, offset=start).reshape(shape)
    return values.astype(kind.newbyteorder("="))
