"""The cluster in the side bar: counts, notes and a map of nodes, readable from a distance."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from backend.records.nodes.reading import NodeState
from widgets.common import icons, theme
from widgets.common.labels import Label, Note, plain_tip
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.painting import paint_text, text_width
from widgets.common.state_badge import paint_gpu_cell
from widgets.common.theme import ICON_LARGE, ICON_NAV, S1, S2, SIDEBAR_W, Role
from widgets.nodes.row.node_names import elide_names
from widgets.nodes.row.node_row import (
    Condition,
    GpuCell,
    NodeRow,
    condition_of,
    node_row,
)

MAX_NOTES = 3
_MAX_NAMED_NODES = 20
_ROW_H, _ROW_WIDE_H, _ROW_MIN_H, _DENSE_ROW_MAX_H, _DENSE_H = 14, 18, 5, 10, 170
_NAMES_MIN_ROW_H, _CELLS_MIN_ROW_H, _NOTE_NAME_W = 11, 9, 108
_NAME_MAX_W, _GAP, _DENSE_GAP, _GUTTER = 92, 3, 2, 14
_CELL_MAX_W = 28
_COUNTS_H, _RAIL_COUNT_H, _COUNT_GAP = 40, 26, 14
NOTES_MIN_H, MAP_MIN_H = 700, 860
"""A window of less height shows less of the cluster."""
MAP_MIN_H_SINGLE = 720


class HealthCounts(QWidget):
    """The number of nodes with problems and offline, in large figures; otherwise one line."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._counts: tuple[tuple[Condition, int], ...] = ()
        self._default_line = _default_line(())
        self._is_narrow = False
        self._is_wide = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._update_size()

    def show_rows(self, rows: tuple[NodeRow, ...]) -> None:
        notable_conditions = (Condition.UNHEALTHY, Condition.OFFLINE)
        counts = tuple(
            (c, n) for c in notable_conditions if (n := sum(r.condition is c for r in rows))
        )
        default_line = _default_line(rows)
        if (counts, default_line) != (self._counts, self._default_line):
            self._counts, self._default_line = counts, default_line
            self._update_size()

    def set_narrow(self, is_narrow: bool) -> None:
        """Set whether the bar is narrow: the counts are then below each other."""
        self._is_narrow = is_narrow
        self._update_size()

    def set_wide(self, is_wide: bool) -> None:
        """Set whether the screen is large: the counts are then larger."""
        self._is_wide = is_wide
        self._update_size()

    def _update_size(self) -> None:
        lines = max(1, len(self._counts))
        self.setFixedHeight(lines * _RAIL_COUNT_H if self._is_narrow else _COUNTS_H)
        parts = [f"{n} {condition.count_label(n)}" for condition, n in self._counts]
        self.setAccessibleName(", ".join(parts) or f"Nodes: {self._default_line[1].lower()}")
        self.setToolTip(plain_tip(self.accessibleName()))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self._is_narrow:
            self._paint_narrow(painter)
            return
        centre_y = self.height() / 2
        x = 0.0
        default_condition, default_text = self._default_line
        roles: list[Role] = ["far_large"] if self._is_wide else []
        roles += ["far", "number"]
        fitting_roles = [role for role in roles if self._counts_w(role) <= self.width()]
        role = (fitting_roles or roles[-1:])[0]
        for condition, count in self._counts or ((default_condition, 0),):
            color_role = "good" if condition is Condition.WELL else condition.color_role
            square = QRectF(x, centre_y - ICON_LARGE / 2, ICON_LARGE, ICON_LARGE)
            icons.paint_icon(painter, square, condition.icon, color_role)
            x += ICON_LARGE + 6
            if not count:
                text_rect = QRectF(x, 0, self.width() - x, self.height())
                paint_text(painter, text_rect, default_text, "number", color_role)
                return
            figure = str(count)
            text_rect = QRectF(x, 0, self.width() - x, self.height())
            x += paint_text(painter, text_rect, figure, role, color_role) + S1
            baseline_offset = {"far_large": 7, "far": 5}.get(role, 2)
            text_rect = QRectF(x, baseline_offset, self.width() - x, self.height())
            # Without space for all words the icons and the tool tip show the conditions.
            word = _word(condition) if fitting_roles else ""
            x += paint_text(painter, text_rect, word, "small_strong", color_role) + _COUNT_GAP

    def _counts_w(self, role: Role) -> float:
        """Return the width of all counts with their figures in this role."""
        return sum(
            ICON_LARGE + 6 + text_width(str(n), role) + S1 + text_width(_word(c), "small_strong")
            for c, n in self._counts
        ) + _COUNT_GAP * (len(self._counts) - 1)

    def _paint_narrow(self, painter: QPainter) -> None:
        for line, (condition, count) in enumerate(self._counts or ((self._default_line[0], 0),)):
            color_role = "good" if condition is Condition.WELL else condition.color_role
            figure = str(count) if count else ""
            gap = 5 if figure else 0
            width = ICON_NAV + gap + text_width(figure, "number")
            x = (self.width() - width) / 2
            top = line * _RAIL_COUNT_H
            square = QRectF(x, top + (_RAIL_COUNT_H - ICON_NAV) / 2, ICON_NAV, ICON_NAV)
            icons.paint_icon(painter, square, condition.icon, color_role)
            text_rect = QRectF(square.right() + gap, top, self.width(), _RAIL_COUNT_H)
            paint_text(painter, text_rect, figure, "number", color_role)


