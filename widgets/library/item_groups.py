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
    """All versions of one name, newest first."""

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
        """The title of the study that added it, "" for what the user imported."""
        return str(self.newest.details.get(STUDY_DETAIL, ""))

    @property
    def warning(self) -> str:
        """The problem that a scan, preview or check found in the newest version, or ""."""
        return self.newest.leaks or str(self.newest.details.get("warning", ""))


def entries(items: tuple[LibraryItem, ...]) -> tuple[Entry, ...]:
    """Group versions by name, in alphabetical order; those of studies come last."""
    by_name: dict[str, list[LibraryItem]] = {}
    for item in items:
        by_name.setdefault(item.name, []).append(item)
    found = (
        Entry(
            versions[0].kind, name, tuple(sorted(versions, key=lambda v: v.version, reverse=True))
        )
        for name, versions in by_name.items()
    )
    return tuple(sorted(found, key=lambda entry: (bool(entry.study), entry.name.casefold())))


class EntryRole(IntEnum):
    ENTRY = Qt.ItemDataRole.UserRole


class EntryModel(QAbstractListModel):
    """One row per name; a search hides the names that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self._all: tuple[Entry, ...] = ()
        self._shown: list[Entry] = []
        self._search = ""

    def put(self, shown: tuple[Entry, ...]) -> None:
        """Replace the entries; rows with the same content are not touched."""
        self._all = shown
        self._refresh()

    def search(self, text: str) -> None:
        self._search = text.strip().casefold()
        self._refresh()

    def row_of(self, name: str) -> int:
        """The row of a name, -1 if it is not shown."""
        return next((row for row, entry in enumerate(self._shown) if entry.name == name), -1)

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self._shown[index.row()]
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
        wanted = [entry for entry in self._all if self._search in entry.name.casefold()]
        if [e.name for e in wanted] == [e.name for e in self._shown]:
            for row, (old, new) in enumerate(zip(self._shown, wanted, strict=True)):
                if old != new:
                    self._shown[row] = new
                    index = self.index(row)
                    self.dataChanged.emit(index, index)
            return
        self.beginResetModel()
        self._shown = wanted
        self.endResetModel()


class EntryDelegate(QStyledItemDelegate):
    """Two lines: name and size; versions or the warning."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: AnyIndex) -> QSize:
        return QSize(0, ROW_H)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        entry: Entry = index.data(EntryRole.ENTRY)
        painter.save()
        words = entry.name, formats.disk(entry.newest.bytes), entry.warning or entry.summary
        self.paint_words(painter, option, words, warns=bool(entry.warning))
        painter.restore()

    def paint_words(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        words: tuple[str, str, str],
        *,
        warns: bool = False,
        indent: int = 0,
        tone: ColorRole = "text",
    ) -> QRectF:
        """Paint a row and its name, corner and second line; return the place of the lines.

        Args:
            warns: The second line is a warning.
            indent: The width of what is at their left.
            tone: Of the name.
        """
        name, corner, below = words
        state = option.state
        box = QRectF(option.rect).adjusted(S2, 1, -S2, -1)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        selected = bool(state & QStyle.StateFlag.State_Selected)
        pointed = bool(state & QStyle.StateFlag.State_MouseOver)
        paint_background(painter, box, is_selected=selected, is_hovered=pointed)
        by_key = QStyle.StateFlag.State_HasFocus | QStyle.StateFlag.State_KeyboardFocusChange
        if state & by_key == by_key:
            paint_focus(painter, box)
        inner = box.adjusted(S3 + indent, S1, -S3, -S1)
        half = inner.height() / 2
        room = text_width(corner) + S2
        first = QRectF(inner.left(), inner.top(), inner.width() - room, half)
        paint_text(painter, first, name, "strong", tone, elide_middle=True)
        place = QRectF(inner.right() - room, inner.top(), room, half)
        paint_text(painter, place, corner, "body", "text2", right=True)
        second = QRectF(inner.left(), inner.top() + half, inner.width(), half)
        if warns:
            paint_text(painter, second, below, "small_strong", "warn")
        else:
            paint_text(painter, second, below, "body", "text2")
        return inner
