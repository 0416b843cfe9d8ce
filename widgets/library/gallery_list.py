"""The list of the gallery: a small picture, the title, the size and the task of each entry."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyleOptionViewItem

from backend.records.library.gallery import GalleryEntry
from backend.records.library.layers import LayerGraph
from widgets.common import icons
from widgets.common.record_table_model import RECORD_ROLE, RowTableModel, TableColumn
from widgets.common.theme import ICON_NAV, S3, ColorRole
from widgets.library.item_groups import EntryDelegate
from widgets.library.layer_graph import paint_strip
from widgets.library.layers_view import short_count
from widgets.library.page_texts import PAGE_TEXTS

_PICTURE_W, _INSET = 64, 6


@dataclass(frozen=True)
class GalleryRow:
    """An entry, and the graph of its layers once the graph is laid out."""

    entry: GalleryEntry
    graph: LayerGraph | None = None
    misfit: str = ""
    """The reason why the entry cannot take the data of the job, "" if no reason is known."""

    @property
    def size(self) -> str:
        """The number of parameters of a model, "" if it is unknown."""
        figures = self.entry.figures
        return short_count(figures.layers.parameters) if figures is not None else ""

    @property
    def description(self) -> str:
        """The row as text: "LeNet-5, 431 k parameters, classification"."""
        card, size = self.entry.card, f"{self.size} parameters" if self.size else ""
        return ", ".join(filter(None, (card.title, size, card.task, self.misfit)))


def list_model() -> RowTableModel[GalleryRow]:
    return RowTableModel((TableColumn[GalleryRow]("Entry", lambda row: row.description),))


def _title_color(row: GalleryRow) -> ColorRole:
    return "text3" if row.misfit else "text"


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
        subtitle, title_color = row.misfit or card.task, _title_color(row)
        text_rect = self.paint_texts(
            *(painter, option, (card.title, row.size, subtitle)),
            indent=_PICTURE_W + S3,
            title_color=title_color,
        )
        picture_rect = QRectF(
            text_rect.left() - _PICTURE_W - S3, text_rect.top(), _PICTURE_W, text_rect.height()
        )
        if row.graph is not None and figures is not None:
            strip_rect = picture_rect.adjusted(0, _INSET, 0, -_INSET)
            paint_strip(painter, strip_rect, row.graph, figures.layers.layers)
        else:
            icon_rect = QRectF(0, 0, ICON_NAV, ICON_NAV)
            icon_rect.moveCenter(picture_rect.center())
            icons.paint_icon(painter, icon_rect, PAGE_TEXTS[row.entry.kind].icon, "text3")
        painter.restore()
