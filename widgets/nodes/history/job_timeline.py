"""The jobs that ran on a node, above a plot and on its time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from backend.records.base.timestamps import instant
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState
from backend.records.queue.entry import Queue
from backend.records.queue.scheduling import reservations_of
from widgets.common import formats, theme
from widgets.common.labels import plain_tip
from widgets.common.painting import fill_round, paint_text
from widgets.common.theme import R_CELL
from widgets.plots.curve_panel import CurvePanel

_BAR_H, _GAP, _MAX_ROWS = 18, 3, 3
_MIN_W, _NAME_FROM_W = 3.0, 36.0


@dataclass(frozen=True)
class JobBar:
    """One run, or a reservation. Times are Unix times; `end_s` is None while the job runs."""

    name: str
    start_s: float
    end_s: float | None = None
    is_reserved: bool = False
    user: str = ""


def job_bars(views: Iterable[JobView], node: str) -> tuple[JobBar, ...]:
    """Return the newest run of each job with a run on this node, oldest first."""
    bars = []
    for view in views:
        start, end = instant(view.status.started_at), instant(view.status.ended_at)
        if node not in view.nodes or start is None:
            continue
        if view.state.is_live:
            bars.append(JobBar(view.name, start.timestamp()))
        elif end is not None:
            bars.append(JobBar(view.name, start.timestamp(), end.timestamp()))
    return tuple(sorted(bars, key=lambda bar: bar.start_s))


def reserved_bars(queue: Queue, state: NodeState, now_s: float) -> tuple[JobBar, ...]:
    """Return the coming reservations of a node, earliest first."""
    host = state.reading.host if state.reading is not None else ""
    entries = (
        job.entry
        for job in queue.jobs
        if any(placement.node == state.name for placement in job.entry.placement)
        # Each desktop calls itself "this-computer".
        and (state.name != THIS_COMPUTER or job.entry.host == host)
    )
    return tuple(
        JobBar(r.entry.name, r.start.timestamp(), r.end.timestamp(), True, r.entry.user)
        for r in reservations_of(entries, datetime.fromtimestamp(now_s).astimezone())
    )


def arrange_bars(bars: Sequence[JobBar], start_s: float) -> list[list[JobBar]]:
    """Return the bars since a time in as few rows as possible; only the newest rows."""
    rows: list[list[JobBar]] = []
    for bar in bars:
        if bar.end_s is not None and bar.end_s < start_s:
            continue
        free_row = next(
            (row for row in rows if row[-1].end_s is not None and row[-1].end_s <= bar.start_s),
            None,
        )
        if free_row is not None:
            free_row.append(bar)
        else:
            rows.append([bar])
    return rows[-_MAX_ROWS:]


class JobTimeline(QWidget):
    """The bars, aligned with their plot."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._plot: CurvePanel | None = None
        self._bars: tuple[JobBar, ...] = ()
        self._rows: list[list[JobBar]] = []
        self._start_s = self._now_s = 0.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Jobs on this node")
        self.hide()

    def follow(self, plot: CurvePanel) -> None:
        """Align with the time axis of this plot."""
        if self._plot is not None:
            self._plot.redraw_finished.disconnect(self.update)
        self._plot = plot
        plot.redraw_finished.connect(self.update)

    def show_bars(self, bars: tuple[JobBar, ...], start_s: float, now_s: float) -> None:
        """Show the bars since `start_s`; without bars the timeline is hidden."""
        self._bars, self._start_s, self._now_s = bars, start_s, now_s
        self._rows = arrange_bars(bars, start_s)
        self.setVisible(bool(self._rows))
        self.setFixedHeight(max(1, len(self._rows)) * (_BAR_H + _GAP))
        self.setAccessibleDescription(
            ". ".join(_bar_text(bar) for row in self._rows for bar in row)
        )
        self.update()

    def bar_names(self) -> tuple[str, ...]:
        return tuple(bar.name for row in self._rows for bar in row)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            position = QPointF(event.pos())
            hovered_bar = next(
                (bar for bar, rect in self._bar_rects() if rect.contains(position)), None
            )
            QToolTip.showText(
                event.globalPos(), plain_tip(_bar_text(hovered_bar) if hovered_bar else ""), self
            )
            return True
        return bool(super().event(event))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        for bar, rect in self._bar_rects():
            is_running = bar.end_s is None
            if bar.is_reserved:
                painter.setPen(QPen(t.q("text3"), 1.0))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), R_CELL, R_CELL)
            else:
                fill_round(painter, rect, t.q("live_tint" if is_running else "sunken"), R_CELL)
            if rect.width() >= _NAME_FROM_W:
                name_rect = rect.adjusted(8, 0, -8, 0)
                paint_text(painter, name_rect, bar.name, "tiny", "live" if is_running else "text2")

    def _bar_rects(self) -> list[tuple[JobBar, QRectF]]:
        if self._plot is None:
            return []
        left_px, right_px = self._plot.visible_span_px()
        x0, x1 = self._plot.x_range()
        if x1 <= x0 or right_px <= left_px:
            return []

        def to_px(time_s: float) -> float:
            return left_px + (min(max(time_s, x0), x1) - x0) / (x1 - x0) * (right_px - left_px)

        bar_rects = []
        for number, row in enumerate(self._rows):
            for bar in row:
                start_px = to_px(bar.start_s)
                end_px = to_px(self._now_s if bar.end_s is None else bar.end_s)
                if end_px <= left_px or start_px >= right_px:
                    continue
                width = max(end_px - start_px, _MIN_W)
                bar_rects.append((bar, QRectF(start_px, number * (_BAR_H + _GAP), width, _BAR_H)))
        return bar_rects


def _bar_text(bar: JobBar) -> str:
    if bar.end_s is None:
        return f"{bar.name}, running since {formats.clock(bar.start_s)}"
    if bar.is_reserved:
        user = f" by {bar.user}" if bar.user else ""
        start, end = (formats.full_time(time_s) for time_s in (bar.start_s, bar.end_s))
        return f"Reserved{user} for {bar.name}, {start} to {end}"
    return f"{bar.name}, {formats.clock(bar.start_s)} to {formats.clock(bar.end_s)}"
