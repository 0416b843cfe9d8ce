"""Where a job runs: a row per node, with a cell per GPU or a number of processes.

Neighbouring GPUs held by one owner are one bar with his name and memory, so that who is there
reads without a tool tip. A GPU of somebody else's is off limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.job import THIS_COMPUTER
from backend.records.node import Gpu, NodeReading
from widgets.common import formats, icons, theme
from widgets.common.fields import SpinBox
from widgets.common.layout import clear, col, row
from widgets.common.paint import fill_round, paint_focus, paint_text, text_width
from widgets.common.state_badge import paint_gpu_cell
from widgets.common.text import Label
from widgets.common.theme import R_CELL, S1, S3

_CELL_H, _CELL_GAP, _CELL_MOST = 28, 3, 96


def node_title(name: str) -> str:
    return "This computer" if name == THIS_COMPUTER else name


class GpuCells(QWidget):
    """The GPUs of one node. A click or Space takes one, arrows move, dragging takes several.

    Signals:
        changed: The chosen GPUs are others now.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._gpus: tuple[Gpu, ...] = ()
        self._chosen: set[str] = set()
        self._at = 0
        self._taking: bool | None = None
        self.setFixedHeight(_CELL_H)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("GPUs")

    def chosen(self) -> tuple[str, ...]:
        """UUIDs in the order of the GPUs' numbers."""
        return tuple(gpu.uuid for gpu in self._gpus if gpu.uuid in self._chosen)

    def choose(self, uuids: Sequence[str]) -> None:
        self._chosen = set(uuids)
        self._told()

    def show_gpus(self, gpus: tuple[Gpu, ...]) -> None:
        """A new reading; a GPU that somebody took meanwhile is no longer chosen."""
        self._gpus = gpus
        lost = {gpu.uuid for gpu in gpus if owner(gpu)} & self._chosen
        self._chosen -= lost
        self.update()
        if lost:
            self._told()

    def sizeHint(self) -> QSize:
        return QSize(len(self._gpus) * (_CELL_MOST + _CELL_GAP), _CELL_H)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self._index_at(event.position().x())
        if index is not None and not owner(self._gpus[index]):
            self._taking = self._gpus[index].uuid not in self._chosen
            self._take(index)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        index = self._index_at(event.position().x())
        if self._taking is not None and index is not None:
            self._take(index)

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        self._taking = None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        key = Qt.Key(event.key())
        if key in steps and self._gpus:
            self._at = (self._at + steps[key]) % len(self._gpus)
            self.update()
        elif key == Qt.Key.Key_Space and self._gpus and not owner(self._gpus[self._at]):
            self._taking = self._gpus[self._at].uuid not in self._chosen
            self._take(self._at)
            self._taking = None
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for first, last in _neighbours(self._gpus):
            gpu = self._gpus[first]
            if owner(gpu):
                bar = self._cell(first).united(self._cell(last))
                ours = any(process.run_tag for process in gpu.processes)
                paint_gpu_cell(painter, bar, "ours" if ours else "other", share=0.0)
                used = sum(g.memory_used_bytes or 0 for g in self._gpus[first : last + 1])
                text = f"{owner(gpu)} · {formats.memory(used)}"
                tone = "live" if ours else "text"
                room = bar.adjusted(8, 0, -8, 0)
                if not ours:
                    width = min(room.width(), float(text_width(text, "small_strong")))
                    plate = QRectF(bar.left() + 4, bar.top() + 5, width + 8, bar.height() - 10)
                    fill_round(painter, plate, theme.current().q("idle_tint"), R_CELL)
                paint_text(painter, room, text, "small_strong", tone)
                continue
            for index in range(first, last + 1):
                self._paint_free(painter, index)
        if self.hasFocus() and self._gpus:
            paint_focus(painter, self._cell(self._at), R_CELL)

    def _paint_free(self, painter: QPainter, index: int) -> None:
        cell = self._cell(index)
        gpu = self._gpus[index]
        if gpu.uuid in self._chosen:
            paint_gpu_cell(painter, cell, "chosen", radius=R_CELL)
            side = 14.0
            tick = QRectF(cell.center().x() - side / 2, cell.center().y() - side / 2, side, side)
            icons.paint_icon(painter, tick, "check", "on_ink")
        else:
            paint_gpu_cell(painter, cell, "free", radius=R_CELL)
            paint_text(painter, cell, str(gpu.index), "tiny", "text3", center=True)

    def _cell(self, index: int) -> QRectF:
        count = max(1, len(self._gpus))
        width = min(_CELL_MOST, (self.width() - (count - 1) * _CELL_GAP) / count)
        return QRectF(index * (width + _CELL_GAP), 0, width, self.height())

    def _index_at(self, x: float) -> int | None:
        return next((i for i in range(len(self._gpus)) if self._cell(i).contains(x, 1.0)), None)

    def _take(self, index: int) -> None:
        gpu = self._gpus[index]
        self._at = index
        if owner(gpu):
            return
        before = set(self._chosen)
        (self._chosen.add if self._taking else self._chosen.discard)(gpu.uuid)
        if self._chosen != before:
            self._told()

    def _told(self) -> None:
        self.setAccessibleDescription(". ".join(_sentence(gpu, self._chosen) for gpu in self._gpus))
        self.update()
        self.changed.emit()


