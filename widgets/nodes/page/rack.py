"""The rack: every node at a fixed place, its GPUs as cells, its problem as text.

The order never changes, so that a position in the picture always means the same node; a filter only
dims. Up to 12 nodes have tall rows, up to 24 have low rows, and more form a wall. The rack is a Qt
list, which provides keys, accessibility and repainting of single rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import QHelpEvent, QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QWidget,
)

from widgets.common import theme
from widgets.common.labels import plain_tip
from widgets.common.painting import paint_focus
from widgets.common.record_table_model import NO_PARENT
from widgets.common.theme import R_CARD, RACK_ROW_H, S2, S3
from widgets.common.view_style import style_view
from widgets.nodes.page import rack_paint
from widgets.nodes.page.rack_paint import HEAD_H, WALL_ROW_H, RackColumns
from widgets.nodes.row.node_row import NodeRow

AnyIndex = QModelIndex | QPersistentModelIndex
ROW_ROLE = Qt.ItemDataRole.UserRole
DIMMED_ROLE = Qt.ItemDataRole.UserRole + 1

TALL_UP_TO, ROWS_UP_TO = 12, 24
_WALL_COLUMN_MIN_W, _MAX_WALL_COLUMNS = 240, 4
_READ_OUT_MAX_W = 1040


class Density(Enum):
    """The drawing size of a node, by the number of nodes."""

    TALL = "tall"
    LOW = "low"
    WALL = "wall"


def density_of(count: int) -> Density:
    if count <= TALL_UP_TO:
        return Density.TALL
    return Density.LOW if count <= ROWS_UP_TO else Density.WALL


class RackModel(QAbstractListModel):
    """The rows. An update of one node changes only its row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[NodeRow, ...] = ()
        self._dimmed_names: frozenset[str] = frozenset()

    def set_rows(self, rows: Sequence[NodeRow]) -> None:
        new_rows, previous_rows = tuple(rows), self.rows
        if [row.name for row in new_rows] != [row.name for row in previous_rows]:
            self.beginResetModel()
            self.rows = new_rows
            self.endResetModel()
            return
        self.rows = new_rows
        self._report_rows(
            number for number, row in enumerate(new_rows) if row != previous_rows[number]
        )

    def dim(self, names: frozenset[str]) -> None:
        """Dim the rows of these names, and no other rows."""
        changed_names = self._dimmed_names ^ names
        self._dimmed_names = names
        self._report_rows(
            number for number, row in enumerate(self.rows) if row.name in changed_names
        )

    def row_of(self, name: str) -> int | None:
        return next((n for n, row in enumerate(self.rows) if row.name == name), None)

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self.rows[index.row()]
        if role == ROW_ROLE:
            return row
        if role == DIMMED_ROLE:
            return row.name in self._dimmed_names
        if role == Qt.ItemDataRole.DisplayRole:
            return row.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return row.description
        return None

    def _report_rows(self, row_numbers: Iterable[int]) -> None:
        for number in row_numbers:
            index = self.index(number)
            self.dataChanged.emit(index, index)


