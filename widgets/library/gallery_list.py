"""The list of the gallery: a small picture, the title, the size and the task of each entry."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from backend.records.library.gallery import GalleryEntry
from backend.records.library.layer_graph import LayerGraph
from widgets.common import icons
from widgets.common.painting import paint_background, paint_focus, paint_text, text_width
from widgets.common.theme import ICON_NAV, ROW_H, S1, S2, S3
from widgets.library.layer_graph import paint_strip
from widgets.library.layers_view import short_count
from widgets.library.page_texts import WORDS

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()
_PICTURE_W, _INSET = 64, 6


def size(entry: GalleryEntry) -> str:
    """Return the number of parameters of a model, "" if it is unknown."""
    return short_count(entry.figures.layers.parameters) if entry.figures is not None else ""


class GalleryRole(IntEnum):
    ENTRY = Qt.ItemDataRole.UserRole
    GRAPH = Qt.ItemDataRole.UserRole + 1


class GalleryModel(QAbstractListModel):
    """One row per entry; a search hides those without the words in title, task or name."""

    def __init__(self) -> None:
        super().__init__()
        self._all: tuple[GalleryEntry, ...] = ()
        self._shown: tuple[GalleryEntry, ...] = ()
        self._graphs: dict[str, LayerGraph] = {}
        self._words: list[str] = []

    def put(self, entries: Sequence[GalleryEntry]) -> None:
        self._all = tuple(entries)
        self._refresh()

    def put_graph(self, name: str, graph: LayerGraph) -> None:
        """Take the picture of an entry."""
        self._graphs[name] = graph
        row = self.row_of(name)
        if row >= 0:
            self.dataChanged.emit(self.index(row), self.index(row))

    def graph(self, name: str) -> LayerGraph | None:
        return self._graphs.get(name)

    def search(self, text: str) -> None:
        self._words = text.casefold().split()
        self._refresh()

    def row_of(self, name: str) -> int:
        """The row of an entry, -1 if it is not shown."""
        return next((row for row, one in enumerate(self._shown) if one.name == name), -1)

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self._shown[index.row()]
        if role == GalleryRole.ENTRY:
            return entry
        if role == GalleryRole.GRAPH:
            return self._graphs.get(entry.name)
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.card.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            card, parameters = entry.card, size(entry)
            known = (card.title, f"{parameters} parameters" if parameters else "", card.task)
            return ", ".join(filter(None, known))
        return None

    def _refresh(self) -> None:
        self.beginResetModel()
        self._shown = tuple(one for one in self._all if self._fits(one))
        self.endResetModel()

    def _fits(self, entry: GalleryEntry) -> bool:
        text = f"{entry.card.title} {entry.card.task} {entry.name}".casefold()
        return all(word in text for word in self._words)


class GalleryDelegate(QStyledItemDelegate):
    """A small picture at the left, two lines next to it."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: AnyIndex) -> QSize:
        return QSize(0, ROW_H)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        entry: GalleryEntry = index.data(GalleryRole.ENTRY)
        state = option.state
        box = QRectF(option.rect).adjusted(0, 1, -S1, -1)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        selected = bool(state & QStyle.StateFlag.State_Selected)
        pointed = bool(state & QStyle.StateFlag.State_MouseOver)
        paint_background(painter, box, chosen=selected, pointed=pointed)
        by_key = QStyle.StateFlag.State_HasFocus | QStyle.StateFlag.State_KeyboardFocusChange
        if state & by_key == by_key:
            paint_focus(painter, box)
        inner = box.adjusted(S2, S1, -S2, -S1)
        picture = QRectF(inner.left(), inner.top(), _PICTURE_W, inner.height())
        graph = index.data(GalleryRole.GRAPH)
        if graph is not None and entry.figures is not None:
            space = picture.adjusted(0, _INSET, 0, -_INSET)
            paint_strip(painter, space, graph, entry.figures.layers.layers)
        else:
            icon = QRectF(0, 0, ICON_NAV, ICON_NAV)
            icon.moveCenter(picture.center())
            icons.paint_icon(painter, icon, WORDS[entry.kind].icon, "text3")
        words = inner.adjusted(_PICTURE_W + S3, 0, 0, 0)
        half = words.height() / 2
        room = text_width(size(entry)) + S2
        first, second = words.adjusted(0, 0, 0, -half), words.adjusted(0, half, 0, 0)
        title = first.adjusted(0, 0, -room, 0)
        paint_text(painter, title, entry.card.title, "strong", middle=True)
        paint_text(painter, first, size(entry), "body", "text2", right=True)
        paint_text(painter, second, entry.card.task, "body", "text2")
        painter.restore()
