"""Fingerprints of samples: equal inputs by a hash, similar pictures by a perceptual hash.

The perceptual hash is the difference hash (dHash) of rows and columns: a picture is reduced to
9 × 9 grey fields, and each bit says whether a field is brighter than its neighbour. After
N. Krawetz, "Kind of Like That" (hackerfactor.com, 2013), and B. Hoyt, "Duplicate image detection
with perceptual hashing in Python" (2017), who found 64 bits too few.

A circle and a square on an empty ground may have the same hash. So pictures with similar hashes are
compared again, by the correlation of 16 × 16 grey fields: another brightness or contrast does not
change it, JPEG, another size or a small crop change it little, another outline changes it more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy
import numpy.typing

from backend.training.tools.thumbnails import as_array, picture_layout
from backend.training.user_code.errors import with_article

Array = numpy.typing.NDArray[Any]
Leaves = Iterable[tuple[str, Any]]
Comparison = Callable[[Array, Array], Array]
"""Returns for each pair of samples, given by their numbers, whether they are alike."""

LEAST_SIDE = 16
"""Of a smaller picture a field would be a single pixel, and unlike pictures would be alike."""
_FIELDS = 9
_MOST_BITS = 8
_SET_BITS_PER_BIT = 6
"""A drawing on an empty ground has few edges, so fewer bits may differ."""
_BANDS = 4
"""If at most three bits differ, one of four bands is equal; if more differ, one often is."""
_THUMBNAIL_BYTES = LEAST_SIDE * LEAST_SIDE
_LEAST_CORRELATION = 0.985
"""Measured on drawings and textures: copies had 0.985 and more after JPEG of quality 20, half the
size, noise or a crop by one pixel; other outlines at the same place had 0.98 and less."""
_OUTLINES = 16
"""Pictures with the same hash are split into so many kinds; the others count as single ones."""
_CHUNK_PAIRS = 4096
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
    for number, grey in _grey_pictures(leaves):
        # Turned by its place, or two equal pictures would cancel out.
        hash_bits ^= numpy.roll(_difference_hash(grey), number)
    return hash_bits.tobytes()


def thumbnail(leaves: Leaves) -> bytes:
    """Return 16 × 16 grey fields of a byte; of several pictures, the mean of their fields."""
    mean_fields = numpy.zeros((LEAST_SIDE, LEAST_SIDE))
    for _, grey in _grey_pictures(leaves):
        fields = _grey_fields(grey, LEAST_SIDE)
        if numpy.isfinite(fields).all():
            mean_fields += (fields - fields.mean()) / (fields.std() or 1.0)
    low, value_range = mean_fields.min(), float(numpy.ptp(mean_fields)) or 1.0
    content: bytes = ((mean_fields - low) * (255 / value_range)).round().astype("u1").tobytes()
    return content


def _grey_pictures(leaves: Leaves) -> Iterator[tuple[int, Array]]:
    """Yield the pictures of a sample that are large enough, each with the number of its part."""
    for number, (_, value) in enumerate(inputs_of(leaves)):
        array = as_array(value)
        layout = "" if array is None else picture_layout(tuple(array.shape))
        if array is None or not layout or array.dtype.kind not in "biuf":
            continue
        if layout == "CHW":
            array = array.transpose(1, 2, 0)
        if min(array.shape[:2]) >= LEAST_SIDE:
            grey = array.astype(numpy.float64)
            yield number, grey if grey.ndim == 2 else grey[:, :, :3].mean(axis=2)


def _grey_fields(grey: Array, side: int) -> Array:
    """Return the means of ``side`` × ``side`` parts of a picture."""
    fields = grey
    for axis in (0, 1):
        edges = numpy.arange(side) * grey.shape[axis] // side
        sizes = numpy.diff(edges, append=grey.shape[axis])
        fields = numpy.add.reduceat(fields, edges, axis=axis)
        fields = fields / (sizes[:, None] if axis == 0 else sizes)
    return fields


def _difference_hash(grey: Array) -> Array:
    fields = _grey_fields(grey, _FIELDS)
    if not numpy.isfinite(fields).all():
        return numpy.zeros(16, numpy.uint8)
    least_difference = _FLAT * float(numpy.ptp(fields))
    column_bits = fields[:-1, 1:] - fields[:-1, :-1] > least_difference
    row_bits = fields[1:, :-1] - fields[:-1, :-1] > least_difference
    # Each band has every fourth bit, so that it covers the whole picture.
    bits = numpy.stack((column_bits, row_bits)).reshape(-1, _BANDS).T
    return numpy.packbits(bits)


class Thumbnails:
    """Thumbnails in a file: in memory those of a million samples would take 256 MB."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._count = 0

    def add(self, content: bytes) -> int:
        """Append a thumbnail; return its number."""
        self._file.write(content)
        self._count += 1
        return self._count - 1

    def correlate(self, first_prints: Array, second_prints: Array) -> Array:
        """Return the correlations of pairs of thumbnails, by their numbers."""
        if not len(first_prints):
            return numpy.zeros(0)
        self._file.flush()
        shape = (self._count, _THUMBNAIL_BYTES)
        contents: Array = numpy.memmap(self._file, numpy.uint8, "r", shape=shape)
        correlations = numpy.zeros(len(first_prints))
        for start in range(0, len(first_prints), _CHUNK_PAIRS):
            chunk = slice(start, start + _CHUNK_PAIRS)
            centred_prints = []
            for numbers in (first_prints[chunk], second_prints[chunk]):
                fields = contents[numbers].astype(numpy.float32)
                fields -= fields.mean(axis=1, keepdims=True)
                centred_prints.append(
                    fields / numpy.maximum(numpy.linalg.norm(fields, axis=1), 1e-9)[:, None]
                )
            correlations[chunk] = (centred_prints[0] * centred_prints[1]).sum(axis=1)
        return correlations

    def are_alike(self, first_prints: Array, second_prints: Array) -> Array:
        """Return for each pair whether its correlation is that of a copy."""
        is_alike: Array = self.correlate(first_prints, second_prints) >= _LEAST_CORRELATION
        return is_alike


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
    earliest_indices = first_indices[group]
    copies = numpy.flatnonzero((earliest_indices != numpy.arange(len(hashes))) & (hashes != 0))
    return SamplePairs(earliest_indices[copies], copies)


