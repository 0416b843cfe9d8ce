"""A panel over the window with a list of records: the command palette, the notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
)
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QAbstractItemDelegate, QListView, QWidget

from widgets.common.cards import StyledFrame
from widgets.common.labels import plain_tip
from widgets.common.view_style import style_view

Index = QModelIndex | QPersistentModelIndex
RECORD_ROLE = Qt.ItemDataRole.UserRole


class Overlay(QWidget):
    """A panel over the whole window; a click outside closes it.

    The panel is part of the window and not a window of its own: so its position is right on every
    system. A subclass creates the ``_panel``, and places it.
    """

    _panel: StyledFrame

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._previous_focus: QWidget | None = None
        window.installEventFilter(self)
        self.hide()

    def show_on_top(self) -> None:
        self._previous_focus = self._window.focusWidget()
        self._place_panel()
        self.show()
        self.raise_()

    def dismiss(self) -> None:
        """Close the overlay and restore the focus."""
        self.hide()
        if self._previous_focus is not None:
            self._previous_focus.setFocus()

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        """Follow the window's size."""
        is_resized = receiver is self._window and event.type() == QEvent.Type.Resize
        if is_resized and self.isVisible():
            self._place_panel()
        return super().eventFilter(receiver, event)

    def event(self, event: QEvent) -> bool:
        """Keep every key from the shortcuts of the page below."""
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
        return bool(super().event(event))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if not self._panel.geometry().contains(event.position().toPoint()):
            self.dismiss()

    def _place_panel(self) -> None:
        raise NotImplementedError


class RecordListModel(QAbstractListModel):
    """Records in one column.

    Args:
        spoken_parts: Returns the parts that a screen reader speaks; the first is the title.
        tip: Returns the tool tip.
    """

    def __init__(
        self,
        spoken_parts: Callable[[Any], tuple[str, ...]],
        tip: Callable[[Any], str],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._spoken_parts, self._tip = spoken_parts, tip
        self._records: tuple[Any, ...] = ()

    def view(self, name: str, delegate: Callable[[QObject], QAbstractItemDelegate]) -> QListView:
        """Make a view of the records."""
        view = QListView()
        view.setModel(self)
        view.setItemDelegate(delegate(view))
        style_view(view, name)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        return view

    def replace(self, records: tuple[Any, ...]) -> None:
        self.beginResetModel()
        self._records = records
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._records)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if not index.isValid():
            return None
        record = self._records[index.row()]
        if role == RECORD_ROLE:
            return record
        if role == Qt.ItemDataRole.DisplayRole:
            return self._spoken_parts(record)[0]
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(filter(None, self._spoken_parts(record)))
        return plain_tip(self._tip(record)) if role == Qt.ItemDataRole.ToolTipRole else None
