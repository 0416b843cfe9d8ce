"""Controls to press: buttons, switches, check boxes, segmented controls, tabs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeySequence, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QCheckBox,
    QMenu,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from widgets.common import icons, theme
from widgets.common.labels import escape_ampersands, plain_tip
from widgets.common.layout import STRETCH, row
from widgets.common.painting import fill_round, paint_error, paint_focus, paint_text, text_width
from widgets.common.style import repolish
from widgets.common.theme import (
    ICON,
    R_CELL,
    R_CONTROL,
    SEGMENTED_H,
    TABS_H,
    TARGET_MIN,
)

Kind = Literal["plain", "primary", "quiet", "icon", "big", "tall", "danger", "toast"]

_ICON_COLOR_ROLES = {
    "primary": "on_ink",
    "big": "on_ink",
    "toast": "on_ink",
    "quiet": "text2",
    "icon": "text2",
    "danger": "bad",
}


def end_hover(widget: QWidget) -> None:
    """Show a widget as not pointed at.

    Qt marks it when a drag or the pointer enters, and reports no leaving after a drop, a refused
    drag, or a menu: the widget would stay highlighted until the pointer comes back.
    """
    widget.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
    widget.update()


class Button(QPushButton):
    """A push button that shows ``&`` literally.

    Args:
        kind: ``primary`` once on a page; ``big`` for the main action, ``tall`` for the action next
        to it; ``quiet`` without an edge; ``danger`` for an action that deletes something.
        icon: A Phosphor name.
        tip: A longer text, or the reason why the button is disabled.
        key: A shortcut such as ``Ctrl+N``; shown in the tool tip.
    """

    def __init__(
        self,
        text: str = "",
        *,
        kind: Kind = "plain",
        icon: str = "",
        tip: str = "",
        key: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._kind: Kind = kind
        self._icon_name = icon
        self._key = key
        self._text = ""
        self.setProperty("kind", kind)
        self.setFont(theme.font("heading" if kind == "big" else "medium"))
        # A mouse click does not focus it, so only keyboard users see the focus ring.
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.setText(text)
        self.set_tip(tip)
        self._draw_icon()

    def text(self) -> str:
        return self._text

    def setText(self, text: str) -> None:
        self._text = text
        super().setText(escape_ampersands(text))
        if self._key:  # setText forgets the shortcut
            self.setShortcut(QKeySequence(self._key))
        self.setAccessibleName(text)

    def setMenu(self, menu: QMenu) -> None:
        super().setMenu(menu)
        menu.aboutToHide.connect(partial(end_hover, self))

    def set_tip(self, tip: str) -> None:
        """Set the tool tip; the shortcut is appended."""
        full_tip = tip or (self._text if self._key else "")
        self.setToolTip(plain_tip(full_tip, self._key) if full_tip else "")
        if not self._text:
            self.setAccessibleName(tip)
        elif tip != self._text:
            self.setAccessibleDescription(tip)

    @property
    def icon_name(self) -> str:
        """The Phosphor name, "" for none."""
        return self._icon_name

    def set_icon(self, name: str) -> None:
        if name != self._icon_name:
            self._icon_name = name
            self._draw_icon()

    def set_kind(self, kind: Kind) -> None:
        if kind != self._kind:
            self._kind = kind
            self.setProperty("kind", kind)
            self.setFont(theme.font("heading" if kind == "big" else "medium"))
            repolish(self)
            self._draw_icon()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._draw_icon()

    def _draw_icon(self) -> None:
        if not self._icon_name:
            return
        has_text = bool(self._text)
        color_role = _ICON_COLOR_ROLES.get(self._kind, "text")
        self.setIcon(icons.icon(self._icon_name, color_role, with_text=has_text))
        self.setIconSize(icons.button_icon_size() if has_text else QSize(ICON, ICON))


class IconButton(Button):
    """A square button with only an icon; its tip is its accessible name."""

    def __init__(
        self, icon: str, tip: str, *, key: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__("", kind="icon", icon=icon, tip=tip, key=key, parent=parent)


class _Toggle(QCheckBox):
    """A mark with `text` at its right; without text, pass a `name`.

    Signals: `toggled(bool)`, as every Qt button.
    """

    WIDTH, HEIGHT, RADIUS = 16, 16, R_CELL
    WIDTH_POLICY = QSizePolicy.Policy.Minimum

    def __init__(
        self,
        text: str = "",
        *,
        name: str = "",
        is_checked: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(escape_ampersands(text), parent)
        self._label = text
        self.setFont(theme.font("body"))
        self.setAccessibleName(name or text)
        self.setChecked(is_checked)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(self.WIDTH_POLICY, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        # Four pixels around the mark are for the focus ring.
        label_w = 8 + text_width(self._label) if self._label else 0
        return QSize(self.WIDTH + 8 + label_w, TARGET_MIN)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def hitButton(self, pos: QPoint) -> bool:
        return self.rect().contains(pos)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        mark = QRectF(4, (self.height() - self.HEIGHT) / 2, self.WIDTH, self.HEIGHT)
        self._paint_mark(painter, mark)
        if self._label:
            rect = QRectF(mark.right() + 8, 0, self.width() - mark.right() - 8, self.height())
            paint_text(painter, rect, self._label, "body", "text" if self.isEnabled() else "text3")
        if self.hasFocus():
            paint_focus(painter, mark.adjusted(-3, -3, 3, 3), self.RADIUS + 2)

    def _paint_mark(self, painter: QPainter, mark: QRectF) -> None:
        raise NotImplementedError


class Switch(_Toggle):
    """A switch that takes effect at once."""

    WIDTH, HEIGHT, RADIUS = 30, 18, 9
    WIDTH_POLICY = QSizePolicy.Policy.Fixed

    def _paint_mark(self, painter: QPainter, mark: QRectF) -> None:
        t = theme.current()
        is_on = self.isChecked()
        background = t.q("ink" if is_on else "line_strong", 1.0 if self.isEnabled() else 0.4)
        fill_round(painter, mark, background, self.RADIUS)
        knob = self.HEIGHT - 4
        painter.setBrush(t.q("on_ink" if is_on else "surface"))
        x = mark.right() - knob - 2 if is_on else mark.left() + 2
        painter.drawEllipse(QRectF(x, mark.top() + 2, knob, knob))
        # A style sheet marks fields at fault, but paints no switch.
        if self.property("bad") == "true":
            paint_error(painter, mark, self.RADIUS)


class CheckBox(_Toggle):
    """A box with a tick, for several options that take effect together."""

    def _paint_mark(self, painter: QPainter, mark: QRectF) -> None:
        paint_check(painter, mark, self.checkState(), self.isEnabled())


def paint_check(painter: QPainter, box: QRectF, state: Qt.CheckState, enabled: bool = True) -> None:
    """Paint a check box into a square, for delegates too."""
    t = theme.current()
    if state is Qt.CheckState.Unchecked:
        painter.setPen(QPen(t.q("line_strong" if enabled else "line"), 1))
        painter.setBrush(t.q("surface" if enabled else "sunken"))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), R_CELL, R_CELL)
        return
    fill_round(painter, box, t.q("ink" if enabled else "line_strong"), R_CELL)
    name = "check-bold" if state is Qt.CheckState.Checked else "minus-bold"
    icons.paint_icon(painter, box.adjusted(1, 1, -1, -1), name, "on_ink")


class _ChoiceButton(QAbstractButton):
    """A button of a group, of which exactly one is selected."""

    def __init__(self, text: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setCheckable(True)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.set_label(text)

    def set_label(self, text: str) -> None:
        self.label = text
        self.setText(escape_ampersands(text))
        self.setAccessibleName(text)
        self.updateGeometry()
        self.update()


class ChoiceRow(QWidget):
    """A row of choices by key. Arrow keys move within it, Tab leaves it.

    Signals:
        key_chosen: The key that the user chose. Not sent by `choose()`.
    """

    key_chosen = Signal(str)

    def __init__(self, name: str, parent: QWidget | None) -> None:
        super().__init__(parent)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._keys: list[str] = []
        self._group.idClicked.connect(lambda index: self.key_chosen.emit(self._keys[index]))
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def key(self) -> str:
        """The key of the selected choice, "" if there is none."""
        index = self._group.checkedId()
        return self._keys[index] if 0 <= index < len(self._keys) else ""

    def add_tip(self, tip: str) -> None:
        """Append a line to the tool tip of every choice without a tool tip."""
        self.setToolTip("\n".join(filter(None, (self.toolTip(), tip))))

    def choose(self, key: str) -> None:
        """Select without sending a signal. An unknown key is ignored."""
        if key in self._keys:
            self._group.button(self._keys.index(key)).setChecked(True)

    def set_choice_visible(self, key: str, is_visible: bool) -> None:
        """Set whether a choice is visible; the selected choice stays."""
        if key in self._keys:
            self._group.button(self._keys.index(key)).setVisible(is_visible)

    def step(self, offset: int) -> None:
        """Select the next or previous choice, as the keys ] and [ do, and send the signal."""
        if not self._keys:
            return
        index = (self._group.checkedId() + offset) % len(self._keys)
        self._group.button(index).click()


_WIDEST_COUNT = "00"
"""Space for numbers of up to two digits is reserved from the start."""


class _Segment(_ChoiceButton):
    widest_label = ""
    """A label as wide as the segment may become later."""

    def sizeHint(self) -> QSize:
        width = max(text_width(self.label, "medium"), text_width(self.widest_label, "medium"))
        return QSize(width + 22, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        t = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(self.rect())
        if self.isChecked():
            painter.setPen(QPen(t.q("line_strong" if t.high_contrast else "line"), 1))
            painter.setBrush(t.q("surface" if t.name == "light" else "selected"))
            painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        is_strong = self.isChecked() or (self.underMouse() and self.isEnabled())
        color_role = "text3" if not self.isEnabled() else "text" if is_strong else "text2"
        paint_text(painter, rect, self.label, "medium", color_role, center=True)
        if self.hasFocus():
            paint_focus(painter, rect, 5)


class SegmentedControl(ChoiceRow):
    """Alternative views of one object, side by side.

    ``SegmentedControl([("all", "All"), ("live", "Live 2")], "all", name="Which jobs")``
    """

    def __init__(
        self,
        options: Sequence[tuple[str, str]],
        selected_key: str = "",
        *,
        name: str,
        height: int = SEGMENTED_H,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(name, parent)
        self.setFixedHeight(height)
        segments = []
        for key, text in options:
            segment = _Segment(text, self)
            segment.setFixedHeight(height - 4)
            self._group.addButton(segment, len(self._keys))
            self._keys.append(key)
            segments.append(segment)
        self.setLayout(row(*segments, gap=0, margins=(2, 2, 2, 2)))
        self.choose(selected_key or (self._keys[0] if self._keys else ""))

    def set_text(self, key: str, text: str) -> None:
        """Change the text of a segment."""
        segment = self._group.button(self._keys.index(key))
        if isinstance(segment, _Segment) and segment.label != text:
            segment.set_label(text)

    def set_count(self, key: str, title: str, count: str) -> None:
        """Show a number after the title, as in "Live 3"; "" for none moves no other segment."""
        segment = self._group.button(self._keys.index(key))
        if isinstance(segment, _Segment):
            segment.widest_label = f"{title} {_WIDEST_COUNT}"
            segment.updateGeometry()
            self.set_text(key, f"{title} {count}".rstrip())

    def set_tip(self, key: str, tip: str) -> None:
        self._group.button(self._keys.index(key)).setToolTip(plain_tip(tip))

    def set_enabled(self, key: str, enabled: bool) -> None:
        self._group.button(self._keys.index(key)).setEnabled(enabled)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        fill_round(painter, QRectF(self.rect()), theme.current().q("sunken"), R_CONTROL)


class _Tab(_ChoiceButton):
    def __init__(self, text: str, parent: QWidget) -> None:
        self.count: str | None = None
        super().__init__(text, parent)
        self.setFixedHeight(TABS_H)

    def sizeHint(self) -> QSize:
        # As wide as when selected; otherwise the others would move.
        width = text_width(self.label, "strong")
        if self.count is not None:
            counts = (self.count, _WIDEST_COUNT)
            width += 6 + max(text_width(count, "small") for count in counts)
        return QSize(width + 1, TABS_H)

    def paintEvent(self, event: QPaintEvent) -> None:
        t = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_selected = self.isChecked()
        text_rect = QRectF(0, 0, self.width(), self.height() - 2)
        color_role = "text" if is_selected or self.underMouse() else "text2"
        text_w = paint_text(
            painter, text_rect, self.label, "strong" if is_selected else "medium", color_role
        )
        if self.count:
            paint_text(
                painter, text_rect.adjusted(text_w + 6, 0, 0, 0), self.count, "small", "text3"
            )
        if is_selected:
            line = QRectF(0, self.height() - 2, self.width() - 1, 2)
            fill_round(painter, line, t.q("text"), 1)
        if self.hasFocus():
            paint_focus(painter, QRectF(self.rect()).adjusted(0, 3, 0, -5), R_CELL)


class UnderlinedTabs(ChoiceRow):
    """The tabs of a detail page. Connect `key_chosen` to a `QStackedWidget`.

    ``UnderlinedTabs([("curves", "Curves"), ("ranks", "Ranks")], name="Views of the job")``
    """

    def __init__(
        self,
        tabs: Sequence[tuple[str, str]] = (),
        selected_key: str = "",
        *,
        name: str,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(name, parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(TABS_H)
        self._row = row(STRETCH, gap=24)
        self.setLayout(self._row)
        self.set_tabs(tabs, selected_key)

    def set_tabs(self, tabs: Sequence[tuple[str, str]], selected_key: str = "") -> None:
        """Replace the tabs; the selected tab stays if it still exists."""
        if [key for key, _ in tabs] == self._keys:
            for index, (_, text) in enumerate(tabs):
                tab = self._group.button(index)
                if isinstance(tab, _Tab) and tab.label != text:
                    tab.set_label(text)
            self.choose(selected_key)
            return
        previous_key = self.key()
        for tab_button in self._group.buttons():
            self._group.removeButton(tab_button)
            self._row.removeWidget(tab_button)
            tab_button.hide()
            tab_button.deleteLater()
        self._keys = [key for key, _ in tabs]
        for index, (_, text) in enumerate(tabs):
            tab = _Tab(text, self)
            self._group.addButton(tab, index)
            self._row.insertWidget(index, tab)
        next_key = selected_key or previous_key
        self.choose(next_key if next_key in self._keys else (self._keys[0] if self._keys else ""))

    def tab_title(self, tab: QAbstractButton) -> str:
        """Return the name of a tab, without its number."""
        return tab.label if isinstance(tab, _Tab) else ""

    def set_count(self, key: str, count: str) -> None:
        """Set the small number behind a tab's name: "16"; "" for none moves no other tab."""
        tab = self._group.button(self._keys.index(key))
        if isinstance(tab, _Tab) and tab.count != count:
            tab.count = count
            tab.setAccessibleName(f"{tab.label} {count}".strip())
            tab.updateGeometry()
            tab.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        bottom = QRectF(0, self.height() - 1, self.width(), 1)
        painter.fillRect(bottom, theme.current().q("line"))
