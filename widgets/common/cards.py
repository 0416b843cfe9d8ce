"""Containers: cards, separators, scroll areas, empty states, chips, progress."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QLayout,
    QProgressBar,
    QScrollArea,
    QScrollBar,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from widgets.common import formats, theme
from widgets.common.buttons import Button
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, Item, Margins, col, row
from widgets.common.style import repolish
from widgets.common.theme import (
    CARD_PADDING,
    FAMILY_COLOR_ROLES,
    HEADER_H,
    PAGE_MARGIN,
    S2,
    S3,
    S4,
    SCROLL_BAR_W,
    Family,
    Role,
)

LOADING_TEXT_DELAY_MS = 400
"""The delay of the loading text; a list that arrives sooner needs none."""
_EMPTY_MAX_W = 560


class StyledFrame(QFrame):
    """A frame whose background is named in the style sheet.

    ``card``, ``pane``, ``sunken``, ``drop``, ``dialog``.
    """

    def __init__(
        self, name: str, layout: QLayout | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        if layout is not None:
            self.setLayout(layout)

    def set_edge(self, edge: str) -> None:
        """Set a 2 px edge: ``warn``, ``bad``, ``focus`` (the target of a drop), or "" for none."""
        if edge != (self.property("edge") or ""):
            self.setProperty("edge", edge)
            repolish(self)


class Card(StyledFrame):
    """A white card. Takes the arguments of `layout.col`."""

    def __init__(
        self,
        *items: Item,
        gap: int = S3,
        margins: Margins = (CARD_PADDING, CARD_PADDING, CARD_PADDING, CARD_PADDING),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("card", col(*items, gap=gap, margins=margins), parent)


class Separator(QFrame):
    """A horizontal line of one pixel."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("rule")
        self.setFixedHeight(1)


class PageHeader(QWidget):
    """The header of a page: title and subtitle, then the given widgets on the right."""

    def __init__(
        self, title: str, subtitle: str = "", *right: Item, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.title = Label(title, "title", elide="right")
        self.subtitle = Label(subtitle, "body", "text2", elide="right")
        margins = (PAGE_MARGIN, 0, PAGE_MARGIN, 0)
        self._row = row(self.title, 2, (self.subtitle, 1), *right, margins=margins)
        self.setLayout(self._row)
        self.setFixedHeight(HEADER_H)

    def insert_before(self, widget: QWidget, neighbour: QWidget) -> None:
        """Put a widget before the title, or between title and subtitle."""
        self._row.insertWidget(self._row.indexOf(neighbour), widget)


class _UnobtrusiveScrollBar(QScrollBar):
    """A scroll bar that keeps its space, and is invisible when nothing can be scrolled."""

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.maximum() > self.minimum():
            super().paintEvent(event)


class VerticalScrollArea(QScrollArea):
    """A page that scrolls vertically, never horizontally.

    With a `gutter` the content keeps that many pixels free at its right for the bar, so its right
    edge aligns with the fixed part above the page, with and without the bar.
    """

    def __init__(self, content: QWidget, parent: QWidget | None = None, *, gutter: int = 0) -> None:
        super().__init__(parent)
        if gutter:
            # A bar that appears and disappears, with a margin that compensates, can loop without
            # end: content that fits with one margin may not fit with the other.
            bar = _UnobtrusiveScrollBar()
            bar.setFixedWidth(SCROLL_BAR_W)
            self.setVerticalScrollBar(bar)
            self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
            self.setViewportMargins(0, 0, max(0, gutter - SCROLL_BAR_W), 0)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)