def _word(condition: Condition) -> str:
    return "attention" if condition is Condition.UNHEALTHY else condition.label.lower()


def _default_line(rows: tuple[NodeRow, ...]) -> tuple[Condition, str]:
    """Return the line that is shown if no node needs attention."""
    if new_count := sum(node.condition is Condition.NEW for node in rows):
        return Condition.NEW, f"{new_count} not set up"
    if rows and all(node.condition is Condition.OUT_OF_SERVICE for node in rows):
        return Condition.OUT_OF_SERVICE, "None in service"
    if unknown_count := sum(node.condition is Condition.UNKNOWN for node in rows):
        return Condition.UNKNOWN, f"{unknown_count} not known"
    return (Condition.WELL, "All healthy") if rows else (Condition.UNKNOWN, "Not read yet")


class ClusterMap(QWidget):
    """A row per node, a cell per GPU. Above 20 nodes two columns of plain blocks without names.

    Its rows shrink if the side bar is full: names are dropped first, then the patterns of cells.

    Signals:
        node_opened: Name of the node that was clicked.
    """

    node_opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[NodeRow, ...] = ()
        self._map_state: tuple[object, ...] = ()
        self._max_row_h = _ROW_H
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    @property
    def is_dense(self) -> bool:
        return len(self._rows) > _MAX_NAMED_NODES

    def show_rows(self, rows: tuple[NodeRow, ...]) -> None:
        self._rows = rows
        map_state = _visible_state(rows)
        if map_state == self._map_state:
            return
        self._map_state = map_state
        self._update_size()
        self.setAccessibleName("Map of the cluster")
        self.setAccessibleDescription(". ".join(row.description for row in rows))
        self.update()

    def set_wide(self, is_wide: bool) -> None:
        """Set whether the screen is large: the rows are then higher."""
        self._max_row_h = _ROW_WIDE_H if is_wide else _ROW_H
        self._update_size()

    def _update_size(self) -> None:
        self.setMinimumHeight(_ROW_MIN_H * self._rows_per_column())
        self.setMaximumHeight(self._best_row_h() * self._rows_per_column())
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        return QSize(SIDEBAR_W, self.maximumHeight())

    def node_at(self, point: QPointF) -> str:
        """The node drawn at this point, "" for none."""
        rows_per_column = self._rows_per_column()
        width = self._column_w() + _GUTTER
        column = int(point.x() // width) if self.is_dense else 0
        line = int(point.y() // self._row_h())
        number = column * rows_per_column + line
        is_inside = 0 <= line < rows_per_column and 0 <= number < len(self._rows)
        return self._rows[number].name if is_inside else ""

    def mousePressEvent(self, event: QMouseEvent) -> None:
        name = self.node_at(event.position())
        if name:
            self.node_opened.emit(name)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            name = self.node_at(QPointF(event.pos()))
            message = next((row.description for row in self._rows if row.name == name), "")
            QToolTip.showText(event.globalPos(), plain_tip(message), self)
            return True
        return bool(super().event(event))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        rows_per_column, row_h, is_dense = self._rows_per_column(), self._row_h(), self.is_dense
        max_cells = max((len(row.gpus) for row in self._rows), default=0)
        is_single = len(self._rows) == 1
        name_w = 0.0
        names: tuple[str, ...] = ()
        if not is_dense and not is_single and row_h >= _NAMES_MIN_ROW_H:
            titles = [row.title for row in self._rows]
            name_w = float(min(max(text_width(t, "small_strong") for t in titles), _NAME_MAX_W))
            names = elide_names(titles, name_w, "small_strong")
        gap = _DENSE_GAP if is_dense else _GAP
        names_w = name_w + S2 if names else 0.0
        cell_w = (self._column_w() - names_w - max(0, max_cells - 1) * gap) / max(1, max_cells)
        cell_w = min(cell_w, self._column_w() if is_dense else _CELL_MAX_W)
        for number, node in enumerate(self._rows):
            x = number // rows_per_column * (self._column_w() + _GUTTER)
            y = number % rows_per_column * row_h
            if names:
                is_notable = node.condition.is_notable
                color_role = node.condition.color_role if is_notable else "text3"
                # In a low row the descenders of letters reach into the next row, and are not cut.
                extra_h = max(0.0, (_ROW_H - row_h) / 2)
                name_rect = QRectF(x, y - extra_h, name_w, row_h + 2 * extra_h)
                paint_text(
                    painter,
                    name_rect,
                    names[number],
                    "small_strong" if is_notable else "tiny",
                    color_role,
                )
            for index, cell in enumerate(node.gpus):
                cell_rect = QRectF(x + names_w + index * (cell_w + gap), y, cell_w, row_h)
                if is_dense or row_h < _CELLS_MIN_ROW_H:
                    _paint_block(painter, cell_rect, node, cell)
                else:
                    inset = 2 if row_h >= _ROW_H else 1
                    box = cell_rect.adjusted(0, inset, 0, -inset)
                    paint_gpu_cell(
                        painter, box, cell.use, is_unhealthy=bool(cell.problem), radius=2
                    )

    def _rows_per_column(self) -> int:
        return -(-len(self._rows) // (2 if self.is_dense else 1)) or 1

    def _best_row_h(self) -> int:
        if not self.is_dense:
            return self._max_row_h
        fitting_h = _DENSE_H // self._rows_per_column()
        return max(_ROW_MIN_H, min(_DENSE_ROW_MAX_H, fitting_h))

    def _row_h(self) -> int:
        """The row height that fits into the side bar."""
        fitting_h = self.height() // self._rows_per_column()
        return max(_ROW_MIN_H, min(self._best_row_h(), fitting_h))

    def _column_w(self) -> float:
        return (self.width() - _GUTTER) / 2 if self.is_dense else float(self.width())


def _paint_block(painter: QPainter, rect: QRectF, node: NodeRow, cell: GpuCell) -> None:
    color_role = {"ours": "live", "other": "line_strong", "gone": "bad"}.get(cell.use, "line")
    if cell.problem:
        color_role = "warn_fill"
    gap = 3 if node.condition is Condition.OFFLINE else 1
    block = QRectF(round(rect.left()), rect.top(), round(rect.width()), rect.height() - gap)
    painter.fillRect(block, theme.current().q(color_role))


def _visible_state(rows: tuple[NodeRow, ...]) -> tuple[object, ...]:
    """The part of the nodes' state that the map shows."""
    return tuple(
        (r.name, r.condition, tuple((g.use, bool(g.problem)) for g in r.gpus)) for r in rows
    )


class ClusterSummary(QWidget):
    """Title and free GPUs, counts, a note per node that needs attention, and the map.

    Signals:
        node_opened: Name of a node, "" for the page Nodes.
    """

    node_opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[NodeRow, ...] = ()
        self._node_notes: tuple[tuple[Condition, str, str], ...] = ()
        self._is_narrow = False
        self._available_h = MAP_MIN_H
        self._title = Label("Cluster", "small_strong", "text2")
        self._free_label = Label("", "small", "text3")
        self.counts = HealthCounts()
        self._notes = QWidget()
        self._notes_h = 0
        """The height of the notes; the layout does not count new notes yet."""
        self.notes = col(gap=2)
        self._notes.setLayout(self.notes)
        self.map = ClusterMap()
        self.map.node_opened.connect(self.node_opened)
        self.setLayout(
            col(
                row(self._title, STRETCH, self._free_label),
                self.counts,
                self._notes,
                S1,
                self.map,
                gap=S1,
            )
        )
        self._update_visibility()

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """Show all nodes in their fixed order."""
        self._rows = tuple(map(node_row, states))
        self.counts.show_rows(self._rows)
        total = sum(len(node.gpus) for node in self._rows)
        free = sum(node.free_gpus for node in self._rows)
        self._free_label.setText(f"{free} of {total} free" if total else "")
        self._show_notes(states)
        self.map.show_rows(self._rows)
        self._update_visibility()

    def set_narrow(self, is_narrow: bool) -> None:
        """Set whether the bar is narrow: only the counts remain."""
        self._is_narrow = is_narrow
        self.counts.set_narrow(is_narrow)
        self._update_visibility()

    def set_wide(self, is_wide: bool) -> None:
        self.counts.set_wide(is_wide)
        self.map.set_wide(is_wide)

    def set_available_height(self, height: int) -> None:
        """Set the height of the window: a low window hides the map first, then the notes."""
        self._available_h = height
        self._update_visibility()

    def heights(self, *, of_visible_parts: bool = False) -> tuple[int, int]:
        """Return the heights of notes and map with their gaps, needed or ``of_visible_parts``."""
        has_notes = not self._notes.isHidden() if of_visible_parts else bool(self._node_notes)
        has_gpus = any(node.gpus for node in self._rows)
        has_map = not self.map.isHidden() if of_visible_parts else has_gpus
        return (
            self._notes_h + S1 if has_notes else 0,
            self.map.minimumHeight() + S1 if has_map else 0,
        )

    def _show_notes(self, states: tuple[NodeState, ...]) -> None:
        is_single = len(states) == 1
        node_notes: list[tuple[Condition, str, str]] = []
        for state, node in zip(states, self._rows, strict=True):
            condition, reason = condition_of(state)
            if condition.is_notable or is_single:
                node_notes.append((condition, node.title, reason))
        visible_notes = tuple(node_notes[:MAX_NOTES])
        if visible_notes == self._node_notes:
            return
        self._node_notes = visible_notes
        names = elide_names([node.title for node in self._rows], _NOTE_NAME_W, "strong")
        short_names = {node.title: name for node, name in zip(self._rows, names, strict=True)}
        clear(self.notes)
        self._notes_h = 0
        for condition, title, reason in visible_notes:
            color_role = "good" if condition is Condition.WELL else condition.color_role
            note = Note(condition.icon, color_role, short_names[title], reason)
            note.setAccessibleName(f"{title} {reason}")
            note.setToolTip(plain_tip(f"{title}: {reason}"))
            self.notes.addWidget(note)
            self._notes_h += note.sizeHint().height() + self.notes.spacing()

    def _update_visibility(self) -> None:
        has_several_nodes = len(self._rows) > 1
        is_wide = not self._is_narrow
        # Before the first reading the title is hidden.
        self._title.setVisible(is_wide and bool(self._rows))
        self._free_label.setVisible(is_wide)
        # A single computer is described by its note, without counts.
        self.counts.setVisible(has_several_nodes if is_wide else bool(self._rows))
        has_note_space = self._available_h >= NOTES_MIN_H or not has_several_nodes
        self._notes.setVisible(is_wide and bool(self._node_notes) and has_note_space)
        has_gpus = any(node.gpus for node in self._rows)
        min_height = MAP_MIN_H if has_several_nodes else MAP_MIN_H_SINGLE
        self.map.setVisible(is_wide and has_gpus and self._available_h >= min_height)
