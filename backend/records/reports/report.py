"""A report: the result of jobs in sections, for one file that can be sent.

All text in it may be a user's. The renderer escapes it, and hides paths and machines in it.
Standard library only and Python 3.9, as all records.
"""

from __future__ import annotations

from dataclasses import dataclass

SCALE = 1000
"""The width and the height of a plot. Coordinates begin at its upper left corner."""
LINE, DOTS, RINGS = "line", "dots", "rings"


@dataclass(frozen=True)
class Curve:
    """A curve of a plot. ``colour`` is its number among the colours of curves, from 0.

    ``style`` is `LINE`, `DOTS` or `RINGS`. ``bars`` are error bars: x, top, bottom.
    """

    name: str
    colour: int
    points: tuple[tuple[float, float], ...]
    style: str = LINE
    bars: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Reading:
    """The value of each curve at ``x`` as text, and its height; "" for no value."""

    x: float
    label: str
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Table:
    """A table. ``best`` are the row and the column of the best values, both from 0.

    ``pictures`` are those of the rows, if they have some.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    pictures: tuple[Sample, ...] = ()


@dataclass(frozen=True)
class Plot:
    """A plot. ``readings`` are the values that a reader sees; ticks are positions and labels."""

    title: str
    x_title: str
    curves: tuple[Curve, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    readings: tuple[Reading, ...]

    @property
    def table(self) -> Table:
        """The values as a table."""
        head = (self.x_title, *(curve.name for curve in self.curves))
        rows = ((r.label, *(text for text, _ in r.values)) for r in self.readings)
        return Table(self.title, head, tuple(rows))


@dataclass(frozen=True)
class Sample:
    """A sample and its prediction. ``png`` is in base64, "" for a sample that is no picture.

    ``frames`` are boxes as SVG paths in shares of the picture; the flag marks those of the target.
    """

    caption: str
    png: str = ""
    frames: tuple[tuple[bool, str], ...] = ()


@dataclass(frozen=True)
class Section:
    """A part of a report: sentences, then tables, plots, samples, and text as it was written."""

    title: str
    texts: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    samples: tuple[Sample, ...] = ()
    quotes: tuple[str, ...] = ()
    is_alarm: bool = False


@dataclass(frozen=True)
class Report:
    """A report. ``figures`` are the labels and values at its top, ``state`` a job's, if it is one.

    ``color_role`` is the colour family of the state.
    """

    title: str
    subtitle: str
    state: str
    color_role: str
    figures: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    created: str
