"""The live page of one node: details, a card per GPU, recent history, and actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from PySide6.QtCore import Qt, QTimer, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from backend.records.jobs.status import ProcessIdentity
from backend.records.jobs.view import JobView
from backend.records.nodes.partition import Partition
from backend.records.nodes.reading import Finding, NodeReading, NodeState, Orphan, Presence
from backend.records.queue.entry import Queue
from widgets.common import formats
from widgets.common.actions import MoreButton, fill_menu
from widgets.common.banner import Banner
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import EmptyState, PageHeader, VerticalScrollArea
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import ICON_NAV, PAGE_MARGIN, S3, S4
from widgets.nodes.history.history_card import HistoryCard
from widgets.nodes.history.node_history import NodeHistory
from widgets.nodes.page import node_actions
from widgets.nodes.page.gpu_card import GpuCard, Meter
from widgets.nodes.page.node_actions import NodeAction, NodeActions, NodeActionState
from widgets.nodes.page.node_lists import (
    FindingsCard,
    JobsCard,
    PartitionsCard,
    ProcessesCard,
)
from widgets.nodes.row.node_row import (
    Condition,
    condition_of,
    node_title,
    upper_first,
)

_NARROW_BELOW_W = 1110
_METER_HISTORY_S = 600.0
_LAYOUT_MS = 50
_SIDE_COLUMN_W, _UNLIMITED_W = 288, 16_777_215
_SET_UP_NOTICE_H = 400
"""The height of the notice about a node that is not set up."""

_SET_UP_TEXT = (
    "Ringmaster installs Python, Open MPI and PyTorch into your home folder on the node, without "
    "root, and tests them with two processes."
)


class NodePage(QWidget):
    """The page of one node."""

    def __init__(self, actions: NodeActions) -> None:
        super().__init__()
        self._actions = actions
        # Otherwise the page's first control would have the focus and its ring at once.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._state: NodeState | None = None
        self._history = NodeHistory()
        self._views: tuple[JobView, ...] = ()
        self._jobs: Mapping[str, str] = {}
        self._ranks: Mapping[tuple[str, str], int] = {}
        self._card_layout: tuple[int, bool] | None = None
        # The plots of a node that is opened are filled after its page is painted: both are 0.15 s.
        self._history_timer = QTimer(self, singleShot=True)
        self._history_timer.timeout.connect(self._show_history)
        self._make_header(actions)
        self._details = KeyValueRow()
        self._failure = Banner()
        self._failure.hide()
        self._removal = Banner("bad", "", icon="trash")
        self._removal.hide()
        self._make_cards()
        self._set_up_notice = EmptyState("wrench", "Not set up yet", _SET_UP_TEXT)
        self._set_up_notice.setMinimumHeight(_SET_UP_NOTICE_H)
        content = QWidget()
        content.setLayout(
            col(
                *(self._details, self._removal, self._failure, self._set_up_notice),
                *(self._meters, self._gpu_grid, self._no_gpu, (self._lower_grid, 1)),
                gap=S3,
                margins=(PAGE_MARGIN, 0, 0, S4),
            )
        )
        self._content = VerticalScrollArea(content, gutter=PAGE_MARGIN)
        self._content.hide()
        self.setLayout(col(self._header, (self._content, 1), gap=0))
        self._lay_out_cards()

    def _make_cards(self) -> None:
        actions = self._actions
        self._processor = Meter("Processor", 0)
        self._memory = Meter("Memory", 2)
        self._disk = Meter("Disk of the data root, used", 5)
        self._meters = QWidget()
        self._meters.setLayout(
            row((self._processor, 1), (self._memory, 1), (self._disk, 1), gap=S3)
        )
        self._gpu_grid = QGridLayout()
        self._gpu_grid.setSpacing(S3)
        self._cards: list[GpuCard] = []
        self._gpu_cards: dict[str, GpuCard] = {}
        self._no_gpu = Label("", "body", "text2", wrap=True)
        self._no_gpu.hide()
        self._history_card = HistoryCard()
        self._history_card.hide()
        self._history_card.pictures.saved.connect(
            lambda *args: actions.ask(node_actions.SAVE, *args)
        )
        self._findings_card = FindingsCard(
            lambda orphan: actions.ask(node_actions.END_ORPHAN, self.node, orphan)
        )
        self._partitions_card = PartitionsCard()
        self._processes_card = ProcessesCard()
        self._jobs_card = JobsCard(actions)
        self._side_column = QWidget()
        self._side_column.setLayout(
            col(
                *(self._findings_card, self._partitions_card, self._jobs_card),
                *(self._processes_card, STRETCH),
                gap=S3,
            )
        )
        self._lower_grid = QGridLayout()
        self._lower_grid.setSpacing(S3)

    @property
    def node(self) -> str:
        """The name of the displayed node, "" for none."""
        return self._state.name if self._state is not None else ""

    def show_node(
        self,
        state: NodeState,
        history: NodeHistory,
        jobs: tuple[JobView, ...] = (),
        *,
        heartbeat: str = "",
    ) -> None:
        """Take an update of a node, or another node.

        Args:
            history: The last readings, the present reading included.
            jobs: All jobs; the GPUs that they hold show their names.
            heartbeat: The age of the last heartbeat, as text.
        """
        is_other = state.name != self.node
        if is_other:
            self._reset(state)
        self._state, self._history = state, history
        self._views = jobs
        self._jobs = {view.id: view.name for view in jobs}
        self._ranks = {
            (view.id, uuid): rank
            for view in jobs
            if view.state.is_live and state.name in view.nodes
            for rank, placement, uuid in view.ranks()
            if uuid and placement.node == state.name
        }
        self._content.show()
        condition, reason = condition_of(state)
        self._show_head(condition, reason)
        self._details.set_items(node_details(state, heartbeat))
        self._show_failure(condition, reason)
        is_reachable = state.over_ssh or condition not in (Condition.OFFLINE, Condition.NEW)
        self._set_up_notice.setVisible(condition is Condition.NEW)
        self._set_up_notice.setMinimumHeight(
            _SET_UP_NOTICE_H // 2 if state.over_ssh else _SET_UP_NOTICE_H
        )
        reading = state.reading if is_reachable else None
        self._meters.setVisible(reading is not None and not reading.gpus)
        times = history.times()
        # Without GPUs the meters show the last minutes; the card is for the time before.
        needs_plots = state.reading is not None and bool(state.reading.gpus)
        needs_plots = needs_plots or (
            len(times) > 1 and bool(times[-1] - times[0] > _METER_HISTORY_S)
        )
        shows_history = bool(len(times)) and state.reading is not None and needs_plots
        self._history_card.setVisible(shows_history)
        if reading is not None:
            self._show_meters(reading)
        self._show_gpus(reading)
        self._show_lists(state, reading, jobs)
        self._history_timer.stop()
        if shows_history and is_other:
            self._history_timer.start()
        elif shows_history:
            self._show_history()

    def show_findings(self, findings: tuple[Finding, ...]) -> None:
        """Show the results of the check: problems first, each with its remedy."""
        self._show_actions(replace(self._action_state, is_checking=False))
        self._findings_card.show_findings(findings)

    def show_orphans(
        self, orphans: Iterable[Orphan], ending_processes: Collection[ProcessIdentity]
    ) -> None:
        """Show the processes that runs left behind, and which of them are being ended."""
        self._findings_card.show_orphans(orphans, ending_processes, self._jobs)

    def show_partitions(self, partitions: tuple[Partition, ...]) -> None:
        """Show the partitions of the cluster behind this login node."""
        self._partitions_card.show_partitions(partitions)

    def show_processes(self) -> None:
        """Scroll to the processes, if the node has a reading."""
        # The page may have been opened just now: its cards get their places first.
        QTimer.singleShot(_LAYOUT_MS, self, self._scroll_to_processes)

    @Slot()
    def _scroll_to_processes(self) -> None:
        if not self._processes_card.isHidden():
            self._content.ensureWidgetVisible(self._processes_card, 0, S4)

    @Slot()
    def _show_history(self) -> None:
        if self._state is not None:
            self._history_card.show_history(self._history, self._state, self._views)

    def show_queue(self, queue: Queue) -> None:
        """Take the queue, for the reservations of the node."""
        self._history_card.show_queue(queue)

    def show_extended_history(self) -> None:
        """Rebuild the plots: the history now begins earlier than before."""
        self._history_card.show_extended_history()

    def show_error(self, message: str) -> None:
        """Show why the check could not run."""
        self.show_findings((Finding("check", False, message),))

    def set_only_node(self, is_only: bool) -> None:
        """Set whether this is the only node: then there is no way back, but a node can be added."""
        self._back_button.setVisible(not is_only)
        self._add_button.setVisible(is_only)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out_cards()

    # -- The header.

    def _make_header(self, actions: NodeActions) -> None:
        self._back_button = IconButton("arrow-left", "All nodes", key="Esc")
        self._back_button.clicked.connect(lambda: actions.ask(node_actions.BACK))
        self._back_button.hide()
        self._condition_icon = IconLabel("warning-fill", "warn", ICON_NAV)
        actions.add_handler(node_actions.CHECK, self._show_checking)
        actions.add_handler(node_actions.REMOVE, self._ask_removal)
        self._action_state = NodeActionState()
        self._action_buttons = {group: Button() for group in node_actions.HEADER_ACTIONS}
        for group, button in self._action_buttons.items():
            button.set_kind("primary" if group[0].is_primary else "plain")
            button.clicked.connect(partial(self._ask_offered, group))
        self._add_button = Button("Add a node", kind="primary", icon="plus")
        self._add_button.clicked.connect(lambda: actions.ask(node_actions.ADD))
        self._more_button = MoreButton(
            lambda menu: fill_menu(
                menu, (node_actions.MENU_ACTIONS,), self._action_state, self._ask
            )
        )
        buttons = (*self._action_buttons.values(), self._more_button, self._add_button)
        self._header = PageHeader("This computer", "", *buttons)
        self._header.insert_before(self._back_button, self._header.title)
        self._header.insert_before(self._condition_icon, self._header.subtitle)
        self._condition_icon.hide()
        self._show_actions(self._action_state)

    def _show_actions(self, state: NodeActionState) -> None:
        self._action_state = state
        for group, button in self._action_buttons.items():
            offered_actions = [action for action in group if action.is_offered(state)]
            button.setVisible(bool(offered_actions))
            for action in offered_actions:
                action.show_on(button, state)
        self._more_button.setVisible(state.is_added)

    def _ask_offered(self, group: tuple[NodeAction, ...]) -> None:
        for action in [action for action in group if action.is_offered(self._action_state)]:
            self._ask(action)

    def _ask(self, action: NodeAction) -> None:
        if self._state is not None:
            self._actions.ask(action, self.node)

    def _show_head(self, condition: Condition, reason: str) -> None:
        state = self._state
        if state is None:
            return
        self._header.title.setText(node_title(state.name))
        # The banner below says why a node is offline; the other states need no reason.
        subtitle = condition.label
        if condition is Condition.WELL:
            subtitle = upper_first(reason)
        elif condition in (Condition.UNHEALTHY, Condition.UNKNOWN) and reason:
            subtitle = f"{condition.label}: {reason}"
        self._header.subtitle.setText(subtitle)
        color_role = "text2" if condition is Condition.WELL else condition.color_role
        self._header.subtitle.set_color_role(color_role)
        self._condition_icon.setVisible(condition is not Condition.WELL)
        self._condition_icon.set_icon(condition.icon, condition.color_role)
        entry = state.entry
        is_login_node = entry is not None and bool(entry.scheduler)
        is_checking = self._action_state.is_checking
        self._show_actions(
            NodeActionState(condition, entry is not None, is_checking, is_login_node=is_login_node)
        )

    def _reset(self, state: NodeState) -> None:
        """Reset for another node."""
        self._removal.hide()
        self._findings_card.clear()
        self._history_card.clear()
        self._partitions_card.hide()
        self._jobs_card.hide()
        self._processes_card.hide()
        self._action_state = NodeActionState()
        for meter in (self._processor, self._memory, self._disk):
            meter.clear()
        self._content.verticalScrollBar().setValue(0)

    def _show_failure(self, condition: Condition, reason: str) -> None:
        state = self._state
        is_offline = condition is Condition.OFFLINE and state is not None
        if is_offline and not self._failure.isVisibleTo(self):
            retry_button = Button(node_actions.RETRY.text, icon=node_actions.RETRY.icon)
            retry_button.clicked.connect(partial(self._ask, node_actions.RETRY))
            self._failure.set_actions([retry_button])
        self._failure.setVisible(is_offline)
        if is_offline and state is not None:
            title = f"{state.name} is offline"
            explanation = f"{upper_first(reason)}."
            if state.over_ssh:
                explanation += " The figures are read over it."
            self._failure.set_finding("bad", title, explanation, icon=condition.icon)

    def _ask_removal(self, _name: str) -> None:
        remove_button, keep_button = Button("Remove", kind="danger"), Button("Keep")
        remove_button.clicked.connect(self._confirm_removal)
        keep_button.clicked.connect(self._removal.hide)
        text = "Removes it from the list. Software installed on the node is kept."
        self._removal.set_finding("bad", f"Remove {self.node}?", text, icon="trash")
        self._removal.set_actions([keep_button, remove_button])
        self._removal.show()

    @Slot()
    def _confirm_removal(self) -> None:
        self._removal.hide()
        self._actions.ask(node_actions.REMOVE_NOW, self.node)

    def _show_checking(self, name: str) -> None:
        if name == self.node:
            self._show_actions(replace(self._action_state, is_checking=True))
            self._findings_card.show_checking()

    # -- The content.

    def _show_meters(self, reading: NodeReading) -> None:
        cpu, memory_bytes = reading.cpu, reading.memory_total_bytes
        cpu_share = None if cpu.use_percent is None else cpu.use_percent / 100
        self._processor.show_share(cpu_share, f"of {formats.plural(cpu.cores, 'core')}")
        swap_bytes = reading.swap_used_bytes
        self._memory.show_share(
            reading.memory_used_bytes / memory_bytes if memory_bytes else None,
            formats.used_memory(reading.memory_used_bytes, memory_bytes)
            + (f", {formats.memory(swap_bytes)} of swap in use" if swap_bytes else ""),
        )
        disk_bytes, free_bytes = reading.disk_total_bytes, reading.disk_free_bytes
        if disk_bytes and free_bytes is not None:
            size = f"{formats.disk(free_bytes)} free of {formats.disk(disk_bytes)}"
            detail = f"{size} at {reading.disk_path}"
            self._disk.show_share(1 - free_bytes / disk_bytes, detail)
        else:
            self._disk.show_share(None, f"{reading.disk_path} does not respond")

    def _show_gpus(self, reading: NodeReading | None) -> None:
        gpus = reading.gpus if reading is not None else ()
        if tuple(self._gpu_cards) != tuple(gpu.uuid for gpu in gpus):
            # Nodes are usually alike, so a card is reused for the next node.
            while len(self._cards) < len(gpus):
                self._cards.append(GpuCard())
            for spare_card in self._cards[len(gpus) :]:
                self._gpu_grid.removeWidget(spare_card)
                spare_card.hide()
            self._gpu_cards = dict(zip((gpu.uuid for gpu in gpus), self._cards, strict=False))
            self._card_layout = None
            self._lay_out_cards()
            for card in self._gpu_cards.values():
                card.show()
        for gpu in gpus:
            use = self._history.recent_values(gpu.uuid, "use")
            finding = self._state.worst_gpu_finding(gpu) if self._state is not None else None
            self._gpu_cards[gpu.uuid].show_gpu(gpu, use, self._jobs, finding, self._ranks)
        message = reading.gpu_message if reading is not None else ""
        self._no_gpu.setText(message)
        self._no_gpu.setVisible(bool(message))

    def _show_lists(
        self, state: NodeState, reading: NodeReading | None, jobs: tuple[JobView, ...]
    ) -> None:
        self._findings_card.show_health(state.health)
        self._jobs_card.show_jobs(jobs if self._add_button.isHidden() else (), state.name)
        if reading is not None:
            self._processes_card.show_reading(reading)
        else:
            self._processes_card.hide()

    def _lay_out_cards(self) -> None:
        """Cards in fours next to a column, or in pairs above it on a narrow page."""
        columns = 2 if self.width() < _NARROW_BELOW_W else 4
        has_side_column = columns == 4 and bool(self._gpu_cards)
        if (columns, has_side_column) == self._card_layout:
            return
        self._card_layout = (columns, has_side_column)
        for index, card in enumerate(self._gpu_cards.values()):
            self._gpu_grid.addWidget(card, index // columns, index % columns)
        for column in range(4):
            self._gpu_grid.setColumnStretch(
                column, int(column < min(columns, len(self._gpu_cards)))
            )
        self._lower_grid.removeWidget(self._side_column)
        self._lower_grid.addWidget(self._history_card, 0, 0)
        self._lower_grid.addWidget(
            self._side_column, 0 if has_side_column else 1, 1 if has_side_column else 0
        )
        self._lower_grid.setColumnStretch(0, 1)
        self._side_column.setMinimumWidth(_SIDE_COLUMN_W if has_side_column else 0)
        self._side_column.setMaximumWidth(_SIDE_COLUMN_W if has_side_column else _UNLIMITED_W)


def node_details(state: NodeState, heartbeat: str) -> list[KeyValue]:
    """Return the details, the most important first: the last are dropped if space is short."""
    entry, reading = state.entry, state.reading
    hardware = entry.info if entry is not None else None
    details: list[KeyValue] = []
    if entry is not None:
        details.append(KeyValue("Address", entry.address.host))
    elif reading is not None:
        details.append(KeyValue("Name", reading.host))
    if state.over_ssh:
        details.append(
            KeyValue("Figures", "over SSH", tip="Read periodically over SSH: no agent reports them")
        )
    gpu_models = (
        [g.name for g in reading.gpus]
        if reading is not None
        else list(hardware.gpus if hardware else ())
    )
    if gpu_models:
        model_counts = [
            f"{n} × {name}" if n > 1 else name for name, n in Counter(gpu_models).items()
        ]
        details.append(KeyValue("GPUs", ", ".join(model_counts)))
    if entry is not None and entry.gives_way:
        tip = "To other users of its GPUs, or at its keyboard"
        details.append(KeyValue("Gives way", entry.gives_way, tip=tip))
    is_silent = state.presence is Presence.OFFLINE and not state.over_ssh
    if reading is not None and not is_silent:
        details += _live_details(reading, any(finding.key == "disk" for finding in state.health))
    elif reading is not None or hardware is not None:
        core_count = reading.cpu.cores if reading is not None else hardware.cores if hardware else 0
        memory_bytes = (
            reading.memory_total_bytes if reading else hardware.memory_bytes if hardware else 0
        )
        # Zero means that the number is not known yet.
        details += [KeyValue("Processor", formats.plural(core_count, "core"))] if core_count else []
        details += [KeyValue("Memory", formats.memory(memory_bytes))] if memory_bytes else []
    driver = reading.driver if reading is not None else hardware.driver if hardware else ""
    if driver:
        details.append(KeyValue("Driver", driver))
    if entry is not None and entry.installation is not None:
        details.append(KeyValue("Open MPI", entry.installation.mpi_version))
    if hardware is not None:
        details.append(KeyValue("System", hardware.system))
    if reading is not None and not is_silent:
        details.append(KeyValue("Up", _uptime(reading.uptime_s)))
    if heartbeat and not state.over_ssh:
        details.append(KeyValue("Heartbeat", heartbeat))
    return details


def _live_details(reading: NodeReading, is_disk_low: bool) -> list[KeyValue]:
    cpu, memory_bytes, disk_free = reading.cpu, reading.memory_total_bytes, reading.disk_free_bytes
    cpu_use = formats.percent(None if cpu.use_percent is None else cpu.use_percent / 100)
    memory_use = (
        formats.percent(reading.memory_used_bytes / memory_bytes) if memory_bytes else formats.NONE
    )
    free_text = "does not respond" if disk_free is None else f"{formats.disk(disk_free)} free"
    details = [
        KeyValue("Processor", f"{cpu_use} of {formats.plural(cpu.cores, 'core')}", tip=cpu.model),
        KeyValue("Memory", f"{memory_use} of {formats.memory(memory_bytes)}"),
        KeyValue(
            "Data root",
            free_text,
            "warn" if is_disk_low or disk_free is None else "text",
            reading.disk_path,
        ),
    ]
    if reading.network_bytes_per_s is not None:
        # In bits, as in the rack, the history, and network specifications.
        speed = f"{8e-9 * reading.network_bytes_per_s:.1f}{formats.GAP}Gbit/s"
        details.append(KeyValue("Network", speed))
    return [*details, KeyValue("Load", f"{cpu.load_1min:.2f}")]


def _uptime(seconds: float) -> str:
    days = round(seconds / 86_400)
    return formats.plural(days, "day") if days >= 2 else formats.rough_duration(seconds)
