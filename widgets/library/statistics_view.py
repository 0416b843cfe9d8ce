"""All channels and columns of a dataset in a table, the selected values drawn next to it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QStackedWidget, QTableView, QWidget

from backend.records.library.preview import ChannelStatistics, Preview
from widgets.common import formats
from widgets.common.cards import Card, EmptyState
from widgets.common.labels import Label
from widgets.common.layout import SLACK, STRETCH, clear, col, row
from widgets.common.record_table_model import RowTableModel, TableColumn
from widgets.common.theme import S1, S3
from widgets.common.view_style import TableHeightLimit, share_column_width, style_view
from widgets.library.distribution_card import ValuesCard, statistics_titles
from widgets.library.sample_parts import path_title

_SIDE_W, _NARROW_BELOW_W, _WIDE_MIN_W = 292, 800, 1300
_MAX_SHAPES = 6


@dataclass(frozen=True)
class _Row:
    name: str
    statistics: ChannelStatistics


_COLUMNS = (
    TableColumn[_Row]("Values", lambda row: row.name, lambda row: row.name),
    TableColumn[_Row]("Lowest", lambda row: formats.metric(row.statistics.low), is_figure=True),
    TableColumn[_Row]("Highest", lambda row: formats.metric(row.statistics.high), is_figure=True),
    TableColumn[_Row]("Mean", lambda row: formats.metric(row.statistics.mean), is_figure=True),
    TableColumn[_Row]("Deviation", lambda row: formats.metric(row.statistics.std), is_figure=True),
    TableColumn[_Row](
        "Not finite",
        lambda row: (
            formats.count(row.statistics.nan_count + row.statistics.inf_count)
            if _has_non_finite(row)
            else "–"
        ),
        lambda row: (
            f"{formats.count(row.statistics.nan_count)} NaN, "
            f"{formats.count(row.statistics.inf_count)} infinite"
        ),
        lambda row: _has_non_finite(row),
        is_figure=True,
    ),
)


class StatisticsView(QWidget):
    """The tab Statistics."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = RowTableModel(_COLUMNS)
        self._table = QTableView()
        self._table.setModel(self.model)
        style_view(self._table, "Channels and columns")
        self._table.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self._table.selectionModel().currentRowChanged.connect(self._show_row)
        self._values = ValuesCard(with_picker=False)
        self._shapes = col(gap=S1)
        self._shapes_card = Card(Label("Shapes", "strong"), self._shapes)
        empty_state = EmptyState("table", "No statistics", "This data is not numeric.")
        self._pages = QStackedWidget()
        card = Card((self._table, 1), margins=(0, 0, 0, S1))
        TableHeightLimit(self._table, card, S1)
        table = QWidget()
        table.setLayout(col((card, 1), SLACK))
        self._pages.addWidget(table)
        self._pages.addWidget(empty_state)
        self._side = QWidget()
        self._side.setLayout(col(self._values, self._shapes_card, STRETCH, gap=S3))
        self._layout = row((self._pages, 1), self._side, gap=S3)
        self.setLayout(self._layout)

    def show_preview(self, preview: Preview) -> None:
        rows = [
            _Row(title, statistics)
            for title, statistics in zip(
                statistics_titles(preview), preview.statistics, strict=True
            )
        ]
        self._values.show_preview(preview)
        self.model.set_records(rows)
        self._pages.setCurrentIndex(0 if rows else 1)
        if rows:
            self._table.selectRow(self._values.selected_index)
        clear(self._shapes)
        for part in preview.shapes[:_MAX_SHAPES]:
            shape = f", {formats.shape(part.shape)}" if part.shape else ""
            text = f"{path_title(part.path)}: {part.dtype}{shape}"
            count_text = (
                ""
                if part.count == preview.examined_count
                else f", {formats.count(part.count)} samples"
            )
            self._shapes.addWidget(Label(text + count_text, "body", "text2", elide="right"))
        hidden_count = len(preview.shapes) - _MAX_SHAPES
        if hidden_count > 0:
            self._shapes.addWidget(
                Label(f"and {formats.count(hidden_count)} more", "small", "text3")
            )
        is_narrow = self.width() < _NARROW_BELOW_W
        self._shapes_card.setVisible(not is_narrow and bool(preview.shapes))
        # If the side is hidden, the text of the empty page is in the middle.
        self._side.setVisible(bool(rows or preview.shapes))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the plot below the table in a narrow window."""
        super().resizeEvent(event)
        is_narrow = self.width() < _NARROW_BELOW_W
        direction = (
            QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        )
        self._layout.setDirection(direction)
        share_column_width(self._table, 0, equally=self.width() >= _WIDE_MIN_W)
        self._side.setMinimumWidth(0 if is_narrow else _SIDE_W)
        self._side.setMaximumWidth(self.width() if is_narrow else _SIDE_W)
        self._shapes_card.setVisible(not is_narrow and self._shapes.count() > 0)

    @Slot(QModelIndex)
    def _show_row(self, index: QModelIndex) -> None:
        if index.isValid():
            self._values.select_index(index.row())


def _has_non_finite(row: _Row) -> bool:
    return row.statistics.nan_count + row.statistics.inf_count > 0