def equal_pairs_between(training: Array, validation: Array) -> SamplePairs:
    """Return each validation sample that is a training sample, too, with the first of them."""
    distinct_hashes, first_indices = numpy.unique(training, return_index=True)
    if not len(distinct_hashes):
        return SamplePairs(first_indices, first_indices)
    positions = numpy.searchsorted(distinct_hashes, validation).clip(max=len(distinct_hashes) - 1)
    copies = numpy.flatnonzero((distinct_hashes[positions] == validation) & (validation != 0))
    return SamplePairs(first_indices[positions[copies]], copies)


def similar_pairs(
    training: Array, validation: Array, are_alike: Comparison
) -> tuple[SamplePairs, SamplePairs, SamplePairs]:
    """Return the similar pictures within training, within validation and between them.

    Each later sample is listed once, with an earlier one like it (between them: with one of
    training).

    Args:
        training: A row of four bands of the perceptual hash for each sample.
        validation: The same of validation.
        are_alike: Compares pairs of samples whose hashes are similar; the samples of validation
            are numbered after those of training.
    """
    splits = []
    for hashes, offset in ((training, 0), (validation, len(training))):
        group = _split_by_outline(hashes, offset, are_alike)
        _, first_indices, group = numpy.unique(group, return_index=True, return_inverse=True)
        splits.append((hashes[first_indices], first_indices, group))
    bands = numpy.concatenate([group_hashes for group_hashes, _, _ in splits])
    samples = numpy.concatenate([first_indices for _, first_indices, _ in splits])
    is_validation = numpy.repeat(
        [False, True], [len(group_hashes) for group_hashes, _, _ in splits]
    )
    numbers = samples + is_validation * len(training)
    no_partner = max(len(training), len(validation))
    partners_within = numpy.full(len(bands), no_partner)
    partners_between = numpy.full(len(bands), no_partner)
    usable_rows = numpy.flatnonzero(bands.any(axis=1))
    for band in range(_BANDS):
        order = usable_rows[numpy.argsort(bands[usable_rows, band], kind="stable")]
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
            # Those of validation have larger numbers, so that they are the later ones of a mix.
            is_swapped = numbers[left_rows] > numbers[right_rows]
            earlier_rows = numpy.where(is_swapped, right_rows, left_rows)
            later_rows = numpy.where(is_swapped, left_rows, right_rows)
            is_between = is_validation[earlier_rows] != is_validation[later_rows]
            for partners, is_meant in (
                (partners_within, ~is_between),
                (partners_between, is_between),
            ):
                # Only a pair with an earlier partner than the known one is compared again.
                is_earlier = samples[earlier_rows] < partners[later_rows]
                pairs = numpy.flatnonzero(is_meant & is_earlier)
                first_rows, second_rows = earlier_rows[pairs], later_rows[pairs]
                is_alike = are_alike(numbers[first_rows], numbers[second_rows])
                numpy.minimum.at(partners, second_rows[is_alike], samples[first_rows[is_alike]])
    count = len(splits[0][0])
    return (
        _pairs_by_hash(partners_within[:count], splits[0], no_partner),
        _pairs_by_hash(partners_within[count:], splits[1], no_partner),
        _pairs_by_group(partners_between[count:], splits[1][2], no_partner),
    )


def _split_by_outline(hashes: Array, offset: int, are_alike: Comparison) -> Array:
    """Return for each sample the first sample that has the same hash and is like it."""
    _, by_hash = numpy.unique(hashes, axis=0, return_inverse=True)
    by_hash = by_hash.reshape(-1)
    originals = numpy.arange(len(hashes))
    rows = numpy.arange(len(hashes))
    for _ in range(_OUTLINES):
        _, first_positions, group = numpy.unique(
            by_hash[rows], return_index=True, return_inverse=True
        )
        candidates = rows[first_positions][group]
        is_other = candidates != rows
        # Without a hash there is nothing to compare, and no pair.
        is_same = ~hashes[rows].any(axis=1) | ~is_other
        checked_rows = numpy.flatnonzero(~is_same)
        is_same[checked_rows] = are_alike(
            candidates[checked_rows] + offset, rows[checked_rows] + offset
        )
        originals[rows[is_same]] = candidates[is_same]
        rows = rows[~is_same]
        if not len(rows):
            break
    return originals


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
