"""The stroked lines of a PDF as Qt writes it: enough of a reader to see what a page shows."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_STREAM = re.compile(rb"stream\r?\n(.*?)\r?\nendstream", re.DOTALL)


@dataclass(frozen=True)
class Stroke:
    """A line in points from the page's lower left corner; `rgb` from 0 to 1."""

    rgb: tuple[float, ...]
    width: float
    points: NDArray[np.float64]


def strokes(pdf: bytes) -> list[Stroke]:
    """Every line that is stroked, in the order of painting."""
    found: list[Stroke] = []
    for packed in _STREAM.findall(pdf):
        try:
            text = zlib.decompress(packed)
        except zlib.error:
            continue
        if b" SCN" in text:
            found += _strokes(text.decode("latin-1"))
    return found


def _strokes(text: str) -> list[Stroke]:
    matrix: Matrix = np.eye(3)
    rgb: tuple[float, ...] = (0.0, 0.0, 0.0)
    width = 1.0
    kept: list[tuple[Matrix, tuple[float, ...], float]] = []
    operands: list[float] = []
    parts: list[list[tuple[float, float]]] = []
    found: list[Stroke] = []
    for word in text.split():
        try:
            operands.append(float(word))
            continue
        except ValueError:
            pass
        if word == "q":
            kept.append((matrix, rgb, width))
        elif word == "Q":
            matrix, rgb, width = kept.pop()
        elif word == "cm":
            a, b, c, d, e, f = operands[-6:]
            matrix = np.array([[a, b, 0], [c, d, 0], [e, f, 1]]) @ matrix
        elif word == "SCN":
            rgb = tuple(operands[-3:])
        elif word == "w":
            width = operands[-1]
        elif word == "m":
            parts.append([(operands[-2], operands[-1])])
        elif word == "l":
            parts[-1].append((operands[-2], operands[-1]))
        elif word in ("S", "s", "B"):
            for part in parts:
                placed = np.column_stack((np.array(part), np.ones(len(part)))) @ matrix
                scale = float(np.sqrt(abs(np.linalg.det(matrix[:2, :2]))))
                found.append(Stroke(rgb, width * scale, placed[:, :2]))
        if word in ("S", "s", "B", "f", "n"):
            parts = []
        operands = []
    return found
