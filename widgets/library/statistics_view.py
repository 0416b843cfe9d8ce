"""All channels and columns of a dataset in a table, the selected one drawn next to it."""

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
from widgets.common.view_style import TableHeightLimit, style_view, share_column_width
from widgets.library.distribution_card import ValuesCard, titles
from widgets.library.sample_parts import path_title

_SIDE_W, _NARROW_BELOW_W, _WIDE_FROM_W = 292, 800, 1300
_SHAPES_SHOWN = 6


@dataclass(frozen=True)
class _Row:
    name: str
    of: ChannelStatistics


_COLUMNS = (
    TableColumn[_Row]("Values", lambda row: row.name, lambda row: row.name),
    TableColumn[_Row]("Lowest", lambda row: formats.metric(row.of.low), is_figure=True),
    TableColumn[_Row]("Highest", lambda row: formats.metric(row.of.high), is_figure=True),
    TableColumn[_Row]("Mean", lambda row: formats.metric(row.of.mean), is_figure=True),
    TableColumn[_Row]("Deviation", lambda row: formats.metric(row.of.std), is_figure=True),
    TableColumn[_Row](
        "Not finite",
        lambda row: formats.count(row.of.nan_count + row.of.inf_count) if _is_odd(row) else "–",
        lambda row: (
            f"{formats.count(row.of.nan_count)} NaN, {formats.count(row.of.inf_count)} infinite"
        ),
        lambda row: _is_odd(row),
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
        self._table.selectionModel().currentRowChanged.connect(self._choose)
        self._values = ValuesCard(with_picker=False)
        self._shapes = col(gap=S1)
        self._shapes_card = Card(Label("Shapes", "strong"), self._shapes)
        empty = EmptyState("table", "No statistics", "This data is not numeric.")
        self._pages = QStackedWidget()
        card = Card((self._table, 1), margins=(0, 0, 0, S1))
        TableHeightLimit(self._table, card, S1)
        table = QWidget()
        table.setLayout(col((card, 1), SLACK))
        self._pages.addWidget(table)
        self._pages.addWidget(empty)
        self._side = QWidget()
        self._side.setLayout(col(self._values, self._shapes_card, STRETCH, gap=S3))
        self._box = row((self._pages, 1), self._side, gap=S3)
        self.setLayout(self._box)

    def show_preview(self, preview: Preview) -> None:
        rows = [
            _Row(name, one) for name, one in zip(titles(preview), preview.statistics, strict=True)
        ]
        self._values.show_preview(preview)
        self.model.set_records(rows)
        self._pages.setCurrentIndex(0 if rows else 1)
        if rows:
            self._table.selectRow(self._values.shown)
        clear(self._shapes)
        for one in preview.shapes[:_SHAPES_SHOWN]:
            shape = f", {formats.shape(one.shape)}" if one.shape else ""
            words = f"{path_title(one.path)}: {one.dtype}{shape}"
            share = "" if one.count == preview.examined else f", {formats.count(one.count)} samples"
            self._shapes.addWidget(Label(words + share, "body", "text2", elide="right"))
        more = len(preview.shapes) - _SHAPES_SHOWN
        if more > 0:
            self._shapes.addWidget(Label(f"and {formats.count(more)} more", "small", "text3"))
        narrow = self.width() < _NARROW_BELOW_W
        self._shapes_card.setVisible(not narrow and bool(preview.shapes))
        # If the plot is hidden, its sentence is in the middle.
        self._side.setVisible(bool(rows or preview.shapes))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the table has the whole width, and the plot is below it."""
        super().resizeEvent(event)
        narrow = self.width() < _NARROW_BELOW_W
        way = QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight
        self._box.setDirection(way)
        share_column_width(self._table, 0, equally=self.width() >= _WIDE_FROM_W)
        self._side.setMinimumWidth(0 if narrow else _SIDE_W)
        self._side.setMaximumWidth(self.width() if narrow else _SIDE_W)
        self._shapes_card.setVisible(not narrow and self._shapes.count() > 0)

    @Slot(QModelIndex)
    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self._values.choose(index.row())


def _is_odd(row: _Row) -> bool:
    return row.of.nan_count + row.of.inf_count > 0
