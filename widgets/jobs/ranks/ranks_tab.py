"""The tab Ranks: the GPU and the step time of each rank; slow ranks are highlighted."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QTableView, QWidget

from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState
from widgets.common.cards import Card, VerticalScrollArea
from widgets.common.layout import col
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import PAGE_MARGIN, S1, S2, S3
from widgets.common.view_style import TableHeightLimit, share_column_width, style_view
from widgets.jobs.ranks.rank_history import RankHistory
from widgets.jobs.ranks.rank_rows import RankRow, rank_rows
from widgets.nodes.history.node_history import NodeHistory

_COLUMNS = (
    TableColumn[RankRow](
        "Rank",
        lambda row: f"server {row.rank}" if row.is_server else str(row.rank),
        is_bad=lambda row: row.has_failed,
        is_figure=True,
    ),
    TableColumn[RankRow]("Where", lambda row: row.node, lambda row: row.whole_node),
    TableColumn[RankRow]("GPU", lambda row: row.gpu, lambda row: row.whole_gpu),
    TableColumn[RankRow]("Process", lambda row: row.pid, is_figure=True),
    TableColumn[RankRow](
        "Step",
        lambda row: row.step_time,
        lambda row: row.whole_step,
        needs_attention=lambda row: row.is_slow,
        is_figure=True,
    ),
    TableColumn[RankRow]("Memory", lambda row: row.memory, is_figure=True),
    TableColumn[RankRow]("Use", lambda row: row.gpu_use, is_figure=True),
    TableColumn[RankRow]("Heartbeat", lambda row: row.heartbeat_age),
)
_NODE, _PROCESS, _HEARTBEAT = 1, 3, 7
_GPU_COLUMNS = (2, _PROCESS, 5, 6)
_NARROW_BELOW_W, _WIDE_FROM_W = 600, 1100
_MIN_ROWS, _HISTORY_MIN_H = 5, 360


class RanksTab(QWidget):
    """A row per rank, with the history of their nodes below."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view: JobView | None = None
        self._nodes: Mapping[str, NodeState] = {}
        self._heartbeat_ages: Mapping[str, str] = {}
        self._notable_row = -1
        self._scrolled_job_id = ""
        self._model = RowTableModel(_COLUMNS)
        table = QTableView()
        table.setModel(self._model)
        style_view(table, "Ranks")
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        bar = table.verticalScrollBar()
        bar.rangeChanged.connect(self._show_notable_row)
        bar.actionTriggered.connect(self._stop_scrolling)
        self._table = table
        self.history = RankHistory()
        self.history.setMinimumHeight(_HISTORY_MIN_H)
        content = QWidget()
        card = Card((table, 1), margins=(0, 0, 0, S1))
        TableHeightLimit(table, card, S1)
        content.setLayout(col((card, 2), (self.history, 3), margins=(0, 0, 0, S3), gap=S3))
        self.setLayout(col((VerticalScrollArea(content, gutter=PAGE_MARGIN), 1)))

    def show_view(self, view: JobView, first_point_s: float = 0.0) -> None:
        """Show the job; `first_point_s` is the Unix time of its first point, 0 without points."""
        self._view = view
        self._fill_rows()
        self.history.show_job(view, first_point_s)

    def show_nodes(
        self,
        states: Mapping[str, NodeState],
        histories: Mapping[str, NodeHistory],
        heartbeat_ages: Mapping[str, str],
    ) -> None:
        """Set the nodes, their recent history, and the age of each heartbeat."""
        self._nodes, self._heartbeat_ages = states, heartbeat_ages
        self._fill_rows()
        self.history.show_nodes(states, histories)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._fill_rows()
        self.history.update_layout()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()
        share_column_width(self._table, _NODE, equally=self.width() >= _WIDE_FROM_W)

    def _fit_columns(self) -> None:
        """Hide the columns of GPUs in a job without GPUs, and further columns in a narrow tab."""
        has_gpus = self._view is None or self._view.config.uses_gpus
        is_narrow = self.width() < _NARROW_BELOW_W
        for column in (*_GPU_COLUMNS, _HEARTBEAT):
            is_hidden = is_narrow and column in (_PROCESS, _HEARTBEAT)
            self._table.setColumnHidden(
                column, is_hidden or (column in _GPU_COLUMNS and not has_gpus)
            )

    def _fill_rows(self) -> None:
        if self._view is None or not self.isVisible():
            return
        rows = rank_rows(self._view, self._nodes, self._heartbeat_ages)
        self._model.set_records(rows)
        self._fit_columns()
        visible_rows = min(len(rows), _MIN_ROWS)
        head_h = self._table.horizontalHeader().height()
        row_h = self._table.verticalHeader().defaultSectionSize()
        self._table.setMinimumHeight(head_h + visible_rows * row_h + S2)
        if self._scrolled_job_id != self._view.id:
            self._notable_row = next(
                (n for n, row in enumerate(rows) if row.is_slow or row.has_failed), -1
            )
            self._show_notable_row()

    @Slot()
    def _show_notable_row(self) -> None:
        """Scroll to the rank that needs attention, until the user scrolls."""
        if self._notable_row >= 0:
            hint = QTableView.ScrollHint.PositionAtCenter
            self._table.scrollTo(self._model.index(self._notable_row, 0), hint)

    @Slot()
    def _stop_scrolling(self) -> None:
        self._notable_row = -1
        self._scrolled_job_id = self._view.id if self._view is not None else ""
