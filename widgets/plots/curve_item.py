"""One curve as a plot draws it: its line, the raw trace behind it, and its visible part."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QPen

from widgets.plots.annotations import curve_colour, curve_pen, is_dashed
from widgets.plots.curve_data import CurveData, CurvePoint, XAxis
from widgets.plots.growable_array import Floats

RAW_ALPHA = 0.28
FAINT_ALPHA = 0.25
RAW_FAINT_ALPHA = 0.08
_MANY_POINTS = 300
_WINDING_WAY, _BAND_WAY = 2, 20
"""The total rise and fall of a curve, in plot heights, from which it is drawn differently."""


class Stroke(Enum):
    """The drawing method of a line. Times are for 150 points that wind over 900 × 260 px."""

    WHOLE = auto()
    """One antialiased stroke: 30 ms."""
    SEGMENTS = auto()
    """A stroke for each two points: 1 ms.

    Dashes restart in each of them, and translucent ones have a blot where two meet.
    """
    HAIR = auto()
    """One stroke, one device pixel wide: 0.2 ms."""
    BAND = auto()
    """One thin stroke without antialiasing, for lines that rise and fall in each pixel column.

    Antialiasing is not visible there, and four such curves took 66 ms a frame.
    """


@dataclass(frozen=True)
class View:
    """The ranges of a plot and its width in pixels; logarithms if set."""

    axis: XAxis
    x0: float
    x1: float
    y0: float
    y1: float
    width_px: int
    log_y: bool
    log_x: bool = False


@dataclass
class DrawnCurve:
    """A curve in a plot. `named`: it has a name at its end, and a line in the read-out."""

    name: str
    data: CurveData
    colour: int | str
    smooth: bool
    with_raw: bool
    named: bool
    width: float
    fill: bool
    line: Any
    raw: Any
    x: Floats = field(default_factory=lambda: np.empty(0))
    y: Floats = field(default_factory=lambda: np.empty(0))
    raw_y: Floats = field(default_factory=lambda: np.empty(0))
    raw_x: Floats = field(default_factory=lambda: np.empty(0))
    last: CurvePoint | None = None
    _cut_for: tuple[object, ...] = ()
    _stroke: Stroke = Stroke.WHOLE
    _pens: dict[Stroke, QPen] = field(default_factory=dict)

    @property
    def has_raw(self) -> bool:
        return self.smooth and self.with_raw and self.data.smoothing > 0

    @property
    def name_of_line(self) -> str:
        """The name, with a note if the line is smoothed; the line behind it is raw."""
        return f"{self.name}, smoothed" if self.has_raw else self.name

    def end(self, axis: XAxis) -> float:
        """The place of the last point, in the unit of the x axis; NaN without one."""
        return math.nan if self.last is None else self.x_of(self.last, axis)

    def x_of(self, sample: CurvePoint, axis: XAxis) -> float:
        if axis is XAxis.STEP:
            return sample.step
        if axis is XAxis.EPOCH:
            return sample.epoch
        return self.data.place(sample.index, axis)

    def pen(self, *, faint: bool, lifted: bool, ratio: float) -> None:
        """Use the colours of the current theme.

        Args:
            ratio: Device pixels per pixel of the target. The pens are cosmetic, and Qt measures
            those in device pixels: at 200 % a line of 2.2 would be a hairline of 1.1.
        """
        alpha = FAINT_ALPHA if faint else 1.0
        whole = curve_pen(self.colour, self.width, alpha, ratio)
        segments = QPen(whole)
        # Round ends take ten times as long.
        segments.setCapStyle(Qt.PenCapStyle.SquareCap)
        self._pens = {
            Stroke.WHOLE: whole,
            Stroke.SEGMENTS: segments,
            # One device pixel, on high-resolution screens too: from two on it takes as long as the
            # whole.
            Stroke.HAIR: curve_pen(self.colour, 1.0, alpha, 1.0),
            Stroke.BAND: pg.mkPen(curve_colour(self.colour, alpha), width=ratio),
        }
        self.line.setPen(self._pens[self._stroke])
        self.line.setFillLevel(0.0 if self.fill else None)
        if self.fill:
            self.line.setBrush(curve_colour(self.colour, 0.03 if faint else 0.10))
        raw_colour = curve_colour(self.colour, RAW_FAINT_ALPHA if faint else RAW_ALPHA)
        self.raw.setPen(pg.mkPen(raw_colour, width=ratio))
        self.raw.setVisible(self.has_raw)
        self.line.setZValue(11 if lifted else 10)

    def cut(self, view: View) -> bool:
        """Cut the points to the view; return False if nothing changed."""
        stretch = (view.axis, view.x0, view.x1, view.width_px)
        wanted = (self.data, self.data.revision, *stretch, view.log_x, view.log_y)
        if wanted == self._cut_for:
            return False
        self._cut_for = wanted
        self.x, self.y = self.data.columns(*stretch, smoothed=True, log=view.log_x)
        if self.data.smoothing > 0:
            self.raw_x, self.raw_y = self.data.columns(*stretch, log=view.log_x)
        else:
            self.raw_x, self.raw_y = self.x, self.y
        self.last = self.data.last()
        return True

    def draw(self, view: View, *, faint: bool) -> None:
        values = _drawable(self.y, view)
        stroke = self._best_stroke(_way(values, view), view.width_px, faint=faint)
        if stroke is not self._stroke:
            self._stroke = stroke
            self.line.setPen(self._pens[stroke])
        self.line.opts["antialias"] = stroke is not Stroke.BAND
        self.line.setSegmentedLineMode("on" if stroke is Stroke.SEGMENTS else "off")
        self.line.setData(self.x, values)
        if self.has_raw:
            # Antialiasing of a thousand steep strokes is invisible and costs 5 ms a curve.
            self.raw.opts["antialias"] = len(self.raw_x) < view.width_px / 2
            self.raw.setData(self.raw_x, _drawable(self.raw_y, view))
        if self.fill:
            self.line.setFillLevel(view.y0)

    def _best_stroke(self, way: float, width_px: int, *, faint: bool) -> Stroke:
        """``way``: its total rise and fall, in heights of its plot."""
        is_raw = self.data.smoothing == 0 and len(self.x) > width_px
        # A filled curve is alone in its plot, as the learning rate is, which has as many points and
        # is smooth.
        if is_raw and (not self.fill or way > _BAND_WAY):
            return Stroke.BAND
        if faint or is_dashed(self.colour):
            return Stroke.HAIR if way > _WINDING_WAY else Stroke.WHOLE
        if way > _WINDING_WAY or (len(self.x) > _MANY_POINTS and not is_raw):
            return Stroke.SEGMENTS
        return Stroke.WHOLE


def _way(values: Floats, view: View) -> float:
    seen = np.clip(values[np.isfinite(values)], view.y0, view.y1)
    return float(np.abs(np.diff(seen)).sum()) / max(view.y1 - view.y0, math.ulp(0.0))


def _drawable(values: Floats, view: View) -> Floats:
    if view.log_y:
        positive = np.where(values > 0, values, math.nan)
        return np.log10(positive)
    # A painter's coordinates overflow well below 1e30; values outside the view are clipped.
    room = 1000 * (view.y1 - view.y0)
    return np.clip(values, view.y0 - room, view.y1 + room)
