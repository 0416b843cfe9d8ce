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
from backend.records.nodes.reading import (
    Finding,
    NodeState,
    Orphan,
    Presence,
    bad_gpus,
    problems_by_gpu,
)
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import Card, EmptyState, PageHeader, VerticalScrollArea
from widgets.common.fields import SearchField
from widgets.common.focus import FocusForwarder
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.legend import legend_key
from widgets.common.page_stack import PageStack
from widgets.common.theme import CONTROL_H, PAGE_MARGIN, S1, S2, S3, S4
from widgets.common.throttle import is_on_hidden_page
from widgets.nodes.history.node_history import EMPTY_HISTORY, NodeHistory, NodeHistoryData
from widgets.nodes.page import node_actions as do
from widgets.nodes.page.attention import AttentionCards, attentions
from widgets.nodes.page.node_actions import NodeActions
from widgets.nodes.page.node_page import NodePage
from widgets.nodes.page.rack import Density, Rack, RackHead
from widgets.nodes.row.node_row import (
    NodeRow,
    heartbeat_text,
    nodes_summary,
    node_row,
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
        opened: The displayed node; "" for the rack.

    Attributes:
        node_actions: Emits what the user requests of a node.
        detail: The page of one node.
    """

    opened = Signal(str)

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
        self.node_actions.add_handler(do.BACK, self.show_rack)
        self.node_actions.add_handler(do.SHOW, self.open_node)
        self._states: dict[str, NodeState] = {}
        self._since: Mapping[str, float] = {}
        self._jobs: tuple[JobView, ...] = ()
        self._set_ups: dict[str, SetUp] = {}
        self._beats: dict[str, tuple[int, float]] = {}
        self._histories: dict[str, NodeHistory] = {}
        self._orphans: dict[str, tuple[tuple[Orphan, ...], frozenset[ProcessIdentity]]] = {}
        self._rows: tuple[NodeRow, ...] = ()
        self._open = ""
        self._left = ""
        self._is_stale = False
        self.rack = Rack()
        self._focus = FocusForwarder(self, self.rack)
        self.rack.opened.connect(self.open_node)
        self.rack.shown_row.connect(self._follow)
        self._cards = AttentionCards(self.node_actions)
        self._make_header()
        self._legend = RackLegend()
        margins = (S3 // 2, S3 // 2, S3 // 2, S3 // 2)
        self._rack_card = Card(RackHead(self.rack), self.rack, gap=0, margins=margins)
        self._nothing = Label("", "body", "text2")
        self._nothing.hide()
        self._content = _Content()
        margins = (PAGE_MARGIN, 0, 0, S4)
        self._body = col(
            self._cards,
            self._nothing,
            self._rack_card,
            self._legend,
            STRETCH,
            gap=S3,
            margins=margins,
        )
        self._content.setLayout(self._body)
        self._scroll = VerticalScrollArea(self._content, gutter=PAGE_MARGIN)
        self._overview = QWidget()
        self._overview.setLayout(col(self._header, (self._scroll, 1), gap=0))
        self.detail = NodePage(self.node_actions)
        self.detail.set_alone(True)
        self._reading = EmptyState("hard-drives", "Reading the nodes…")
        self._failure = Banner("bad", icon="wifi-slash")
        self._failure_place = QWidget()
        self._failure_place.setLayout(row(self._failure, margins=_FAILURE_MARGINS))
        self._failure_place.hide()
        self._pages = PageStack()
        for page in (QWidget(), self._reading, self.detail, self._overview):
            self._pages.addWidget(page)
        self._slow = QTimer(self)
        self._slow.setSingleShot(True)
        self._slow.setInterval(_READING_AFTER_MS)
        self._slow.timeout.connect(partial(self._pages.setCurrentWidget, self._reading))
        self.setLayout(col(self._failure_place, (self._pages, 1), gap=0))

    # What comes in.

    def begin_reading(self) -> None:
        """Reading begins; if it takes long, the page says so."""
        if not self._states:
            self._slow.start()

    def show_error(self, sentence: str) -> None:
        """Show that the nodes cannot be read, "" for success; present content stays."""
        if sentence and not self._states:
            self._slow.stop()
            self._reading.show_message("wifi-slash", "The nodes cannot be read", sentence)
            self._pages.setCurrentWidget(self._reading)
        elif sentence:
            explanation = f"{sentence} The page shows the last known state."
            self._failure.set_finding(
                "bad", "No contact with the data root", explanation, icon="wifi-slash"
            )
        self._failure_place.setVisible(bool(sentence and self._states))

    def show_nodes(
        self, states: tuple[NodeState, ...], since: Mapping[str, float] | None = None
    ) -> None:
        """Show all nodes in their fixed order.

        Args:
            since: When each node stopped being healthy, Unix time, if known.
        """
        self._slow.stop()
        self._states = {state.name: state for state in states}
        self._since = since or {}
        for known in (self._beats, self._histories, self._set_ups, self._orphans):
            for name in set(known) - set(self._states):
                del known[name]
        now = self._clock()
        for state in states:
            self._take_beat(state, now)
        self._settle()

    def show_jobs(self, views: tuple[JobView, ...]) -> None:
        """Take all jobs; the GPUs that they hold show their names."""
        self._jobs = views
        self._settle()

    def show_set_up(self, set_up: SetUp) -> None:
        """Show the progress of a set-up; the node's row shows the step."""
        self._set_ups[set_up.node] = set_up
        self._settle()

    def show_findings(self, name: str, findings: tuple[Finding, ...]) -> None:
        """Show the results of a check."""
        if self.detail.node == name:
            self.detail.show_findings(findings)

    def show_orphans(
        self, name: str, orphans: tuple[Orphan, ...], ending: frozenset[ProcessIdentity]
    ) -> None:
        """Show the processes that runs left behind on a node, and those that are being ended."""
        self._orphans[name] = orphans, ending
        if self.detail.node == name:
            self.detail.show_orphans(orphans, ending)

    def show_past(self, name: str, past: NodeHistoryData) -> None:
        """Take the last hours from a node's agent."""
        if name in self._states and self._history(name).set_agent_history(past):
            self._settle()
            if self.detail.node == name:
                self.detail.show_past()

    def remove_history(self, name: str) -> None:
        """Keep only the readings of this window until the history is read again."""
        if name in self._histories:
            self._histories[name].set_agent_history(EMPTY_HISTORY)

    def show_check_error(self, name: str, sentence: str) -> None:
        """Show why a check could not run."""
        if self.detail.node == name:
            self.detail.show_error(sentence)

    @Slot(str)
    def open_node(self, name: str) -> None:
        """Show one node."""
        if name in self._states and len(self._states) > 1:
            self._open = name
            self._settle()
            self.node_actions.ask(do.READ_PAST, name)
            self.opened.emit(name)

    def show_rack(self) -> None:
        """Show all nodes again; the one that was open gets the focus."""
        self._left, self._open = self._open, ""
        self._settle()
        self.rack.setFocus()
        self.opened.emit("")

    @property
    def histories(self) -> Mapping[str, NodeHistory]:
        """The known last hours of each node, by name."""
        return self._histories

    def beats(self) -> Mapping[str, str]:
        """The time since each node's last heartbeat, as text, by name."""
        now = self._clock()
        silent = (Presence.OFFLINE, Presence.NEW)
        return {
            name: "" if state.presence in silent else heartbeat_text(self._beat_age(name, now))
            for name, state in self._states.items()
        }

    @property
    def shows_one(self) -> bool:
        """Return True if one node is displayed: it was opened, or it is the only one."""
        return bool(self._states) and (len(self._states) == 1 or bool(self._open))

    @property
    def open_name(self) -> str:
        """The name of the displayed node, "" for the rack."""
        return self._open

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_stale:
            self._settle()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._states:
            # Its figures may need other units now.
            self._settle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.width() < _NARROW_BELOW_W
        self._search.setFixedWidth(_SEARCH_NARROW_W if narrow else _SEARCH_W)

    # How it is made.

    def _make_header(self) -> None:
        self._search = SearchField("Node, owner or job", key="Ctrl+F")
        self._search.setFixedWidth(_SEARCH_W)
        self._search.searched.connect(self._dim)
        options = [("all", "All"), ("unwell", "Attention"), ("free", "Free")]
        self._filter = SegmentedControl(options, name="Show nodes", height=CONTROL_H)
        self._filter.set_tip("unwell", "Dims the healthy nodes")
        self._filter.set_tip("free", "Dims the nodes without a free GPU")
        self._filter.key_chosen.connect(self._dim)
        add = Button("Add a node", kind="primary", icon="plus")
        add.clicked.connect(lambda: self.node_actions.ask(do.ADD))
        self._header = PageHeader("Nodes", "", self._search, self._filter, add)

    def _history(self, name: str) -> NodeHistory:
        return self._histories.setdefault(name, NodeHistory())

    def _take_beat(self, state: NodeState, now: float) -> None:
        reading = state.reading
        if reading is None:
            return
        seen = self._beats.get(state.name)
        if seen is None or seen[0] != reading.heartbeat:
            self._beats[state.name] = (reading.heartbeat, now)
            if state.over_ssh or state.presence is not Presence.OFFLINE:
                self._history(state.name).append(
                    reading, now, problems_by_gpu(state.health), bad_gpus(state.health)
                )

    def _settle(self) -> None:
        """Refresh the page; unchanged rows are not repainted."""
        # While another page is visible it is skipped, because 64 nodes take time.
        self._is_stale = is_on_hidden_page(self)
        if self._is_stale:
            return
        now = self._clock()
        if self._open not in self._states:
            self._open = ""
        alone = len(self._states) <= 1
        self.detail.set_alone(alone)
        self._show_detail(alone)
        by_itself = alone or bool(self._open)
        if not by_itself:
            self._show_overview(now)
        self._pages.setCurrentWidget(self.detail if by_itself else self._overview)
        self._focus.set_part(self.detail if by_itself else self.rack)

    def _beat_age(self, name: str, now: float) -> float | None:
        seen = self._beats.get(name)
        return None if seen is None else now - seen[1]

    def _show_detail(self, alone: bool) -> None:
        wanted = next(iter(self._states), "") if alone else self._open
        state = self._states.get(wanted)
        if state is None:
            return
        beat = self.beats()[wanted]
        ago = beat if beat in ("now", formats.NONE, "") else f"{beat} ago"
        self.detail.show_node(state, self._history(wanted), self._jobs, beat="" if alone else ago)
        self.detail.show_orphans(*self._orphans.get(wanted, ((), frozenset())))

    def _show_overview(self, now: float) -> None:
        names = {view.id: view.name for view in self._jobs}
        states = tuple(self._states.values())
        self._rows = rows = tuple(
            node_row(
                state,
                names,
                heartbeat_age_s=self._beat_age(state.name, now),
                set_up=self._set_ups.get(state.name),
            )
            for state in states
        )
        self._header.subtitle.setText(nodes_summary(rows))
        unhealthy = sum(row.condition.is_notable for row in rows)
        free = sum(bool(row.free_gpus) for row in rows)
        counts = {
            "all": ("All", len(rows)),
            "unwell": ("Attention", unhealthy),
            "free": ("Free", free),
        }
        for key, (title, count) in counts.items():
            self._filter.set_count(key, title, formats.count(count) if count else "")
        by_name = {row.name: row for row in rows}
        self._cards.show_cards(attentions(states, by_name, self._jobs, self._since, now))
        self.rack.show_rows(rows)
        self._legend.show_for(self.rack.density, any(row.gpus for row in rows))
        self._dim()
        number = self.rack.rows_model.row_of(self._left)
        if number is not None:
            self.rack.setCurrentIndex(self.rack.rows_model.index(number))
        self._left = ""

    @Slot()
    def _dim(self) -> None:
        """Dim what does not match; nothing moves."""
        which, text = self._filter.key(), self._search.text()
        dimmed = {
            row.name
            for row in self._rows
            if (which == "unwell" and not row.condition.is_notable)
            or (which == "free" and not row.free_gpus)
            or (text and not row.matches(text))
        }
        self.rack.dim(frozenset(dimmed))
        no_row = bool(self._rows) and len(dimmed) == len(self._rows)
        self._nothing.setVisible(no_row)
        if no_row and text:
            self._nothing.setText(f"No node, owner or job matches “{text}”.")
        elif no_row:
            words = {"unwell": "Every node is healthy.", "free": "No GPU is free."}
            self._nothing.setText(words.get(which, ""))

    @Slot(QRect)
    def _follow(self, rect: QRect) -> None:
        """Keep the row that has the keyboard focus in view."""
        centre = self.rack.viewport().mapTo(self._content, rect.center())
        self._scroll.ensureVisible(centre.x(), centre.y(), 0, rect.height())


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
                legend_key("free", "problem", unhealthy=True),
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
        wall = density is Density.WALL
        self._figures.setText("height: use" if wall else "bar: use · figures: use, temperature")
        self._hint.setVisible(wall)
