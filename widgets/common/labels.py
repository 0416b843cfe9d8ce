"""Labels and tool tips that show text exactly as it was typed.

Qt interprets any string that looks like HTML as HTML, in labels and tool tips. Names, notes and log
lines are other people's text, so nothing here is interpreted as markup.
"""

from __future__ import annotations

import html
from typing import Literal

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFontMetrics, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from widgets.common import icons, theme
from widgets.common.layout import row
from widgets.common.style import repolish
from widgets.common.theme import ICON, ColorRole, Role

_MAX_TIP_LINE = 60


def plain_tip(text: str, key: str = "") -> str:
    """A tool tip that shows `text` literally, with the shortcut behind it.

    Also for the ``ToolTipRole`` of models.
    """
    if key:
        text = f"{text} ({native_key(key)})"
    if len(text) > _MAX_TIP_LINE or "<" in text or "&" in text:
        # Only rich text wraps in a tool tip; "<b>" and "&lt;" would be interpreted as markup.
        return f'<p style="white-space: pre-wrap">{html.escape(text)}</p>'
    return text


def native_key(key: str) -> str:
    """A key in the notation of this system: ``Ctrl+N``, or ⌘N on a Mac."""
    return QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)


def escape_ampersands(text: str) -> str:
    """`text` for buttons and menus, which otherwise treat ``&`` as the mark of a key."""
    return text.replace("&", "&&")


class Label(QLabel):
    """Plain text with a font role and a colour role.

    With `elide` the text shrinks if space is short, ends in "…" and is complete in the tool tip;
    ``"middle"`` is for paths, and for names that differ at their ends. ``"clause"`` is for
    sentences: the text ends at a comma if the words before it fit. `text()` is the full text.
    """

    def __init__(
        self,
        text: str = "",
        role: Role = "body",
        color_role: ColorRole = "text",
        *,
        wrap: bool = False,
        elide: Literal["", "right", "middle", "clause"] = "",
        align: Literal["left", "right", "center"] = "left",
        selectable: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._full_text = text
        self._elide = elide
        self._heights: dict[tuple[str, int], int] = {}
        self._tip = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setFont(theme.font(role))
        self.setProperty("colorRole", color_role)
        self.setWordWrap(wrap)
        sides = {
            "left": Qt.AlignmentFlag.AlignLeft,
            "right": Qt.AlignmentFlag.AlignRight,
            "center": Qt.AlignmentFlag.AlignHCenter,
        }
        vertical_alignment = Qt.AlignmentFlag.AlignTop if wrap else Qt.AlignmentFlag.AlignVCenter
        self.setAlignment(sides[align] | vertical_alignment)
        if selectable:
            self.setTextInteractionFlags(
                Qt.TextInteractionFlag.TextSelectableByMouse
                | Qt.TextInteractionFlag.TextSelectableByKeyboard
            )
        if elide:
            self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        elif wrap:
            policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
            policy.setHeightForWidth(True)
            self.setSizePolicy(policy)
        self._update_text()

    def text(self) -> str:
        return self._full_text

    def setText(self, text: str) -> None:
        if text != self._full_text:
            self._full_text = text
            self._heights.clear()
            self._update_text()
            if self._elide:
                self.updateGeometry()

    def set_tip(self, text: str, key: str = "") -> None:
        """Set the tool tip; an elided label shows its full text above it."""
        tip = plain_tip(text, key) if text else ""
        if tip != self._tip:
            self._tip = tip
            self._update_text()

    def color_role(self) -> str:
        return str(self.property("colorRole"))

    def set_color_role(self, color_role: ColorRole) -> None:
        if color_role != self.color_role():
            self.setProperty("colorRole", color_role)
            repolish(self)

    def set_role(self, role: Role) -> None:
        font = theme.font(role)
        if font != self.font():
            self.setFont(font)
            self._update_text()
            self.updateGeometry()

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        if self._elide:
            hint.setWidth(self._text_width(self._full_text) + 2)
        return hint

    def minimumSizeHint(self) -> QSize:
        hint = super().minimumSizeHint()
        if self._elide:
            min_width = self._text_width(self._full_text[:3] + "…")
            hint.setWidth(min(min_width, self.sizeHint().width()))
        return hint

    def heightForWidth(self, width: int) -> int:
        """Return the height, cached: nested layouts query it a dozen times, and Qt is slow.

        Sixteen findings about a node, each with its remedy, took 40 ms to place, and take 19.
        """
        if not self.wordWrap():
            return -1
        cache_key = (self.font().key(), width)
        if cache_key not in self._heights:
            self._heights[cache_key] = super().heightForWidth(width)
        return self._heights[cache_key]

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._elide:
            self._update_text()

    def _metrics(self) -> QFontMetrics:
        return QFontMetrics(self.font())

    def _update_text(self) -> None:
        visible_text = self._full_text
        if self._elide and self.width() > 0:
            mode = (
                Qt.TextElideMode.ElideMiddle
                if self._elide == "middle"
                else Qt.TextElideMode.ElideRight
            )
            visible_text = self._metrics().elidedText(
                self._full_text, mode, self.contentsRect().width()
            )
            if visible_text != self._full_text and self._elide == "clause":
                visible_text = self._fitting_clause() or visible_text
        if visible_text != super().text():
            super().setText(visible_text)
        self.setAccessibleName(self._full_text)
        full_text_tip = plain_tip(self._full_text) if visible_text != self._full_text else ""
        self.setToolTip(self._tip or full_text_tip)

    def _fitting_clause(self) -> str:
        """The words that fit and end at a comma, "" if none do."""
        head = self._full_text
        while (head := head.rpartition(", ")[0]) and self._text_width(head) > self.width():
            pass
        return head

    def _text_width(self, text: str) -> int:
        return self._metrics().horizontalAdvance(text)


class IconLabel(QLabel):
    """An icon without action. Without `accessible_name` the icon is decorative."""

    def __init__(
        self,
        name: str,
        color_role: str = "text2",
        size: int = ICON,
        *,
        accessible_name: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._name, self._color_role, self._size = name, color_role, size
        self.setFixedSize(size, size)
        if accessible_name:
            self.setAccessibleName(accessible_name)
            self.setToolTip(plain_tip(accessible_name))
        self._draw_icon()

    def set_icon(self, name: str, color_role: str) -> None:
        if (name, color_role) != (self._name, self._color_role):
            self._name, self._color_role = name, color_role
            self._draw_icon()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._draw_icon()

    def _draw_icon(self) -> None:
        ratio = self.devicePixelRatioF()
        self.setPixmap(icons.pixmap(self._name, self._color_role, self._size, ratio))


class Note(QWidget):
    """A health icon and a message: "gpu07 slowed by heat" with a bold headline."""

    def __init__(
        self,
        icon: str,
        color_role: ColorRole,
        headline: str,
        details: str = "",
        *,
        role: Role = "small",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._headline = Label(headline, "strong", color_role)
        self._details = Label(details, role, "text2", elide="clause")
        self.setLayout(
            row(
                IconLabel(icon, color_role, theme.ICON_NAV),
                self._headline,
                (self._details, 1),
                gap=6,
            )
        )
        self.setAccessibleName(f"{headline} {details}".strip())


def term_tip(label: str, term: str, explanation: str, hint: str = "") -> str:
    """The tool tip of a label that uses a term; "" if there is no explanation.

    The term is named if the label uses other words: "Keep best" is about retention.
    """
    if not explanation:
        return hint
    prefix = "" if term.casefold() in label.casefold() else f"{term[:1].upper()}{term[1:]}: "
    return f"{prefix}{explanation}" + (f"\n{hint}" if hint else "")
