"""One curve as a plot draws it: its line, the raw trace behind it, and what of it is in view."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyqtgraph as pg

from widgets.curves.curve_data import CurveData, Sample, XAxis
from widgets.curves.marks import curve_colour, curve_pen, is_dashed
from widgets.curves.pyramid import Floats

RAW_ALPHA = 0.28
FAINT_ALPHA = 0.25
RAW_FAINT_ALPHA = 0.08
_MANY_POINTS = 300
_BAND_WAY = 20
"""A curve that goes this many times as far as from the bottom of its plot to the top is a band."""


@dataclass(frozen=True)
class View:
    """What a plot shows: x and y from … to, how wide that is in pixels; y is logarithms if told."""

    axis: XAxis
    x0: float
    x1: float
    y0: float
    y1: float
    width_px: int
    log_y: bool


@dataclass
class DrawnCurve:
    """`named`: it has a name and value at its end, and a line in the read-out."""

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
    last: Sample | None = None
    _cut_for: tuple[object, ...] = ()
    _is_band: bool = False
    _pen: Any = None
    _thin_pen: Any = None

    @property
    def has_raw(self) -> bool:
        return self.smooth and self.with_raw and self.data.smoothing > 0

    def end(self, axis: XAxis) -> float:
        """Where the last point is on the x axis; NaN without one."""
        return math.nan if self.last is None else self.x_of(self.last, axis)

    def x_of(self, sample: Sample, axis: XAxis) -> float:
        if axis is XAxis.STEP:
            return sample.step
        if axis is XAxis.EPOCH:
            return sample.epoch
        return float(self.data.x(axis)[sample.index])

    def pen(self, *, faint: bool, lifted: bool, ratio: float) -> None:
        """Colours of the theme now.

        Args:
            ratio: Dots to a pixel of whatever it is drawn on. The pens are cosmetic, and Qt
                measures those in dots: at 200 % a line of 2.2 would be a hairline of 1.1.
        """
        alpha = FAINT_ALPHA if faint else 1.0
        self._pen = curve_pen(self.colour, self.width, alpha, ratio)
        self._thin_pen = pg.mkPen(curve_colour(self.colour, alpha), width=ratio)
        self.line.setPen(self._thin_pen if self._is_band else self._pen)
        if self.fill:
            self.line.setFillLevel(0.0)
            self.line.setBrush(curve_colour(self.colour, 0.03 if faint else 0.10))
        raw_colour = curve_colour(self.colour, RAW_FAINT_ALPHA if faint else RAW_ALPHA)
        self.raw.setPen(pg.mkPen(raw_colour, width=ratio))
        self.raw.setVisible(self.has_raw)
        self.line.setZValue(11 if lifted else 10)

    def cut(self, view: View) -> bool:
        """Take from the points what is in view; False when that is as it was."""
        wanted = (self.data, self.data.revision, view.axis, view.x0, view.x1, view.width_px)
        if (*wanted, view.log_y) == self._cut_for:
            return False
        self._cut_for = (*wanted, view.log_y)
        stretch = (view.axis, view.x0, view.x1, view.width_px)
        self.x, self.y = self.data.columns(*stretch, smoothed=True)
        if self.data.smoothing > 0:
            self.raw_x, self.raw_y = self.data.columns(*stretch)
        else:
            self.raw_x, self.raw_y = self.x, self.y
        self.last = self.data.last()
        return True

    def draw(self, view: View, *, faint: bool) -> None:
        # A stroke up and down in each column of pixels is a band: its smooth edges are not seen,
        # and four of them took 66 ms a frame; so did eight GPUs that waver. A filled curve is alone
        # in its plot, as the learning rate is, which has as many points and is a line.
        is_raw = self.data.smoothing == 0 and len(self.x) > view.width_px
        is_band = is_raw and (not self.fill or self._trembles(view))
        # A stroke per segment costs a third of one stroke for all, but each begins its dashes
        # anew, and where two meet is a blot: seen where they are long, where translucent, and
        # where a smooth line has more of them than pixels.
        is_blotted = faint or is_dashed(self.colour) or (is_raw and not is_band)
        split = len(self.x) > _MANY_POINTS and not is_blotted
        if is_band != self._is_band:
            self._is_band = is_band
            self.line.opts["antialias"] = not is_band
            self.line.setPen(self._thin_pen if is_band else self._pen)
        self.line.setSegmentedLineMode("on" if split else "off")
        self.line.setData(self.x, _drawable(self.y, view))
        if self.has_raw:
            # Smooth edges of a thousand strokes up and down are not seen and cost 5 ms a curve.
            self.raw.opts["antialias"] = len(self.raw_x) < view.width_px / 2
            self.raw.setData(self.raw_x, _drawable(self.raw_y, view))
        if self.fill:
            self.line.setFillLevel(view.y0)

    def _trembles(self, view: View) -> bool:
        """Whether it goes up and down over and over, in what is in view."""
        seen = np.clip(self.y[np.isfinite(self.y)], view.y0, view.y1)
        return bool(np.abs(np.diff(seen)).sum() > _BAND_WAY * (view.y1 - view.y0))


def _drawable(values: Floats, view: View) -> Floats:
    if view.log_y:
        positive = np.where(values > 0, values, math.nan)
        return np.log10(positive)
    # A painter's coordinates overflow far below 1e30; what is out of view may lie nearer.
    room = 1000 * (view.y1 - view.y0)
    return np.clip(values, view.y0 - room, view.y1 + room)
