"""The placement of a job: a row per node, with a cell per GPU or a number of processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, Signal, Slot
from PySide6.QtGui import QMouseEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.reading import Gpu, NodeState, Presence, problems_by_gpu, worst_finding
from widgets.common import formats
from widgets.common.buttons import Button, Switch
from widgets.common.cards import VerticalScrollArea
from widgets.common.dialog_holder import DialogHolder
from widgets.common.fields import ErrorLine, SpinBox
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.legend import legend_key
from widgets.common.painting import text_width
from widgets.common.theme import S1, S2, S3, Role, ColorRole
from widgets.common.throttle import is_on_hidden_page
from widgets.jobs.placement.gpu_cells import GpuCells
from widgets.jobs.placement.gpu_choice import (
    choose,
    free_gpus,
    is_there,
    owner,
    processor_nodes,
    sound_gpus,
    why_away,
)
from widgets.jobs.placement.share_gpu_dialog import BesideDialog
from widgets.nodes.row.node_names import elide_names, strip_domain
from widgets.nodes.row.node_row import node_title, inline_node_title

_NAME_LEAST_W, _NAME_MOST_W, _NAME_SHARE = 56, 220, 0.3
_FIGURE_W, _STEPPER_W = 96, 88
_MANY_NODES, _ROWS_MOST_H, _WHOLE_MOST_H = 16, 360, 600


class _Name(Label):
    """The name of a node; a click selects all its free GPUs."""

    pressed = Signal()

    def mousePressEvent(self, _event: QMouseEvent) -> None:
        self.pressed.emit()


class _NodeRow(QWidget):
    """The row of one node."""

    changed = Signal()

    def __init__(self, state: NodeState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.node = state.name
        self._title = node_title(state.name)
        self._state = state
        self._name = _Name(self._title, "medium", elide="right")
        self.cells = GpuCells(self._title)
        self.stepper = SpinBox(0, maximum=4096, name=f"Processes on {inline_node_title(state.name)}")
        self.stepper.setFixedWidth(_STEPPER_W)
        self._words = Label("processes", "body", "text2")
        self._figure = Label("", "small", "text3", elide="right", align="right")
        self._figure.setFixedWidth(_FIGURE_W)
        # The rows of cells have their own spacing.
        steps = row(self.stepper, self._words, gap=S3, margins=(0, 2, 0, 2))
        middle = row(steps, (self.cells, 1), gap=S3)
        self._rest = QWidget()
        self.setLayout(row(self._name, (middle, 1), (self._rest, 0), self._figure, gap=S2))
        self._name.pressed.connect(self.cells.take_all)
        self.stepper.valueChanged.connect(self._changed)
        self.cells.changed.connect(self._changed)
        self.show_state(state)

    def show_state(self, state: NodeState) -> None:
        self._state = state
        gpus = state.reading.gpus if state.reading is not None else ()
        self.cells.show_gpus(gpus, problems_by_gpu(state.health) if is_there(state) else None)
        if not is_there(state):
            self.cells.show_away(why_away(state), is_offline=state.presence is Presence.OFFLINE)
        takes = bool(gpus) and is_there(state)
        cursor = Qt.CursorShape.PointingHandCursor if takes else Qt.CursorShape.ArrowCursor
        self._name.setCursor(cursor)
        self.update_layout()

    def set_name(self, shown: str, width: int) -> None:
        self._name.setFixedWidth(width)
        self._name.setText(shown)
        free = "click to select its free GPUs" if free_gpus(self._state) else ""
        self._name.set_tip(", ".join(part for part in (self._title, free) if part))

    @property
    def state(self) -> NodeState:
        return self._state

    @property
    def has_room(self) -> bool:
        """Return whether the node has free GPUs, or some are selected."""
        reading = self._state.reading
        is_processor = reading is not None and not reading.gpus and is_there(self._state)
        return bool(free_gpus(self._state)) or is_processor or self.value() is not None

    def value(self) -> dict[str, Any] | None:
        """Return the placement on this node, None if nothing runs here."""
        gpus = self.cells.chosen()
        if gpus:
            beside = self.cells.beside()
            more = {"beside": beside} if beside else {}
            return {"node": self.node, "gpus": list(gpus), **more}
        processes = self.stepper.value()
        return {"node": self.node, "processes": processes} if processes else None

    def put(self, placement: Mapping[str, Any] | None) -> None:
        placement = placement or {}
        blocked = self.blockSignals(True)
        self.stepper.setValue(int(placement.get("processes", 0) or 0))
        self.cells.choose(tuple(placement.get("gpus", ())), placement.get("beside"))
        self.blockSignals(blocked)
        self.update_layout()

    def update_layout(self) -> None:
        count = self.stepper.value()
        reading = self._state.reading
        there = is_there(self._state)
        has_gpus = reading is not None and bool(reading.gpus)
        # Nodes with GPUs offer GPUs; processes only if a job file has them.
        steps = (there and not has_gpus) or count > 0
        self.stepper.setVisible(steps)
        self._words.setVisible(steps)
        self._words.setText("process" if count == 1 else "processes")
        self.cells.setVisible(has_gpus or not there)
        self._rest.setVisible(not self.cells.isVisibleTo(self))
        self.stepper.setEnabled(not self.cells.chosen())
        text, role, tone = self._figures()
        self._figure.setText(text)
        self._figure.set_color_role(tone)
        self._figure.set_role(role)
        found = worst_finding(self._state.health) if there else None
        self._name.set_color_role("warn" if found is not None else "text" if there else "text3")
        taken = self.cells.taken() if there else ()
        if taken:
            owners = ", ".join(dict.fromkeys(map(owner, taken)))
            self._figure.set_tip(f"In use by {owners}; the job starts when it is free.")
        else:
            self._figure.set_tip(found.message if found is not None else "")

    def _figures(self) -> tuple[str, Role, ColorRole]:
        chosen = len(self.cells.chosen()) or self.stepper.value()
        reading = self._state.reading
        if chosen:
            is_well = is_there(self._state) and not self.cells.taken()
            tone: ColorRole = "text" if is_well else "bad"
            return f"{formats.count(chosen)} selected", "small_strong", tone
        if not is_there(self._state) or reading is None:
            return formats.NONE, "small", "text3"
        found = worst_finding(self._state.health)
        if found is not None:
            return found.description, "small", "warn"
        if not reading.gpus:
            return formats.plural(reading.cpu.cores, "core"), "small", "text3"
        free = len(free_gpus(self._state))
        return (f"{free} free" if free else "busy"), "small", "text3"

    @Slot()
    def _changed(self) -> None:
        self.update_layout()
        self.changed.emit()


class PlacementPicker(QWidget):
    """The rows of all nodes.

    Signals:
        changed: The placement changed.
        taken_changed: Another user started or stopped using a selected GPU.
    """

    changed = Signal()
    taken_changed = Signal()

    def __init__(self, rows_most_h: int = _ROWS_MOST_H, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: dict[str, _NodeRow] = {}
        self._foreign: list[Mapping[str, Any]] = []
        self._wanted = 0
        self._without = ""
        self._rows_most_h = rows_most_h
        self._name_w = 0
        self._jobs: Mapping[str, str] = {}
        self._waiting: tuple[NodeState, ...] | None = None
        self._asked: DialogHolder[BesideDialog] = DialogHolder()
        self._column = col(gap=0)
        self._holder = QWidget()
        self._holder.setLayout(self._column)
        self._holder.installEventFilter(self)
        self._scroll = VerticalScrollArea(self._holder)
        self._error = ErrorLine()
        self._free_only = Switch("Free only")
        self._free_only.setChecked(True)
        self._free_only.toggled.connect(self._settle)
        self._free_only.hide()
        self._choose = Button("", kind="quiet", icon="magic-wand")
        self._choose.clicked.connect(self._choose_for_me)
        self._keys = QWidget()
        self._keys.setLayout(
            row(
                legend_key("chosen", "selected"),
                legend_key("free", "free"),
                legend_key("ours", "Ringmaster job", share=0.0),
                legend_key("other", "other user"),
                gap=S2,
            )
        )
        self._foot = QWidget()
        self._foot.setLayout(row(self._keys, STRETCH, self._free_only, self._choose, gap=S2))
        self.setLayout(col(self._scroll, self._foot, self._error, gap=0))
        self._settle()

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """Update the nodes. Rows keep their place; new nodes come last.

        The selection on a node that became offline stays: the check reports the node, and a job
        never becomes smaller by itself.
        """
        self._waiting = states
        if not is_on_hidden_page(self):
            self._catch_up()

    def show_jobs(self, names: Mapping[str, str]) -> None:
        """Set the names of jobs by id."""
        self._jobs = names
        for one in self._rows.values():
            one.cells.show_jobs(names)

    def _catch_up(self) -> None:
        """Apply a pending update: when the picker is shown, before a read, or before a change."""
        states, self._waiting = self._waiting, None
        if states is None:
            return
        if set(self._rows) - {state.name for state in states}:
            self._foreign = self.value()
            clear(self._column)
            self._rows.clear()
        for state in states:
            if state.name not in self._rows:
                self._add(state)
            else:
                self._rows[state.name].show_state(state)
        self._settle()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._catch_up()

    def value(self) -> list[Mapping[str, Any]]:
        """Return ``placement`` of the job file, including nodes that are not known here."""
        self._catch_up()
        chosen = [row.value() for row in self._rows.values()]
        return [*(placement for placement in chosen if placement), *self._foreign]

    def put(self, placements: Sequence[Mapping[str, Any]]) -> None:
        self._catch_up()
        self._wanted = sum(len(p.get("gpus", ())) for p in placements if isinstance(p, Mapping))
        self._put(placements)

    def propose(self) -> None:
        """Choose one free GPU; without one, a process on this computer."""
        self._catch_up()
        chosen = choose(self._states(), 1)
        gpus = [{"node": name, "gpus": list(uuids)} for name, uuids in chosen.items()]
        self.put(gpus or [{"node": THIS_COMPUTER, "processes": 1}])
        self._wanted = 0

    def want(self, count: int, without: str = "") -> None:
        """Set the number of GPUs needed, and the node to avoid in the automatic selection."""
        self._wanted, self._without = count, without
        self._settle()

    def set_error(self, sentence: str) -> None:
        self._error.setText(sentence)

    @Slot(int)
    def _step(self, by: int) -> None:
        """Move from the cells of one node to those of the next."""
        rows = [one.cells for one in self._rows.values() if one.cells.isVisibleTo(self)]
        at = next((n for n, cells in enumerate(rows) if cells is self.sender()), 0)
        wanted = rows[min(max(at + by, 0), len(rows) - 1)]
        wanted.setFocus(Qt.FocusReason.TabFocusReason)
        self._scroll.ensureWidgetVisible(wanted, 0, S2)

    def _ask_beside(self, node_row: _NodeRow, gpu: Gpu) -> None:
        asked = BesideDialog(inline_node_title(node_row.node), gpu, self.window())
        asked.requested.connect(partial(node_row.cells.take_beside, gpu.uuid, owner(gpu)))
        self._asked.open(asked)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self._fit()
        return bool(super().eventFilter(watched, event))

    def _add(self, state: NodeState) -> None:
        made = _NodeRow(state)
        made.cells.show_jobs(self._jobs)
        # Shown with all others, once the width of names and the free GPUs are known.
        made.hide()
        made.changed.connect(partial(self._row_changed, made))
        made.cells.taken_changed.connect(self.taken_changed)
        made.cells.step_requested.connect(self._step)
        made.cells.beside_requested.connect(partial(self._ask_beside, made))
        self._rows[state.name] = made
        self._column.addWidget(made)
        found = next((p for p in self._foreign if p.get("node") == state.name), None)
        if found is not None:
            self._foreign.remove(found)
            made.put(found)
        self._name_w = 0

    def _put(self, placements: Sequence[Mapping[str, Any]]) -> None:
        by_node = {str(p.get("node")): p for p in placements if isinstance(p, Mapping)}
        for name, node_row in self._rows.items():
            node_row.put(by_node.pop(name, None))
        # Unknown nodes keep their place in the file; the check reports them.
        self._foreign = list(by_node.values())
        self._settle()

    def _states(self) -> list[NodeState]:
        return [one.state for name, one in self._rows.items() if name != self._without]

    def _offer(self) -> int:
        """Return how many GPUs the automatic selection would take: by default those of a node."""
        sound = [len(sound_gpus(state)) for state in self._states()]
        return min(self._wanted, sum(sound)) if self._wanted else max(sound, default=0)

    @Slot()
    def _choose_for_me(self) -> None:
        chosen = choose(self._states(), self._offer())
        if chosen:
            self._put([{"node": name, "gpus": list(uuids)} for name, uuids in chosen.items()])
        else:
            self._put([{"node": n, "processes": 1} for n in processor_nodes(self._states())])
        self.changed.emit()

    def _row_changed(self, changed_row: _NodeRow) -> None:
        """Let GPUs replace processes on CPUs, and the reverse: a job runs on one kind."""
        uses_gpus = bool(changed_row.cells.chosen())
        for node_row in self._rows.values() if changed_row.value() else ():
            if node_row is not changed_row and uses_gpus != bool(node_row.cells.chosen()):
                node_row.put(None)
        self._settle()
        self.changed.emit()

    @Slot()
    def _settle(self) -> None:
        rows = tuple(self._rows.values())
        many = len(rows) > _MANY_NODES
        self._free_only.setVisible(many)
        for one in rows:
            hidden = many and self._free_only.isChecked() and not one.has_room
            # A row stays visible when the user has just deselected its last GPU.
            one.setVisible(not hidden or one.isAncestorOf(self.focusWidget() or self))
        readings = [one.state.reading for one in rows]
        has_gpus = any(reading is not None and reading.gpus for reading in readings)
        offer = self._offer()
        self._keys.setVisible(has_gpus)
        # Of a cluster with GPUs, only these are taken.
        nodes = 0 if has_gpus else len(processor_nodes(self._states()))
        self._choose.setVisible(bool(offer or nodes))
        what = formats.plural(nodes, "node") if nodes else formats.count(offer)
        self._choose.setText(f"Select {what} for me")
        self._choose.set_tip(
            "One process on each; never a node with problems"
            if nodes
            else "Completely free nodes first; never a GPU with problems"
        )
        self._foot.setVisible(bool(has_gpus or many or nodes))
        self._fit()

    def _fit(self) -> None:
        """Set the height to that of the rows, up to a limit; names get the longest name's width."""
        rows = tuple(self._rows.values())
        titles = [node_title(one.node) for one in rows]
        longest = max((text_width(t, "medium") for t in strip_domain(titles)), default=0)
        most = min(_NAME_MOST_W, int(self.width() * _NAME_SHARE))
        width = max(_NAME_LEAST_W, min(longest + S1, most))
        if width != self._name_w:
            self._name_w = width
            for one, shown in zip(rows, elide_names(titles, width, "medium"), strict=True):
                one.set_name(shown, width)
        # Up to this many nodes are visible at once; in a dialog, the dialog sets the height.
        whole = self._rows_most_h == _ROWS_MOST_H and len(rows) <= _MANY_NODES
        most = _WHOLE_MOST_H if whole else self._rows_most_h
        self._scroll.setFixedHeight(min(self._column.sizeHint().height(), most))
