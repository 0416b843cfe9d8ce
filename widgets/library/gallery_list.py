"""The list of the gallery: a small picture, the title, the size and the task of each entry."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyleOptionViewItem

from backend.records.library.gallery import GalleryEntry
from backend.records.library.layer_graph import LayerGraph
from widgets.common import icons
from widgets.common.record_table_model import RECORD_ROLE, RowTableModel, TableColumn
from widgets.common.theme import ICON_NAV, S3, ColorRole
from widgets.library.item_groups import EntryDelegate
from widgets.library.layer_graph import paint_strip
from widgets.library.layers_view import short_count
from widgets.library.page_texts import WORDS

_PICTURE_W, _INSET = 64, 6


@dataclass(frozen=True)
class GalleryRow:
    """An entry, and the graph of its layers once that is laid out."""

    entry: GalleryEntry
    graph: LayerGraph | None = None
    why_not: str = ""
    """Why it cannot take the data of the job, "" if nothing is known against it."""

    @property
    def size(self) -> str:
        """The number of parameters of a model, "" if it is unknown."""
        figures = self.entry.figures
        return short_count(figures.layers.parameters) if figures is not None else ""

    @property
    def words(self) -> str:
        """The row in words: "LeNet-5, 431 k parameters, classification"."""
        card, size = self.entry.card, f"{self.size} parameters" if self.size else ""
        return ", ".join(filter(None, (card.title, size, card.task, self.why_not)))


def list_model() -> RowTableModel[GalleryRow]:
    return RowTableModel((TableColumn[GalleryRow]("Entry", lambda row: row.words),))


def _tone_of(row: GalleryRow) -> ColorRole:
    return "text3" if row.why_not else "text"


class GalleryDelegate(EntryDelegate):
    """A small picture at the left, two lines next to it."""

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        row: GalleryRow = index.data(RECORD_ROLE)
        card, figures = row.entry.card, row.entry.figures
        painter.save()
        below, tone = row.why_not or card.task, _tone_of(row)
        words = self.paint_words(
            *(painter, option, (card.title, row.size, below)), indent=_PICTURE_W + S3, tone=tone
        )
        picture = QRectF(words.left() - _PICTURE_W - S3, words.top(), _PICTURE_W, words.height())
        if row.graph is not None and figures is not None:
            room = picture.adjusted(0, _INSET, 0, -_INSET)
            paint_strip(painter, room, row.graph, figures.layers.layers)
        else:
            icon = QRectF(0, 0, ICON_NAV, ICON_NAV)
            icon.moveCenter(picture.center())
            icons.paint_icon(painter, icon, WORDS[row.entry.kind].icon, "text3")
        painter.restore()
