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

_PLOT_H, _LEFT, _BOTTOM, _TOP = 116, 42, 20, 8
_LINE_W, _FILL = 1.6, 0.14
_TICK_W, _AIR = 56, 12


class ValuesPlot(QWidget):
    """A histogram: the share of the values in each interval of their range."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: ChannelStatistics | None = None
        self.setFixedHeight(_PLOT_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Distribution of the values")

    def show_channel(self, channel: ChannelStatistics) -> None:
        self._shown = channel
        self.setAccessibleDescription(spread_words(channel))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        room = QRectF(_LEFT, _TOP, self.width() - _LEFT - S2, self.height() - _TOP - _BOTTOM)
        found = self._shown.histogram if self._shown is not None else None
        total = sum(found.counts) if found is not None else 0
        if self._shown is None or found is None or not total:
            whole = QRectF(self.rect())
            paint_text(painter, whole, "No finite value", "body", "text2", center=True)
            return
        shares = [count / total for count in found.counts]
        low, high = found.low, found.high
        if self._shown.low == self._shown.high and self._shown.low is not None:
            # All values are equal: one thin column in the middle, with space on both sides.
            middle = self._shown.low
            air = [0.0] * _AIR
            around = max(1.0, abs(middle))
            low, high, shares = middle - around, middle + around, [*air, 1.0, *air]
        self._paint_axes(painter, room, max(shares), low, high)
        self._paint_steps(painter, room, shares)

    def _paint_axes(
        self, painter: QPainter, room: QRectF, most: float, low: float, high: float
    ) -> None:
        t = theme.current()
        for place, _ in ticks.linear(0, 100 * most, 3):
            y = room.bottom() - room.height() * place / (100 * most)
            painter.setPen(t.q("grid"))
            painter.drawLine(QPointF(room.left(), y), QPointF(room.right(), y))
            label = QRectF(0, y - S2, _LEFT - S2, 2 * S2)
            words = f"{formats.tick(place)}{formats.GAP}%"
            paint_text(painter, label, words, "tiny", "text3", right=True)
        for place, words in ticks.linear(low, high, 4):
            x = room.left() + room.width() * (place - low) / (high - low)
            label = QRectF(x - _TICK_W / 2, room.bottom() + S1, _TICK_W, _BOTTOM - S1)
            if x + text_width(words, "tiny") / 2 > self.width():
                continue  # away from its position the label would be wrong
            paint_text(painter, label, words, "tiny", "text3", center=True)

    def _paint_steps(self, painter: QPainter, room: QRectF, shares: list[float]) -> None:
        t = theme.current()
        each, most = room.width() / len(shares), max(shares)
        points = [QPointF(room.left(), room.bottom())]
        for index, share in enumerate(shares):
            y = room.bottom() - room.height() * share / most
            left = room.left() + index * each
            points += [QPointF(left, y), QPointF(left + each, y)]
        points.append(QPointF(room.right(), room.bottom()))
        painter.setPen(t.curve(0, 0.0))
        painter.setBrush(t.curve(0, _FILL))
        painter.drawPolygon(QPolygonF(points))
        painter.setPen(round_pen(t.curve(0), _LINE_W))
        painter.drawPolyline(QPolygonF(points))


class ValuesCard(Card):
    """One channel or column at a time; one with NaN or infinite values comes first."""

    def __init__(self, *, with_picker: bool = True) -> None:
        """``with_picker``: it is selected here; otherwise by `choose`."""
        self._with_picker = with_picker
        self._channels: tuple[ChannelStatistics, ...] = ()
        self._odd = Label("", "small", "text3", elide="right", align="right")
        self._picker = ComboBox(name="Values of")
        self._picker.currentIndexChanged.connect(self._show)
        self._plot = ValuesPlot()
        self._words = Label("", "small", "text2", wrap=True)
        super().__init__(
            row(Label("Values", "strong"), STRETCH, (self._odd, 4)),
            self._picker,
            self._plot,
            self._words,
            gap=S2,
        )

    def show_preview(self, preview: Preview) -> None:
        names = titles(preview)
        self._channels = preview.statistics
        self.setVisible(bool(names))
        if not names:
            return
        odd = (n for n, one in enumerate(self._channels) if one.nan_count + one.inf_count)
        options = [(str(number), name) for number, name in enumerate(names)]
        self._picker.set_options(options, str(next(odd, 0)))
        self._picker.setVisible(self._with_picker and (len(names) > 1 or names[0] != "Data"))
        self._show()

    @property
    def shown(self) -> int:
        """The index of the channel or column that is drawn."""
        return max(0, self._picker.currentIndex())

    def choose(self, number: int) -> None:
        self._picker.setCurrentIndex(number)

    @Slot()
    def _show(self) -> None:
        if self._picker.key():
            channel = self._channels[int(self._picker.key())]
            self._plot.show_channel(channel)
            self._words.setText(spread_words(channel))
            self._words.setVisible(channel.low is not None)
            self._say_odd(channel)

    def _say_odd(self, channel: ChannelStatistics) -> None:
        counts = ((channel.nan_count, "NaN"), (channel.inf_count, "infinite"))
        not_finite = ", ".join(f"{formats.count(count)} {word}" for count, word in counts if count)
        tone: ColorRole = "warn" if not_finite else "text3"
        self._odd.set_color_role(tone)
        self._odd.setText(not_finite or "none NaN, none infinite")


def titles(preview: Preview) -> list[str]:
    """The title of each of the statistics: "Data", "Age", "Column 2", "Channel 0 of data.sound".

    The number comes first, so that it stays visible if room is short; the source follows if it is
    ambiguous.
    """
    flat = {one.path for one in preview.shapes if one.shape is not None and len(one.shape) == 1}
    counts = Counter(one.path for one in preview.statistics)
    several = [path for path, count in counts.items() if count > 1]
    is_plain = len(several) == 1 and several[0].startswith("data")
    found = []
    for one in preview.statistics:
        part = "Column" if one.path in flat else "Channel"
        tail = "" if is_plain else f" of {one.path}"
        numbered = one.name or f"{part} {one.channel}{tail}"
        found.append(numbered if one.name or one.path in several else path_title(one.path))
    return found


def spread_words(channel: ChannelStatistics) -> str:
    """Return ``0 to 1.00, mean 0.305 ± 0.376``."""
    if channel.low is None:
        return "No finite value"
    low, high = formats.metric(channel.low), formats.metric(channel.high)
    if low == high:
        return f"All values are {low}"
    mean = f"{formats.metric(channel.mean)} ± {formats.metric(channel.std)}"
    return f"{low} to {high}, mean {mean}"
