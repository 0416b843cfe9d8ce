"""A strip below the curves: a cell per rank with its step time; slow ranks are highlighted.

While something slows the job, each cell has a bar with the parts of the rank's step.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.slow_cause import StepTimes
from backend.records.jobs.view import JobView
from widgets.common import formats, theme
from widgets.common.cards import Card
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, clear, row
from widgets.common.painting import fill_round, paint_text, text_width
from widgets.common.state_badge import Mark
from widgets.common.theme import R_CELL, S2, S3
from widgets.nodes.row.node_names import elide_names
from widgets.nodes.row.node_row import node_title

_CELL_LEAST_W, _CELL_MOST_W, _CELL_H, _GAP = 76, 132, 36, 6
_BAR_H, _BAR_GAP = 4, 6
_CURVES = 1, 0, 2
"""Data is orange, compute blue, communication teal."""
_NAME_MOST_W = 104
_ROWS_OF_NODES = 8
"""Above this number of nodes, all ranks share dense rows."""


def rank_marks(view: JobView) -> list[Mark]:
    """Return the segments of the progress ring, one per rank."""
    slow = view.status.slow_ranks if view.state.is_live else ()
    bad = view.error.rank if view.error is not None else None
    return [
        "bad" if rank == bad else "warn" if rank in slow else "" for rank in range(view.world_size)
    ]


def parts_text(view: JobView, rank: int) -> str:
    """Return ``data 4.0 ms, compute 90 ms, …``: the parts of a rank's step, "" if not known."""
    times = view.status.step_times
    if times is None or rank >= len(times.data_ms):
        return ""
    return ", ".join(
        f"{name} {formats.milliseconds(ms)}" for name, ms in times.times_of_rank(rank).items()
    )


def _part_colour(number: int) -> QColor:
    """Return the colour of a part of a step; the last one, waiting, is grey."""
    t = theme.current()
    return t.curve(_CURVES[number]) if number < len(_CURVES) else t.q("line_strong")


@dataclass(frozen=True)
class _Group:
    """Ranks in rows of their own, below the name of their node."""

    title: str
    ranks: range


def _groups(view: JobView) -> tuple[_Group, ...]:
    titles = [node_title(placement.node) for placement in view.config.placement]
    if not 1 < len(titles) <= _ROWS_OF_NODES:
        return (_Group("", range(view.world_size)),)
    groups, first = [], 0
    for title, placement in zip(titles, view.config.placement, strict=True):
        groups.append(_Group(title, range(first, first + placement.slots)))
        first += placement.slots
    return tuple(groups)