class RackDelegate(QStyledItemDelegate):
    """Paint a node at the size of the density."""

    def __init__(self, parent: Rack) -> None:
        super().__init__(parent)
        self._rack = parent

    def sizeHint(self, _option: QStyleOptionViewItem, _index: AnyIndex) -> QSize:
        return self._rack.cell_size()

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        row: NodeRow = index.data(ROW_ROLE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(option.rect)
        if index.data(DIMMED_ROLE):
            painter.setOpacity(rack_paint.DIMMED)
        is_hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        self._rack.paint_node(painter, rect, row, is_hovered, is_first=index.row() == 0)
        painter.setOpacity(1.0)
        focus_flags = QStyle.StateFlag.State_HasFocus | QStyle.StateFlag.State_KeyboardFocusChange
        if option.state & focus_flags == focus_flags:
            paint_focus(painter, rect.adjusted(0, 1, 0, -1))
        painter.restore()


class Rack(QListView):
    """The list of all nodes.

    Signals:
        node_opened: Name of the node that was clicked, or on which Enter was pressed.
        row_focused: The rectangle of the current row, to scroll to.
        layout_changed: The columns may have moved.

    Attributes:
        rows_model: The model of the nodes.
        density: How tall a row is.
    """

    node_opened = Signal(str)
    row_focused = Signal(QRect)
    layout_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows_model = RackModel()
        self.density = Density.TALL
        self._rack_columns = rack_paint.plan_columns((), 800, is_tall=True)
        self._wall_layout = rack_paint.plan_wall(())
        self._column_count = 1
        self._read_out: RowReadOut | None = None
        self.setModel(self.rows_model)
        self.setItemDelegate(RackDelegate(self))
        style_view(self, "Nodes")
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMovement(QListView.Movement.Static)
        self.setFlow(QListView.Flow.TopToBottom)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(self._open_node)
        self.entered.connect(self._show_read_out)
        self.viewportEntered.connect(self._hide_read_out)

    def show_rows(self, rows: Sequence[NodeRow]) -> None:
        """Show the rows in their fixed order. Cheap for unchanged rows."""
        previous_count = len(self.rows_model.rows)
        self.rows_model.set_rows(rows)
        if len(rows) != previous_count or self._plan_columns() != self._rack_columns:
            self._lay_out()

    def dim(self, names: frozenset[str]) -> None:
        self.rows_model.dim(names)

    @property
    def columns(self) -> RackColumns:
        """The columns of the table; meaningless on a wall."""
        return self._rack_columns

    def cell_size(self) -> QSize:
        """Width and height of one node."""
        height = {Density.TALL: RACK_ROW_H, Density.LOW: rack_paint.DENSE_ROW_H}
        width = self.viewport().width() // self._column_count
        return QSize(width, height.get(self.density, WALL_ROW_H))

    def paint_node(
        self, painter: QPainter, rect: QRectF, row: NodeRow, is_hovered: bool, *, is_first: bool
    ) -> None:
        if self.density is Density.WALL:
            row_rect = rect.adjusted(S2 / 2, 1, -S2 / 2, -1)
            rack_paint.paint_background(painter, row_rect, row, is_hovered=is_hovered)
            rack_paint.paint_wall_row(painter, row_rect, row, self._wall_layout)
            return
        if not is_first:
            line = QRectF(rect.left() + rack_paint.PAD, rect.top(), rect.width(), 1)
            line.setRight(rect.right() - rack_paint.PAD)
            painter.fillRect(line, theme.current().q("line"))
        inset = 3 if self.density is Density.TALL else 1
        background = rect.adjusted(0, inset + 1, 0, -inset)
        rack_paint.paint_background(painter, background, row, is_hovered=is_hovered)
        rack_paint.paint_row(painter, rect, row, self._rack_columns)

    # -- Qt overrides.

    def dataChanged(
        self, top_left: AnyIndex, bottom_right: AnyIndex, roles: Sequence[int] = ()
    ) -> None:
        # QListView's own version lays out and paints all rows.
        QAbstractItemView.dataChanged(self, top_left, bottom_right, list(roles))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._lay_out()

    def wheelEvent(self, event: QWheelEvent) -> None:
        # The page scrolls, because the rack always has its full height.
        event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self._open_node(self.currentIndex())
            return
        super().keyPressEvent(event)

    def currentChanged(self, current_index: AnyIndex, previous_index: AnyIndex) -> None:
        super().currentChanged(current_index, previous_index)
        if current_index.isValid():
            self.row_focused.emit(self.visualRect(self.rows_model.index(current_index.row())))

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            if self.density is not Density.WALL:
                QToolTip.showText(event.globalPos(), plain_tip(self.tip_at(event.pos())), self)
            return True
        if event.type() in (QEvent.Type.Leave, QEvent.Type.Hide):
            self._hide_read_out()
        return bool(super().viewportEvent(event))

    def tip_at(self, position: QPoint) -> str:
        """Return the full text of a GPU or node at this position."""
        index = self.indexAt(position)
        if not index.isValid():
            return ""
        row: NodeRow = index.data(ROW_ROLE)
        gpu_index = self._rack_columns.cell_at(position.x())
        if gpu_index is not None and gpu_index < len(row.gpus):
            return f"{row.title}: {row.gpus[gpu_index].description}"
        return row.description

    # -- Layout.

    def _plan_columns(self) -> RackColumns:
        is_tall = self.density is not Density.LOW
        return rack_paint.plan_columns(
            self.rows_model.rows, self.viewport().width(), is_tall=is_tall
        )

    def _lay_out(self) -> None:
        rows = self.rows_model.rows
        self.density = density_of(len(rows))
        width = self.viewport().width()
        is_wall = self.density is Density.WALL
        self._rack_columns = self._plan_columns()
        self._wall_layout = rack_paint.plan_wall(rows)
        column_count = max(1, min(_MAX_WALL_COLUMNS, width // _WALL_COLUMN_MIN_W))
        self._column_count = column_count if is_wall else 1
        rows_per_column = -(-len(rows) // self._column_count)
        size = self.cell_size()
        self.setWrapping(is_wall)
        self.setGridSize(size if is_wall else QSize())
        # Qt begins a new column when a row would end on the last pixel.
        self.setFixedHeight(max(1, rows_per_column * size.height() + (2 if is_wall else 0)))
        self.scheduleDelayedItemsLayout()
        self.viewport().update()
        self.layout_changed.emit()

    @Slot(QModelIndex)
    def _open_node(self, index: AnyIndex) -> None:
        if index.isValid():
            row: NodeRow = index.data(ROW_ROLE)
            self._hide_read_out()
            self.node_opened.emit(row.name)

    @Slot(QModelIndex)
    def _show_read_out(self, index: QModelIndex) -> None:
        """Show the node under the pointer of a wall large."""
        if self.density is not Density.WALL:
            return
        if self._read_out is None:
            self._read_out = RowReadOut(self.window())
        rect = self.visualRect(index)
        corner = self.viewport().mapTo(self.window(), rect.topLeft())
        self._read_out.show_row(index.data(ROW_ROLE), QRect(corner, rect.size()))

    @Slot()
    def _hide_read_out(self) -> None:
        if self._read_out is not None:
            self._read_out.hide()


class RackHead(QWidget):
    """The captions above the rack; none above a wall."""

    def __init__(self, rack: Rack, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rack = rack
        self.setFixedHeight(HEAD_H)
        rack.layout_changed.connect(self._refresh)

    @Slot()
    def _refresh(self) -> None:
        self.setVisible(self._rack.density is not Density.WALL)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        rack_paint.paint_head(painter, self._rack.columns)
        line = QRectF(rack_paint.PAD, HEAD_H - 1, self.width() - 2 * rack_paint.PAD, 1)
        painter.fillRect(line, theme.current().q("line"))


class RowReadOut(QWidget):
    """A row in full size, over the window, for the small row under the pointer."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._row: NodeRow | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_row(self, row: NodeRow, anchor: QRect) -> None:
        """Show `row` below or above `anchor`, a rectangle in pixels of the window."""
        self._row = row
        window = self._window
        width = min(_READ_OUT_MAX_W, window.width() - 2 * S3)
        height = HEAD_H + RACK_ROW_H + S3
        x = min(max(anchor.left(), S3), window.width() - width - S3)
        y = anchor.bottom() + 4
        if y + height > window.height() - S3:
            y = anchor.top() - height - 4
        self.setGeometry(x, y, width, height)
        self.raise_()
        self.show()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._row is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        painter.setPen(t.q("line_strong"))
        painter.setBrush(t.q("popup"))
        frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(frame, R_CARD, R_CARD)
        columns = rack_paint.plan_columns((self._row,), self.width(), is_tall=True)
        rack_paint.paint_head(painter, columns)
        rack_paint.paint_row(
            painter, QRectF(0, HEAD_H, self.width(), RACK_ROW_H), self._row, columns
        )