class _NodeRow(QWidget):
    """One node of the picker."""

    changed = Signal()

    def __init__(self, reading: NodeReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.node = reading.name
        self._cells = GpuCells()
        self._processes = SpinBox(0, most=4096, name=f"Processes on {node_title(reading.name)}")
        self._processes.setFixedWidth(88)
        self._figures = Label("", "small", "text3")
        name = Label(node_title(reading.name), "medium", elide="right")
        name.setFixedWidth(112)
        self._words = Label("processes", "body", "text2")
        processes = row(self._processes, self._words, (self._cells, 1), self._figures, gap=S3)
        self.setLayout(row(name, (processes, 1), gap=S1))
        self._processes.valueChanged.connect(self._changed)
        self._cells.changed.connect(self._changed)
        self.show_reading(reading)

    def show_reading(self, reading: NodeReading) -> None:
        has_gpus = bool(reading.gpus)
        self._cells.setVisible(has_gpus)
        self._cells.show_gpus(reading.gpus)
        memory = formats.memory(reading.memory_total_bytes)
        cores = formats.plural(reading.cpu.cores, "core")
        free = sum(not owner(gpu) for gpu in reading.gpus)
        self._figures.setText(f"{free} free" if has_gpus else f"{cores}, {memory} memory")

    def value(self) -> dict[str, Any] | None:
        """The placement on this node, None when nothing is to run here."""
        gpus = self._cells.chosen()
        if gpus:
            return {"node": self.node, "gpus": list(gpus)}
        processes = self._processes.value()
        return {"node": self.node, "processes": processes} if processes else None

    def put(self, placement: Mapping[str, Any] | None) -> None:
        placement = placement or {}
        blocked = self.blockSignals(True)
        self._processes.setValue(int(placement.get("processes", 0) or 0))
        self._cells.choose(tuple(placement.get("gpus", ())))
        self.blockSignals(blocked)
        self._words.setText("process" if self._processes.value() == 1 else "processes")

    @Slot()
    def _changed(self) -> None:
        self._words.setText("process" if self._processes.value() == 1 else "processes")
        self._processes.setEnabled(not self._cells.chosen())
        self.changed.emit()


class PlacementPicker(QWidget):
    """All nodes.

    Signals:
        changed: The placement is another now.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: dict[str, _NodeRow] = {}
        self._strangers: list[Mapping[str, Any]] = []
        self._column = col(gap=S3)
        self._error = Label("", "tiny", "bad", wrap=True)
        self._error.hide()
        self.setLayout(col(self._column, self._error, gap=S1))

    def show_nodes(self, readings: tuple[NodeReading, ...]) -> None:
        """New readings. Rows stay where they are; a node that is new comes last.

        What was chosen on a node that went away stays chosen: the check says that it is away, and
        a job never becomes smaller by itself.
        """
        if set(self._rows) - {reading.name for reading in readings}:
            self._strangers = self.value()
            clear(self._column)
            self._rows.clear()
        for reading in readings:
            if reading.name in self._rows:
                self._rows[reading.name].show_reading(reading)
                continue
            made = _NodeRow(reading)
            made.changed.connect(self.changed)
            self._rows[reading.name] = made
            self._column.addWidget(made)
            found = next((p for p in self._strangers if p.get("node") == reading.name), None)
            if found is not None:
                self._strangers.remove(found)
                made.put(found)

    def value(self) -> list[Mapping[str, Any]]:
        """The job file's ``placement``, nodes that are not known here included."""
        chosen = [row.value() for row in self._rows.values()]
        return [*(placement for placement in chosen if placement), *self._strangers]

    def put(self, placements: Sequence[Mapping[str, Any]]) -> None:
        by_node = {str(p.get("node")): p for p in placements if isinstance(p, Mapping)}
        for name, node_row in self._rows.items():
            node_row.put(by_node.pop(name, None))
        # Nodes not heard of yet keep their place in the file; the check says what is wrong.
        self._strangers = list(by_node.values())

    def set_error(self, sentence: str) -> None:
        self._error.setText(sentence)
        self._error.setVisible(bool(sentence))


def owner(gpu: Gpu) -> str:
    """Who is on this GPU, "" when it is free."""
    return next((process.user or "somebody" for process in gpu.processes), "")


def _neighbours(gpus: tuple[Gpu, ...]) -> list[tuple[int, int]]:
    """Runs of GPUs with one owner, as (first, last)."""
    runs: list[tuple[int, int]] = []
    for index, gpu in enumerate(gpus):
        if runs and owner(gpus[runs[-1][0]]) == owner(gpu):
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _sentence(gpu: Gpu, chosen: set[str]) -> str:
    if owner(gpu):
        held = formats.memory(gpu.memory_used_bytes)
        return f"GPU {gpu.index}, in use by {owner(gpu)}, {held}"
    return f"GPU {gpu.index}, {'chosen' if gpu.uuid in chosen else 'free'}"
