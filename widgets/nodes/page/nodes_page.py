"""The page Nodes: the number of healthy nodes, the problems, and the rack; or one node."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QEvent, QRect, QSize, QTimer, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from backend.records.jobs.status import ProcessIdentity
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import SetUp
from backend.records.nodes.partition import Partition
from backend.records.nodes.reading import (
    Finding,
    NodeState,
    Orphan,
    Presence,
    bad_gpu_uuids,
    problems_by_gpu,
)
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button, IconButton, SegmentedControl
from widgets.common.cards import Card, EmptyState, PageHeader, VerticalScrollArea
from widgets.common.fields import SearchField
from widgets.common.focus import FocusForwarder
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.panes import PageStack
from widgets.common.state_badge import legend_key
from widgets.common.theme import CONTROL_H, PAGE_MARGIN, S1, S2, S3, S4
from widgets.common.throttle import is_on_hidden_page
from widgets.nodes.history.node_history import EMPTY_HISTORY, NodeHistory, NodeHistoryData
from widgets.nodes.page import node_actions
from widgets.nodes.page.attention import AttentionCards, attention_cards
from widgets.nodes.page.node_actions import NodeActions
from widgets.nodes.page.node_page import NodePage
from widgets.nodes.page.rack import Density, Rack, RackHead
from widgets.nodes.row.node_row import (
    NodeRow,
    heartbeat_text,
    node_row,
    nodes_summary,
)

_READING_AFTER_MS = 400
_FAILURE_MARGINS = (PAGE_MARGIN, S4, PAGE_MARGIN, 0)
_SEARCH_W, _SEARCH_NARROW_W, _NARROW_BELOW_W = 220, 160, 1000


class _Content(QWidget):
    """A widget as high as its width requires.

    Qt's minimum height is that of the cards at their minimum width. With fewer than twelve nodes on
    a common screen the page would scroll without content.
    """

    def minimumSizeHint(self) -> QSize:
        return QSize(super().minimumSizeHint().width(), 0)


class NodesPage(QWidget):
    """All nodes, or one of them. With only this computer there is no rack.

    Signals:
        node_opened: The name of the displayed node; "" for the rack.

    Attributes:
        node_actions: Emits what the user requests of a node.
        detail: The page of one node.
    """

    node_opened = Signal(str)

    def __init__(
        self, clock: Callable[[], float] = time.time, parent: QWidget | None = None
    ) -> None:
        """Build the page.

        Args:
            clock: Unix time; the age of a heartbeat counts from its arrival here.
        """
        super().__init__(parent)
        self._clock = clock
        self.node_actions = NodeActions()
        self.node_actions.add_handler(node_actions.BACK, self.show_rack)
        self.node_actions.add_handler(node_actions.SHOW, self.open_node)
        self._states: dict[str, NodeState] = {}
        self._problem_starts: Mapping[str, float] = {}
        self._jobs: tuple[JobView, ...] = ()
        self._set_ups: dict[str, SetUp] = {}
        self._heartbeats: dict[str, tuple[int, float]] = {}
        self._histories: dict[str, NodeHistory] = {}
        self._orphans: dict[str, tuple[tuple[Orphan, ...], frozenset[ProcessIdentity]]] = {}
        self._rows: tuple[NodeRow, ...] = ()
        self._opened_node = ""
        self._closed_node = ""
        self._is_stale = False
        self.rack = Rack()
        self._focus = FocusForwarder(self, self.rack)
        self.rack.node_opened.connect(self.open_node)
        self.rack.row_focused.connect(self._scroll_to_row)
        self._cards = AttentionCards(self.node_actions)
        self._make_header()
        self._legend = RackLegend()
        margins = (S3 // 2, S3 // 2, S3 // 2, S3 // 2)
        self._rack_card = Card(RackHead(self.rack), self.rack, gap=0, margins=margins)
        self._no_match_label = Label("", "body", "text2")
        self._no_match_label.hide()
        self._content = _Content()
        margins = (PAGE_MARGIN, 0, 0, S4)
        self._body_layout = col(
            self._cards,
            self._no_match_label,
            self._rack_card,
            self._legend,
            STRETCH,
            gap=S3,
            margins=margins,
        )
        self._content.setLayout(self._body_layout)
        self._scroll = VerticalScrollArea(self._content, gutter=PAGE_MARGIN)
        self._overview = QWidget()
        self._overview.setLayout(col(self._header, (self._scroll, 1), gap=0))
        self.detail = NodePage(self.node_actions)
        self.detail.set_only_node(True)
        self._reading_page = EmptyState("hard-drives", "Reading the nodes…")
        self._failure = Banner("bad", icon="wifi-slash")
        self._failure_bar = QWidget()
        self._failure_bar.setLayout(row(self._failure, margins=_FAILURE_MARGINS))
        self._failure_bar.hide()
        self._pages = PageStack()
        for page in (QWidget(), self._reading_page, self.detail, self._overview):
            self._pages.addWidget(page)
        self._reading_timer = QTimer(self, singleShot=True, interval=_READING_AFTER_MS)
        self._reading_timer.timeout.connect(
            partial(self._pages.setCurrentWidget, self._reading_page)
        )
        self.setLayout(col(self._failure_bar, (self._pages, 1), gap=0))

    # Input.

    def begin_reading(self) -> None:
        """Show after a while that the nodes are being read."""
        if not self._states:
            self._reading_timer.start()

    def show_error(self, message: str) -> None:
        """Show that the nodes cannot be read, "" for success; present content stays."""
        if message and not self._states:
            self._reading_timer.stop()
            self._reading_page.show_message("wifi-slash", "The nodes cannot be read", message)
            self._pages.setCurrentWidget(self._reading_page)
        elif message:
            explanation = f"{message} The page shows the last known state."
            self._failure.set_finding(
                "bad", "No contact with the data root", explanation, icon="wifi-slash"
            )
        self._failure_bar.setVisible(bool(message and self._states))

    def show_nodes(
        self, states: tuple[NodeState, ...], problem_starts: Mapping[str, float] | None = None
    ) -> None:
        """Show all nodes in their fixed order.

        Args:
            problem_starts: The Unix time at which each node stopped being healthy, if known.
        """
        self._reading_timer.stop()
        self._states = {state.name: state for state in states}
        self._problem_starts = problem_starts or {}
        for records in (self._heartbeats, self._histories, self._set_ups, self._orphans):
            for name in set(records) - set(self._states):
                del records[name]
        now_s = self._clock()
        for state in states:
            self._record_heartbeat(state, now_s)
        self._refresh()

    def show_jobs(self, views: tuple[JobView, ...]) -> None:
        """Take all jobs; the GPUs that they hold show their names."""
        self._jobs = views
        self._refresh()

    def show_set_up(self, set_up: SetUp) -> None:
        """Show the progress of a set-up; the node's row shows the step."""
        self._set_ups[set_up.node] = set_up
        self._refresh()

    def show_findings(self, name: str, findings: tuple[Finding, ...]) -> None:
        """Show the results of a check."""
        if self.detail.node == name:
            self.detail.show_findings(findings)

    def show_orphans(
        self, name: str, orphans: tuple[Orphan, ...], ending_processes: frozenset[ProcessIdentity]
    ) -> None:
        """Show the processes that runs left behind on a node, and which of them are being ended."""
        self._orphans[name] = orphans, ending_processes
        if self.detail.node == name:
            self.detail.show_orphans(orphans, ending_processes)

    def show_agent_history(self, name: str, agent_history: NodeHistoryData) -> None:
        """Take the last hours from a node's agent."""
        if name in self._states and self._history(name).set_agent_history(agent_history):
            self._refresh()
            if self.detail.node == name:
                self.detail.show_extended_history()

    def show_partitions(self, name: str, partitions: tuple[Partition, ...]) -> None:
        """Take the partitions of the cluster behind a node."""
        if self.detail.node == name:
            self.detail.show_partitions(partitions)

    def remove_history(self, name: str) -> None:
        """Keep only the readings of this window until the history is read again."""
        if name in self._histories:
            self._histories[name].set_agent_history(EMPTY_HISTORY)

    def show_check_error(self, name: str, message: str) -> None:
        """Show why a check could not run."""
        if self.detail.node == name:
            self.detail.show_error(message)

    @Slot(str)
    def open_node(self, name: str) -> None:
        """Show one node."""
        if name in self._states and len(self._states) > 1:
            self._opened_node = name
            self._refresh()
            self.node_actions.ask(node_actions.READ_HISTORY, name)
            self.node_opened.emit(name)

    def show_rack(self) -> None:
        """Show all nodes again; the node that was open gets the focus."""
        self._closed_node, self._opened_node = self._opened_node, ""
        self._refresh()
        self.rack.setFocus()
        self.node_opened.emit("")

    @property
    def histories(self) -> Mapping[str, NodeHistory]:
        """The known last hours of each node, by name."""
        return self._histories

    def heartbeats(self) -> Mapping[str, str]:
        """Return the time since each node's last heartbeat, as text, by name."""
        now_s = self._clock()
        silent_states = (Presence.OFFLINE, Presence.NEW)
        return {
            name: ""
            if state.presence in silent_states
            else heartbeat_text(self._heartbeat_age_s(name, now_s))
            for name, state in self._states.items()
        }

    @property
    def shows_node(self) -> bool:
        """Return True if a node is displayed, because the user opened it or it is the only node."""
        return bool(self._states) and (len(self._states) == 1 or bool(self._opened_node))

    @property
    def open_name(self) -> str:
        """The name of the displayed node, "" for the rack."""
        return self._opened_node

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_stale:
            self._refresh()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._states:
            # The figures may need other units now.
            self._refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < _NARROW_BELOW_W
        self._search.setFixedWidth(_SEARCH_NARROW_W if is_narrow else _SEARCH_W)

    # Construction.

    def _make_header(self) -> None:
        self._search = SearchField("Node, owner or job", key="Ctrl+F")
        self._search.setFixedWidth(_SEARCH_W)
        self._search.searched.connect(self._dim_rows)
        options = [("all", "All"), ("unwell", "Attention"), ("free", "Free")]
        self._filter = SegmentedControl(options, name="Show nodes", height=CONTROL_H)
        self._filter.set_tip("unwell", "Dims the healthy nodes")
        self._filter.set_tip("free", "Dims the nodes without a free GPU")
        self._filter.key_chosen.connect(self._dim_rows)
        add_button = Button("Add a node", kind="primary", icon="plus")
        add_button.clicked.connect(lambda: self.node_actions.ask(node_actions.ADD))
        usage_button = IconButton(node_actions.USAGE.icon, node_actions.USAGE.text)
        usage_button.clicked.connect(lambda: self.node_actions.ask(node_actions.USAGE, ""))
        self._header = PageHeader("Nodes", "", self._search, self._filter, usage_button, add_button)

    def _history(self, name: str) -> NodeHistory:
        return self._histories.setdefault(name, NodeHistory())

    def _record_heartbeat(self, state: NodeState, now_s: float) -> None:
        reading = state.reading
        if reading is None:
            return
        previous_heartbeat = self._heartbeats.get(state.name)
        if previous_heartbeat is None or previous_heartbeat[0] != reading.heartbeat:
            self._heartbeats[state.name] = (reading.heartbeat, now_s)
            if state.over_ssh or state.presence is not Presence.OFFLINE:
                self._history(state.name).append(
                    reading, now_s, problems_by_gpu(state.health), bad_gpu_uuids(state.health)
                )

    def _refresh(self) -> None:
        """Refresh the page; unchanged rows are not repainted."""
        # Skipped while another page is visible, because 64 nodes take time.
        self._is_stale = is_on_hidden_page(self)
        if self._is_stale:
            return
        now_s = self._clock()
        if self._opened_node not in self._states:
            self._opened_node = ""
        is_only = len(self._states) <= 1
        self.detail.set_only_node(is_only)
        self._show_detail(is_only)
        shows_node = is_only or bool(self._opened_node)
        if not shows_node:
            self._show_overview(now_s)
        self._pages.setCurrentWidget(self.detail if shows_node else self._overview)
        self._focus.set_part(self.detail if shows_node else self.rack)

    def _heartbeat_age_s(self, name: str, now_s: float) -> float | None:
        heartbeat = self._heartbeats.get(name)
        return None if heartbeat is None else now_s - heartbeat[1]

    def _show_detail(self, is_only: bool) -> None:
        name = next(iter(self._states), "") if is_only else self._opened_node
        state = self._states.get(name)
        if state is None:
            return
        heartbeat = self.heartbeats()[name]
        heartbeat_age = heartbeat if heartbeat in ("now", formats.NONE, "") else f"{heartbeat} ago"
        self.detail.show_node(
            state, self._history(name), self._jobs, heartbeat="" if is_only else heartbeat_age
        )
        self.detail.show_orphans(*self._orphans.get(name, ((), frozenset())))

    def _show_overview(self, now_s: float) -> None:
        job_names = {view.id: view.name for view in self._jobs}
        states = tuple(self._states.values())
        self._rows = rows = tuple(
            node_row(
                state,
                job_names,
                heartbeat_age_s=self._heartbeat_age_s(state.name, now_s),
                set_up=self._set_ups.get(state.name),
            )
            for state in states
        )
        self._header.subtitle.setText(nodes_summary(rows))
        unhealthy_count = sum(row.condition.is_notable for row in rows)
        free_count = sum(bool(row.free_gpus) for row in rows)
        counts = {
            "all": ("All", len(rows)),
            "unwell": ("Attention", unhealthy_count),
            "free": ("Free", free_count),
        }
        for key, (title, count) in counts.items():
            self._filter.set_count(key, title, formats.count(count) if count else "")
        by_name = {row.name: row for row in rows}
        self._cards.show_cards(
            attention_cards(states, by_name, self._jobs, self._problem_starts, now_s)
        )
        self.rack.show_rows(rows)
        self._legend.show_for(self.rack.density, any(row.gpus for row in rows))
        self._dim_rows()
        number = self.rack.rows_model.row_of(self._closed_node)
        if number is not None:
            self.rack.setCurrentIndex(self.rack.rows_model.index(number))
        self._closed_node = ""

    @Slot()
    def _dim_rows(self) -> None:
        """Dim the rows that do not match; nothing moves."""
        filter_key, text = self._filter.key(), self._search.text()
        dimmed_names = {
            row.name
            for row in self._rows
            if (filter_key == "unwell" and not row.condition.is_notable)
            or (filter_key == "free" and not row.free_gpus)
            or (text and not row.matches(text))
        }
        self.rack.dim(frozenset(dimmed_names))
        none_matches = bool(self._rows) and len(dimmed_names) == len(self._rows)
        self._no_match_label.setVisible(none_matches)
        if none_matches and text:
            self._no_match_label.setText(f"No node, owner or job matches “{text}”.")
        elif none_matches:
            messages = {"unwell": "Every node is healthy.", "free": "No GPU is free."}
            self._no_match_label.setText(messages.get(filter_key, ""))

    @Slot(QRect)
    def _scroll_to_row(self, rect: QRect) -> None:
        """Keep the row that has the keyboard focus in view."""
        center = self.rack.viewport().mapTo(self._content, rect.center())
        self._scroll.ensureVisible(center.x(), center.y(), 0, rect.height())


class RackLegend(QWidget):
    """Keys of the cells, below the rack."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = Label("", "tiny", "text3", elide="right")
        self._hint = Label("Point at a node to see it large", "tiny", "text3", elide="right")
        self.setLayout(
            row(
                legend_key("ours", "Ringmaster job"),
                S2,
                legend_key("other", "another user"),
                S2,
                legend_key("free", "free"),
                S2,
                legend_key("free", "problem", is_unhealthy=True),
                S2,
                self._figures,
                STRETCH,
                self._hint,
                gap=S1,
                margins=(0, 0, 0, 0),
            )
        )

    def show_for(self, density: Density, with_gpus: bool) -> None:
        """Describe the use figures at this density; hidden without GPUs."""
        self.setVisible(with_gpus)
        is_wall = density is Density.WALL
        self._figures.setText("height: use" if is_wall else "bar: use · figures: use, temperature")
        self._hint.setVisible(is_wall)
