"""The progress of set-ups, step by step. Closing the dialog cancels nothing."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from backend.records.jobs.state import JobState
from backend.records.nodes.entry import SetUp, StepState
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
_MIN_H, _MAX_H, _FRAME_H = 420, 600, 144
_OUTCOME_ICONS = {"good": "check-circle-fill", "bad": "x-circle-fill", "warn": "warning-fill"}


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
        """Set the displayed form of the node's name."""
        self._title = title
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(_NODES_W, ROW_H - 4)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        tab_rect = QRectF(self.rect())
        paint_background(
            painter, tab_rect, is_selected=self.isChecked(), is_hovered=self.underMouse()
        )
        outcome, color_role = _outcome(self._set_up)
        icon_rect = QRectF(S3, (tab_rect.height() - ICON_NAV) / 2, ICON_NAV, ICON_NAV)
        icon = _OUTCOME_ICONS.get(color_role)
        if icon is not None:
            icons.paint_icon(painter, icon_rect, icon, color_role)
        else:
            is_live = color_role == "live"
            state = JobState.STARTING if is_live else JobState.CREATED
            paint_state(painter, icon_rect, state)
        title_rect = tab_rect.adjusted(icon_rect.right() + S2, 6, -S2, 0)
        title_rect.setHeight(18)
        paint_text(painter, title_rect, self._title, "strong", "text", elide_middle=True)
        paint_text(painter, title_rect.translated(0, 18), outcome, "small", color_role)
        if self.hasFocus():
            paint_focus(painter, tab_rect)


