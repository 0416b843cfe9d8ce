"""The plots of the tab Curves: the loss large, every other metric small."""

from __future__ import annotations

from PySide6.QtCore import QSize

from widgets.common import formats
from widgets.common.cards import Card
from widgets.common.labels import Label
from widgets.common.layout import row
from widgets.common.theme import HEADED_CARD, S2
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
