"""Thumbnails of an item: a small picture with its targets, a curve, a few numbers.

The targets over a picture are those of torchvision: ``boxes`` (left, top, right, bottom in pixels)
and ``masks`` in a dict for detection, and an array as large as the picture for segmentation.

PNG is written here because its simplest form is three chunks and zlib does the rest; a library for
it would have to be on every node.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import numpy.typing

from backend.records.library.preview import SamplePart

Array = numpy.typing.NDArray[Any]

LARGEST_SIDE = 96
_WAVE_POINTS = 256
_VALUE_LIMIT = 16
_ROW_LIMIT = 8
_TEXT_CHARACTERS = 200
_DEPTH_LIMIT = 8
PART_LIMIT = 32
"""Parts of an item for display."""
_COLOURS = numpy.array(
    [(230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180), (70, 240, 240),
     (240, 50, 230), (210, 245, 60)], numpy.uint8,
)  # fmt: skip
_MOST_BOXES = 100
_OPACITY = 0.5


def leaves_of(item: Any) -> list[tuple[str, Any]]:
    """Return all leaves of an item with their paths; a pair is ``data`` and ``target``."""
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return [*leaves("data", item[0]), *leaves("target", item[1])]
    return list(leaves("item", item))


def leaves(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a nested value with their paths, which begin with ``path``."""
    parts = entries(value) if depth < _DEPTH_LIMIT else {}
    if not parts:
        yield path, value
    elif len(parts) > PART_LIMIT and (numbers := _as_numbers(value)) is not None:
        yield path, numbers
    else:
        mark = "[{}]" if isinstance(value, (tuple, list)) else ".{}"
        for key, part in parts.items():
            yield from leaves(path + mark.format(key), part, depth + 1)


def entries(value: Any) -> dict[Any, Any]:
    """Return the parts of a nested value by key; empty if it is a leaf."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {}


def _as_numbers(value: Any) -> Array | None:
    """Return a list of numbers as an array; None for other values."""
    if isinstance(value, (tuple, list)) and all(
        isinstance(number, (int, float)) for number in value
    ):
        array = numpy.asarray(value)
        return array if array.dtype.kind in "biuf" else None
    return None


def as_array(value: Any) -> Array | None:
    """Return ``value`` as an array of numbers, or None if it is not one."""
    import torch

    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.is_nested:
            return None
        if value.layout is not torch.strided:
            value = value.to_dense()
        if value.is_quantized:
            value = value.dequantize()
        if value.dtype is torch.bfloat16 or str(value.dtype).startswith("torch.float8"):
            value = value.float()
        return numpy.asarray(value.cpu().numpy())
    if isinstance(value, (bool, int, float, numpy.ndarray, numpy.generic)):
        try:
            array = numpy.asarray(value)
        except OverflowError:  # a number that no array holds has no picture
            return None
        return array if array.dtype.kind in "biufc" else None
    return None


def type_name(value: Any) -> str:
    kind = getattr(value, "dtype", None)
    return type(value).__name__ if kind is None else str(kind).removeprefix("torch.")


def picture_layout(shape: tuple[int, ...]) -> str:
    """Return ``CHW``, ``HWC``, ``HW`` or "" if the shape is not a picture's."""
    if len(shape) == 3 and min(shape) > 0:
        if shape[0] in (1, 3, 4) and min(shape[1:]) >= 4:
            return "CHW"
        if shape[2] in (1, 3, 4) and min(shape[:2]) >= 4:
            return "HWC"
    return "HW" if len(shape) == 2 and min(shape) >= 16 else ""