class SetUpDialog(Dialog):
    """A dialog that is not modal: the window stays usable. A signal has first the node's name.

    Signals:
        retry_requested: With the title of the step to retry from.
        choices_requested: The set-up failed; set the node up with other options.
        cancel_requested: Cancel the set-up.
        node_opened: Show the page of the node.
        key_trusted: With the `HostKey` that the user accepted; continue the set-up.
    """

    retry_requested = Signal(str, str)
    choices_requested = Signal(str)
    cancel_requested = Signal(str)
    node_opened = Signal(str)
    key_trusted = Signal(str, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Set up", _WIDTH, parent, height=_MIN_H)
        self.setModal(False)
        # Otherwise the first button has the focus and its ring before any key press.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._set_ups: dict[str, SetUp] = {}
        self._addresses: dict[str, str] = {}
        self._tabs: dict[str, _NodeTab] = {}
        self._refused_nodes: set[str] = set()
        self.selected_node = ""
        self._title = Label("", "title", elide="right")
        self._address = Label("", "small", "text3")
        self._view = SetUpView()
        self._view.retry_requested.connect(self.retry_requested)
        # The view reports by this event that its steps need more or less height.
        self._view.installEventFilter(self)
        holder = QWidget()
        holder.setLayout(col(self._view, STRETCH, gap=0))
        # Otherwise the page requests the height of its texts at a narrow width, and scrolls.
        holder.setMinimumHeight(1)
        self._scroll = VerticalScrollArea(holder)
        self._trusted_key = TrustedKey()
        self._key_plate = KeyPlate("set the node up again")
        self._key_plate.trust_page.key_trusted.connect(
            lambda key: self.key_trusted.emit(self.selected_node, key)
        )
        self._key_plate.trust_page.key_refused.connect(self._refuse_key)
        self._key_plate.changed_key_page.closed.connect(self.hide)
        self._key_plate.hide()
        self._make_foot()
        self._tab_column = col(gap=2)
        nodes = QWidget()
        nodes.setLayout(col(self._tab_column, STRETCH, gap=0))
        self._tab_scroll = VerticalScrollArea(nodes)
        self._tab_scroll.setFixedWidth(_NODES_W)
        self._tab_scroll.hide()
        steps = col(
            *(row((self._title, 1), self._address), self._trusted_key),
            *((self._scroll, 1), (self._key_plate, 1)),
            gap=S3,
        )
        parts = (row(self._tab_scroll, (steps, 1), gap=S4), 1), self._foot
        self.setLayout(col(*parts, gap=S3, margins=(S6, S4, S6, S4)))
        self.resize(_WIDTH, _MIN_H)
        self.setFocus()

    def _make_foot(self) -> None:
        self._summary = Label("", "small", "text3", elide="right")
        self._options_button = Button("Options…", tip="Set it up with other options")
        self._options_button.clicked.connect(
            lambda: self.choices_requested.emit(self.selected_node)
        )
        self._cancel_button = Button("Cancel")
        self._cancel_button.clicked.connect(lambda: self.cancel_requested.emit(self.selected_node))
        self._open_button = Button("Show node")
        self._open_button.clicked.connect(self._request_open)
        self._close_button = Button("Continue in the background", kind="primary")
        self._close_button.setDefault(True)
        self._close_button.clicked.connect(self.hide)
        self._foot = QWidget()
        buttons = self._options_button, self._cancel_button, self._open_button
        for button in buttons:
            button.setAutoDefault(False)
        self._foot.setLayout(row((self._summary, 1), *buttons, self._close_button, gap=S2))

    def show_set_up(self, set_up: SetUp, address: str = "") -> None:
        """Take the progress of a node; a new node gets a tab.

        Args:
            address: "mai@10.0.4.23", if known.
        """
        is_new = set_up.node not in self._set_ups
        self._set_ups[set_up.node] = set_up
        if set_up.key is None:
            self._refused_nodes.discard(set_up.node)
        if address:
            self._addresses[set_up.node] = address
        if is_new:
            self._add_tab(set_up.node)
        self._tabs[set_up.node].show_set_up(set_up)
        if is_new and (not self.selected_node or _has_ended(self._set_ups[self.selected_node])):
            self.select_node(set_up.node)
        elif set_up.node == self.selected_node:
            self._show_selected()
        self._refresh_foot()

    @Slot(str)
    def select_node(self, node: str) -> None:
        """Show the steps of this node."""
        if node in self._set_ups:
            self.selected_node = node
            self._tabs[node].setChecked(True)
            self._show_selected()
            self._refresh_foot()

    def remove_node(self, node: str) -> None:
        """Remove the tab of a removed node."""
        tab = self._tabs.pop(node, None)
        if tab is None:
            return
        del self._set_ups[node]
        self._tab_column.removeWidget(tab)
        tab.hide()
        tab.deleteLater()
        if node == self.selected_node:
            self.selected_node = ""
            next_node = next(iter(self._set_ups), "")
            if next_node:
                self.select_node(next_node)
            else:
                self.hide()

    def reject(self) -> None:
        # Esc and the window's close button close it without cancelling.
        self.hide()

    def _add_tab(self, node: str) -> None:
        tab = self._tabs[node] = _NodeTab(node)
        tab.clicked.connect(partial(self.select_node, node))
        self._tab_column.addWidget(tab)
        titles = strip_domain(tuple(self._tabs))
        for node_tab, title in zip(self._tabs.values(), titles, strict=True):
            node_tab.set_title(title)
        has_tabs = len(self._tabs) > 1
        self._tab_scroll.setVisible(has_tabs)
        if has_tabs and self.width() < _WIDTH + _NODES_W:
            self.resize(_WIDTH + _NODES_W + S4, self.height())

    def _show_selected(self) -> None:
        node = self.selected_node
        set_up = self._set_ups[node]
        self._view.show_set_up(set_up)
        title = f"Set up {node}"
        key = None if node in self._refused_nodes else set_up.key
        self._asks_about_key = key is not None
        for widget in (self._scroll, self._foot):
            widget.setVisible(key is None)
        self._key_plate.setVisible(key is not None)
        self._trusted_key.show_key("" if set_up.key is not None else set_up.trusted_fingerprint)
        if key is not None:
            title = self._key_plate.show_key(key, set_up.accepted_fingerprint)
            # No field or button has the focus before a key press.
            self.setFocus()
        else:
            self._close_button.setDefault(True)
            self.resize(self.width(), max(self.height(), _MIN_H))
        self._title.setText(title)
        self._address.setText(self._addresses.get(node, ""))
        if self._asks_about_key:
            fit_height(self)

    def eventFilter(self, target: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._grow_to_steps()
        return super().eventFilter(target, event)

    def _grow_to_steps(self) -> None:
        """Grow to the height of a step's text, within the limits of a small screen."""
        if self._asks_about_key:
            return
        height = self._view.sizeHint().height()
        if self._view.hasHeightForWidth():
            width = self._scroll.viewport().width() - S2
            height = max(height, self._view.heightForWidth(width))
        if not self._trusted_key.isHidden():
            height += self._trusted_key.sizeHint().height() + S3
        height = min(height + _FRAME_H, _MAX_H)
        if self.height() < height:
            self.resize(self.width(), height)
        failed_step = self._view.set_up.failed_step
        if failed_step is not None:
            self._scroll.ensureWidgetVisible(self._view.step(failed_step.title), 0, 0)

    def _refresh_foot(self) -> None:
        selected_set_up = self._set_ups.get(self.selected_node)
        if selected_set_up is None:
            return
        is_running = not all(_has_ended(set_up) for set_up in self._set_ups.values())
        self._options_button.setVisible(
            _has_ended(selected_set_up) and selected_set_up.failed_step is not None
        )
        self._cancel_button.setVisible(not _has_ended(selected_set_up))
        self._open_button.setVisible(_is_ready(selected_set_up))
        self._close_button.setText("Continue in the background" if is_running else "Close")
        summary, color_role = _outcome(selected_set_up)
        if len(self._set_ups) > 1:
            ready_count = sum(_is_ready(set_up) for set_up in self._set_ups.values())
            asking_count = sum(_asks(set_up) for set_up in self._set_ups.values())
            failed_count = (
                sum(set_up.failed_step is not None for set_up in self._set_ups.values())
                - asking_count
            )
            summary = f"{formats.count_of(ready_count, len(self._set_ups))} nodes are ready"
            summary += f", {failed_count} failed" if failed_count else ""
            summary += f", {asking_count} waiting for an answer" if asking_count else ""
            color_role = "bad" if failed_count else "text3"
        self._summary.setText(f"{summary}.")
        self._summary.set_color_role("text3" if color_role == "live" else color_role)

    @Slot()
    def _refuse_key(self) -> None:
        self._refused_nodes.add(self.selected_node)
        self._show_selected()
        self._refresh_foot()

    @Slot()
    def _request_open(self) -> None:
        self.hide()
        self.node_opened.emit(self.selected_node)


def _has_ended(set_up: SetUp) -> bool:
    """Return True if the set-up is done, failed or cancelled; without steps it has not started."""
    return bool(set_up.steps) and set_up.is_over


def _is_ready(set_up: SetUp) -> bool:
    return _has_ended(set_up) and set_up.failed_step is None


def _asks(set_up: SetUp) -> bool:
    """Return True if the set-up waits for the user's confirmation."""
    return set_up.key is not None and not set_up.accepted_fingerprint


def _outcome(set_up: SetUp) -> tuple[str, ColorRole]:
    """Return a short text for the state of a set-up, and its colour."""
    if set_up.key is not None:
        return (
            ("Host key changed", "bad")
            if set_up.accepted_fingerprint
            else ("Host key unknown", "warn")
        )
    if not set_up.steps:
        return "Not started", "text3"
    if all(step.state is StepState.WAITING for step in set_up.steps):
        return "Waiting", "text3"
    return step_label(set_up) or ("Ready", "good")
