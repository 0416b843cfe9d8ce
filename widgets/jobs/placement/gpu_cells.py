"""The GPUs of one node as cells that can be selected.

Adjacent GPUs of a job or a user are a bar with that name and the memory of each GPU, readable
without a tool tip. A GPU of another user cannot be selected until the user chooses to share it. A
GPU that another user took meanwhile, or of an offline node, stays selected and can be deselected,
because a job never becomes smaller by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolTip, QWidget

from backend.records.nodes.reading import Gpu
from widgets.common import formats, icons, theme
from widgets.common.labels import plain_tip
from widgets.common.painting import elide, fill_round, paint_focus, paint_text, text_width
from widgets.common.state_badge import paint_gpu_cell
from widgets.common.theme import R_CELL, ColorRole
from widgets.jobs.placement.gpu_choice import may_be_shared, owner
from widgets.nodes.row.node_row import display_text

_ROW_H, _CELL_H, _CELL_GAP, _CELL_MAX_W, _CELL_MIN_W = 27, 23, 3, 96, 18
_NAME_MIN_W = 40
_TICK, _MARK = 14.0, 12.0
_EDGE_W = 2.0


class GpuCells(QWidget):
    """Click or Space selects a GPU, A all free ones, arrows move, dragging selects several.

    Signals:
        changed: The selection changed.
        usage_changed: Another user started or stopped using a selected GPU.
        step_requested: Move by this many nodes, -1 or 1.
        share_requested: Use a GPU that another user is on; answer with `select_shared`.
    """

    changed = Signal()
    usage_changed = Signal()
    step_requested = Signal(int)
    share_requested = Signal(object)

    def __init__(self, node: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._node = node
        self._gpus: tuple[Gpu, ...] = ()
        self._jobs: Mapping[str, str] = {}
        self._problems: Mapping[str, str] = {}
        self._away_reason = ""
        self._is_offline = False
        self._selected_uuids: set[str] = set()
        self._shared_users: dict[str, str] = {}
        self._cursor = 0
        self._is_selecting: bool | None = None
        self.setFixedHeight(_ROW_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(f"GPUs of {node}" if node else "GPUs")

    def selected_uuids(self) -> tuple[str, ...]:
        """Return the selected UUIDs in the order of the GPUs; unknown ones come last."""
        known_uuids = [gpu.uuid for gpu in self._gpus if gpu.uuid in self._selected_uuids]
        return (*known_uuids, *sorted(self._selected_uuids.difference(known_uuids)))

    def shared_users(self) -> dict[str, str]:
        """Return the selected GPUs that may be shared, and the user of each."""
        return {
            uuid: user for uuid, user in self._shared_users.items() if uuid in self._selected_uuids
        }

    def busy_gpus(self) -> tuple[Gpu, ...]:
        """Return the selected GPUs that are in use: the job starts when they are free."""
        return tuple(
            gpu for gpu in self._gpus if gpu.uuid in self._selected_uuids and self._is_busy(gpu)
        )

    def choose(self, uuids: Sequence[str], shared_users: Mapping[str, str] | None = None) -> None:
        self._selected_uuids, self._shared_users = set(uuids), dict(shared_users or {})
        self._show_state()

    def select_shared(self, uuid: str, user: str) -> None:
        """Select a GPU that this user is on, after the user agreed."""
        self._selected_uuids.add(uuid)
        self._shared_users[uuid] = user
        self._show_state()

    def show_gpus(self, gpus: tuple[Gpu, ...], problems: Mapping[str, str] | None = None) -> None:
        """Show a new reading.

        Args:
            problems: The problem of a GPU, by its UUID.
        """
        previous_count = len(self.busy_gpus())
        self._gpus, self._problems, self._away_reason = gpus, problems or {}, ""
        self._cursor = min(self._cursor, max(0, len(gpus) - 1))
        self._describe()
        if len(self.busy_gpus()) != previous_count:
            self.usage_changed.emit()

    def show_jobs(self, names: Mapping[str, str]) -> None:
        """Set the names of jobs by id; they are shown at the GPUs that the jobs hold."""
        self._jobs = names
        self._describe()

    def show_unavailable(self, reason: str, *, is_offline: bool) -> None:
        """Show why no GPU of this node can be selected now."""
        self._away_reason, self._is_offline = reason, is_offline
        self._describe()

    def select_all(self) -> None:
        """Select all free GPUs without problems; deselect them if they are selected already."""
        sound_uuids = {
            g.uuid for g in self._gpus if self._may_select(g) and g.uuid not in self._problems
        }
        self._selected_uuids = (
            self._selected_uuids - sound_uuids
            if sound_uuids <= self._selected_uuids
            else self._selected_uuids | sound_uuids
        )
        self._show_state()

    def sizeHint(self) -> QSize:
        return QSize(len(self._gpus) * (_CELL_MAX_W + _CELL_GAP), _ROW_H)

    def minimumSizeHint(self) -> QSize:
        return QSize(len(self._gpus) * (_CELL_MIN_W + _CELL_GAP), _ROW_H)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if self._away_reason:
            self._deselect_all()
            return
        index = self._index_at(event.position().x())
        if index is not None:
            self._is_selecting = self._gpus[index].uuid not in self._selected_uuids
            self._select_gpu(index)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        index = self._index_at(event.position().x())
        if self._is_selecting is not None and index is not None:
            self._select_gpu(index)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_keys = event.reason() is QContextMenuEvent.Reason.Keyboard
        index = self._cursor if by_keys else self._index_at(float(event.pos().x()))
        if self._away_reason or index is None or not 0 <= index < len(self._gpus):
            return
        gpu = self._gpus[index]
        if not self._may_share(gpu):
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        share_action = menu.addAction(f"Use GPU {gpu.index} anyway…")
        share_action.triggered.connect(partial(self.share_requested.emit, gpu))
        position = self.mapToGlobal(self._cell(index).bottomLeft().toPoint())
        menu.popup(position if by_keys else event.globalPos())

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        self._is_selecting = None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        nodes = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        key = Qt.Key(event.key())
        if key in nodes:
            self.step_requested.emit(nodes[key])
        elif self._away_reason and key == Qt.Key.Key_Space:
            self._deselect_all()
        elif self._away_reason or not self._gpus:
            super().keyPressEvent(event)
        elif key in steps:
            self._cursor = (self._cursor + steps[key]) % len(self._gpus)
            self._describe()
        elif key == Qt.Key.Key_A:
            self.select_all()
        elif key == Qt.Key.Key_Space:
            self._is_selecting = self._gpus[self._cursor].uuid not in self._selected_uuids
            self._select_gpu(self._cursor)
            self._is_selecting = None
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            index = None if self._away_reason else self._index_at(QPointF(event.pos()).x())
            text = self._away_reason if index is None else self._description(self._gpus[index])
            if index is not None and self._may_share(self._gpus[index]):
                text = f"{text}; right-click to use it anyway"
            QToolTip.showText(event.globalPos(), plain_tip(text), self)
            return True
        return bool(super().event(event))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._away_reason:
            self._paint_unavailable(painter)
            return
        for first_index, last_index in self._index_ranges():
            if owner(self._gpus[first_index]):
                self._paint_owned(painter, first_index, last_index)
                continue
            for index in range(first_index, last_index + 1):
                self._paint_free(painter, index)
        if self.hasFocus() and self._gpus:
            paint_focus(painter, self._cell(self._cursor), R_CELL)

    def _paint_unavailable(self, painter: QPainter) -> None:
        bar = QRectF(0, (_ROW_H - _CELL_H) / 2, self._width(), _CELL_H)
        paint_gpu_cell(painter, bar, "gone" if self._is_offline else "unknown", radius=R_CELL)
        color_role = "bad" if self._is_offline else "text3"
        paint_text(painter, bar.adjusted(8, 0, -8, 0), self._away_reason, "small", color_role)
        if self.hasFocus():
            paint_focus(painter, bar, R_CELL)

    def _paint_owned(self, painter: QPainter, first_index: int, last_index: int) -> None:
        gpu = self._gpus[first_index]
        bar = self._cell(first_index).united(self._cell(last_index))
        is_ours = any(process.run_tag for process in gpu.compute_processes)
        paint_gpu_cell(painter, bar, "ours" if is_ours else "other", share=0.0, radius=R_CELL)
        indices = range(first_index, last_index + 1)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        inset = _EDGE_W / 2
        for color_role, run in groupby(indices, self._edge_role):
            run_indices = list(run)
            if color_role:
                painter.setPen(QPen(theme.current().q(color_role), _EDGE_W))
                edge = self._cell(run_indices[0]).united(self._cell(run_indices[-1]))
                edge.adjust(inset, inset, -inset, -inset)
                painter.drawRoundedRect(edge, R_CELL, R_CELL)
        # Above the edges: a partly selected bar has an edge inside.
        text_area = bar.adjusted(8, 0, -8, 0)
        marked_index = next(
            (index for index in indices if self._gpus[index].uuid in self._problems), None
        )
        if marked_index is not None:
            text_area.setRight(self._cell(marked_index).right() - _MARK - 8)
        text = self._bar_text(first_index, last_index, int(text_area.width()))
        if not is_ours:
            width = min(text_area.width(), float(text_width(text, "small_strong")))
            plate = QRectF(bar.left() + 4, bar.top() + 3, width + 8, bar.height() - 6)
            fill_round(painter, plate, theme.current().q("idle_tint"), R_CELL)
        paint_text(painter, text_area, text, "small_strong", "live" if is_ours else "text")
        for index in indices:
            if self._gpus[index].uuid in self._problems:
                self._paint_mark(painter, self._cell(index))

    def _bar_text(self, first_index: int, last_index: int, available_w: int) -> str:
        """ "alice · 18 GiB each"; only the name if the memory leaves no room for it."""
        gpus = self._gpus[first_index : last_index + 1]
        name = self._holder_name(gpus[0])
        used_bytes = sorted(g.memory_used_bytes for g in gpus if g.memory_used_bytes is not None)
        if not used_bytes:
            return name
        memory = f" · {formats.memory_span(used_bytes[0], used_bytes[-1])}"
        longest_text = f"{memory} each" if len(gpus) > 1 else memory
        for suffix in (longest_text, memory):
            if text_width(name + suffix, "small_strong") <= available_w:
                return name + suffix
        name_w = available_w - text_width(longest_text, "small_strong")
        return elide(name, name_w, "small_strong") + longest_text if name_w >= _NAME_MIN_W else name

    def _index_ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of GPUs with one job or one user, as (first, last)."""
        ranges = []
        for _, run in groupby(range(len(self._gpus)), lambda n: _job_and_user(self._gpus[n])):
            indices = list(run)
            ranges.append((indices[0], indices[-1]))
        return ranges

    def _holder_name(self, gpu: Gpu) -> str:
        """Return the name of the job on a GPU if it is known, otherwise the user."""
        job_id, user = _job_and_user(gpu)
        return self._jobs.get(job_id, "") or user

    def _edge_role(self, index: int) -> ColorRole | None:
        """Return the edge of a selected GPU that is in use."""
        gpu = self._gpus[index]
        if gpu.uuid not in self._selected_uuids:
            return None
        return "bad" if self._is_busy(gpu) else "text"

    def _may_share(self, gpu: Gpu) -> bool:
        """Return whether a GPU can be shared with its user, and this was not confirmed yet."""
        return may_be_shared(gpu) and (gpu.uuid not in self._selected_uuids or self._is_busy(gpu))

    def _is_busy(self, gpu: Gpu) -> bool:
        return bool(gpu.foreign_processes(self._shared_users.get(gpu.uuid, "")))

    def _paint_free(self, painter: QPainter, index: int) -> None:
        cell, gpu = self._cell(index), self._gpus[index]
        if gpu.is_lost:
            paint_gpu_cell(painter, cell, "gone", radius=R_CELL)
        elif gpu.uuid in self._selected_uuids:
            paint_gpu_cell(painter, cell, "chosen", radius=R_CELL)
            tick = QRectF(0, 0, _TICK, _TICK)
            tick.moveCenter(cell.center())
            icons.paint_icon(painter, tick, "check", "on_ink")
        else:
            paint_gpu_cell(painter, cell, "free", radius=R_CELL)
            text = f"{gpu.index} · display" if gpu.display_processes else str(gpu.index)
            if text_width(text, "tiny") > cell.width() - 4:
                text = str(gpu.index)
            paint_text(painter, cell, text, "tiny", "text3", center=True)
        if gpu.uuid in self._problems:
            self._paint_mark(painter, cell)

    def _paint_mark(self, painter: QPainter, cell: QRectF) -> None:
        """Paint the icon of a problem at the end of the cell, on a background of its own."""
        mark = QRectF(cell.right() - _MARK - 4, cell.center().y() - _MARK / 2, _MARK, _MARK)
        fill_round(painter, mark.adjusted(-2, -2, 2, 2), theme.current().q("surface"), R_CELL)
        icons.paint_icon(painter, mark, "warning-fill", "warn")

    def _width(self) -> float:
        """Return the width of the cells, which an offline node keeps."""
        count = len(self._gpus)
        max_w = count * (_CELL_MAX_W + _CELL_GAP) - _CELL_GAP if count else self.width()
        return float(min(self.width(), max_w))

    def _cell(self, index: int) -> QRectF:
        count = max(1, len(self._gpus))
        width = min(_CELL_MAX_W, (self.width() - (count - 1) * _CELL_GAP) / count)
        return QRectF(index * (width + _CELL_GAP), (_ROW_H - _CELL_H) / 2, width, _CELL_H)

    def _index_at(self, x: float) -> int | None:
        center_y = _ROW_H / 2
        return next(
            (i for i in range(len(self._gpus)) if self._cell(i).contains(x, center_y)), None
        )

    def _may_select(self, gpu: Gpu) -> bool:
        return not self._away_reason and not owner(gpu) and not gpu.is_lost

    def _select_gpu(self, index: int) -> None:
        gpu = self._gpus[index]
        self._cursor = index
        previous_uuids = set(self._selected_uuids)
        if not self._is_selecting:
            self._selected_uuids.discard(gpu.uuid)
            self._shared_users.pop(gpu.uuid, None)
        elif self._may_select(gpu):
            self._selected_uuids.add(gpu.uuid)
        if self._selected_uuids != previous_uuids:
            self._show_state()

    def _deselect_all(self) -> None:
        if self._selected_uuids:
            self.choose(())

    def _show_state(self) -> None:
        self._describe()
        self.changed.emit()

    def _describe(self) -> None:
        """Describe the GPUs for screen readers: the one with the keyboard cursor, then all."""
        descriptions = [self._description(gpu) for gpu in self._gpus]
        cursor_texts = descriptions[self._cursor : self._cursor + 1] if self.hasFocus() else []
        self.setAccessibleDescription(
            self._away_reason or ". ".join([*cursor_texts, *descriptions])
        )
        self.update()

    def _description(self, gpu: Gpu) -> str:
        """ "gpu03, GPU 1, in use by alice, 18 GiB", or by a job."""
        name = f"{self._node}, GPU {gpu.index}" if self._node else f"GPU {gpu.index}"
        if owner(gpu):
            state = f"in use by {self._holder_name(gpu)}, {formats.memory(gpu.memory_used_bytes)}"
            if gpu.uuid in self._selected_uuids:
                state = f"selected, {state}"
        elif gpu.is_lost:
            state = "not available"
        else:
            state = "selected" if gpu.uuid in self._selected_uuids else "free"
        parts = (name, state, display_text(gpu), self._problems.get(gpu.uuid, ""))
        return ", ".join(part for part in parts if part)


def _job_and_user(gpu: Gpu) -> tuple[str, str]:
    """Return the id of a job and the user, each "" for none."""
    tag = next((process.run_tag for process in gpu.compute_processes if process.run_tag), "")
    return tag.partition("/")[0], owner(gpu)
