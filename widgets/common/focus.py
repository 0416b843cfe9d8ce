"""Keyboard focus: from a page to one of its parts, and Tab order between parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import cast

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QAbstractSpinBox,
    QComboBox,
    QGridLayout,
    QLayout,
    QScrollArea,
    QSplitter,
    QStackedWidget,
    QWidget,
)

from widgets.common.fields import LEADS_FOCUS


class FocusForwarder(QObject):
    """Pass the focus of a holder to one of its parts.

    ``setFocusProxy`` would do that, but Qt (6.11) then treats the holder as one control, and Tab
    skips all its other parts.
    """

    def __init__(self, holder: QWidget, part: QWidget) -> None:
        super().__init__(holder)
        self._part = part
        holder.installEventFilter(self)
        holder.setProperty(LEADS_FOCUS, True)

    def set_part(self, part: QWidget) -> None:
        self._part = part

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        if isinstance(event, QFocusEvent) and event.type() == QEvent.Type.FocusIn:
            self._part.setFocus(event.reason())
        return bool(super().eventFilter(receiver, event))


def reading_order(holder: QWidget) -> Iterator[QWidget]:
    """Yield all focusable widgets in reading order, along the rows of the layouts."""
    for part in _child_widgets(holder):
        if part.isHidden():
            continue
        if part.focusPolicy() & Qt.FocusPolicy.TabFocus:
            yield part
        yield from reading_order(part)


class TabOrder:
    """Keep the Tab chain in reading order.

    Qt's own order is that of creation: a field that is added later comes last.
    """

    def __init__(self, holder: QWidget) -> None:
        self._holder = holder
        self._chain: list[QWidget] = []

    def refresh(self) -> None:
        """Update the chain; cheap if no widget was added or removed."""
        widgets = list(reading_order(self._holder))
        if widgets != self._chain:
            self._chain = widgets
            for previous_widget, next_widget in itertools.pairwise(widgets):
                QWidget.setTabOrder(previous_widget, next_widget)


def _child_widgets(holder: QWidget) -> list[QWidget]:
    if isinstance(holder, QStackedWidget):
        return _existing_widgets(holder.currentWidget())
    if isinstance(holder, QScrollArea):
        return _existing_widgets(holder.widget())
    if isinstance(holder, QSplitter):
        return _existing_widgets(*(holder.widget(number) for number in range(holder.count())))
    if isinstance(holder, (QAbstractScrollArea, QAbstractSpinBox, QComboBox)):
        return []
    layout = holder.layout()
    return list(_layout_widgets(layout)) if layout is not None else []


def _existing_widgets(*widgets: QWidget | None) -> list[QWidget]:
    return [widget for widget in widgets if widget is not None]


def _layout_widgets(layout: QLayout) -> Iterator[QWidget]:
    numbers = list(range(layout.count()))
    if isinstance(layout, QGridLayout):
        numbers.sort(key=lambda number: _cell_position(layout, number))
    for number in numbers:
        item = layout.itemAt(number)
        if item is None:
            continue
        widget, inner_layout = item.widget(), item.layout()
        if widget is not None:
            yield widget
        elif inner_layout is not None:
            yield from _layout_widgets(inner_layout)


def _cell_position(grid: QGridLayout, number: int) -> tuple[int, int]:
    # PySide types the tuple of row, column and spans as an object.
    position = cast("tuple[int, int, int, int]", grid.getItemPosition(number))
    return position[0], position[1]
