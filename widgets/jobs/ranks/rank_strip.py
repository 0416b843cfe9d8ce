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

_CELL_MIN_W, _CELL_MAX_W, _CELL_H, _GAP = 76, 132, 36, 6
_BAR_H, _BAR_GAP = 4, 6
_CURVE_COLOURS = 1, 0, 2
"""Data is orange, compute blue, communication teal."""
_NAME_MAX_W = 104
_MAX_NODE_ROWS = 8
"""Above this number of nodes, all ranks share dense rows."""


def rank_marks(view: JobView) -> list[Mark]:
    """Return the segments of the progress ring, one per rank."""
    slow_ranks = view.status.slow_ranks if view.state.is_live else ()
    failed_rank = view.error.rank if view.error is not None else None
    return [
        "bad" if rank == failed_rank else "warn" if rank in slow_ranks else ""
        for rank in range(view.world_size)
    ]


def parts_text(view: JobView, rank: int) -> str:
    """Return ``data 4.0 ms, compute 90 ms, …``: the parts of a rank's step, "" if unknown."""
    times = view.status.step_times
    if times is None or rank >= len(times.data_ms):
        return ""
    return ", ".join(
        f"{name} {formats.milliseconds(ms)}" for name, ms in times.times_of_rank(rank).items()
    )


def _part_colour(number: int) -> QColor:
    """Return the colour of a part of a step; the last part, waiting, is grey."""
    t = theme.current()
    return t.curve(_CURVE_COLOURS[number]) if number < len(_CURVE_COLOURS) else t.q("line_strong")


@dataclass(frozen=True)
class _Group:
    """Ranks in rows of their own, below the name of their node."""

    title: str
    ranks: range


def _groups(view: JobView) -> tuple[_Group, ...]:
    titles = [node_title(placement.node) for placement in view.config.placement]
    if not 1 < len(titles) <= _MAX_NODE_ROWS:
        return (_Group("", range(view.world_size)),)
    groups, first_rank = [], 0
    for title, placement in zip(titles, view.config.placement, strict=True):
        groups.append(_Group(title, range(first_rank, first_rank + placement.process_count)))
        first_rank += placement.process_count
    return tuple(groups)


