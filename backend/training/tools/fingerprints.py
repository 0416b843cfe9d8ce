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
from backend.training.user_code.errors import with_article

Array = numpy.typing.NDArray[Any]
Leaves = Iterable[tuple[str, Any]]

LEAST_SIDE = 16
"""Of a smaller picture a field would be a single pixel, and unlike pictures would be alike."""
_FIELDS = 9
_MOST_BITS = 3
_SET_BITS_PER_BIT = 12
"""A drawing on an empty ground has few edges, so fewer bits may differ."""
_BANDS = 4
"""If at most three bits differ, one of four bands is equal."""
_FLAT = 0.02
"""Of the range of the fields: smaller differences are noise."""
_WINDOW = 512
"""A band that more pictures share is that of an empty border; not all of them are compared."""
_BIT_COUNTS = numpy.array([bin(byte).count("1") for byte in range(256)], numpy.uint8)


def _count_bits(bits: Array) -> Array:
    """Return the number of ones of each row."""
    bit_counts: Array = _BIT_COUNTS[bits.view(numpy.uint8)].sum(axis=1)
    return bit_counts


def inputs_of(leaves: Leaves) -> list[tuple[str, Any]]:
    """Return the leaves of a sample without its target."""
    return [(path, value) for path, value in leaves if not path.startswith("target")]


def exact_hash(leaves: Leaves) -> tuple[int, str]:
    """Return 64 bits of a hash of the inputs; 0 and the part if the content of one is not known."""
    content_hash = hashlib.blake2b(digest_size=8)
    for path, value in inputs_of(leaves):
        array = as_array(value)
        if array is None and hasattr(value, "__array__"):
            array = numpy.asarray(value)  # a picture of Pillow, words, dates, a table
        if array is not None and array.dtype.kind != "O":
            content_hash.update(f"{path} {array.dtype.str} {array.shape}\n".encode())
            content_hash.update(array.tobytes())
        elif value is None or isinstance(value, (str, bytes, int)) or _is_empty(value):
            content_hash.update(f"{path} {value!r}\n".encode("utf-8", "backslashreplace"))
        else:
            return 0, f"{path} is {with_article(type(value).__name__)}"
    return int.from_bytes(content_hash.digest(), "little") or 1, ""


def _is_empty(value: Any) -> bool:
    return isinstance(value, (tuple, list, dict)) and not value


def perceptual_hash(leaves: Leaves) -> bytes:
    """Return 128 bits of the pictures, in four bands; all 0 if there is none to compare.

    A picture of one shade has no differences either. Of several pictures the bits that differ add
    up.
    """
    hash_bits = numpy.zeros(16, numpy.uint8)
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
        hash_bits ^= numpy.roll(bits, number)
    return hash_bits.tobytes()


def _difference_hash(grey: Array) -> Array:
    fields = grey
    for axis in (0, 1):
        edges = numpy.arange(_FIELDS) * grey.shape[axis] // _FIELDS
        sizes = numpy.diff(edges, append=grey.shape[axis])
        fields = numpy.add.reduceat(fields, edges, axis=axis)
        fields = fields / (sizes[:, None] if axis == 0 else sizes)
    if not numpy.isfinite(fields).all():
        return numpy.zeros(16, numpy.uint8)
    least_difference = _FLAT * float(numpy.ptp(fields))
    column_bits = fields[:-1, 1:] - fields[:-1, :-1] > least_difference
    row_bits = fields[1:, :-1] - fields[:-1, :-1] > least_difference
    # Each band has every fourth bit, so that it covers the whole picture.
    bits = numpy.stack((column_bits, row_bits)).reshape(-1, _BANDS).T
    return numpy.packbits(bits)


@dataclass(frozen=True)
class SamplePairs:
    """Pairs of samples, by index: a copy, and the first sample like it, the original."""

    originals: Array
    copies: Array

    def index_pairs(self, limit: int) -> tuple[tuple[int, ...], ...]:
        return tuple(
            (int(i), int(j))
            for i, j in zip(self.originals[:limit], self.copies[:limit], strict=True)
        )

    def excluding(self, excluded_pairs: SamplePairs) -> SamplePairs:
        """Return the pairs whose copy is no copy of ``excluded_pairs``."""
        is_new = ~numpy.isin(self.copies, excluded_pairs.copies)
        return SamplePairs(self.originals[is_new], self.copies[is_new])

    @property
    def count(self) -> int:
        return len(self.copies)


