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
_SMALL_MIN_W, _MAX_COLUMNS = 210, 3
_MAX_ONE_COLUMN = 4
_LOSS_SHARE, _SMALL_SHARE = 3, 2
_LEVELS = 5
"""Nested layouts, from a plot to the scroll area: each reacts to a change after its child."""


class CurvesBody(QWidget):
    """The loss, the small plots, and the speed of each rank.

    In a wide window the small plots have a column of their own, next to the loss and the ranks.
    """

    def __init__(self, problem_label: QWidget, loss: QWidget, ranks: RankStrip) -> None:
        super().__init__()
        self._is_wide = False
        self._width = 0
        self._plots: list[SmallPlot] = []
        self._small_plots = QWidget()
        self._grid = QGridLayout(self._small_plots)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(S3)
        self._parts = (loss, self._small_plots, ranks)
        self._left_column = col((loss, 100), self._small_plots, ranks, gap=S3)
        self._right_column = QWidget()
        self._right_column.setLayout(col(gap=0))
        self._right_column.hide()
        columns = row((self._left_column, _LOSS_SHARE), (self._right_column, _SMALL_SHARE), gap=S3)
        self.setLayout(col(problem_label, (columns, 1), gap=S3, margins=(0, 0, 0, S4)))

    def place_plots(self, plots: Sequence[SmallPlot]) -> None:
        """Place these small plots, in this order."""
        self._plots = list(plots)
        self._small_plots.setVisible(bool(plots))
        for line in range(self._grid.rowCount()):
            self._grid.setRowStretch(line, 0)
        column_count = self._column_count()
        for index, plot in enumerate(plots):
            plot.set_growing(self._is_wide)
            self._grid.addWidget(plot, index // column_count, index % column_count)
            self._grid.setRowStretch(index // column_count, int(self._is_wide))

    def remove(self, plot: SmallPlot) -> None:
        """Remove a plot that is about to be deleted."""
        self._grid.removeWidget(plot)

    def fit_width(self, width: int, scroll: VerticalScrollArea) -> None:
        """Choose the layout for this width; what is visible in ``scroll`` stays where it is."""
        is_wide = width >= WIDE_FROM_W
        previous_count = self._column_count()
        self._width = width
        if is_wide == self._is_wide:
            if self._column_count() != previous_count:
                self.place_plots(self._plots)
            return
        bar = scroll.verticalScrollBar()
        visible_part = next(
            (part for part in self._parts if self._bottom(part) > bar.value()), None
        )
        part_offset = self._top(visible_part) - bar.value() if visible_part is not None else 0
        self._set_wide(is_wide)
        # Apply the layout now, not in the next event loop iteration.
        for _ in range(_LEVELS):
            QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
        if visible_part is not None:
            bar.setValue(self._top(visible_part) - part_offset)

    def _set_wide(self, is_wide: bool) -> None:
        self._is_wide = is_wide
        right_layout = self._right_column.layout()
        if is_wide and right_layout is not None:
            right_layout.addWidget(self._small_plots)
        else:
            self._left_column.insertWidget(1, self._small_plots)
        self._right_column.setVisible(is_wide)
        self.place_plots(self._plots)

    def _column_count(self) -> int:
        """Return how many small plots fit in a row."""
        if self._is_wide:
            return 1 if len(self._plots) <= _MAX_ONE_COLUMN else 2
        return max(1, min(_MAX_COLUMNS, self._width // _SMALL_MIN_W))

    def _top(self, part: QWidget) -> int:
        return part.mapTo(self, QPoint(0, 0)).y()

    def _bottom(self, part: QWidget) -> int:
        return self._top(part) + part.height() if part.isVisibleTo(self) else 0
