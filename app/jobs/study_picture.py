"""The plot of a study as the bytes of a file, without a window."""

from __future__ import annotations

from backend.records.studies.table import StudyTable
from widgets.jobs.studies.study_plot import StudyPlot

_WIDTH, _HEIGHT = 900, 320


def draw(table: StudyTable, suffix: str) -> bytes:
    """Return the plot as a file with this ending: png, svg or pdf."""
    plot = StudyPlot()
    plot.resize(_WIDTH, _HEIGHT)
    plot.show_table(table)
    picture = plot.as_picture()
    return {"png": picture.png, "svg": picture.svg, "pdf": picture.pdf}[suffix]()