def equal_pairs_within(hashes: Array) -> SamplePairs:
    """Return each sample that equals an earlier one, with the first of them."""
    _, first_indices, group = numpy.unique(hashes, return_index=True, return_inverse=True)
    earliest = first_indices[group]
    copies = numpy.flatnonzero((earliest != numpy.arange(len(hashes))) & (hashes != 0))
    return SamplePairs(earliest[copies], copies)


def equal_pairs_between(training: Array, validation: Array) -> SamplePairs:
    """Return each validation sample that is a training sample, too, with the first of them."""
    distinct_hashes, first_indices = numpy.unique(training, return_index=True)
    if not len(distinct_hashes):
        return SamplePairs(first_indices, first_indices)
    positions = numpy.searchsorted(distinct_hashes, validation).clip(max=len(distinct_hashes) - 1)
    copies = numpy.flatnonzero((distinct_hashes[positions] == validation) & (validation != 0))
    return SamplePairs(first_indices[positions[copies]], copies)


def similar_pairs(
    training: Array, validation: Array
) -> tuple[SamplePairs, SamplePairs, SamplePairs]:
    """Return the similar pictures within training, within validation and between them.

    ``training`` and ``validation`` have a row of four bands for each sample. Each later sample is
    listed once, with an earlier one like it (between them: with one of training).
    """
    splits = []
    for hashes in (training, validation):
        distinct_hashes, first_indices, group = numpy.unique(
            hashes, axis=0, return_index=True, return_inverse=True
        )
        splits.append((distinct_hashes, first_indices, group.reshape(-1)))
    bands = numpy.concatenate([distinct_hashes for distinct_hashes, _, _ in splits])
    samples = numpy.concatenate([first_indices for _, first_indices, _ in splits])
    is_validation = numpy.repeat(
        [False, True], [len(distinct_hashes) for distinct_hashes, _, _ in splits]
    )
    no_partner = max(len(training), len(validation))
    partners_within = numpy.full(len(bands), no_partner)
    partners_between = numpy.full(len(bands), no_partner)
    usable = numpy.flatnonzero(bands.any(axis=1))
    for band in range(_BANDS):
        order = usable[numpy.argsort(bands[usable, band], kind="stable")]
        for distance in range(1, min(_WINDOW, len(order))):
            left_rows, right_rows = order[:-distance], order[distance:]
            has_equal_band = bands[left_rows, band] == bands[right_rows, band]
            if not has_equal_band.any():
                break
            left_rows, right_rows = left_rows[has_equal_band], right_rows[has_equal_band]
            differing_bits = _count_bits(bands[left_rows] ^ bands[right_rows])
            is_similar = differing_bits <= numpy.minimum(
                _MOST_BITS, _count_bits(bands[left_rows] | bands[right_rows]) // _SET_BITS_PER_BIT
            )
            left_rows, right_rows = left_rows[is_similar], right_rows[is_similar]
            is_between = is_validation[left_rows] != is_validation[right_rows]
            lower_rows, upper_rows = (
                numpy.minimum(left_rows, right_rows),
                numpy.maximum(left_rows, right_rows),
            )
            # Those of validation come last, so that `upper_rows` are theirs where they mix.
            numpy.minimum.at(
                partners_between, upper_rows[is_between], samples[lower_rows[is_between]]
            )
            left_rows, right_rows = left_rows[~is_between], right_rows[~is_between]
            is_swapped = samples[left_rows] > samples[right_rows]
            earlier_rows, later_rows = (
                numpy.where(is_swapped, right_rows, left_rows),
                numpy.where(is_swapped, left_rows, right_rows),
            )
            numpy.minimum.at(partners_within, later_rows, samples[earlier_rows])
    count = len(splits[0][0])
    return (
        _pairs_by_hash(partners_within[:count], splits[0], no_partner),
        _pairs_by_hash(partners_within[count:], splits[1], no_partner),
        _pairs_by_group(partners_between[count:], splits[1][2], no_partner),
    )


def _pairs_by_hash(
    partner: Array, split: tuple[Array, Array, Array], no_partner: int
) -> SamplePairs:
    """Return a partner for each sample: that of its hash, or the first sample with this hash."""
    distinct_hashes, first_indices, group = split
    is_first = first_indices[group] == numpy.arange(len(group))
    has_hash = numpy.any(distinct_hashes, axis=1)
    partners = numpy.where(is_first, partner[group], numpy.minimum(partner, first_indices)[group])
    copies = numpy.flatnonzero((partners != no_partner) & numpy.take(has_hash, group))
    return SamplePairs(partners[copies], copies)


def _pairs_by_group(partner: Array, group: Array, no_partner: int) -> SamplePairs:
    partners = partner[group]
    copies = numpy.flatnonzero(partners != no_partner)
    return SamplePairs(partners[copies], copies)