class Chip(QFrame):
    """A small tag: a word on the tint of a family."""

    def __init__(
        self,
        text: str,
        family: Family = "idle",
        *,
        role: Role = "tiny",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("chip")
        self.setProperty("tint", family)
        self._label = Label(text, role, FAMILY_COLOR_ROLES[family])
        self.setLayout(row(self._label, margins=(8, 2, 8, 2)))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(text)

    def set_chip(self, text: str, family: Family) -> None:
        self._label.setText(text)
        self._label.set_color_role(FAMILY_COLOR_ROLES[family])
        self.setAccessibleName(text)
        if self.property("tint") != family:
            self.setProperty("tint", family)
            repolish(self)


class EmptyState(QWidget):
    """The message of an empty page: its usual content, and how to add some.

    Signals:
        pressed: The button was pressed.
        second_pressed: The second button was pressed.
    """

    pressed = Signal()
    second_pressed = Signal()

    def __init__(
        self,
        icon: str,
        title: str,
        message: str = "",
        *,
        button: str = "",
        button_icon: str = "",
        is_primary: bool = True,
        second_button: str = "",
        hint: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._icon = IconLabel(icon, "text3", 32)
        self._title = Label(title, "heading", wrap=True, align="center")
        self._message = Label(message, "body", "text2", wrap=True, align="center")
        self._hint = Label(hint, "small", "text3", wrap=True, align="center")
        self._button = Button(button, kind="primary" if is_primary else "plain", icon=button_icon)
        self._button.setVisible(bool(button))
        self._button.clicked.connect(self.pressed)
        self._second_button = Button(second_button)
        self._second_button.setVisible(bool(second_button))
        self._second_button.clicked.connect(self.second_pressed)
        for label in (self._title, self._message, self._hint):
            label.setMaximumWidth(_EMPTY_MAX_W)
        self._box = QVBoxLayout(self)
        self._box.setSpacing(S2)
        self._box.setContentsMargins(S4, S4, S4, S4)
        self._box.addStretch(1)
        buttons = row(STRETCH, self._button, self._second_button, STRETCH)
        for part in (self._icon, self._title, self._message, buttons, self._hint):
            if part is buttons:
                self._box.addSpacing(S2)
                self._box.addLayout(buttons)
            else:
                share = 4 if isinstance(part, Label) else 0
                self._box.addLayout(row(STRETCH, (part, share), STRETCH))
        self._box.addStretch(2)
        self._update_labels()

    def show_message(self, icon: str, title: str, message: str = "", *, button: str = "") -> None:
        """Show a message, such as “No job matches “resnt”.” with "Clear"."""
        self._icon.set_icon(icon, "text3")
        self._title.setText(title)
        self._message.setText(message)
        self._button.setText(button)
        self._button.setVisible(bool(button))
        self._update_labels()

    def _update_labels(self) -> None:
        self._message.setVisible(bool(self._message.text()))
        self._hint.setVisible(bool(self._hint.text()))
        self.setAccessibleName(f"{self._title.text()} {self._message.text()}".strip())


class ProgressLine(QWidget):
    """The current step, its progress, and a button to cancel.

    Signals:
        cancelled: The user cancels the step.
    """

    cancelled = Signal()

    def __init__(
        self, text: str = "", *, cancel_label: str = "Cancel", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._text = Label(text, "small", "text2", elide="right")
        self._figure = Label("", "small_strong", "text", align="right")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 1000)
        self._cancel = Button(cancel_label, kind="quiet")
        self._cancel.setVisible(bool(cancel_label))
        self._cancel.clicked.connect(self._request_cancel)
        text_line = row((self._text, 1), self._figure)
        self.setLayout(row((col(text_line, self._bar, gap=4), 1), self._cancel, gap=S3))
        self.set_progress(0.0, text)

    def set_progress(self, share: float | None, text: str = "", figure: str = "") -> None:
        """Set the progress, 0 to 1 or None; `figure` is "1.2 of 4.1 GB", "" for percent."""
        if text:
            self._text.setText(text)
        self._bar.setAccessibleName(self._text.text())
        self._figure.setText(figure or ("" if share is None else formats.progress(share)))
        if share is None and not theme.motion_reduced():
            self._bar.setRange(0, 0)
            return
        self._bar.setRange(0, 1000)
        self._bar.setValue(round(1000 * (share or 0.0)))

    def set_can_cancel(self, can_cancel: bool, text: str = "Cancel") -> None:
        self._cancel.setEnabled(can_cancel)
        self._cancel.setText(text)

    @Slot()
    def _request_cancel(self) -> None:
        self._cancel.setEnabled(False)
        self.cancelled.emit()
