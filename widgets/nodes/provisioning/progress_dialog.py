"""The progress of set-ups, step by step. Closing the dialog cancels nothing."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from backend.records.jobs.state import JobState
from backend.records.nodes.entry import HostKey, SetUp, StepState
from widgets.common import formats, icons
from widgets.common.buttons import Button
from widgets.common.cards import VerticalScrollArea
from widgets.common.dialog import Dialog
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, fit_height, row
from widgets.common.painting import paint_background, paint_focus, paint_text
from widgets.common.state_badge import paint_state
from widgets.common.theme import ICON_NAV, ROW_H, S2, S3, S4, S6, ColorRole
from widgets.nodes.provisioning.host_key_pages import KeyPlate, TrustedKey
from widgets.nodes.provisioning.step_list import SetUpView
from widgets.nodes.row.node_names import strip_domain
from widgets.nodes.row.node_row import step_label

_WIDTH, _NODES_W = 660, 208
_LEAST_H, _MOST_H, _FRAME_H = 420, 600, 144
_MARKS = {"good": "check-circle-fill", "bad": "x-circle-fill", "warn": "warning-fill"}


class _NodeTab(QAbstractButton):
    """The tab of one node: its progress as a glyph and a short text."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.node = self._title = name
        self._set_up = SetUp(name)
        self.setCheckable(True)
        self.setAutoExclusive(True)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_set_up(self, set_up: SetUp) -> None:
        self._set_up = set_up
        self.setAccessibleName(f"{self.node}, {_outcome(set_up)[0]}")
        self.setToolTip(self.accessibleName())
        self.update()

    def set_title(self, title: str) -> None:
        """Set the displayed form of its name."""
        self._title = title
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(_NODES_W, ROW_H - 4)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect())
        paint_background(painter, box, is_selected=self.isChecked(), is_hovered=self.underMouse())
        words, tone = _outcome(self._set_up)
        square = QRectF(S3, (box.height() - ICON_NAV) / 2, ICON_NAV, ICON_NAV)
        mark = _MARKS.get(tone)
        if mark is not None:
            icons.paint_icon(painter, square, mark, tone)
        else:
            live = tone == "live"
            state = JobState.STARTING if live else JobState.CREATED
            paint_state(painter, square, state)
        text = box.adjusted(square.right() + S2, 6, -S2, 0)
        text.setHeight(18)
        paint_text(painter, text, self._title, "strong", "text", elide_middle=True)
        paint_text(painter, text.translated(0, 18), words, "small", tone)
        if self.hasFocus():
            paint_focus(painter, box)


