"""The place Nodes: how many are well, what needs a look, and the rack; or one node by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

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
    words_by_gpu,
)
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import Card, EmptyState, PageHeader, Scroll
from widgets.common.chunked_work import ChunkedWork, lots
from widgets.common.fields import SearchField
from widgets.common.focus import FocusLead
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.page_stack import Stack
from widgets.common.theme import CONTROL_H, PAGE_MARGIN, S3, S4
from widgets.common.throttle import is_unseen
from widgets.nodes.history.node_history import NO_PAST, NodeHistory, NodeHistoryData
from widgets.nodes.page.attention import AttentionCards, attentions
from widgets.nodes.page.node_page import NodePage
from widgets.nodes.page.rack import Rack, RackHead
from widgets.nodes.page.rack_legend import RackLegend
from widgets.nodes.row.node_row import (
    NODES_A_TURN,
    NodeRow,
    beat_words,
    counts_sentence,
    node_row,
)

_READING_AFTER_MS = 400
_TROUBLE_MARGINS = (PAGE_MARGIN, S4, PAGE_MARGIN, 0)
_SEARCH_W, _SEARCH_NARROW_W, _NARROW_BELOW_W = 220, 160, 1000


class _Content(QWidget):
    """As high as it is at its width.

    Its least height, as Qt has it, is that of the cards at their least width, and below twelve
    nodes on a common screen the page scrolled over nothing.
    """

    def minimumSizeHint(self) -> QSize:
        return QSize(super().minimumSizeHint().width(), 0)


class NodesPage(QWidget):
    """All nodes, and one of them by itself. With only this computer there is no rack.

    Signals, each with the name of a node:
        add_requested: A node is to be added (carries no name).
        check_requested: Check it; answer with `show_findings` or `show_error`.
        look_requested: Try once more to reach it.
        set_up_requested: Set it up, or again, or show its set-up that runs.
        service_requested: Out of service (False), or back (True).
        remove_requested: Forget it; the person was asked.
        forget_requested: The passphrase of its key is to be kept no longer.
        move_off_requested: Id of a job, and the node that it is to leave.
        end_requested: And an `Orphan` there, which is to end; answer with `show_orphans`.
        past_requested: It is looked at; answer with `show_past`, again and again.
        opened: It is shown by itself now; "" for the rack.
        save_requested: A file name, and the bytes to put there.
    """

    add_requested = Signal()
    check_requested = Signal(str)
    look_requested = Signal(str)
    set_up_requested = Signal(str)
    service_requested = Signal(str, bool)
    remove_requested = Signal(str)
    forget_requested = Signal(str)
    move_off_requested = Signal(str, str)
    end_requested = Signal(str, object)
    past_requested = Signal(str)
    opened = Signal(str)
    save_requested = Signal(str, object)

    def __init__(
        self, clock: Callable[[], float] = time.time, parent: QWidget | None = None
    ) -> None:
        """The page.

        Args:
            clock: Unix time; how old a beat is, is told by when it came here.
        """
        super().__init__(parent)
        self._clock = clock
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
        self._taking = ChunkedWork(self)
        self._showing = ChunkedWork(self)
        self.rack = Rack()
        self._focus = FocusLead(self, self.rack)
        self.rack.opened.connect(self.open_node)
        self.rack.shown_row.connect(self._follow)
        self._cards = AttentionCards()
        self._cards.pressed.connect(self._act)
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
        self._scroll = Scroll(self._content, gutter=PAGE_MARGIN)
        self._overview = QWidget()
        self._overview.setLayout(col(self._header, (self._scroll, 1), gap=0))
        self.detail = NodePage()
        self.detail.set_alone(True)
        self._reading = EmptyState("hard-drives", "Reading the nodes…")
        self._trouble = Banner("bad", icon="wifi-slash")
        self._trouble_place = QWidget()
        self._trouble_place.setLayout(row(self._trouble, margins=_TROUBLE_MARGINS))
        self._trouble_place.hide()
        self._pages = Stack()
        for page in (QWidget(), self._reading, self.detail, self._overview):
            self._pages.addWidget(page)
        self._slow = QTimer(self)
        self._slow.setSingleShot(True)
        self._slow.setInterval(_READING_AFTER_MS)
        self._slow.timeout.connect(partial(self._pages.setCurrentWidget, self._reading))
        self.setLayout(col(self._trouble_place, (self._pages, 1), gap=0))
        self._wire_detail()

    # What comes in.

    def begin_reading(self) -> None:
        """The nodes are being read; if it takes long, the page says so."""
        if not self._states:
            self._slow.start()

    def show_error(self, sentence: str) -> None:
        """The nodes cannot be read; what is shown already stays. "" when they can."""
        if sentence and not self._states:
            self._slow.stop()
            self._reading.say("wifi-slash", "The nodes cannot be read", sentence)
            self._pages.setCurrentWidget(self._reading)
        elif sentence:
            told = f"{sentence} What is shown is from before."
            self._trouble.set_finding("bad", "No news of the nodes", told, icon="wifi-slash")
        self._trouble_place.setVisible(bool(sentence and self._states))

    def show_nodes(
        self, states: tuple[NodeState, ...], since: Mapping[str, float] | None = None
    ) -> None:
        """All nodes, in the order they keep.

        Args:
            since: When each node left being well, Unix time, as far as it is known.
        """
        self._slow.stop()
        self._states = {state.name: state for state in states}
        self._since = since or {}
        for known in (self._beats, self._histories, self._set_ups, self._orphans):
            for name in set(known) - set(self._states):
                del known[name]
        now = self._clock()
        taking = (partial(self._take_beats, some, now) for some in lots(states, NODES_A_TURN))
        self._taking.do(chain(taking, [self._settle]), at_once=len(states) <= NODES_A_TURN)

    def show_jobs(self, views: tuple[JobView, ...]) -> None:
        """All jobs there are; their names stand at the GPUs they hold."""
        self._jobs = views
        self._settle()

    def show_set_up(self, set_up: SetUp) -> None:
        """How far setting up a node is; its row shows the step."""
        self._set_ups[set_up.node] = set_up
        self._settle()

    def show_findings(self, name: str, findings: tuple[Finding, ...]) -> None:
        """The outcome of a check."""
        if self.detail.node == name:
            self.detail.show_findings(findings)

    def show_orphans(
        self, name: str, orphans: tuple[Orphan, ...], ending: frozenset[ProcessIdentity]
    ) -> None:
        """What runs left behind on a node, and which of that is being ended."""
        self._orphans[name] = orphans, ending
        if self.detail.node == name:
            self.detail.show_orphans(orphans, ending)

    def show_past(self, name: str, past: NodeHistoryData) -> None:
        """What a node's agent kept of the last hours."""
        if name in self._states and self._history(name).put_past(past):
            self._settle()
            if self.detail.node == name:
                self.detail.show_past()

    def remove_history(self, name: str) -> None:
        """Only what this window saw itself is known then, until it is looked at again."""
        if name in self._histories:
            self._histories[name].put_past(NO_PAST)

    def show_check_error(self, name: str, sentence: str) -> None:
        """A check could not be made."""
        if self.detail.node == name:
            self.detail.show_error(sentence)

    @Slot(str)
    def open_node(self, name: str) -> None:
        """One node by itself."""
        if name in self._states and len(self._states) > 1:
            self._open = name
            self._settle()
            self.past_requested.emit(name)
            self.opened.emit(name)

    @Slot()
    def show_rack(self) -> None:
        """All nodes again; the one that was open has the focus."""
        self._left, self._open = self._open, ""
        self._settle()
        self.rack.setFocus()
        self.opened.emit("")

    @property
    def histories(self) -> Mapping[str, NodeHistory]:
        """What is known of each node's last hours, by its name."""
        return self._histories

    def beats(self) -> Mapping[str, str]:
        """How long ago each node was heard of, in words, by its name."""
        now = self._clock()
        silent = (Presence.OFFLINE, Presence.NEW)
        return {
            name: "" if state.presence in silent else beat_words(self._beat_age(name, now))
            for name, state in self._states.items()
        }

    @property
    def shows_one(self) -> bool:
        """Whether a node is shown by itself: it was opened, or there is no other."""
        return bool(self._states) and (len(self._states) == 1 or bool(self._open))

    @property
    def open_name(self) -> str:
        """The node that is shown by itself, "" when the rack is."""
        return self._open

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_stale:
            self._settle()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._states:
            # Its figures may be wished for in other units now.
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
        options = [("all", "All"), ("unwell", "Unwell"), ("free", "Free")]
        self._filter = SegmentedControl(options, name="Which nodes", height=CONTROL_H)
        self._filter.set_tip("unwell", "Dims the nodes that are well")
        self._filter.set_tip("free", "Dims the nodes without a free GPU")
        self._filter.chosen.connect(self._dim)
        add = Button("Add a node", kind="primary", icon="plus")
        add.clicked.connect(self.add_requested)
        self._header = PageHeader("Nodes", "", self._search, self._filter, add)

    def _wire_detail(self) -> None:
        detail = self.detail
        detail.back_requested.connect(self.show_rack)
        detail.add_requested.connect(self.add_requested)
        detail.check_requested.connect(self.check_requested)
        detail.look_requested.connect(self.look_requested)
        detail.set_up_requested.connect(self.set_up_requested)
        detail.service_requested.connect(self.service_requested)
        detail.remove_requested.connect(self.remove_requested)
        detail.forget_requested.connect(self.forget_requested)
        detail.move_off_requested.connect(self.move_off_requested)
        detail.save_requested.connect(self.save_requested)
        detail.end_requested.connect(self.end_requested)

    def _history(self, name: str) -> NodeHistory:
        return self._histories.setdefault(name, NodeHistory())

    def _take_beats(self, states: Sequence[NodeState], now: float) -> None:
        for state in states:
            self._take_beat(state, now)

    def _take_beat(self, state: NodeState, now: float) -> None:
        reading = state.reading
        if reading is None:
            return
        seen = self._beats.get(state.name)
        if seen is None or seen[0] != reading.heartbeat:
            self._beats[state.name] = (reading.heartbeat, now)
            if state.over_ssh or state.presence is not Presence.OFFLINE:
                self._history(state.name).append(
                    reading, now, words_by_gpu(state.health), bad_gpus(state.health)
                )

    def _settle(self) -> None:
        """Show what is known; rows that are as before are not painted again."""
        # Nobody sees it while another page of the window does, and 64 nodes are work.
        self._is_stale = is_unseen(self)
        if self._is_stale:
            return
        now = self._clock()
        if self._open not in self._states:
            self._open = ""
        alone = len(self._states) <= 1
        self.detail.set_alone(alone)
        self._show_detail(alone)
        by_itself = alone or bool(self._open)
        self._showing.stop()
        if not by_itself:
            self._read_rows(now)
        self._pages.setCurrentWidget(self.detail if by_itself else self._overview)
        self._focus.lead_to(self.detail if by_itself else self.rack)

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

    def _read_rows(self, now: float) -> None:
        names = {view.id: view.name for view in self._jobs}
        states = tuple(self._states.values())
        rows: list[NodeRow] = []

        def read(some: Sequence[NodeState]) -> None:
            rows.extend(
                node_row(
                    state,
                    names,
                    beat_age_s=self._beat_age(state.name, now),
                    set_up=self._set_ups.get(state.name),
                )
                for state in some
            )

        reading = (partial(read, some) for some in lots(states, NODES_A_TURN))

        def show() -> None:
            self._show_overview(states, tuple(rows), now)

        self._showing.do(chain(reading, [show]), at_once=len(states) <= NODES_A_TURN)

    def _show_overview(
        self, states: tuple[NodeState, ...], rows: tuple[NodeRow, ...], now: float
    ) -> None:
        self._rows = rows
        self._header.sentence.setText(counts_sentence(rows))
        unwell = sum(row.condition.is_news for row in rows)
        free = sum(bool(row.free_gpus) for row in rows)
        self._filter.set_text("all", f"All {len(rows)}")
        self._filter.set_text("unwell", f"Unwell {unwell}" if unwell else "Unwell")
        self._filter.set_text("free", f"Free {free}" if free else "Free")
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
        """Dim what does not match; nothing leaves its place."""
        which, text = self._filter.key(), self._search.text()
        dimmed = {
            row.name
            for row in self._rows
            if (which == "unwell" and not row.condition.is_news)
            or (which == "free" and not row.free_gpus)
            or (text and not row.matches(text))
        }
        self.rack.dim(frozenset(dimmed))
        nobody = bool(self._rows) and len(dimmed) == len(self._rows)
        self._nothing.setVisible(nobody)
        if nobody and text:
            self._nothing.setText(f"No node, owner or job matches “{text}”.")
        elif nobody:
            words = {"unwell": "Every node is well.", "free": "No GPU is free."}
            self._nothing.setText(words.get(which, ""))

    @Slot(str, str)
    def _act(self, node: str, act: str) -> None:
        if act == "show":
            self.open_node(node)
        elif act == "look":
            self.look_requested.emit(node)
        else:
            self.set_up_requested.emit(node)

    @Slot(QRect)
    def _follow(self, rect: QRect) -> None:
        """Keep the row that keys led to in view."""
        centre = self.rack.viewport().mapTo(self._content, rect.center())
        self._scroll.ensureVisible(centre.x(), centre.y(), 0, rect.height())
