"""Reads CIFAR-10 and CIFAR-100: python or binary files, unpacked or in a .tar.gz as downloaded."""

import io
import os
import pickle
import tarfile
import zlib
from collections.abc import Iterator

import numpy
import torch
from pictures import augmented, square_picture

PIXELS = 3 * 32 * 32


class Cifar(torch.utils.data.Dataset):
    """Items are a picture of 3 × 32 × 32 from 0 to 1, and the number of its class.

    Args:
        batches: Names of the files to read, without ending.
        label: Key of the labels in a python file.
        bytes_before: Bytes before the pixels of a binary record.
        label_byte: Offset of the label in it.
        meta: Names of the python and binary files with the names of the classes, and their key.
    """

    def __init__(
        self,
        folder: str,
        batches: list[str],
        label: str,
        bytes_before: int,
        label_byte: int,
        meta: tuple[str, str, str],
        augment: str,
    ) -> None:
        self.augment = augment
        names = [*batches, *(f"{name}.bin" for name in batches), *meta[:2]]
        contents = dict(read_files(folder, names))
        parts = []
        for name in batches:
            if name in contents:
                parts.append(from_pickle(name, contents[name], label))
            elif f"{name}.bin" in contents:
                parts.append(
                    from_binary(f"{name}.bin", contents[f"{name}.bin"], bytes_before, label_byte)
                )
            else:
                raise ValueError(f"the dataset has no file {name} or {name}.bin of CIFAR")
        self.pictures = torch.from_numpy(numpy.concatenate([pixels for pixels, _ in parts]))
        self.labels = torch.from_numpy(numpy.concatenate([labels for _, labels in parts]))
        count = int(self.labels.max()) + 1
        self.classes = class_names(contents, *meta) or [str(number) for number in range(count)]
        if count > len(self.classes):
            raise ValueError(f"there are labels up to {count - 1}, but {len(self.classes)} classes")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return augmented(self.pictures[index].float() / 255, self.augment), self.labels[index]

    def read(self, path: str) -> torch.Tensor:
        """The picture in a file: for "Try it"."""
        return square_picture(path, 3, 32)


def read_files(folder: str, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """The content of files with these names, in the folder or in an archive in it."""
    for parent, _, file_names in os.walk(folder):
        for name in sorted(file_names):
            path = os.path.join(parent, name)
            if name in names:
                with open(path, "rb") as file:
                    yield name, file.read()
            elif name.endswith((".tar.gz", ".tgz", ".tar")):
                try:
                    with tarfile.open(path) as archive:
                        for member in archive:
                            if member.isfile() and os.path.basename(member.name) in names:
                                content = archive.extractfile(member)
                                yield os.path.basename(member.name), content.read()
                except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
                    raise ValueError(f"{name} is damaged or cut off: {error}") from error


class PlainUnpickler(pickle.Unpickler):
    """Reads arrays, texts, numbers, lists and dicts; a pickle can run no code."""

    def find_class(self, module: str, name: str) -> object:
        allowed = {
            ("multiarray", "_reconstruct"): numpy.empty(0).__reduce__()[0],
            ("numpy", "ndarray"): numpy.ndarray,
            ("numpy", "dtype"): numpy.dtype,
            ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
        }
        short = "multiarray" if module.endswith("core.multiarray") else module
        if (short, name) not in allowed:
            raise ValueError(f"it holds {module}.{name}, which is no array, text or number")
        return allowed[short, name]


def unpickle(name: str, content: bytes) -> dict[str, object]:
    try:
        values = PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:
        raise ValueError(f"{name} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{name} is not in CIFAR's form")
    return {key.decode() if isinstance(key, bytes) else key: value for key, value in values.items()}


def from_pickle(name: str, content: bytes, label: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    values = unpickle(name, content)
    pixels, labels = values.get("data"), values.get(label)
    if not isinstance(pixels, numpy.ndarray) or pixels.dtype != numpy.uint8 or labels is None:
        raise ValueError(f"{name} has no data or no {label}: it is not of this CIFAR")
    if pixels.shape != (len(labels), PIXELS):
        raise ValueError(f"{name} has {len(labels)} labels for data of {list(pixels.shape)}")
    return pixels.reshape(-1, 3, 32, 32), numpy.array(labels, numpy.int64)


def from_binary(
    name: str, content: bytes, bytes_before: int, label_byte: int
) -> tuple[numpy.ndarray, numpy.ndarray]:
    record = bytes_before + PIXELS
    if not content or len(content) % record:
        raise ValueError(
            f"{name} is cut off or not of this CIFAR: {len(content)} bytes, not × {record}"
        )
    rows = numpy.frombuffer(content, numpy.uint8).reshape(-1, record)
    pixels = rows[:, bytes_before:].reshape(-1, 3, 32, 32).copy()
    return pixels, rows[:, label_byte].astype(numpy.int64)


def class_names(contents: dict[str, bytes], python: str, binary: str, key: str) -> list[str]:
    if python in contents:
        names = unpickle(python, contents[python]).get(key, [])
        return [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    return contents.get(binary, b"").decode("utf-8", "replace").split()