class SetUpDialog(Dialog):
    """A dialog that is not modal: the window stays usable. A signal has first the node's name.

    Signals:
        retry_requested: With the title of the step to retry from.
        choices_requested: It failed; set it up with other options.
        cancel_requested: Cancel its set-up.
        node_opened: Show its page.
        trusted: With the `HostKey` that the user accepted; continue the set-up.
    """

    retry_requested = Signal(str, str)
    choices_requested = Signal(str)
    cancel_requested = Signal(str)
    node_opened = Signal(str)
    trusted = Signal(str, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Set up", _WIDTH, parent, height=_LEAST_H)
        self.setModal(False)
        # Otherwise the first button has the focus and its ring before any key press.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._set_ups: dict[str, SetUp] = {}
        self._addresses: dict[str, str] = {}
        self._tabs: dict[str, _NodeTab] = {}
        self._refused: set[str] = set()
        self._shown = ""
        self._title = Label("", "title", elide="right")
        self._address = Label("", "small", "text3")
        self._view = SetUpView()
        self._view.retry_requested.connect(self.retry_requested)
        # The view reports by this event that its steps need more or less room.
        self._view.installEventFilter(self)
        holder = QWidget()
        holder.setLayout(col(self._view, STRETCH, gap=0))
        # Otherwise it requests the height of its wrapped texts on a narrow page, and scrolls.
        holder.setMinimumHeight(1)
        self._scroll = VerticalScrollArea(holder)
        self._trusted = TrustedKey()
        self._plate = KeyPlate("set the node up again")
        self._plate.trust.trusted.connect(self._pass_trust)
        self._plate.trust.refused.connect(self._refuse_key)
        self._plate.changed.closed.connect(self.hide)
        self._plate.hide()
        self._nodes = col(gap=2)
        nodes = QWidget()
        nodes.setLayout(col(self._nodes, STRETCH, gap=0))
        self._nodes_scroll = VerticalScrollArea(nodes)
        self._nodes_scroll.setFixedWidth(_NODES_W)
        self._nodes_scroll.hide()
        self._sentence = Label("", "small", "text3", elide="right")
        self._choices = Button("Options…", tip="Set it up with other options")
        self._choices.setAutoDefault(False)
        self._choices.clicked.connect(self._request_choices)
        self._cancel = Button("Cancel")
        self._cancel.setAutoDefault(False)
        self._cancel.clicked.connect(self._request_cancel)
        self._open = Button("Show node")
        self._open.setAutoDefault(False)
        self._open.clicked.connect(self._request_open)
        self._close = Button("Continue in the background", kind="primary")
        self._close.setDefault(True)
        self._close.clicked.connect(self.hide)
        steps = col(
            row((self._title, 1), self._address),
            self._trusted,
            (self._scroll, 1),
            (self._plate, 1),
            gap=S3,
        )
        self._foot = QWidget()
        self._foot.setLayout(
            row((self._sentence, 1), self._choices, self._cancel, self._open, self._close, gap=S2)
        )
        self.setLayout(
            col(
                (row(self._nodes_scroll, (steps, 1), gap=S4), 1),
                self._foot,
                gap=S3,
                margins=(S6, S4, S6, S4),
            )
        )
        self.resize(_WIDTH, _LEAST_H)
        self.setFocus()

    def show_set_up(self, set_up: SetUp, address: str = "") -> None:
        """Take the progress of a node; a new node gets a tab.

        Args:
            address: "mai@10.0.4.23", if it is known.
        """
        new = set_up.node not in self._set_ups
        self._set_ups[set_up.node] = set_up
        if set_up.key is None:
            self._refused.discard(set_up.node)
        if address:
            self._addresses[set_up.node] = address
        if new:
            self._add_tab(set_up.node)
        self._tabs[set_up.node].show_set_up(set_up)
        if new and (not self._shown or _has_ended(self._set_ups[self._shown])):
            self.choose(set_up.node)
        elif set_up.node == self._shown:
            self._show_chosen()
        self._settle()

    @Slot(str)
    def choose(self, node: str) -> None:
        """Show the steps of this node."""
        if node in self._set_ups:
            self._shown = node
            self._tabs[node].setChecked(True)
            self._show_chosen()
            self._settle()

    @property
    def chosen(self) -> str:
        return self._shown

    def remove(self, node: str) -> None:
        """Take the removal of a node."""
        tab = self._tabs.pop(node, None)
        if tab is None:
            return
        del self._set_ups[node]
        self._nodes.removeWidget(tab)
        tab.hide()
        tab.deleteLater()
        if node == self._shown:
            self._shown = ""
            rest = next(iter(self._set_ups), "")
            if rest:
                self.choose(rest)
            else:
                self.hide()

    def reject(self) -> None:
        # Esc and the window's close button close it without cancelling.
        self.hide()

    def _add_tab(self, node: str) -> None:
        tab = self._tabs[node] = _NodeTab(node)
        tab.clicked.connect(partial(self.choose, node))
        self._nodes.addWidget(tab)
        names = strip_domain(tuple(self._tabs))
        for one, title in zip(self._tabs.values(), names, strict=True):
            one.set_title(title)
        several = len(self._tabs) > 1
        self._nodes_scroll.setVisible(several)
        if several and self.width() < _WIDTH + _NODES_W:
            self.resize(_WIDTH + _NODES_W + S4, self.height())

    def _show_chosen(self) -> None:
        node = self._shown
        chosen = self._set_ups[node]
        self._view.show_set_up(chosen)
        title = f"Set up {node}"
        key = None if node in self._refused else chosen.key
        self._fits = key is not None
        for part in (self._scroll, self._foot):
            part.setVisible(key is None)
        self._plate.setVisible(key is not None)
        self._trusted.show_key("" if chosen.key is not None else chosen.trusted_fingerprint)
        if key is not None:
            title = self._plate.show_key(key, chosen.accepted_fingerprint)
            # No field or button has the focus before a key press.
            self.setFocus()
        else:
            self._close.setDefault(True)
            self.resize(self.width(), max(self.height(), _LEAST_H))
        self._title.setText(title)
        self._address.setText(self._addresses.get(node, ""))
        if self._fits:
            fit_height(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._grow()
        return super().eventFilter(watched, event)

    def _grow(self) -> None:
        """Grow to the height of a step's text, within the limits of a small screen."""
        if self._fits:
            return
        wanted = self._view.sizeHint().height()
        if self._view.hasHeightForWidth():
            width = self._scroll.viewport().width() - S2
            wanted = max(wanted, self._view.heightForWidth(width))
        if not self._trusted.isHidden():
            wanted += self._trusted.sizeHint().height() + S3
        wanted = min(wanted + _FRAME_H, _MOST_H)
        if self.height() < wanted:
            self.resize(self.width(), wanted)
        failed = self._view.set_up.failed
        if failed is not None:
            self._scroll.ensureWidgetVisible(self._view.step(failed.title), 0, 0)

    def _settle(self) -> None:
        chosen = self._set_ups.get(self._shown)
        if chosen is None:
            return
        running = not all(_has_ended(each) for each in self._set_ups.values())
        self._choices.setVisible(_has_ended(chosen) and chosen.failed is not None)
        self._cancel.setVisible(not _has_ended(chosen))
        self._open.setVisible(_is_ready(chosen))
        self._close.setText("Continue in the background" if running else "Close")
        words, tone = _outcome(chosen)
        if len(self._set_ups) > 1:
            over = sum(_is_ready(each) for each in self._set_ups.values())
            asking = sum(_asks(each) for each in self._set_ups.values())
            failed = sum(each.failed is not None for each in self._set_ups.values()) - asking
            words = f"{formats.count_of(over, len(self._set_ups))} nodes are ready"
            words += f", {failed} failed" if failed else ""
            words += f", {asking} waiting for an answer" if asking else ""
            tone = "bad" if failed else "text3"
        self._sentence.setText(f"{words}.")
        self._sentence.set_color_role("text3" if tone == "live" else tone)

    @Slot(object)
    def _pass_trust(self, key: HostKey) -> None:
        self.trusted.emit(self._shown, key)

    @Slot()
    def _refuse_key(self) -> None:
        self._refused.add(self._shown)
        self._show_chosen()
        self._settle()

    @Slot()
    def _request_cancel(self) -> None:
        self.cancel_requested.emit(self._shown)

    @Slot()
    def _request_choices(self) -> None:
        self.choices_requested.emit(self._shown)

    @Slot()
    def _request_open(self) -> None:
        self.hide()
        self.node_opened.emit(self._shown)


def _has_ended(set_up: SetUp) -> bool:
    """Return True if it is done, failed or cancelled; without steps it has not begun."""
    return bool(set_up.steps) and set_up.is_over


def _is_ready(set_up: SetUp) -> bool:
    return _has_ended(set_up) and set_up.failed is None


def _asks(set_up: SetUp) -> bool:
    """Return True if it waits for the user's confirmation."""
    return set_up.key is not None and not set_up.accepted_fingerprint


def _outcome(set_up: SetUp) -> tuple[str, ColorRole]:
    """The state of a node in short form."""
    if set_up.key is not None:
        return ("Host key changed", "bad") if set_up.accepted_fingerprint else ("Host key unknown", "warn")
    if not set_up.steps:
        return "Not started", "text3"
    if all(step.state is StepState.WAITING for step in set_up.steps):
        return "Waiting", "text3"
    return step_label(set_up) or ("Ready", "good")