def display_part(path: str, value: Any) -> SamplePart:
    """Return one leaf for display."""
    array = as_array(value)
    if array is None:
        text = repr(value) if not isinstance(value, str) else value
        return SamplePart(path, None, type_name(value), "text", text=text[:_TEXT_CHARACTERS])
    shape = tuple(array.shape)
    kind = type_name(value)
    if array.dtype.kind == "c":
        array = numpy.abs(array)
    layout = picture_layout(shape)
    if layout:
        return SamplePart(path, shape, kind, "image", png=picture(array, layout))
    if array.ndim == 0:
        return SamplePart(
            path, shape, kind, "values", values=_floats(array), text=str(array.item())
        )
    if array.ndim == 1 and array.size > _VALUE_LIMIT:
        return SamplePart(path, shape, kind, "wave", values=_floats(_thin(array, _WAVE_POINTS)))
    if array.ndim == 2 and shape[0] <= 2 and shape[1] > 4 * _VALUE_LIMIT:
        return SamplePart(path, shape, kind, "wave", values=_floats(_thin(array[0], _WAVE_POINTS)))
    if array.ndim == 2:
        rows = tuple(_floats(row[:_VALUE_LIMIT]) for row in array[:_ROW_LIMIT])
        return SamplePart(path, shape, kind, "table", rows=rows)
    return SamplePart(path, shape, kind, "values", values=_floats(array.reshape(-1)[:_VALUE_LIMIT]))


def target_text(value: Any, names: list[str]) -> str:
    """Return a target as text; a class by its name if the dataset names them."""
    array = as_array(value)
    if array is not None and array.size == 1:
        number = array.reshape(-1)[0].item()
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(names):
            return names[number]
        return f"{number:g}" if isinstance(number, float) else str(number)
    if array is not None:
        return f"{'×'.join(map(str, array.shape))} {type_name(value)}"
    if isinstance(value, Mapping) and (boxes := as_array(value.get("boxes"))) is not None:
        box_count_label = (
            f"{len(boxes)} {'box' if len(boxes) == 1 else 'boxes'}" if boxes.ndim else ""
        )
        labels = as_array(value.get("labels"))
        if not names or labels is None or labels.dtype.kind not in "iu":
            return box_count_label
        counts = Counter(target_text(label, names) for label in labels.reshape(-1))
        kinds = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        return f"{box_count_label}: {kinds}"[:_TEXT_CHARACTERS] if kinds else box_count_label
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {target_text(v, [])}" for k, v in list(value.items())[:8])[
            :_TEXT_CHARACTERS
        ]
    if isinstance(value, (tuple, list)):
        return ", ".join(target_text(v, []) for v in value[:8])[:_TEXT_CHARACTERS]
    return str(value)[:_TEXT_CHARACTERS]


def _thin(array: Array, points: int) -> Array:
    return array[:: max(1, math.ceil(array.size / points))]


def _floats(array: Array) -> tuple[float | None, ...]:
    values = numpy.asarray(array, dtype=float).reshape(-1).tolist()
    return tuple(value if math.isfinite(value) else None for value in values)


def picture(array: Array, layout: str) -> str:
    """Return a PNG in base64."""
    return encode_png(thumbnail_pixels(array, layout))


def encode_png(pixels: Array) -> str:
    return base64.b64encode(png(pixels)).decode("ascii")


def thinning_step(height: int, width: int) -> int:
    """Return which row and column of a picture is shown: every, every other …"""
    return max(1, math.ceil(max(height, width) / LARGEST_SIDE))


