"""Recognises the shape of a dataset by the names and first bytes of its files.

`_SHAPES` has one entry for each loader of the gallery, the most specific first.
"""

from __future__ import annotations

import csv
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from backend.base.log import swallowed
from backend.records.library.gallery import Suggestion
from backend.records.library.item import FileEntry

Read = Callable[[str, int], bytes]
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_SPLITS = frozenset(["train", "training", "val", "valid", "validation", "test", "testing"])
_HEAD = 64 << 10
_LABELS = 1 << 20


class _Found(NamedTuple):
    detail: str
    settings: Mapping[str, str] = {}
    facts: Mapping[str, int] = {}


class _Listing:
    """The files of a dataset; names are compared in lower case."""

    def __init__(self, files: Sequence[FileEntry], read: Read) -> None:
        self.read = read
        self.paths = [PurePosixPath(one.path) for one in files if one.bytes]
        self.names = Counter(path.name.lower() for path in self.paths)

    def ending(self, *endings: str) -> list[PurePosixPath]:
        return [path for path in self.paths if path.name.lower().endswith(endings)]

    def head(self, path: PurePosixPath, limit_bytes: int = _HEAD) -> bytes:
        """Return the first bytes of a file, unpacked if it is gzipped."""
        found = self.read(str(path), limit_bytes)
        if found[:2] != b"\x1f\x8b":
            return found
        return zlib.decompressobj(wbits=31).decompress(found, limit_bytes)

    def pictures(self) -> list[PurePosixPath]:
        return self.ending(*_PICTURES)


def recognise(files: Sequence[FileEntry], read: Read) -> Suggestion | None:
    """Return the loader that fits, None if none does; files that cannot be read fit none.

    Args:
        files: All files of the dataset.
        read: Returns at most so many first bytes of a file.
    """
    listing = _Listing(files, read)
    for entry, title, find in _SHAPES:
        try:
            found = find(listing)
        except (OSError, ValueError, LookupError, zlib.error, struct.error, csv.Error) as error:
            swallowed(error)
            continue
        if found is not None:
            sentence = f"This looks like {title}: {found.detail}."
            return Suggestion(entry, title, found.settings, sentence, found.facts)
    return None


def _cifar(listing: _Listing, folder: str, training: list[str], test: str) -> _Found | None:
    detail = f"{_count(len(training), 'training file')} and 1 for testing"
    for ending in ("", ".bin"):
        if all(f"{name}{ending}" in listing.names for name in (*training, test)):
            return _Found(detail)
    for path in listing.ending(".tar.gz", ".tgz", ".tar"):
        if listing.head(path, 4096).startswith(folder.encode()):
            return _Found(f"the archive {path.name}")
    return None


def _cifar_10(listing: _Listing) -> _Found | None:
    batches = [f"data_batch_{number}" for number in range(1, 6)]
    found = _cifar(listing, "cifar-10-batches-", batches, "test_batch")
    return found and found._replace(facts={"classes": 10, "channels": 3, "side": 32})


def _cifar_100(listing: _Listing) -> _Found | None:
    if "train" in listing.names and "meta" not in listing.names:
        return None
    found = _cifar(listing, "cifar-100-", ["train"], "test")
    return found and found._replace(facts={"classes": 100, "channels": 3, "side": 32})


def _idx(listing: _Listing) -> _Found | None:
    pictures, labels = [], []
    for path in listing.paths:
        if "idx" in path.name.lower():
            head = listing.head(path, 16)
            if head[:3] == b"\0\0\x08" and head[3] in (3, 4):
                pictures.append((path, struct.unpack_from(">4I", listing.head(path, 64))[1:]))
            elif head[:4] == b"\0\0\x08\x01":
                labels.append(path)
    if not pictures or len(pictures) != len(labels):
        return None
    (first, (count, height, width)), *_ = sorted(
        pictures, key=lambda one: ("train" not in one[0].name.lower(), one[0])
    )
    of_first = sorted(labels, key=lambda one: "train" not in one.name.lower())[0]
    classes = len(set(listing.head(of_first, _LABELS)[8:]))
    return _Found(
        f"{_count(count, 'picture')} of {height} × {width} pixels in {first.name}",
        facts={"classes": classes, "channels": 1, "side": max(height, width)},
    )


def _coco(listing: _Listing) -> _Found | None:
    for path in listing.ending(".json"):
        head = listing.head(path)
        if head.lstrip()[:1] == b"{" and re.search(
            rb'"(bbox|categories|annotations|licenses)"\s*:|"images"\s*:\s*\[\s*\{', head
        ):
            pictures = len(listing.pictures())
            return _Found(f"{path.name} and {_count(pictures, 'picture')}") if pictures else None
    return None


