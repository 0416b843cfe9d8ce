"""A row of values under their captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from widgets.common.labels import Label, plain_tip
from widgets.common.layout import col
from widgets.common.theme import ColorRole, Role

_WIDTH_STEP = 24


@dataclass(frozen=True)
class KeyValue:
    """A value under its caption."""

    caption: str
    value: str
    color_role: ColorRole = "text"
    tip: str = ""


class _KeyValueView(QWidget):
    def __init__(self, role: Role, parent: QWidget) -> None:
        super().__init__(parent)
        self.caption = Label("", "tiny", "text3")
        self.value = Label("", role, "text")
        self.setLayout(col(self.caption, self.value, gap=2))

    def show_item(self, item: KeyValue) -> None:
        self.caption.setText(item.caption)
        self.value.setText(item.value)
        self.value.set_color_role(item.color_role)
        self.value.set_tip(item.tip)
        self.setAccessibleName(f"{item.caption}: {item.value}")


class KeyValueRow(QWidget):
    """Values in a row; if space is short the last of them move to the tool tip.

    With `columns` all columns have equal width, so two rows form a table.

    Attributes:
        items: All values, also those in the tool tip.
    """

    def __init__(
        self,
        items: Sequence[KeyValue] = (),
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
        self.items: tuple[KeyValue, ...] = ()
        self._views: list[_KeyValueView] = []
        self._reserved_widths: dict[str, int] = {}
        """The largest width that each caption has needed."""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_items(items)

    def set_items(self, items: Sequence[KeyValue]) -> None:
        if tuple(items) == self.items and self._views:
            return
        if [item.caption for item in items] != [item.caption for item in self.items]:
            self._reserved_widths.clear()
        self.items = tuple(items)
        while len(self._views) < len(items):
            self._views.append(_KeyValueView(self._role, self))
        for view, item in zip(self._views, items, strict=False):
            view.show_item(item)
        self.updateGeometry()
        self._place_views()

    def visible_count(self) -> int:
        """The number of values that fit now."""
        return sum(view.isVisibleTo(self) for view in self._views)

    def sizeHint(self) -> QSize:
        sizes = [view.sizeHint() for view in self._views[: len(self.items)]]
        width = sum(size.width() + self._gap for size in sizes)
        return QSize(max(width - self._gap, 0), max((size.height() for size in sizes), default=0))

    def minimumSizeHint(self) -> QSize:
        first_width = self._views[0].sizeHint().width() if self.items else 0
        return QSize(first_width, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_views()

    def _place_views(self) -> None:
        x = 0
        hidden_items: list[KeyValue] = []
        for view in self._views[len(self.items) :]:
            view.hide()
        for index, (view, item) in enumerate(zip(self._views, self.items, strict=False)):
            size = view.sizeHint()
            # Another unit, "24 s" for "250 ms", moves no neighbour.
            steps = -(-size.width() // _WIDTH_STEP)
            reserved_w = self._reserved_widths[item.caption] = max(
                self._reserved_widths.get(item.caption, 0), steps * _WIDTH_STEP
            )
            if self._columns:
                x = index * self.width() // self._columns
            is_visible = not hidden_items and (x + size.width() <= self.width() or index == 0)
            view.setGeometry(x, 0, size.width(), size.height())
            view.setVisible(is_visible)
            if not is_visible:
                hidden_items.append(item)
            x += reserved_w + self._gap
        self.setToolTip(
            plain_tip(
                "\n".join(
                    f"{hidden_item.caption}: {hidden_item.value}" for hidden_item in hidden_items
                )
            )
        )
