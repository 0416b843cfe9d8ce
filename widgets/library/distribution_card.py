"""The distribution of the values of a dataset, by channel or column."""

from __future__ import annotations

from collections import Counter

from PySide6.QtCore import QPointF, QRectF, Slot
from PySide6.QtGui import QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.library.preview import ChannelStatistics, Preview
from widgets.common import formats, theme
from widgets.common.cards import Card
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, row
from widgets.common.painting import paint_text, round_pen, text_width
from widgets.common.theme import S1, S2, ColorRole
from widgets.library.sample_parts import path_title
from widgets.plots import ticks

_PLOT_H, _LEFT_MARGIN, _BOTTOM_MARGIN, _TOP_MARGIN = 116, 42, 20, 8
_LINE_W, _FILL_OPACITY = 1.6, 0.14
_TICK_W, _PADDING_BINS = 56, 12


class ValuesPlot(QWidget):
    """A histogram: the share of the values in each interval of their range."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._channel: ChannelStatistics | None = None
        self.setFixedHeight(_PLOT_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Distribution of the values")

    def show_channel(self, channel: ChannelStatistics) -> None:
        self._channel = channel
        self.setAccessibleDescription(spread_text(channel))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        plot_rect = QRectF(
            _LEFT_MARGIN,
            _TOP_MARGIN,
            self.width() - _LEFT_MARGIN - S2,
            self.height() - _TOP_MARGIN - _BOTTOM_MARGIN,
        )
        histogram = self._channel.histogram if self._channel is not None else None
        total = sum(histogram.counts) if histogram is not None else 0
        if self._channel is None or histogram is None or not total:
            rect = QRectF(self.rect())
            paint_text(painter, rect, "No finite value", "body", "text2", center=True)
            return
        shares = [count / total for count in histogram.counts]
        low, high = histogram.low, histogram.high
        if self._channel.low == self._channel.high and self._channel.low is not None:
            # All values are equal: one thin column in the middle, with space on both sides.
            value = self._channel.low
            padding = [0.0] * _PADDING_BINS
            half_range = max(1.0, abs(value))
            low, high, shares = value - half_range, value + half_range, [*padding, 1.0, *padding]
        self._paint_axes(painter, plot_rect, max(shares), low, high)
        self._paint_steps(painter, plot_rect, shares)

    def _paint_axes(
        self, painter: QPainter, plot_rect: QRectF, max_share: float, low: float, high: float
    ) -> None:
        t = theme.current()
        for tick, _ in ticks.linear(0, 100 * max_share, 3):
            y = plot_rect.bottom() - plot_rect.height() * tick / (100 * max_share)
            painter.setPen(t.q("grid"))
            painter.drawLine(QPointF(plot_rect.left(), y), QPointF(plot_rect.right(), y))
            label_rect = QRectF(0, y - S2, _LEFT_MARGIN - S2, 2 * S2)
            tick_text = f"{formats.tick(tick)}{formats.GAP}%"
            paint_text(painter, label_rect, tick_text, "tiny", "text3", right=True)
        for tick, tick_text in ticks.linear(low, high, 4):
            x = plot_rect.left() + plot_rect.width() * (tick - low) / (high - low)
            label_rect = QRectF(
                x - _TICK_W / 2, plot_rect.bottom() + S1, _TICK_W, _BOTTOM_MARGIN - S1
            )
            if x + text_width(tick_text, "tiny") / 2 > self.width():
                continue  # away from its position the label would be wrong
            paint_text(painter, label_rect, tick_text, "tiny", "text3", center=True)

    def _paint_steps(self, painter: QPainter, plot_rect: QRectF, shares: list[float]) -> None:
        t = theme.current()
        bin_w, max_share = plot_rect.width() / len(shares), max(shares)
        points = [QPointF(plot_rect.left(), plot_rect.bottom())]
        for index, share in enumerate(shares):
            y = plot_rect.bottom() - plot_rect.height() * share / max_share
            left_x = plot_rect.left() + index * bin_w
            points += [QPointF(left_x, y), QPointF(left_x + bin_w, y)]
        points.append(QPointF(plot_rect.right(), plot_rect.bottom()))
        painter.setPen(t.curve(0, 0.0))
        painter.setBrush(t.curve(0, _FILL_OPACITY))
        painter.drawPolygon(QPolygonF(points))
        painter.setPen(round_pen(t.curve(0), _LINE_W))
        painter.drawPolyline(QPolygonF(points))


class ValuesCard(Card):
    """A channel or column at a time; the first has NaN or infinite values, if any has."""

    def __init__(self, *, with_picker: bool = True) -> None:
        """Build the card; without `with_picker` `select_index` selects the channel or column."""
        self._with_picker = with_picker
        self._channels: tuple[ChannelStatistics, ...] = ()
        self._non_finite_label = Label("", "small", "text3", elide="right", align="right")
        self._picker = ComboBox(name="Values of")
        self._picker.currentIndexChanged.connect(self._show_selected)
        self._plot = ValuesPlot()
        self._spread_label = Label("", "small", "text2", wrap=True)
        super().__init__(
            row(Label("Values", "strong"), STRETCH, (self._non_finite_label, 4)),
            self._picker,
            self._plot,
            self._spread_label,
            gap=S2,
        )

    def show_preview(self, preview: Preview) -> None:
        names = statistics_titles(preview)
        self._channels = preview.statistics
        self.setVisible(bool(names))
        if not names:
            return
        non_finite_indices = (
            n for n, channel in enumerate(self._channels) if channel.nan_count + channel.inf_count
        )
        options = [(str(number), name) for number, name in enumerate(names)]
        self._picker.set_options(options, str(next(non_finite_indices, 0)))
        self._picker.setVisible(self._with_picker and (len(names) > 1 or names[0] != "Data"))
        self._show_selected()

    @property
    def selected_index(self) -> int:
        """The index of the drawn channel or column."""
        return max(0, self._picker.currentIndex())

    def select_index(self, index: int) -> None:
        self._picker.setCurrentIndex(index)

    @Slot()
    def _show_selected(self) -> None:
        if self._picker.key():
            channel = self._channels[int(self._picker.key())]
            self._plot.show_channel(channel)
            self._spread_label.setText(spread_text(channel))
            self._spread_label.setVisible(channel.low is not None)
            self._show_non_finite(channel)

    def _show_non_finite(self, channel: ChannelStatistics) -> None:
        counts = ((channel.nan_count, "NaN"), (channel.inf_count, "infinite"))
        not_finite = ", ".join(
            f"{formats.count(count)} {label}" for count, label in counts if count
        )
        color_role: ColorRole = "warn" if not_finite else "text3"
        self._non_finite_label.set_color_role(color_role)
        self._non_finite_label.setText(not_finite or "none NaN, none infinite")


def statistics_titles(preview: Preview) -> list[str]:
    """Return a title for each of the statistics: "Data", "Age", "Channel 0 of data.sound".

    The number comes first, so that it stays visible if space is short; the source follows if
    statistics have several sources.
    """
    flat_paths = {p.path for p in preview.shapes if p.shape is not None and len(p.shape) == 1}
    counts = Counter(channel.path for channel in preview.statistics)
    repeated_paths = [path for path, count in counts.items() if count > 1]
    is_single_source = len(repeated_paths) == 1 and repeated_paths[0].startswith("data")
    channel_titles = []
    for channel in preview.statistics:
        noun = "Column" if channel.path in flat_paths else "Channel"
        suffix = "" if is_single_source else f" of {channel.path}"
        title = channel.name or f"{noun} {channel.channel}{suffix}"
        channel_titles.append(
            title if channel.name or channel.path in repeated_paths else path_title(channel.path)
        )
    return channel_titles


def spread_text(channel: ChannelStatistics) -> str:
    """Return ``0 to 1.00, mean 0.305 ± 0.376``."""
    if channel.low is None:
        return "No finite value"
    low, high = formats.metric(channel.low), formats.metric(channel.high)
    if low == high:
        return f"All values are {low}"
    mean = f"{formats.metric(channel.mean)} ± {formats.metric(channel.std)}"
    return f"{low} to {high}, mean {mean}"
