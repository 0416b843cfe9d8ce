"""Library items grouped by name, each with its versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from backend.records.library.item import STUDY_DETAIL, Kind, LibraryItem
from widgets.common import formats
from widgets.common.labels import plain_tip
from widgets.common.painting import paint_background, paint_focus, paint_text, text_width
from widgets.common.theme import ROW_H, S1, S2, S3, ColorRole

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()


@dataclass(frozen=True)
class Entry:
    """All versions of a name, newest first."""

    kind: Kind
    name: str
    versions: tuple[LibraryItem, ...]

    @property
    def newest(self) -> LibraryItem:
        return self.versions[0]

    @property
    def summary(self) -> str:
        """The text below the name."""
        files = formats.plural(self.newest.files, "file")
        count = len(self.versions)
        versions = formats.plural(count, "version") if count > 1 else ""
        return " · ".join(filter(None, (self.study and "Of a study", versions, files)))

    @property
    def study(self) -> str:
        """The title of the study that added the item, "" for an import of the user."""
        return str(self.newest.details.get(STUDY_DETAIL, ""))

    @property
    def warning(self) -> str:
        """The problem that a scan, preview or check found in the newest version, or ""."""
        return self.newest.leaks or str(self.newest.details.get("warning", ""))


def group_by_name(items: tuple[LibraryItem, ...]) -> tuple[Entry, ...]:
    """Group versions by name, in alphabetical order; the items of studies come last."""
    by_name: dict[str, list[LibraryItem]] = {}
    for item in items:
        by_name.setdefault(item.name, []).append(item)
    groups = (
        Entry(
            versions[0].kind, name, tuple(sorted(versions, key=lambda v: v.version, reverse=True))
        )
        for name, versions in by_name.items()
    )
    return tuple(sorted(groups, key=lambda entry: (bool(entry.study), entry.name.casefold())))


class EntryRole(IntEnum):
    ENTRY = Qt.ItemDataRole.UserRole


class EntryModel(QAbstractListModel):
    """One row per name; a search hides the names that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: tuple[Entry, ...] = ()
        self._visible_entries: list[Entry] = []
        self._query = ""

    def set_entries(self, entries: tuple[Entry, ...]) -> None:
        """Replace the entries; rows with the same content are not touched."""
        self._entries = entries
        self._refresh()

    def search(self, text: str) -> None:
        self._query = text.strip().casefold()
        self._refresh()

    def row_of(self, name: str) -> int:
        """Return the row of a name, -1 for a name that is not shown."""
        return next(
            (row for row, entry in enumerate(self._visible_entries) if entry.name == name), -1
        )

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._visible_entries)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self._visible_entries[index.row()]
        if role == EntryRole.ENTRY:
            return entry
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.name
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip("\n".join(filter(None, (entry.name, entry.warning))))
        if role == Qt.ItemDataRole.AccessibleTextRole:
            size = formats.disk(entry.newest.bytes)
            return f"{entry.name}, {entry.warning or entry.summary}, {size}"
        return None

    def _refresh(self) -> None:
        matches = [entry for entry in self._entries if self._query in entry.name.casefold()]
        if [e.name for e in matches] == [e.name for e in self._visible_entries]:
            for row, (previous_entry, entry) in enumerate(
                zip(self._visible_entries, matches, strict=True)
            ):
                if previous_entry != entry:
                    self._visible_entries[row] = entry
                    index = self.index(row)
                    self.dataChanged.emit(index, index)
            return
        self.beginResetModel()
        self._visible_entries = matches
        self.endResetModel()


class EntryDelegate(QStyledItemDelegate):
    """Paint two lines: name and size; versions or the warning."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: AnyIndex) -> QSize:
        return QSize(0, ROW_H)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        entry: Entry = index.data(EntryRole.ENTRY)
        painter.save()
        texts = entry.name, formats.disk(entry.newest.bytes), entry.warning or entry.summary
        self.paint_texts(painter, option, texts, is_warning=bool(entry.warning))
        painter.restore()

    def paint_texts(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        texts: tuple[str, str, str],
        *,
        is_warning: bool = False,
        indent: int = 0,
        title_color: ColorRole = "text",
    ) -> QRectF:
        """Paint the title, corner text and subtitle of a row; return the rectangle of the lines.

        Args:
            texts: Title, corner text and subtitle.
            is_warning: The subtitle is a warning.
            indent: The width of a picture left of the lines.
            title_color: The colour role of the title.
        """
        title, corner, subtitle = texts
        state = option.state
        row_rect = QRectF(option.rect).adjusted(S2, 1, -S2, -1)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        paint_background(painter, row_rect, is_selected=is_selected, is_hovered=is_hovered)
        focus_flags = QStyle.StateFlag.State_HasFocus | QStyle.StateFlag.State_KeyboardFocusChange
        if state & focus_flags == focus_flags:
            paint_focus(painter, row_rect)
        area = row_rect.adjusted(S3 + indent, S1, -S3, -S1)
        line_h = area.height() / 2
        corner_w = text_width(corner) + S2
        title_rect = QRectF(area.left(), area.top(), area.width() - corner_w, line_h)
        paint_text(painter, title_rect, title, "strong", title_color, elide_middle=True)
        corner_rect = QRectF(area.right() - corner_w, area.top(), corner_w, line_h)
        paint_text(painter, corner_rect, corner, "body", "text2", right=True)
        subtitle_rect = QRectF(area.left(), area.top() + line_h, area.width(), line_h)
        if is_warning:
            paint_text(painter, subtitle_rect, subtitle, "small_strong", "warn")
        else:
            paint_text(painter, subtitle_rect, subtitle, "body", "text2")
        return area
