"""The most important finding about a page, in as few lines as the text needs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QSizePolicy, QWidget

from widgets.common import icons
from widgets.common.labels import IconLabel, Label
from widgets.common.layout import STRETCH, Margins, col, row
from widgets.common.painting import text_width
from widgets.common.style import repolish
from widgets.common.theme import FAMILY_COLOR_ROLES, ICON_NAV, S1, S2, S3, S4, Family, Role

_MIN_H = 40
_LINES_GAP = 2
_SLACK = 4
"""A label is some pixels wider than its text."""
_STACKED_MARGINS: Margins = (S4, S3, S3, S3)
_IN_LINE_MARGINS: Margins = (S3, S1, S1, S1)
_WRAPPED_MARGINS: Margins = (S3, S2, S2, S2)
COMPACT_H = 44
"""The height of a compact banner: two lines, or a line with a button."""


class Banner(QFrame):
    """Cause in bold, effect, and the buttons of the remedy.

    The effect is on the same line as the cause if both fit, otherwise below it. With `is_stacked`
    the effect is always below, and the cause is larger. With `is_compact` the banner has two lines:
    the second belongs to the cause if the cause needs it, otherwise to the effect.
    """

    def __init__(
        self,
        family: Family = "warn",
        headline: str = "",
        text: str = "",
        *,
        icon: str = "",
        actions: Sequence[QWidget] = (),
        is_stacked: bool = False,
        is_compact: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self._is_stacked, self._is_compact = is_stacked, is_compact
        self._buttons: tuple[QWidget, ...] = ()
        self._is_in_line = False
        self._role: Role = "heading" if is_stacked else "strong"
        self._icon = IconLabel("info-fill", "text2", ICON_NAV)
        self._headline = Label("", self._role, wrap=True)
        self._text = (
            Label("", "small", "text2", elide="right")
            if is_compact
            else Label("", "body", "text", wrap=True)
        )
        for label in (self._headline, self._text):
            # A line that is not wrapped yet would keep the window from shrinking.
            label.setMinimumWidth(1)
        self._text_layout = col(self._headline, (self._text, 1), gap=_LINES_GAP)
        self._actions = row()
        # Next to something taller the text stays together, in the middle.
        centred_text = col(STRETCH, self._text_layout, STRETCH, gap=0)
        self._row = row(
            self._icon,
            (centred_text, 1),
            self._actions,
            margins=_STACKED_MARGINS if is_stacked else self._wrapped_margins(),
        )
        self.setLayout(self._row)
        self.setMinimumHeight(COMPACT_H if is_compact else _MIN_H)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.set_finding(family, headline, text, icon=icon)
        self.set_actions(actions)

    def set_finding(self, family: Family, headline: str, text: str = "", *, icon: str = "") -> None:
        """Show another finding."""
        color_role = FAMILY_COLOR_ROLES[family]
        if self.property("tint") != family:
            self.setProperty("tint", family)
            repolish(self)
        self._icon.set_icon(icon or icons.FAMILY_ICONS[family], color_role)
        self._headline.set_color_role(color_role)
        self._headline.setText(headline)
        self._text.setText(text)
        self._text.setVisible(bool(text) and not self._fills_both_lines())
        self.setAccessibleName(f"{headline} {text}".strip())
        self._update_direction()

    def set_actions(self, actions: Sequence[QWidget]) -> None:
        """Replace the buttons; old ones are deleted. At most three, the most likely first."""
        while (item := self._actions.takeAt(0)) is not None:
            previous_button = item.widget()
            if previous_button is not None and previous_button not in actions:
                previous_button.hide()
                previous_button.deleteLater()
        self._buttons = tuple(actions)
        for action in actions:
            self._actions.addWidget(action)
        self._update_direction()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._update_direction()

    def _update_direction(self) -> None:
        """Use a single line if the text fits."""
        is_in_line = not self._is_stacked and self._line_width() <= self.width()
        if self._is_compact:
            self._text.setVisible(bool(self._text.text()) and not self._fills_both_lines())
        if is_in_line == self._is_in_line:
            return
        self._is_in_line = is_in_line
        direction = QBoxLayout.Direction
        self._text_layout.setDirection(
            direction.LeftToRight if is_in_line else direction.TopToBottom
        )
        self._text_layout.setSpacing(S2 if is_in_line else _LINES_GAP)
        self._row.setContentsMargins(*(_IN_LINE_MARGINS if is_in_line else self._wrapped_margins()))
        self._headline.setWordWrap(not is_in_line)
        self._text.setWordWrap(not is_in_line and not self._is_compact)

    def _wrapped_margins(self) -> Margins:
        return _IN_LINE_MARGINS if self._is_compact else _WRAPPED_MARGINS

    def _fills_both_lines(self) -> bool:
        """Return whether the cause alone needs both lines of a compact banner."""
        text_w = text_width(self._text.text()) + _SLACK + S2 if self._text.text() else 0
        return self._is_compact and self._line_width() - text_w > self.width()

    def _line_width(self) -> int:
        """The width of the full text in one line."""
        left_margin, _, right_margin, _ = _IN_LINE_MARGINS
        widths = [ICON_NAV, text_width(self._headline.text(), self._role) + _SLACK]
        if self._text.text():
            widths.append(text_width(self._text.text()) + _SLACK)
        # The layout does not count a button that was just added: it is shown later.
        widths += [button.sizeHint().width() for button in self._buttons]
        return left_margin + sum(widths) + S2 * (len(widths) - 1) + right_margin