class _RankCells(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._step_ms: tuple[float, ...] = ()
        self._slow_ranks: tuple[int, ...] = ()
        self._reasons: Mapping[int, str] = {}
        self._groups: tuple[_Group, ...] = ()
        self._times: StepTimes | None = None
        self._server_count = 0
        self._cell_h = _CELL_H
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_ranks(
        self,
        step_ms: tuple[float, ...],
        slow_ranks: tuple[int, ...],
        reasons: Mapping[int, str],
        groups: tuple[_Group, ...],
        times: StepTimes | None,
        server_count: int,
    ) -> None:
        cell_h = _CELL_H if times is None else _CELL_H + _BAR_H + _BAR_GAP
        has_new_layout = groups != self._groups or cell_h != self._cell_h
        self._times, self._cell_h = times, cell_h
        self._step_ms, self._slow_ranks, self._groups = step_ms, slow_ranks, groups
        self._reasons, self._server_count = reasons, server_count
        if has_new_layout:
            self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._cells_x() + 2 * _CELL_MIN_W, self.heightForWidth(self.width()))

    def heightForWidth(self, width: int) -> int:
        columns = self._column_count(width)
        rows = sum(-(-len(group.ranks) // columns) for group in self._groups)
        return max(1, rows) * (self._cell_h + _GAP) - _GAP

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        slow_ranks = set(self._slow_ranks)
        cells_x, columns = self._cells_x(), self._column_count(self.width())
        column_w = (self.width() - cells_x + _GAP) / columns - _GAP
        cell_w = min(column_w, _CELL_MAX_W)
        names = elide_names([group.title for group in self._groups], cells_x - S2, "medium")
        row_index = 0
        for group, name in zip(self._groups, names, strict=True):
            top = row_index * (self._cell_h + _GAP)
            color_role, text_style = (
                ("warn", "strong") if slow_ranks & set(group.ranks) else ("text2", "medium")
            )
            paint_text(painter, QRectF(0, top, cells_x, self._cell_h), name, text_style, color_role)  # type: ignore[arg-type]
            for index, rank in enumerate(group.ranks):
                x = cells_x + index % columns * (cell_w + _GAP)
                y = top + index // columns * (self._cell_h + _GAP)
                if rank < len(self._step_ms):
                    cell = QRectF(x, y, cell_w, self._cell_h)
                    self._paint_cell(painter, cell, rank, is_slow=rank in slow_ranks)
            row_index += -(-len(group.ranks) // columns)

    def _paint_cell(self, painter: QPainter, cell: QRectF, rank: int, *, is_slow: bool) -> None:
        t = theme.current()
        fill_round(painter, cell, t.tint("warn" if is_slow else "live"), R_CELL)
        if is_slow:
            painter.setPen(QPen(t.q("warn_fill"), 1.5))
            painter.drawRoundedRect(cell.adjusted(1, 1, -1, -1), R_CELL, R_CELL)
        line_h = _CELL_H / 2
        title_box = QRectF(cell.left() + S2, cell.top() + 3, cell.width() - 2 * S2, line_h - 2)
        figure_box = title_box.translated(0, line_h - 3)
        title, figure = self.cell_texts(rank)
        paint_text(painter, title_box, title, "tiny", "warn" if is_slow else "text3")
        paint_text(painter, figure_box, figure, "small_strong", "warn" if is_slow else "text")

        if self._times is not None and rank < len(self._times.data_ms):
            parts = list(self._times.times_of_rank(rank).values())
            bar = QRectF(
                figure_box.left(), cell.bottom() - _BAR_GAP - _BAR_H + 1, figure_box.width(), _BAR_H
            )
            self._paint_bar(painter, bar, parts)

    def cell_texts(self, rank: int) -> tuple[str, str]:
        """Return the two lines of a cell: the rank with its reason, and its step time."""
        reason = self._reasons.get(rank, "").partition(",")[0].removeprefix("slowed by ")
        reason = reason or "server" * (rank < self._server_count)
        # A server has no step time, and another rank none before its first step.
        step_ms = self._step_ms[rank]
        figure = formats.milliseconds(step_ms) if step_ms else formats.NONE
        return f"{rank} · {reason}" if reason else str(rank), figure

    def _paint_bar(self, painter: QPainter, bar: QRectF, parts: list[float]) -> None:
        x, total = bar.left(), sum(parts) or 1.0
        for number, part in enumerate(parts):
            width = part / total * bar.width()
            # One pixel between two parts separates them without colour.
            painter.fillRect(
                QRectF(x, bar.top(), max(0.0, width - 1), bar.height()), _part_colour(number)
            )
            x += width

    def _cells_x(self) -> int:
        """Return the left edge of the first cell."""
        widest_title = max((text_width(group.title, "strong") for group in self._groups), default=0)
        return min(widest_title, _NAME_MAX_W) + S3 if widest_title else 0

    def _column_count(self, width: int) -> int:
        max_ranks = max((len(group.ranks) for group in self._groups), default=1)
        max_columns = (width - self._cells_x() + _GAP) // (_CELL_MIN_W + _GAP)
        if max_ranks > max_columns > 1 and len(self._groups) > 1:
            # Rows of a node have equal length: 8 ranks are two rows of 4, not 7 and 1.
            return -(-max_ranks // -(-max_ranks // max_columns))
        return max(1, min(max_columns, max(max_ranks, width // (_CELL_MAX_W + _GAP))))


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
        self._shown_names: tuple[str, ...] = ()
        self._row = row(gap=S3)
        self.setLayout(self._row)

    def show_parts(self, names: tuple[str, ...]) -> None:
        self.setVisible(bool(names))
        if names == self._shown_names:
            return
        self._shown_names = names
        clear(self._row)
        for number, name in enumerate(names):
            key = QWidget()
            key.setLayout(row(_Swatch(number), Label(name, "tiny", "text2"), gap=6))
            self._row.addWidget(key)
        self._row.addStretch()


class RankStrip(Card):
    """A cell per rank, grouped by node, with a sentence on the slow ranks."""

    def __init__(self) -> None:
        self._cells = _RankCells()
        self._slow_label = Label("", "small_strong", "warn")
        caption = Label("step time, excluding waiting", "small", "text3", elide="right")
        head = row(Label("Ranks", "strong"), caption, STRETCH, self._slow_label, gap=S2)
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
        slow_ranks = tuple(rank for rank in range(len(step_ms)) if rank in view.status.slow_ranks)
        times = view.status.step_times if step_ms and view.status.slow_cause is not None else None
        server_count = view.config.strategy.servers
        self._cells.show_ranks(
            step_ms, slow_ranks, reasons or {}, _groups(view), times, server_count
        )
        self._legend.show_parts(tuple(times.times_of_rank(0)) if times is not None else ())
        if 0 < len(slow_ranks) < len(step_ms):
            other_step_ms = [ms for rank, ms in enumerate(step_ms) if ms and rank not in slow_ranks]
            slowdown = (
                statistics.median(step_ms[rank] for rank in slow_ranks)
                / statistics.median(other_step_ms)
                - 1
            )
            rank_word = "rank" if len(slow_ranks) == 1 else "ranks"
            numbers = formats.ranges(slow_ranks)
            verb = "is" if len(slow_ranks) == 1 else "are"
            reason = "; ".join(dict.fromkeys((reasons or {}).values()))
            slow_message = f"{rank_word} {numbers} {verb} {formats.percent(slowdown)} slower"
            self._slow_label.setText(f"{slow_message}: {reason}" if reason else slow_message)
            self.setToolTip(
                plain_tip(
                    "\n".join(f"Rank {rank}: {reason}" for rank, reason in (reasons or {}).items())
                )
            )
        else:
            self._slow_label.setText("")
            self.setToolTip("")
