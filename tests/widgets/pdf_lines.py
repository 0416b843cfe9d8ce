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
    all_strokes: list[Stroke] = []
    for stream in _STREAM.findall(pdf):
        try:
            text = zlib.decompress(stream)
        except zlib.error:
            continue
        if b" SCN" in text:
            all_strokes += parse_strokes(text.decode("latin-1"))
    return all_strokes


def parse_strokes(text: str) -> list[Stroke]:
    matrix: Matrix = np.eye(3)
    rgb: tuple[float, ...] = (0.0, 0.0, 0.0)
    width = 1.0
    saved_states: list[tuple[Matrix, tuple[float, ...], float]] = []
    operands: list[float] = []
    parts: list[list[tuple[float, float]]] = []
    parsed: list[Stroke] = []
    for token in text.split():
        try:
            operands.append(float(token))
            continue
        except ValueError:
            pass
        if token == "q":
            saved_states.append((matrix, rgb, width))
        elif token == "Q":
            matrix, rgb, width = saved_states.pop()
        elif token == "cm":
            a, b, c, d, e, f = operands[-6:]
            matrix = np.array([[a, b, 0], [c, d, 0], [e, f, 1]]) @ matrix
        elif token == "SCN":
            rgb = tuple(operands[-3:])
        elif token == "w":
            width = operands[-1]
        elif token == "m":
            parts.append([(operands[-2], operands[-1])])
        elif token == "l":
            parts[-1].append((operands[-2], operands[-1]))
        elif token in ("S", "s", "B"):
            for part in parts:
                page_points = np.column_stack((np.array(part), np.ones(len(part)))) @ matrix
                scale = float(np.sqrt(abs(np.linalg.det(matrix[:2, :2]))))
                parsed.append(Stroke(rgb, width * scale, page_points[:, :2]))
        if token in ("S", "s", "B", "f", "n"):
            parts = []
        operands = []
    return parsed
