"""Targets of pictures drawn over them: boxes, masks of objects, and a class for each pixel.

The targets are those of torchvision: ``boxes`` (left, top, right, bottom in pixels) and ``masks``
in a dict for detection, and an array as large as the picture for segmentation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy

from backend.records.library.preview import SamplePart
from backend.training.tools.thumbnails import (
    PART_LIMIT,
    Array,
    as_array,
    display_part,
    encode_png,
    picture_layout,
    thinning_step,
    thumbnail_pixels,
)

_COLOURS = numpy.array(
    [(230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180), (70, 240, 240),
     (240, 50, 230), (210, 245, 60)], numpy.uint8,
)  # fmt: skip
_MOST_BOXES = 100
_OPACITY = 0.5


def display_parts(leaves: list[tuple[str, Any]]) -> tuple[SamplePart, ...]:
    """Return the first leaves for display, the first picture with its targets over it."""
    sample_parts = [display_part(path, value) for path, value in leaves[:PART_LIMIT]]
    for number, (path, value) in enumerate(leaves[:PART_LIMIT]):
        array = as_array(value)
        if not path.startswith("target") and array is not None and sample_parts[number].png:
            pixels = _draw_targets(array, [leaf for leaf in leaves if leaf[0].startswith("target")])
            if pixels is not None:
                sample_parts[number] = replace(sample_parts[number], png=encode_png(pixels))
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