class _Cells(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._step_ms: tuple[float, ...] = ()
        self._slow: tuple[int, ...] = ()
        self._reasons: Mapping[int, str] = {}
        self._groups: tuple[_Group, ...] = ()
        self._times: StepTimes | None = None
        self._servers = 0
        self._cell_h = _CELL_H
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_ranks(
        self,
        step_ms: tuple[float, ...],
        slow: tuple[int, ...],
        reasons: Mapping[int, str],
        groups: tuple[_Group, ...],
        times: StepTimes | None,
        servers: int,
    ) -> None:
        cell_h = _CELL_H if times is None else _CELL_H + _BAR_H + _BAR_GAP
        again = groups != self._groups or cell_h != self._cell_h
        self._times, self._cell_h = times, cell_h
        self._step_ms, self._slow, self._groups = step_ms, slow, groups
        self._reasons, self._servers = reasons, servers
        if again:
            self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._left() + 2 * _CELL_LEAST_W, self.heightForWidth(self.width()))

    def heightForWidth(self, width: int) -> int:
        columns = self._columns(width)
        rows = sum(-(-len(group.ranks) // columns) for group in self._groups)
        return max(1, rows) * (self._cell_h + _GAP) - _GAP

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        slow = set(self._slow)
        left, columns = self._left(), self._columns(self.width())
        whole = (self.width() - left + _GAP) / columns - _GAP
        cell_w = min(whole, _CELL_MOST_W)
        names = elide_names([group.title for group in self._groups], left - S2, "medium")
        line = 0
        for group, name in zip(self._groups, names, strict=True):
            top = line * (self._cell_h + _GAP)
            tone, role = ("warn", "strong") if slow & set(group.ranks) else ("text2", "medium")
            paint_text(painter, QRectF(0, top, left, self._cell_h), name, role, tone)  # type: ignore[arg-type]
            for place, rank in enumerate(group.ranks):
                x = left + place % columns * (cell_w + _GAP)
                y = top + place // columns * (self._cell_h + _GAP)
                if rank < len(self._step_ms):
                    cell = QRectF(x, y, cell_w, self._cell_h)
                    self._paint_cell(painter, cell, rank, is_slow=rank in slow)
            line += -(-len(group.ranks) // columns)

    def _paint_cell(self, painter: QPainter, cell: QRectF, rank: int, *, is_slow: bool) -> None:
        t = theme.current()
        fill_round(painter, cell, t.tint("warn" if is_slow else "live"), R_CELL)
        if is_slow:
            painter.setPen(QPen(t.q("warn_fill"), 1.5))
            painter.drawRoundedRect(cell.adjusted(1, 1, -1, -1), R_CELL, R_CELL)
        half = _CELL_H / 2
        upper = QRectF(cell.left() + S2, cell.top() + 3, cell.width() - 2 * S2, half - 2)
        lower = upper.translated(0, half - 3)
        number, figure = self.words(rank)
        paint_text(painter, upper, number, "tiny", "warn" if is_slow else "text3")
        paint_text(painter, lower, figure, "small_strong", "warn" if is_slow else "text")

        if self._times is not None and rank < len(self._times.data_ms):
            parts = list(self._times.times_of_rank(rank).values())
            bar = QRectF(lower.left(), cell.bottom() - _BAR_GAP - _BAR_H + 1, lower.width(), _BAR_H)
            self._paint_bar(painter, bar, parts)

    def words(self, rank: int) -> tuple[str, str]:
        """Return the two lines of a cell: the rank with its reason, and its step time."""
        reason = self._reasons.get(rank, "").partition(",")[0].removeprefix("slowed by ")
        reason = reason or "server" * (rank < self._servers)
        # A server has no step time, and another rank none before its first step.
        took = self._step_ms[rank]
        figure = formats.milliseconds(took) if took else formats.NONE
        return f"{rank} · {reason}" if reason else str(rank), figure

    def _paint_bar(self, painter: QPainter, bar: QRectF, parts: list[float]) -> None:
        x, whole = bar.left(), sum(parts) or 1.0
        for number, part in enumerate(parts):
            width = part / whole * bar.width()
            # One pixel between two parts separates them without colour.
            painter.fillRect(
                QRectF(x, bar.top(), max(0.0, width - 1), bar.height()), _part_colour(number)
            )
            x += width

    def _left(self) -> int:
        """Return the left edge of the first cell."""
        widest = max((text_width(group.title, "strong") for group in self._groups), default=0)
        return min(widest, _NAME_MOST_W) + S3 if widest else 0

    def _columns(self, width: int) -> int:
        most = max((len(group.ranks) for group in self._groups), default=1)
        fitting = (width - self._left() + _GAP) // (_CELL_LEAST_W + _GAP)
        if most > fitting > 1 and len(self._groups) > 1:
            # Rows of a node have equal length: 8 ranks are two rows of 4, not 7 and 1.
            return -(-most // -(-most // fitting))
        return max(1, min(fitting, max(most, width // (_CELL_MOST_W + _GAP))))


class _Swatch(QWidget):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self.setFixedSize(12, _BAR_H)

    def paintEvent(self, _event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), _part_colour(self._number))


class _Legend(QWidget):
    """The names of the parts of a step, each with its colour."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, ...] = ()
        self._row = row(gap=S3)
        self.setLayout(self._row)

    def show_parts(self, names: tuple[str, ...]) -> None:
        self.setVisible(bool(names))
        if names == self._shown:
            return
        self._shown = names
        clear(self._row)
        for number, name in enumerate(names):
            key = QWidget()
            key.setLayout(row(_Swatch(number), Label(name, "tiny", "text2"), gap=6))
            self._row.addWidget(key)
        self._row.addStretch()


class RankStrip(Card):
    """A cell per rank, grouped by node, with a sentence on the slow ranks."""

    def __init__(self) -> None:
        self._cells = _Cells()
        self._word = Label("", "small_strong", "warn")
        caption = Label("step time, excluding waiting", "small", "text3", elide="right")
        head = row(Label("Ranks", "strong"), caption, STRETCH, self._word, gap=S2)
        self._legend = _Legend()
        self._legend.hide()
        super().__init__(head, self._cells, self._legend, gap=S2)
        self.hide()

    def show_view(self, view: JobView, reasons: Mapping[int, str] | None = None) -> None:
        """Show an update of the job; a job that does not run has no step times.

        Args:
            reasons: The known reasons of slow ranks.
        """
        step_ms = view.status.rank_step_ms if view.state.is_live else ()
        self.setVisible(bool(step_ms))
        slow = tuple(rank for rank in range(len(step_ms)) if rank in view.status.slow_ranks)
        times = view.status.step_times if step_ms and view.status.slow_cause is not None else None
        servers = view.config.strategy.servers
        self._cells.show_ranks(step_ms, slow, reasons or {}, _groups(view), times, servers)
        self._legend.show_parts(tuple(times.times_of_rank(0)) if times is not None else ())
        if 0 < len(slow) < len(step_ms):
            rest = [ms for rank, ms in enumerate(step_ms) if ms and rank not in slow]
            more = statistics.median(step_ms[rank] for rank in slow) / statistics.median(rest) - 1
            who = "rank" if len(slow) == 1 else "ranks"
            numbers = formats.ranges(slow)
            verb = "is" if len(slow) == 1 else "are"
            why = "; ".join(dict.fromkeys((reasons or {}).values()))
            slower = f"{who} {numbers} {verb} {formats.percent(more)} slower"
            self._word.setText(f"{slower}: {why}" if why else slower)
            self.setToolTip(
                plain_tip("\n".join(f"Rank {rank}: {why}" for rank, why in (reasons or {}).items()))
            )
        else:
            self._word.setText("")
            self.setToolTip("")
