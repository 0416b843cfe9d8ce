"""The jobs that ran on a node, above a plot and on its time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from backend.records.base.timestamps import instant
from backend.records.jobs.view import JobView
from widgets.common import formats, theme
from widgets.common.labels import plain_tip
from widgets.common.painting import fill_round, paint_text
from widgets.common.theme import R_CELL
from widgets.plots.curve_panel import CurvePanel

_BAR_H, _GAP, _MOST_LANES = 18, 3, 3
_LEAST_W, _NAME_FROM_W = 3.0, 36.0


@dataclass(frozen=True)
class JobBar:
    """One run. Times are Unix times; `to_s` is None while it runs."""

    name: str
    from_s: float
    to_s: float | None = None


def bars_of(views: Iterable[JobView], node: str) -> tuple[JobBar, ...]:
    """The newest run of each job that has one on this node, oldest first."""
    found = []
    for view in views:
        began, ended = instant(view.status.started), instant(view.status.ended)
        if node not in view.nodes or began is None:
            continue
        if view.state.is_live:
            found.append(JobBar(view.name, began.timestamp()))
        elif ended is not None:
            found.append(JobBar(view.name, began.timestamp(), ended.timestamp()))
    return tuple(sorted(found, key=lambda bar: bar.from_s))


def lanes_of(bars: Sequence[JobBar], from_s: float) -> list[list[JobBar]]:
    """Those since that time, in as few lanes as possible without overlap; newest lanes only."""
    lanes: list[list[JobBar]] = []
    for bar in bars:
        if bar.to_s is not None and bar.to_s < from_s:
            continue
        free = next(
            (one for one in lanes if one[-1].to_s is not None and one[-1].to_s <= bar.from_s), None
        )
        if free is not None:
            free.append(bar)
        else:
            lanes.append([bar])
    return lanes[-_MOST_LANES:]


class JobLane(QWidget):
    """The bars, aligned with their plot."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._plot: CurvePanel | None = None
        self._bars: tuple[JobBar, ...] = ()
        self._lanes: list[list[JobBar]] = []
        self._from_s = self._now_s = 0.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Jobs on this node")
        self.hide()

    def follow(self, plot: CurvePanel) -> None:
        """Align with the time axis of this plot."""
        if self._plot is not None:
            self._plot.redrawn.disconnect(self.update)
        self._plot = plot
        plot.redrawn.connect(self.update)

    def show_bars(self, bars: tuple[JobBar, ...], from_s: float, now_s: float) -> None:
        """Show those since `from_s`; without any the lane is hidden."""
        self._bars, self._from_s, self._now_s = bars, from_s, now_s
        self._lanes = lanes_of(bars, from_s)
        self.setVisible(bool(self._lanes))
        self.setFixedHeight(max(1, len(self._lanes)) * (_BAR_H + _GAP))
        self.setAccessibleDescription(
            ". ".join(_sentence(bar) for lane in self._lanes for bar in lane)
        )
        self.update()

    def names(self) -> tuple[str, ...]:
        return tuple(bar.name for lane in self._lanes for bar in lane)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            at = QPointF(event.pos())
            found = next((bar for bar, rect in self._placed() if rect.contains(at)), None)
            QToolTip.showText(event.globalPos(), plain_tip(_sentence(found) if found else ""), self)
            return True
        return bool(super().event(event))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        for bar, rect in self._placed():
            runs = bar.to_s is None
            painter.setPen(Qt.PenStyle.NoPen)
            fill_round(painter, rect, t.q("live_tint" if runs else "sunken"), R_CELL)
            if rect.width() >= _NAME_FROM_W:
                room = rect.adjusted(8, 0, -8, 0)
                paint_text(painter, room, bar.name, "tiny", "live" if runs else "text2")

    def _placed(self) -> list[tuple[JobBar, QRectF]]:
        if self._plot is None:
            return []
        left, right = self._plot.stretch_px()
        x0, x1 = self._plot.x_range()
        if x1 <= x0 or right <= left:
            return []

        def at(time_s: float) -> float:
            return left + (min(max(time_s, x0), x1) - x0) / (x1 - x0) * (right - left)

        found = []
        for number, lane in enumerate(self._lanes):
            for bar in lane:
                begin = at(bar.from_s)
                end = at(self._now_s if bar.to_s is None else bar.to_s)
                if end <= left or begin >= right:
                    continue
                width = max(end - begin, _LEAST_W)
                found.append((bar, QRectF(begin, number * (_BAR_H + _GAP), width, _BAR_H)))
        return found


def _sentence(bar: JobBar) -> str:
    if bar.to_s is None:
        return f"{bar.name}, running since {formats.clock(bar.from_s)}"
    return f"{bar.name}, {formats.clock(bar.from_s)} to {formats.clock(bar.to_s)}"
