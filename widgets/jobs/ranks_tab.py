"""The ranks of the run: where each is and how long its steps take; the slow one stands out."""

from __future__ import annotations

import statistics
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHeaderView, QSizePolicy, QTableView, QWidget

from backend.records.job_view import JobView
from widgets.common import formats, theme
from widgets.common.cards import Card
from widgets.common.layout import STRETCH, col, row
from widgets.common.paint import fill_round, paint_text
from widgets.common.state_badge import Mark
from widgets.common.text import Label
from widgets.common.theme import R_CELL, S1, S2, S3
from widgets.common.views import dress

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()

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


_COLUMNS = ("Rank", "Where", "GPU", "Step")


class RankModel(QAbstractTableModel):
    """One row per rank, from the placement of the job."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[str, str, str, str]] = []

    def put(self, view: JobView) -> None:
        rows: list[tuple[str, str, str, str]] = []
        for placement in view.config.placement:
            node = "this computer" if placement.node == "this-computer" else placement.node
            for slot in range(placement.slots):
                rank = len(rows)
                gpu = placement.gpus[slot] if placement.gpus else "–"
                known = rank < len(view.rank_step_ms)
                ms = formats.milliseconds(view.rank_step_ms[rank]) if known else "–"
                rows.append((str(rank), node, gpu, ms))
        if len(rows) == len(self._rows):
            self._rows = rows
            last = self.index(len(rows) - 1, len(_COLUMNS) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
            return
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(_COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _COLUMNS[section]
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or role != Qt.ItemDataRole.DisplayRole:
            return None
        return self._rows[index.row()][index.column()]


class RanksTab(QWidget):
    """The tab Ranks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = RankModel()
        table = QTableView()
        table.setModel(self._model)
        dress(table, "Ranks")
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        self.setLayout(col((Card((table, 1)), 1), margins=(0, 0, 0, S3), gap=S1))

    def show_view(self, view: JobView) -> None:
        self._model.put(view)
