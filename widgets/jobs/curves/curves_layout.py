"""The plots of the tab Curves: the loss large, every other metric small.

They stand in one column, or in two columns in a wide window.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QSize
from PySide6.QtWidgets import QGridLayout, QWidget

from widgets.common import formats
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import HEADED_CARD, S2, S3, S4
from widgets.jobs.ranks.rank_strip import RankStrip
from widgets.plots.annotations import AxisSpan
from widgets.plots.cursor_readout import HoverLink
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.image_export import PictureButton

LARGE_H, _LARGE_MIN_H, SMALL_H = 260, 200, 130
_SMALL_MAX_H = 460


class LargePlot(CurvePanel):
    """A plot that takes the height above the small plots, but stays readable."""

    def __init__(self, title: str, link: HoverLink) -> None:
        super().__init__(title, link=link)
        self.setMinimumHeight(_LARGE_MIN_H)

    def sizeHint(self) -> QSize:
        return QSize(2 * LARGE_H, _LARGE_MIN_H)


class _SmallPanel(CurvePanel):
    """A plot with the smallest readable height."""

    def sizeHint(self) -> QSize:
        return QSize(LARGE_H, SMALL_H)


class SmallPlot(Card):
    """A small plot of one metric, with its title and newest value above.

    Attributes:
        panel: The plot.
        picture_button: The button that exports the plot.
    """

    def __init__(self, title: str, link: HoverLink, *, end_names: bool = False) -> None:
        self._value_label = Label("–", "heading")
        self._kind_label = Label("", "small", "text3")
        self._spans: tuple[AxisSpan, ...] = ()
        self.panel = _SmallPanel(title, link=link, end_names=end_names)
        self.panel.setFixedHeight(SMALL_H)
        self.picture_button = PictureButton(title, lambda: self.panel)
        heading = Label(title, "strong", elide="right")
        head = row((heading, 1), self._kind_label, self._value_label, self.picture_button)
        super().__init__(head, self.panel, gap=S2, margins=HEADED_CARD)

    def set_growing(self, is_growing: bool) -> None:
        """Set whether the plot takes the available height, or the smallest readable height."""
        self.panel.setMinimumHeight(SMALL_H)
        self.panel.setMaximumHeight(_SMALL_MAX_H if is_growing else SMALL_H)

    def clear(self) -> None:
        """Remove the curves for another job."""
        self.panel.clear()
        self.show_spans(())
        self.show_value(None)
        self.panel.fit()

    def show_spans(self, spans: tuple[AxisSpan, ...]) -> None:
        if spans != self._spans:
            self._spans = spans
            self.panel.set_marks(spans=spans)

    def show_value(self, value: float | None, kind: str = "") -> None:
        """Show the newest value; ``kind``: "val.", or "raw" where the line is smoothed."""
        self._value_label.setText(formats.metric(value))
        self._kind_label.setText(kind)
        self._kind_label.setVisible(bool(kind))


WIDE_FROM_W = 1400
_SMALL_MIN_W, _MAX_COLUMNS = 210, 3
_MAX_ONE_COLUMN = 4
_LOSS_SHARE, _SMALL_SHARE = 3, 2
_LEVELS = 5
"""Nested layouts, from a plot to the scroll area: each reacts to a change after its child."""


class CurvesBody(QWidget):
    """The loss, the fixed samples, the small plots, and the speed of each rank.

    In a wide window the small plots have a column of their own, next to the loss and the ranks.
    """

    def __init__(
        self, problem_label: QWidget, loss: QWidget, samples: QWidget, ranks: RankStrip
    ) -> None:
        super().__init__()
        self._is_wide = False
        self._width = 0
        self._plots: list[SmallPlot] = []
        self._small_plots = QWidget()
        self._grid = QGridLayout(self._small_plots)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(S3)
        self._parts = (loss, samples, self._small_plots, ranks)
        self._left_column = col((loss, 100), samples, self._small_plots, ranks, gap=S3)
        self._right_column = QWidget()
        self._right_column.setLayout(col(gap=0))
        self._right_column.hide()
        columns = row((self._left_column, _LOSS_SHARE), (self._right_column, _SMALL_SHARE), gap=S3)
        self.setLayout(col(problem_label, (columns, 1), gap=S3, margins=(0, 0, 0, S4)))

    def place_plots(self, plots: Sequence[SmallPlot]) -> None:
        """Place the small plots in this order."""
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
        """Choose the layout for this width; the visible part of ``scroll`` stays in place."""
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
            self._left_column.insertWidget(2, self._small_plots)
        self._right_column.setVisible(is_wide)
        self.place_plots(self._plots)

    def _column_count(self) -> int:
        """Return the number of small plots in a row."""
        if self._is_wide:
            return 1 if len(self._plots) <= _MAX_ONE_COLUMN else 2
        return max(1, min(_MAX_COLUMNS, self._width // _SMALL_MIN_W))

    def _top(self, part: QWidget) -> int:
        return part.mapTo(self, QPoint(0, 0)).y()

    def _bottom(self, part: QWidget) -> int:
        return self._top(part) + part.height() if part.isVisibleTo(self) else 0
