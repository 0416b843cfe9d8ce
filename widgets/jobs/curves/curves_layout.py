"""The layout of a job's plots: in one column, or in two columns in a wide window."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QEvent, QPoint
from PySide6.QtWidgets import QGridLayout, QWidget

from widgets.common.cards import VerticalScrollArea
from widgets.common.layout import col, row
from widgets.common.theme import S3, S4
from widgets.jobs.curves.curve_cards import SmallPlot
from widgets.jobs.ranks.rank_strip import RankStrip

WIDE_FROM_W = 1400
_SMALL_LEAST_W, _MOST_BESIDE = 210, 3
_ONE_COLUMN_MOST = 4
_LOSS_SHARE, _SMALL_SHARE = 3, 2
_LEVELS = 5
"""Nested layouts, from a plot to the scroll area: each reacts to a change after its child."""


class CurvesBody(QWidget):
    """The loss, the small plots, and the speed of each rank.

    In a wide window the small plots have a column of their own, next to the loss and the ranks.
    """

    def __init__(self, problem: QWidget, loss: QWidget, ranks: RankStrip) -> None:
        super().__init__()
        self._wide = False
        self._width = 0
        self._order: list[SmallPlot] = []
        self._smalls = QWidget()
        self._grid = QGridLayout(self._smalls)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(S3)
        self._parts = (loss, self._smalls, ranks)
        self._left = col((loss, 100), self._smalls, ranks, gap=S3)
        self._right = QWidget()
        self._right.setLayout(col(gap=0))
        self._right.hide()
        columns = row((self._left, _LOSS_SHARE), (self._right, _SMALL_SHARE), gap=S3)
        self.setLayout(col(problem, (columns, 1), gap=S3, margins=(0, 0, 0, S4)))

    def place_plots(self, order: Sequence[SmallPlot]) -> None:
        """Place these small plots, in this order."""
        self._order = list(order)
        self._smalls.setVisible(bool(order))
        for line in range(self._grid.rowCount()):
            self._grid.setRowStretch(line, 0)
        beside = self._beside()
        for index, plot in enumerate(order):
            plot.set_grows(self._wide)
            self._grid.addWidget(plot, index // beside, index % beside)
            self._grid.setRowStretch(index // beside, int(self._wide))

    def remove(self, plot: SmallPlot) -> None:
        """Remove a plot that is about to be deleted."""
        self._grid.removeWidget(plot)

    def fit(self, width: int, scroll: VerticalScrollArea) -> None:
        """Choose the layout for this width; what is visible in ``scroll`` stays where it is."""
        wide = width >= WIDE_FROM_W
        before = self._beside()
        self._width = width
        if wide == self._wide:
            if self._beside() != before:
                self.place_plots(self._order)
            return
        bar = scroll.verticalScrollBar()
        seen = next((part for part in self._parts if self._bottom(part) > bar.value()), None)
        above = self._top(seen) - bar.value() if seen is not None else 0
        self._turn(wide)
        # Apply the layout now, not in the next event loop iteration.
        for _ in range(_LEVELS):
            QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
        if seen is not None:
            bar.setValue(self._top(seen) - above)

    def _turn(self, wide: bool) -> None:
        self._wide = wide
        right = self._right.layout()
        if wide and right is not None:
            right.addWidget(self._smalls)
        else:
            self._left.insertWidget(1, self._smalls)
        self._right.setVisible(wide)
        self.place_plots(self._order)

    def _beside(self) -> int:
        """Return how many small plots fit in a row."""
        if self._wide:
            return 1 if len(self._order) <= _ONE_COLUMN_MOST else 2
        return max(1, min(_MOST_BESIDE, self._width // _SMALL_LEAST_W))

    def _top(self, part: QWidget) -> int:
        return part.mapTo(self, QPoint(0, 0)).y()

    def _bottom(self, part: QWidget) -> int:
        return self._top(part) + part.height() if part.isVisibleTo(self) else 0
