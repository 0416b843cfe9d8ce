"""What holds other things: cards, rules, facts, empty places, chips, progress, toasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QPaintEvent, QResizeEvent
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

from widgets.common import theme
from widgets.common.buttons import Button
from widgets.common.layout import STRETCH, Item, Margins, col, row
from widgets.common.style import repolish
from widgets.common.text import IconLabel, Label
from widgets.common.theme import (
    CARD_PADDING,
    FAMILY_TONES,
    HEADER_H,
    PAGE_MARGIN,
    S2,
    S3,
    S4,
    SCROLL_BAR_W,
    TOAST_MS,
    Family,
    Role,
    Tone,
)

_EMPTY_MOST_W = 560


class Frame(QFrame):
    """A ground by its name in the style sheet.

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
        """A 2 px edge: ``warn``, ``bad``, ``focus`` (a drop would land here), or "" for none."""
        if edge != (self.property("edge") or ""):
            self.setProperty("edge", edge)
            repolish(self)


class Card(Frame):
    """A white plate. Takes what `layout.col` takes."""

    def __init__(
        self,
        *items: Item,
        gap: int = S3,
        margins: Margins = (CARD_PADDING, CARD_PADDING, CARD_PADDING, CARD_PADDING),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("card", col(*items, gap=gap, margins=margins), parent)


class Rule(QFrame):
    """A line of one pixel across."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("rule")
        self.setFixedHeight(1)


class PageHeader(QWidget):
    """The head of a page: title, a sentence, then what is given on the right."""

    def __init__(
        self, title: str, sentence: str = "", *right: Item, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.title = Label(title, "title", elide="right")
        self.sentence = Label(sentence, "body", "text2", elide="right")
        margins = (PAGE_MARGIN, 0, PAGE_MARGIN, 0)
        self._row = row(self.title, 2, (self.sentence, 1), *right, margins=margins)
        self.setLayout(self._row)
        self.setFixedHeight(HEADER_H)

    def put_before(self, part: QWidget, place: QWidget) -> None:
        """Something between the title and the sentence, or before them."""
        self._row.insertWidget(self._row.indexOf(place), part)


class _ShyBar(QScrollBar):
    """It keeps its place where there is nothing to scroll, and is not seen there."""

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.maximum() > self.minimum():
            super().paintEvent(event)


class Scroll(QScrollArea):
    """A page that scrolls up and down, never sideways.

    With a `gutter` the content keeps so many pixels free at its right, and the bar stands in them:
    what is above the page and does not scroll ends at the same line, with the bar and without.
    """

    def __init__(self, content: QWidget, parent: QWidget | None = None, *, gutter: int = 0) -> None:
        super().__init__(parent)
        if gutter:
            # A bar that came and went, with a margin that makes up for it, can turn in a circle
            # for ever: what fits beside the one margin may not fit beside the other.
            bar = _ShyBar()
            bar.setFixedWidth(SCROLL_BAR_W)
            self.setVerticalScrollBar(bar)
            self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
            self.setViewportMargins(0, 0, max(0, gutter - SCROLL_BAR_W), 0)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)


@dataclass(frozen=True)
class Fact:
    """A value under its caption."""

    caption: str
    value: str
    tone: Tone = "text"
    tip: str = ""


class _FactView(QWidget):
    def __init__(self, role: Role, parent: QWidget) -> None:
        super().__init__(parent)
        self.caption = Label("", "tiny", "text3")
        self.value = Label("", role, "text")
        self.setLayout(col(self.caption, self.value, gap=2))

    def show_fact(self, fact: Fact) -> None:
        self.caption.setText(fact.caption)
        self.value.setText(fact.value)
        self.value.set_tone(fact.tone)
        self.value.set_tip(fact.tip)
        self.setAccessibleName(f"{fact.caption}: {fact.value}")


class Facts(QWidget):
    """Facts in a row; when room is short the last ones go, whole, and come into the tool tip.

    With `columns` they stand in columns of equal width, so that two rows of them are one table.
    """

    def __init__(
        self,
        facts: Sequence[Fact] = (),
        *,
        role: Role = "strong",
        gap: int = 28,
        columns: int = 0,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._role: Role = role
        self._gap = gap
        self._columns = columns
        self._facts: tuple[Fact, ...] = ()
        self._views: list[_FactView] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_facts(facts)

    def set_facts(self, facts: Sequence[Fact]) -> None:
        if tuple(facts) == self._facts and self._views:
            return
        self._facts = tuple(facts)
        while len(self._views) < len(facts):
            self._views.append(_FactView(self._role, self))
        for view, fact in zip(self._views, facts, strict=False):
            view.show_fact(fact)
        self.updateGeometry()
        self._place()

    def shown(self) -> int:
        """How many of the facts have room now."""
        return sum(view.isVisibleTo(self) for view in self._views)

    def sizeHint(self) -> QSize:
        sizes = [view.sizeHint() for view in self._views[: len(self._facts)]]
        width = sum(size.width() + self._gap for size in sizes)
        return QSize(max(width - self._gap, 0), max((size.height() for size in sizes), default=0))

    def minimumSizeHint(self) -> QSize:
        first = self._views[0].sizeHint().width() if self._facts else 0
        return QSize(first, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def _place(self) -> None:
        x = 0
        hidden: list[Fact] = []
        for index, view in enumerate(self._views):
            if index >= len(self._facts):
                view.hide()
                continue
            size = view.sizeHint()
            if self._columns:
                x = index * self.width() // self._columns
            fits = not hidden and (x + size.width() <= self.width() or index == 0)
            view.setGeometry(x, 0, size.width(), size.height())
            view.setVisible(fits)
            if not fits:
                hidden.append(self._facts[index])
            x += size.width() + self._gap
        self.setToolTip("\n".join(f"{fact.caption}: {fact.value}" for fact in hidden))


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
        self._label = Label(text, role, FAMILY_TONES[family])
        self.setLayout(row(self._label, margins=(8, 2, 8, 2)))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(text)

    def set_chip(self, text: str, family: Family) -> None:
        self._label.setText(text)
        self._label.set_tone(FAMILY_TONES[family])
        self.setAccessibleName(text)
        if self.property("tint") != family:
            self.setProperty("tint", family)
            repolish(self)


class EmptyState(QWidget):
    """An empty place says what belongs here, and how it comes here.

    Signals:
        pressed: The button was pressed.
    """

    pressed = Signal()

    def __init__(
        self,
        icon: str,
        title: str,
        sentence: str = "",
        *,
        button: str = "",
        button_icon: str = "",
        primary: bool = True,
        hint: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._icon = IconLabel(icon, "text3", 32)
        self._title = Label(title, "heading", wrap=True, align="center")
        self._sentence = Label(sentence, "body", "text2", wrap=True, align="center")
        self._hint = Label(hint, "small", "text3", wrap=True, align="center")
        self._button = Button(button, kind="primary" if primary else "plain", icon=button_icon)
        self._button.setVisible(bool(button))
        self._button.clicked.connect(self.pressed)
        for label in (self._title, self._sentence, self._hint):
            label.setMaximumWidth(_EMPTY_MOST_W)
        self._box = QVBoxLayout(self)
        self._box.setSpacing(S2)
        self._box.setContentsMargins(S4, S4, S4, S4)
        self._box.addStretch(1)
        for part in (self._icon, self._title, self._sentence, self._button, self._hint):
            if part is self._button:
                self._box.addSpacing(S2)
            self._box.addLayout(row(STRETCH, (part, 4 if isinstance(part, Label) else 0), STRETCH))
        self._box.addStretch(2)
        self._sync()

    def say(self, icon: str, title: str, sentence: str = "", *, button: str = "") -> None:
        """Another emptiness: “No job matches “resnt”.” with "Clear"."""
        self._icon.set_icon(icon, "text3")
        self._title.setText(title)
        self._sentence.setText(sentence)
        self._button.setText(button)
        self._button.setVisible(bool(button))
        self._sync()

    def _sync(self) -> None:
        self._sentence.setVisible(bool(self._sentence.text()))
        self._hint.setVisible(bool(self._hint.text()))
        self.setAccessibleName(f"{self._title.text()} {self._sentence.text()}".strip())


class ProgressLine(QWidget):
    """What is being done, how far it is, and a way out.

    Signals:
        cancelled: The person wants it to end.
    """

    cancelled = Signal()

    def __init__(
        self, text: str = "", *, cancel: str = "Cancel", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._text = Label(text, "small", "text2", elide="right")
        self._figure = Label("", "small_strong", "text", align="right")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 1000)
        self._cancel = Button(cancel, kind="quiet")
        self._cancel.setVisible(bool(cancel))
        self._cancel.clicked.connect(self._end)
        words = row((self._text, 1), self._figure)
        self.setLayout(row((col(words, self._bar, gap=4), 1), self._cancel, gap=S3))
        self.set_progress(0.0, text)

    def set_progress(self, share: float | None, text: str = "", figure: str = "") -> None:
        """How far, from 0 to 1, or None when nobody can know; `figure` is "1.2 of 4.1 GB"."""
        if text:
            self._text.setText(text)
        self._bar.setAccessibleName(self._text.text())
        self._figure.setText(figure)
        if share is None and not theme.motion_reduced():
            self._bar.setRange(0, 0)
            return
        self._bar.setRange(0, 1000)
        self._bar.setValue(round(1000 * (share or 0.0)))

    def set_can_cancel(self, possible: bool, text: str = "Cancel") -> None:
        self._cancel.setEnabled(possible)
        self._cancel.setText(text)

    @Slot()
    def _end(self) -> None:
        self._cancel.setEnabled(False)
        self.cancelled.emit()


class Toast(QFrame):
    """Says for six seconds what the person just did, with Undo; bottom right over its parent.

    Stays while the pointer is on it or its button has the focus.

    Signals:
        undone: Undo was pressed; carries the tag given to `tell`.
    """

    undone = Signal(str)
    _MARGIN = 16

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self.setObjectName("toast")
        self._tag = ""
        self._text = Label("", "medium", "on_ink")
        self._undo = Button("Undo", kind="toast")
        self._undo.clicked.connect(self._undone)
        self.setLayout(row(self._text, self._undo, margins=(16, 4, 6, 4)))
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(TOAST_MS)
        self._timer.timeout.connect(self._leave)
        parent.installEventFilter(self)
        self.hide()

    def tell(self, text: str, *, undo_tag: str = "") -> None:
        """Show `text`; with `undo_tag` also Undo, which gives the tag back."""
        self._tag = undo_tag
        self._text.setText(text)
        self._undo.setVisible(bool(undo_tag))
        self.setAccessibleName(text)
        self._place()
        self.show()
        self.raise_()
        self._timer.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)

    @Slot()
    def _leave(self) -> None:
        if self.underMouse() or self._undo.hasFocus():
            self._timer.start()
        else:
            self.hide()

    @Slot()
    def _undone(self) -> None:
        self.hide()
        self._timer.stop()
        self.undone.emit(self._tag)

    def _place(self) -> None:
        self.adjustSize()
        self.move(
            self._over.width() - self.width() - self._MARGIN,
            self._over.height() - self.height() - self._MARGIN,
        )