def thumbnail_pixels(array: Array, layout: str) -> Array:
    """Return a thumbnail's pixels as height × width × channels.

    Other ranges than 0…255 or 0…1 are scaled from lowest to highest.
    """
    if layout == "HW":
        array = array[:, :, None]
    elif layout == "CHW":
        array = array.transpose(1, 2, 0)
    step = thinning_step(*array.shape[:2])
    array = array[::step, ::step]
    if array.dtype != numpy.uint8:
        values = array.astype(numpy.float64)
        finite = values[numpy.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        if low >= 0 and high <= 1:
            low, high = 0.0, 1.0
        scaled_values = (numpy.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) * (
            255 / ((high - low) or 1.0)
        )
        array = scaled_values.round().clip(0, 255).astype(numpy.uint8)
    return array


def png(pixels: Array) -> bytes:
    """Return height × width × 1, 3 or 4 bytes as a PNG file."""
    height, width, channels = pixels.shape
    colour_type = {1: 0, 3: 2, 4: 6}[channels]
    lines = b"".join(b"\0" + line.tobytes() for line in numpy.ascontiguousarray(pixels))
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def display_parts(leaves: list[tuple[str, Any]]) -> tuple[SamplePart, ...]:
    """Return the first leaves for display, the first picture with its targets over it."""
    sample_parts = [display_part(path, value) for path, value in leaves[:PART_LIMIT]]
    for number, (path, value) in enumerate(leaves[:PART_LIMIT]):
        array = as_array(value)
        if not path.startswith("target") and array is not None and sample_parts[number].png:
            pixels = _draw_targets(array, [leaf for leaf in leaves if leaf[0].startswith("target")])
            if pixels is not None:
                sample_parts[number] = dataclasses.replace(
                    sample_parts[number], png=encode_png(pixels)
                )
            break
    return tuple(sample_parts)


def _draw_targets(picture: Array, targets: list[tuple[str, Any]]) -> Array | None:
    """Return the thumbnail's pixels with its targets, None without any."""
    layout = picture_layout(tuple(picture.shape))
    height, width = picture.shape[1:] if layout == "CHW" else picture.shape[:2]
    step = thinning_step(height, width)
    pixels = thumbnail_pixels(numpy.abs(picture) if picture.dtype.kind == "c" else picture, layout)
    pixels = numpy.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[:, :, :3].copy()
    is_drawn = False
    target_by_path = dict(targets)
    for path, value in targets:
        array = as_array(value)
        if array is None or array.dtype.kind not in "biuf":
            continue
        shape = tuple(array.shape)
        if path.endswith(".boxes") and array.ndim == 2 and shape[1] == 4 and len(array):
            labels = as_array(target_by_path.get(f"{path.removesuffix('boxes')}labels"))
            _draw_boxes(pixels, array[:_MOST_BOXES] / step, labels)
        elif shape[-2:] == (height, width) and path.endswith(".masks") and array.ndim == 3:
            for number, mask in enumerate(array[:_MOST_BOXES]):
                _tint(pixels, (mask[::step, ::step] > 0) * (number + 1))
        elif shape in ((height, width), (1, height, width)) and array.dtype.kind != "f":
            _tint(pixels, array.reshape(height, width)[::step, ::step].astype(numpy.int64))
        else:
            continue
        is_drawn = True
    return pixels if is_drawn else None


def _draw_boxes(pixels: Array, boxes: Array, labels: Array | None) -> None:
    """Draw boxes, one colour a class if each has a label."""
    last_corner = numpy.array([pixels.shape[1], pixels.shape[0]] * 2) - 1
    has_labels = labels is not None and labels.dtype.kind in "biu" and labels.ndim == 1
    numbers = labels.tolist() if labels is not None and has_labels else range(len(boxes))
    for number, box in zip(numbers, boxes, strict=False):
        if not numpy.isfinite(box).all():
            continue
        left, top, right, bottom = numpy.clip(box.round(), 0, last_corner).astype(int)
        colour = _COLOURS[number % len(_COLOURS)]
        pixels[top, left : right + 1] = pixels[bottom, left : right + 1] = colour
        pixels[top : bottom + 1, left] = pixels[top : bottom + 1, right] = colour


def _tint(pixels: Array, classes: Array) -> None:
    """Tint each pixel with the colour of its class; 0 is the background, 255 often "ignore"."""
    is_covered = (classes > 0) & (classes != 255)
    colours = _COLOURS[(classes[is_covered] - 1) % len(_COLOURS)]
    mixed_colours = (1 - _OPACITY) * pixels[is_covered] + _OPACITY * colours
    pixels[is_covered] = mixed_colours.astype(numpy.uint8)
