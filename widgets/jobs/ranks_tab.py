"""The ranks of the run: where each is and how long its steps take; the slow one stands out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHeaderView, QSizePolicy, QTableView, QWidget

from backend.records.job_view import JobView
from backend.records.node import NodeState
from widgets.cluster.node_history import NodeHistory
from widgets.common import formats, theme
from widgets.common.cards import Card, Scroll
from widgets.common.layout import STRETCH, col, row
from widgets.common.paint import fill_round, paint_text
from widgets.common.row_table import Column, RowTableModel
from widgets.common.state_badge import Mark
from widgets.common.text import Label
from widgets.common.theme import R_CELL, S2, S3
from widgets.common.views import dress
from widgets.jobs.rank_history import RankHistory
from widgets.jobs.rank_rows import RankRow, rank_rows

SLOW_FACTOR = 1.25
"""A rank whose step takes so much longer than the median is slow."""
_CELL_W, _CELL_H = 88, 40


def slow_ranks(step_ms: tuple[float, ...]) -> tuple[int, ...]:
    """Ranks that keep the others waiting."""
    if len(step_ms) < 2:
        return ()
    # Of two ranks the median is the mean, which the slow one lifts too: compare with the fastest.
    usual = statistics.median(step_ms) if len(step_ms) > 2 else min(step_ms)
    return tuple(rank for rank, ms in enumerate(step_ms) if usual > 0 and ms > SLOW_FACTOR * usual)


def rank_marks(view: JobView) -> list[Mark]:
    """The segments of the ring, one for each rank."""
    slow = set(slow_ranks(view.rank_step_ms)) if view.state.is_live else set()
    bad = view.error.rank if view.error is not None else None
    return [
        "bad" if rank == bad else "warn" if rank in slow else "" for rank in range(view.world_size)
    ]


class _Cells(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._step_ms: tuple[float, ...] = ()
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_ranks(self, step_ms: tuple[float, ...]) -> None:
        again = len(step_ms) != len(self._step_ms)
        self._step_ms = step_ms
        if again:
            self.updateGeometry()
        self.update()

    def heightForWidth(self, width: int) -> int:
        columns = max(1, width // (_CELL_W + S2))
        rows = -(-max(1, len(self._step_ms)) // columns)
        return rows * (_CELL_H + S2)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        slow = set(slow_ranks(self._step_ms))
        columns = max(1, self.width() // (_CELL_W + S2))
        for rank, ms in enumerate(self._step_ms):
            x, y = rank % columns * (_CELL_W + S2), rank // columns * (_CELL_H + S2)
            cell = QRectF(x + 1, y + 1, _CELL_W - 2, _CELL_H - 2)
            is_slow = rank in slow
            fill_round(painter, cell, t.tint("warn" if is_slow else "live"), R_CELL)
            if is_slow:
                painter.setPen(QPen(t.q("warn_fill"), 1.5))
                painter.drawRoundedRect(cell, R_CELL, R_CELL)
            half = cell.height() / 2
            upper = QRectF(cell.left() + S2, cell.top() + 2, cell.width() - 2 * S2, half)
            lower = upper.translated(0, half - 3)
            paint_text(painter, upper, str(rank), "tiny", "warn" if is_slow else "text3")
            figure = formats.milliseconds(ms)
            paint_text(painter, lower, figure, "small_strong", "warn" if is_slow else "text")


class RankStrip(Card):
    """Below the curves: a cell per rank with the time of one step."""

    def __init__(self) -> None:
        self._cells = _Cells()
        self._word = Label("", "small_strong", "warn")
        caption = Label("time of one step, without waiting for the others", "small", "text3")
        head = row(Label("Ranks", "strong"), caption, STRETCH, self._word, gap=S2)
        super().__init__(head, self._cells, gap=S2)
        self.hide()

    def show_ranks(self, step_ms: tuple[float, ...]) -> None:
        self.setVisible(bool(step_ms))
        self._cells.show_ranks(step_ms)
        slow = slow_ranks(step_ms)
        if slow:
            rest = [ms for rank, ms in enumerate(step_ms) if rank not in slow]
            more = statistics.median(step_ms[rank] for rank in slow) / statistics.median(rest) - 1
            who = "rank" if len(slow) == 1 else "ranks"
            numbers = formats.ranges(slow)
            verb = "is" if len(slow) == 1 else "are"
            self._word.setText(f"{who} {numbers} {verb} {formats.percent(more)} slower")
        else:
            self._word.setText("")


_COLUMNS = (
    Column[RankRow]("Rank", lambda row: str(row.rank)),
    Column[RankRow]("Where", lambda row: row.node, lambda row: row.whole_node),
    Column[RankRow]("GPU", lambda row: row.gpu, lambda row: row.whole_gpu),
    Column[RankRow]("Process", lambda row: row.pid),
    Column[RankRow]("Step", lambda row: row.step),
    Column[RankRow]("Memory", lambda row: row.memory),
    Column[RankRow]("Use", lambda row: row.use),
    Column[RankRow]("Heartbeat", lambda row: row.beat),
)
_WHERE, _PROCESS, _BEAT = 1, 3, 7
_NARROW_BELOW_W = 600
_ROWS_SEEN, _HISTORY_LEAST_H = 5, 320


class RanksTab(QWidget):
    """The tab Ranks: a row for each, and below what their nodes did meanwhile."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view: JobView | None = None
        self._nodes: Mapping[str, NodeState] = {}
        self._beats: Mapping[str, str] = {}
        self._model = RowTableModel(_COLUMNS)
        table = QTableView()
        table.setModel(self._model)
        dress(table, "Ranks")
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(False)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header.setSectionResizeMode(_WHERE, QHeaderView.ResizeMode.Stretch)
        self._table = table
        self.history = RankHistory()
        self.history.setMinimumHeight(_HISTORY_LEAST_H)
        content = QWidget()
        parts = (Card((table, 1)), 2), (self.history, 3)
        content.setLayout(col(*parts, margins=(0, 0, S2, S3), gap=S3))
        self.setLayout(col((Scroll(content), 1)))

    def show_view(self, view: JobView, began_s: float = 0.0) -> None:
        """The job; `began_s` is the Unix time of its first point, 0 before there is one."""
        self._view = view
        self._fill()
        self.history.show_job(view, began_s)

    def show_nodes(
        self,
        states: Mapping[str, NodeState],
        histories: Mapping[str, NodeHistory],
        beats: Mapping[str, str],
    ) -> None:
        """All nodes as they are now, what is known of their last hours, and when each was heard."""
        self._nodes, self._beats = states, beats
        self._fill()
        self.history.show_nodes(states, histories)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._fill()
        self.history.settle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for column in (_PROCESS, _BEAT):
            self._table.setColumnHidden(column, self.width() < _NARROW_BELOW_W)

    def _fill(self) -> None:
        if self._view is None or not self.isVisible():
            return
        rows = rank_rows(self._view, self._nodes, self._beats)
        self._model.put(rows)
        seen = min(len(rows), _ROWS_SEEN)
        head = self._table.horizontalHeader().height()
        row_h = self._table.verticalHeader().defaultSectionSize()
        self._table.setMinimumHeight(head + seen * row_h + S2)
