"""The placement of a job: a row per node, with a cell per GPU or a number of processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, Signal, Slot
from PySide6.QtGui import QMouseEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from backend.records.jobs.placement import THIS_COMPUTER, node_label
from backend.records.nodes.reading import Gpu, NodeState, Presence, problems_by_gpu, worst_finding
from widgets.common import formats
from widgets.common.buttons import Button, Switch
from widgets.common.cards import VerticalScrollArea
from widgets.common.dialog import DialogHolder, Question
from widgets.common.fields import ErrorLine, SpinBox
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, clear, col, row
from widgets.common.painting import text_width
from widgets.common.state_badge import legend_key
from widgets.common.theme import S1, S2, S3, ColorRole, Role
from widgets.common.throttle import is_on_hidden_page
from widgets.jobs.placement.gpu_cells import GpuCells
from widgets.jobs.placement.gpu_choice import (
    choose_gpus,
    free_gpus,
    is_available,
    owner,
    processor_nodes,
    share_question,
    sound_gpus,
    unavailable_reason,
)
from widgets.nodes.row.node_names import elide_names, strip_domain
from widgets.nodes.row.node_row import node_title

_NAME_MIN_W, _NAME_MAX_W, _NAME_SHARE = 56, 220, 0.3
_FIGURE_W, _STEPPER_W = 96, 88
_MANY_NODES, _ROWS_MAX_H, _ALL_ROWS_MAX_H = 16, 360, 600


class _NameLabel(Label):
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
        self.state = state
        self._name_label = _NameLabel(self._title, "medium", elide="right")
        self.cells = GpuCells(self._title)
        self.stepper = SpinBox(0, maximum=4096, name=f"Processes on {node_label(state.name)}")
        self.stepper.setFixedWidth(_STEPPER_W)
        self._unit_label = Label("processes", "body", "text2")
        self._figure = Label("", "small", "text3", elide="right", align="right")
        self._figure.setFixedWidth(_FIGURE_W)
        # The rows of cells have their own spacing.
        steps = row(self.stepper, self._unit_label, gap=S3, margins=(0, 2, 0, 2))
        controls = row(steps, (self.cells, 1), gap=S3)
        self._spacer = QWidget()
        self.setLayout(
            row(self._name_label, (controls, 1), (self._spacer, 0), self._figure, gap=S2)
        )
        self._name_label.pressed.connect(self.cells.select_all)
        self.stepper.valueChanged.connect(self._handle_change)
        self.cells.changed.connect(self._handle_change)
        self.show_state(state)

    def show_state(self, state: NodeState) -> None:
        self.state = state
        gpus = state.reading.gpus if state.reading is not None else ()
        self.cells.show_gpus(gpus, problems_by_gpu(state.health) if is_available(state) else None)
        if not is_available(state):
            self.cells.show_unavailable(
                unavailable_reason(state), is_offline=state.presence is Presence.OFFLINE
            )
        is_selectable = bool(gpus) and is_available(state)
        cursor = Qt.CursorShape.PointingHandCursor if is_selectable else Qt.CursorShape.ArrowCursor
        self._name_label.setCursor(cursor)
        self.update_layout()

    def set_name(self, label: str, width: int) -> None:
        self._name_label.setFixedWidth(width)
        self._name_label.setText(label)
        hint = "click to select its free GPUs" if free_gpus(self.state) else ""
        self._name_label.set_tip(", ".join(part for part in (self._title, hint) if part))

    @property
    def has_capacity(self) -> bool:
        """Return whether the node has free GPUs, or some are selected."""
        reading = self.state.reading
        is_processor = reading is not None and not reading.gpus and is_available(self.state)
        return bool(free_gpus(self.state)) or is_processor or self.value() is not None

    def value(self) -> dict[str, Any] | None:
        """Return the placement on this node, None if nothing runs here."""
        gpus = self.cells.selected_uuids()
        if gpus:
            shared_users = self.cells.shared_users()
            extra_keys = {"beside": shared_users} if shared_users else {}
            return {"node": self.node, "gpus": list(gpus), **extra_keys}
        processes = self.stepper.value()
        return {"node": self.node, "processes": processes} if processes else None

    def put(self, placement: Mapping[str, Any] | None) -> None:
        placement = placement or {}
        was_blocked = self.blockSignals(True)
        self.stepper.setValue(int(placement.get("processes", 0) or 0))
        self.cells.choose(tuple(placement.get("gpus", ())), placement.get("beside"))
        self.blockSignals(was_blocked)
        self.update_layout()

    def update_layout(self) -> None:
        count = self.stepper.value()
        reading = self.state.reading
        is_usable = is_available(self.state)
        has_gpus = reading is not None and bool(reading.gpus)
        # Nodes with GPUs offer GPUs; processes only if a job file has them.
        shows_stepper = (is_usable and not has_gpus) or count > 0
        self.stepper.setVisible(shows_stepper)
        self._unit_label.setVisible(shows_stepper)
        self._unit_label.setText("process" if count == 1 else "processes")
        self.cells.setVisible(has_gpus or not is_usable)
        self._spacer.setVisible(not self.cells.isVisibleTo(self))
        self.stepper.setEnabled(not self.cells.selected_uuids())
        text, role, color_role = self._figure_text()
        self._figure.setText(text)
        self._figure.set_color_role(color_role)
        self._figure.set_role(role)
        finding = worst_finding(self.state.health) if is_usable else None
        self._name_label.set_color_role(
            "warn" if finding is not None else "text" if is_usable else "text3"
        )
        busy_gpus = self.cells.busy_gpus() if is_usable else ()
        if busy_gpus:
            owners = ", ".join(dict.fromkeys(map(owner, busy_gpus)))
            self._figure.set_tip(f"In use by {owners}; the job starts when it is free.")
        else:
            self._figure.set_tip(finding.message if finding is not None else "")

    def _figure_text(self) -> tuple[str, Role, ColorRole]:
        selected_count = len(self.cells.selected_uuids()) or self.stepper.value()
        reading = self.state.reading
        if selected_count:
            can_start = is_available(self.state) and not self.cells.busy_gpus()
            color_role: ColorRole = "text" if can_start else "bad"
            return f"{formats.count(selected_count)} selected", "small_strong", color_role
        if not is_available(self.state) or reading is None:
            return formats.NONE, "small", "text3"
        finding = worst_finding(self.state.health)
        if finding is not None:
            return finding.description, "small", "warn"
        if not reading.gpus:
            return formats.plural(reading.cpu.cores, "core"), "small", "text3"
        free_count = len(free_gpus(self.state))
        return (f"{free_count} free" if free_count else "busy"), "small", "text3"

    @Slot()
    def _handle_change(self) -> None:
        self.update_layout()
        self.changed.emit()


class PlacementPicker(QWidget):
    """The rows of all nodes.

    Signals:
        changed: The placement changed.
        usage_changed: Another user started or stopped using a selected GPU.
    """

    changed = Signal()
    usage_changed = Signal()

    def __init__(self, rows_max_h: int = _ROWS_MAX_H, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: dict[str, _NodeRow] = {}
        self._unknown_placements: list[Mapping[str, Any]] = []
        self._needed_count = 0
        self._avoided_node = ""
        self._rows_max_h = rows_max_h
        self._name_w = 0
        self._jobs: Mapping[str, str] = {}
        self._pending_states: tuple[NodeState, ...] | None = None
        self._share_dialog: DialogHolder[Question] = DialogHolder()
        self._column = col(gap=0)
        self._holder = QWidget()
        self._holder.setLayout(self._column)
        self._holder.installEventFilter(self)
        self._scroll = VerticalScrollArea(self._holder)
        self._error = ErrorLine()
        self._free_only = Switch("Free only")
        self._free_only.setChecked(True)
        self._free_only.toggled.connect(self._update_rows)
        self._free_only.hide()
        self._choose_button = Button("", kind="quiet", icon="magic-wand")
        self._choose_button.clicked.connect(self._choose_automatically)
        self._legend = QWidget()
        self._legend.setLayout(
            row(
                legend_key("chosen", "selected"),
                legend_key("free", "free"),
                legend_key("ours", "Ringmaster job", share=0.0),
                legend_key("other", "other user"),
                gap=S2,
            )
        )
        self._foot = QWidget()
        self._foot.setLayout(
            row(self._legend, STRETCH, self._free_only, self._choose_button, gap=S2)
        )
        self.setLayout(col(self._scroll, self._foot, self._error, gap=0))
        self._update_rows()

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """Update the nodes. Rows keep their place; new nodes come last.

        The selection on a node that became offline stays: the check reports the node, and a job
        never becomes smaller by itself.
        """
        self._pending_states = states
        if not is_on_hidden_page(self):
            self._apply_pending()

    def show_jobs(self, names: Mapping[str, str]) -> None:
        """Set the names of jobs by id."""
        self._jobs = names
        for node_row in self._rows.values():
            node_row.cells.show_jobs(names)

    def _apply_pending(self) -> None:
        """Apply a pending update: when the picker is shown, before a read, or before a change."""
        states, self._pending_states = self._pending_states, None
        if states is None:
            return
        if set(self._rows) - {state.name for state in states}:
            self._unknown_placements = self.value()
            clear(self._column)
            self._rows.clear()
        for state in states:
            if state.name not in self._rows:
                self._add_row(state)
            else:
                self._rows[state.name].show_state(state)
        self._update_rows()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._apply_pending()

    def value(self) -> list[Mapping[str, Any]]:
        """Return ``placement`` of the job file, including nodes that are not known here."""
        self._apply_pending()
        placements = [row.value() for row in self._rows.values()]
        return [*(placement for placement in placements if placement), *self._unknown_placements]

    def put(self, placements: Sequence[Mapping[str, Any]]) -> None:
        self._apply_pending()
        self._needed_count = sum(
            len(p.get("gpus", ())) for p in placements if isinstance(p, Mapping)
        )
        self._show_placements(placements)

    def propose(self) -> None:
        """Choose one free GPU; without one, a process on this computer."""
        self._apply_pending()
        chosen_uuids = choose_gpus(self._states(), 1)
        gpus = [{"node": name, "gpus": list(uuids)} for name, uuids in chosen_uuids.items()]
        self.put(gpus or [{"node": THIS_COMPUTER, "processes": 1}])
        self._needed_count = 0

    def set_need(self, gpu_count: int, avoided_node: str = "") -> None:
        """Set the number of GPUs needed, and the node to avoid in the automatic selection."""
        self._needed_count, self._avoided_node = gpu_count, avoided_node
        self._update_rows()

    def set_error(self, message: str) -> None:
        self._error.setText(message)

    @Slot(int)
    def _step_nodes(self, step: int) -> None:
        """Move from the cells of one node to those of the next."""
        visible_cells = [
            node_row.cells for node_row in self._rows.values() if node_row.cells.isVisibleTo(self)
        ]
        index = next((n for n, cells in enumerate(visible_cells) if cells is self.sender()), 0)
        target = visible_cells[min(max(index + step, 0), len(visible_cells) - 1)]
        target.setFocus(Qt.FocusReason.TabFocusReason)
        self._scroll.ensureWidgetVisible(target, 0, S2)

    def _ask_share(self, node_row: _NodeRow, gpu: Gpu) -> None:
        share = partial(node_row.cells.select_shared, gpu.uuid, owner(gpu))
        title = node_label(node_row.node)
        self._share_dialog.open(share_question(title, gpu, share, self.window()))

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self._fit_height()
        return bool(super().eventFilter(receiver, event))

    def _add_row(self, state: NodeState) -> None:
        node_row = _NodeRow(state)
        node_row.cells.show_jobs(self._jobs)
        # Shown with all others, once the width of names and the free GPUs are known.
        node_row.hide()
        node_row.changed.connect(partial(self._handle_row_change, node_row))
        node_row.cells.usage_changed.connect(self.usage_changed)
        node_row.cells.step_requested.connect(self._step_nodes)
        node_row.cells.share_requested.connect(partial(self._ask_share, node_row))
        self._rows[state.name] = node_row
        self._column.addWidget(node_row)
        placement = next((p for p in self._unknown_placements if p.get("node") == state.name), None)
        if placement is not None:
            self._unknown_placements.remove(placement)
            node_row.put(placement)
        self._name_w = 0

    def _show_placements(self, placements: Sequence[Mapping[str, Any]]) -> None:
        by_node = {str(p.get("node")): p for p in placements if isinstance(p, Mapping)}
        for name, node_row in self._rows.items():
            node_row.put(by_node.pop(name, None))
        # Unknown nodes keep their place in the file; the check reports them.
        self._unknown_placements = list(by_node.values())
        self._update_rows()

    def _states(self) -> list[NodeState]:
        return [
            node_row.state for name, node_row in self._rows.items() if name != self._avoided_node
        ]

    def _offered_count(self) -> int:
        """Return how many GPUs the automatic selection would take: by default those of a node."""
        sound_counts = [len(sound_gpus(state)) for state in self._states()]
        return (
            min(self._needed_count, sum(sound_counts))
            if self._needed_count
            else max(sound_counts, default=0)
        )

    @Slot()
    def _choose_automatically(self) -> None:
        chosen_uuids = choose_gpus(self._states(), self._offered_count())
        if chosen_uuids:
            self._show_placements(
                [{"node": name, "gpus": list(uuids)} for name, uuids in chosen_uuids.items()]
            )
        else:
            self._show_placements(
                [{"node": n, "processes": 1} for n in processor_nodes(self._states())]
            )
        self.changed.emit()

    def _handle_row_change(self, changed_row: _NodeRow) -> None:
        """Let GPUs replace processes on CPUs, and the reverse: a job runs on one kind."""
        uses_gpus = bool(changed_row.cells.selected_uuids())
        for node_row in self._rows.values() if changed_row.value() else ():
            if node_row is not changed_row and uses_gpus != bool(node_row.cells.selected_uuids()):
                node_row.put(None)
        self._update_rows()
        self.changed.emit()

    @Slot()
    def _update_rows(self) -> None:
        rows = tuple(self._rows.values())
        has_many = len(rows) > _MANY_NODES
        self._free_only.setVisible(has_many)
        for node_row in rows:
            is_hidden = has_many and self._free_only.isChecked() and not node_row.has_capacity
            # A row stays visible when the user has just deselected its last GPU.
            node_row.setVisible(not is_hidden or node_row.isAncestorOf(self.focusWidget() or self))
        readings = [node_row.state.reading for node_row in rows]
        has_gpus = any(reading is not None and reading.gpus for reading in readings)
        offered_count = self._offered_count()
        self._legend.setVisible(has_gpus)
        # Of a cluster with GPUs, only these are taken.
        node_count = 0 if has_gpus else len(processor_nodes(self._states()))
        self._choose_button.setVisible(bool(offered_count or node_count))
        target_text = (
            formats.plural(node_count, "node") if node_count else formats.count(offered_count)
        )
        self._choose_button.setText(f"Select {target_text} for me")
        self._choose_button.set_tip(
            "One process on each; never a node with problems"
            if node_count
            else "Completely free nodes first; never a GPU with problems"
        )
        self._foot.setVisible(bool(has_gpus or has_many or node_count))
        self._fit_height()

    def _fit_height(self) -> None:
        """Set the height to that of the rows, up to a limit; names get the longest name's width."""
        rows = tuple(self._rows.values())
        titles = [node_title(node_row.node) for node_row in rows]
        longest_w = max((text_width(t, "medium") for t in strip_domain(titles)), default=0)
        limit = min(_NAME_MAX_W, int(self.width() * _NAME_SHARE))
        width = max(_NAME_MIN_W, min(longest_w + S1, limit))
        if width != self._name_w:
            self._name_w = width
            for node_row, label in zip(rows, elide_names(titles, width, "medium"), strict=True):
                node_row.set_name(label, width)
        # Up to this many nodes are visible at once; in a dialog, the dialog sets the height.
        shows_all = self._rows_max_h == _ROWS_MAX_H and len(rows) <= _MANY_NODES
        limit = _ALL_ROWS_MAX_H if shows_all else self._rows_max_h
        self._scroll.setFixedHeight(min(self._column.sizeHint().height(), limit))
