"""Fingerprints of samples: equal inputs by a hash, similar pictures by a perceptual hash.

The perceptual hash is the difference hash (dHash) of rows and columns: a picture is reduced to
9 × 9 grey fields, and each bit says whether a field is brighter than its neighbour. After
N. Krawetz, "Kind of Like That" (hackerfactor.com, 2013), and B. Hoyt, "Duplicate image detection
with perceptual hashing in Python" (2017), who found 64 bits too few and takes pictures as equal
whose 128 bits differ in at most two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy
import numpy.typing

from backend.training.tools.thumbnails import as_array, picture_layout
from backend.training.user_code.errors import a

Array = numpy.typing.NDArray[Any]
Leaves = Iterable[tuple[str, Any]]

LEAST_SIDE = 16
"""Of a smaller picture a field would be a single pixel, and unlike pictures would be alike."""
_FIELDS = 9
_MOST_BITS = 3
_ONES_PER_BIT = 12
"""A drawing on an empty ground has few edges, so fewer bits may differ."""
_BANDS = 4
"""If at most three bits differ, one of four bands is equal."""
_FLAT = 0.02
"""Of the range of the fields: smaller differences are noise."""
_WINDOW = 512
"""A band that more pictures share is that of an empty border; not all of them are compared."""
_ONES = numpy.array([bin(byte).count("1") for byte in range(256)], numpy.uint8)


def _count(bits: Array) -> Array:
    """Return the number of ones of each row."""
    ones: Array = _ONES[bits.view(numpy.uint8)].sum(axis=1)
    return ones


def inputs_of(leaves: Leaves) -> list[tuple[str, Any]]:
    """Return the leaves of a sample without its target."""
    return [(path, value) for path, value in leaves if not path.startswith("target")]


def exact(leaves: Leaves) -> tuple[int, str]:
    """Return 64 bits of a hash of the inputs; 0 and the part if the content of one is not known."""
    found = hashlib.blake2b(digest_size=8)
    for path, value in inputs_of(leaves):
        array = as_array(value)
        if array is None and hasattr(value, "__array__"):
            array = numpy.asarray(value)  # a picture of Pillow, words, dates, a table
        if array is not None and array.dtype.kind != "O":
            found.update(f"{path} {array.dtype.str} {array.shape}\n".encode())
            found.update(array.tobytes())
        elif value is None or isinstance(value, (str, bytes, int)) or _is_empty(value):
            found.update(f"{path} {value!r}\n".encode("utf-8", "backslashreplace"))
        else:
            return 0, f"{path} is {a(type(value).__name__)}"
    return int.from_bytes(found.digest(), "little") or 1, ""


def _is_empty(value: Any) -> bool:
    return isinstance(value, (tuple, list, dict)) and not value


def perceptual(leaves: Leaves) -> bytes:
    """Return 128 bits of the pictures, in four bands; all 0 if there is none to compare.

    A picture of one shade has no differences either. Of several pictures the bits that differ add
    up.
    """
    found = numpy.zeros(16, numpy.uint8)
    for number, (_, value) in enumerate(inputs_of(leaves)):
        array = as_array(value)
        layout = "" if array is None else picture_layout(tuple(array.shape))
        if array is None or not layout or array.dtype.kind not in "biuf":
            continue
        if layout == "CHW":
            array = array.transpose(1, 2, 0)
        if min(array.shape[:2]) < LEAST_SIDE:
            continue
        grey = array.astype(numpy.float64)
        bits = _difference_hash(grey if grey.ndim == 2 else grey[:, :, :3].mean(axis=2))
        # Turned by its place, or two equal pictures would cancel out.
        found ^= numpy.roll(bits, number)
    return found.tobytes()


def _difference_hash(grey: Array) -> Array:
    fields = grey
    for axis in (0, 1):
        edges = numpy.arange(_FIELDS) * grey.shape[axis] // _FIELDS
        sizes = numpy.diff(edges, append=grey.shape[axis])
        fields = numpy.add.reduceat(fields, edges, axis=axis)
        fields = fields / (sizes[:, None] if axis == 0 else sizes)
    if not numpy.isfinite(fields).all():
        return numpy.zeros(16, numpy.uint8)
    least = _FLAT * float(numpy.ptp(fields))
    along = fields[:-1, 1:] - fields[:-1, :-1] > least
    down = fields[1:, :-1] - fields[:-1, :-1] > least
    # Each band has every fourth bit, so that it covers the whole picture.
    bits = numpy.stack((along, down)).reshape(-1, _BANDS).T
    return numpy.packbits(bits)


@dataclass(frozen=True)
class Pairs:
    """Pairs of samples: ``second`` was found again, ``first`` is the first sample like it."""

    first: Array
    second: Array

    def listed(self, most: int) -> tuple[tuple[int, ...], ...]:
        return tuple(
            (int(i), int(j)) for i, j in zip(self.first[:most], self.second[:most], strict=True)
        )

    def without(self, found: Pairs) -> Pairs:
        """Return the pairs whose second sample is not one of ``found``."""
        is_new = ~numpy.isin(self.second, found.second)
        return Pairs(self.first[is_new], self.second[is_new])

    @property
    def count(self) -> int:
        return len(self.second)


def equal_within(hashes: Array) -> Pairs:
    """Return each sample that equals an earlier one, with the first of them."""
    _, first, group = numpy.unique(hashes, return_index=True, return_inverse=True)
    earliest = first[group]
    second = numpy.flatnonzero((earliest != numpy.arange(len(hashes))) & (hashes != 0))
    return Pairs(earliest[second], second)


def equal_between(training: Array, validation: Array) -> Pairs:
    """Return each validation sample that is a training sample, too, with the first of them."""
    known, first = numpy.unique(training, return_index=True)
    if not len(known):
        return Pairs(first, first)
    place = numpy.searchsorted(known, validation).clip(max=len(known) - 1)
    second = numpy.flatnonzero((known[place] == validation) & (validation != 0))
    return Pairs(first[place[second]], second)


def similar(training: Array, validation: Array) -> tuple[Pairs, Pairs, Pairs]:
    """Return the similar pictures within training, within validation and between them.

    ``training`` and ``validation`` have a row of four bands for each sample. Each later sample is
    listed once, with an earlier one like it (between them: with one of training).
    """
    splits = []
    for hashes in (training, validation):
        known, first, group = numpy.unique(hashes, axis=0, return_index=True, return_inverse=True)
        splits.append((known, first, group.reshape(-1)))
    bands = numpy.concatenate([known for known, _, _ in splits])
    sample = numpy.concatenate([first for _, first, _ in splits])
    is_validation = numpy.repeat([False, True], [len(known) for known, _, _ in splits])
    none = max(len(training), len(validation))
    within = numpy.full(len(bands), none)
    between = numpy.full(len(bands), none)
    usable = numpy.flatnonzero(bands.any(axis=1))
    for band in range(_BANDS):
        order = usable[numpy.argsort(bands[usable, band], kind="stable")]
        for apart in range(1, min(_WINDOW, len(order))):
            one, other = order[:-apart], order[apart:]
            same = bands[one, band] == bands[other, band]
            if not same.any():
                break
            one, other = one[same], other[same]
            differing = _count(bands[one] ^ bands[other])
            near = differing <= numpy.minimum(
                _MOST_BITS, _count(bands[one] | bands[other]) // _ONES_PER_BIT
            )
            one, other = one[near], other[near]
            mixed = is_validation[one] != is_validation[other]
            low, high = numpy.minimum(one, other), numpy.maximum(one, other)
            # Those of validation come last, so that `high` is of validation where they mix.
            numpy.minimum.at(between, high[mixed], sample[low[mixed]])
            one, other = one[~mixed], other[~mixed]
            swapped = sample[one] > sample[other]
            early, late = numpy.where(swapped, other, one), numpy.where(swapped, one, other)
            numpy.minimum.at(within, late, sample[early])
    count = len(splits[0][0])
    return (
        _listed(within[:count], splits[0], none),
        _listed(within[count:], splits[1], none),
        _by_group(between[count:], splits[1][2], none),
    )


def _listed(partner: Array, split: tuple[Array, Array, Array], none: int) -> Pairs:
    """Return a partner for each sample: that of its hash, or the first sample with this hash."""
    known, first, group = split
    is_first = first[group] == numpy.arange(len(group))
    has_hash = numpy.any(known, axis=1)
    partners = numpy.where(is_first, partner[group], numpy.minimum(partner, first)[group])
    second = numpy.flatnonzero((partners != none) & numpy.take(has_hash, group))
    return Pairs(partners[second], second)


def _by_group(partner: Array, group: Array, none: int) -> Pairs:
    partners = partner[group]
    second = numpy.flatnonzero(partners != none)
    return Pairs(partners[second], second)