def _voc(listing: _Listing) -> _Found | None:
    notes = listing.ending(".xml")
    if not notes or not listing.pictures() or b"<annotation" not in listing.head(notes[0], 1024):
        return None
    pictures = _count(len(listing.pictures()), "picture")
    return _Found(f"{_count(len(notes), 'XML file')} with objects and {pictures}")


def _icdar(listing: _Listing) -> _Found | None:
    stems = {path.stem.lower() for path in listing.pictures()}
    notes = [
        path
        for path in listing.ending(".txt")
        if path.stem.lower() in stems or path.stem.lower().removeprefix("gt_") in stems
    ]
    line = rb"(\xef\xbb\xbf)?\s*-?\d+(\s*,\s*-?\d+){3}(\s*,\s*-?\d+){0,4}\s*,|\d+( \d+){3} \""
    if not notes or not re.match(line, listing.head(notes[0], 1024)):
        return None
    return _Found(f"{_count(len(notes), 'text file')} with regions, next to their pictures")


def _image_folder(listing: _Listing) -> _Found | None:
    pictures = listing.pictures()
    if not pictures:
        return None
    splits = [one for one in map(_split_of, pictures) if one]
    classes = {name for name in map(_class_of(pictures), pictures) if name}
    if len(classes) < 2:
        return None
    channels, side = _picture_size(listing.head(pictures[0]))
    names = sorted(classes)
    detail = f"{_count(len(pictures), 'picture')} in {len(classes)} classes ({_some(names)})"
    split = " and folders for training and validation" if len(set(splits)) > 1 else ""
    settings = {"channels": str(channels), "side": str(side)}
    return _Found(
        detail + split,
        settings,
        {"classes": len(classes), "channels": channels, "side": side},
    )


def _split_of(path: PurePosixPath) -> str:
    return next((part.lower() for part in path.parts[:-1] if part.lower() in _SPLITS), "")


def _class_of(pictures: list[PurePosixPath]) -> Callable[[PurePosixPath], str]:
    """Return a function that names the class: the folder below the split, or below the top."""
    parents = [path.parent.parts for path in pictures if not _split_of(path)]
    common = 0
    while len({parts[common] if len(parts) > common else None for parts in parents}) == 1:
        if parents[0][common:] == ():
            break
        common += 1

    def name(path: PurePosixPath) -> str:
        parts = path.parts[:-1]
        place = next((n for n, one in enumerate(parts) if one.lower() in _SPLITS), common - 1)
        return parts[place + 1] if len(parts) > place + 1 else ""

    return name


def _picture_size(head: bytes) -> tuple[int, int]:
    """Return channels and side for a network: of a PNG or JPEG file, otherwise 3 and 64."""
    channels, side = 3, 64
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        width, height, _, kind = struct.unpack_from(">IIBB", head, 16)
        channels, side = (1 if kind in (0, 4) else 3), min(width, height)
    elif head[:2] == b"\xff\xd8":
        for mark, height, width, parts in _jpeg_frames(head):
            if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
                channels, side = (1 if parts == 1 else 3), min(width, height)
                break
    return channels, min(max(side, 16), 224)


def _jpeg_frames(head: bytes) -> Iterator[tuple[int, int, int, int]]:
    place = 2
    while place + 10 <= len(head):
        _, mark, length, _, height, width, parts = struct.unpack_from(">BBHBHHB", head, place)
        yield mark, height, width, parts
        place += 2 + length


def _arrays(listing: _Listing) -> _Found | None:
    found = listing.ending(".npz", ".npy")
    if not found:
        return None
    return _Found(_some([path.name for path in found]))


def _table(listing: _Listing) -> _Found | None:
    tables = listing.ending(".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
    if not tables:
        return None
    return _Found(_some([path.name for path in tables]))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


_SHAPES: tuple[tuple[str, str, Callable[[_Listing], _Found | None]], ...] = (
    ("cifar-10", "CIFAR-10", _cifar_10),
    ("cifar-100", "CIFAR-100", _cifar_100),
    ("idx", "IDX files, the form of MNIST", _idx),
    ("coco", "boxes in COCO's form", _coco),
    ("voc", "boxes in Pascal VOC's form", _voc),
    ("icdar", "text regions in ICDAR's form", _icdar),
    ("image-folder", "pictures in a folder for each class", _image_folder),
    ("arrays", "NumPy arrays", _arrays),
    ("table", "a table", _table),
)
