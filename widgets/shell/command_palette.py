"""The command palette: Ctrl+K, type a few letters, press Enter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QRectF,
    QSize,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from widgets.common import icons
from widgets.common.cards import StyledFrame
from widgets.common.dialog import paint_veil
from widgets.common.fields import LineEdit
from widgets.common.labels import Label, native_key
from widgets.common.layout import col
from widgets.common.painting import paint_background, paint_text, text_width
from widgets.common.theme import ICON, S2, S3, S6
from widgets.shell.overlay import RECORD_ROLE, Index, Overlay, RecordListModel

_WIDTH = 620
_ROW_H = 40
_MAX_ROWS = 10
_TOP_MARGIN = 80


@dataclass(frozen=True)
class PaletteEntry:
    """A target to open, or a command to run.

    ``kind`` and ``key`` are for its opener; ``remark`` is a text after the title: its type or
    state. ``shortcut`` is the key of the same command. ``search_terms`` are searched, not shown.
    """

    kind: str
    key: str
    title: str
    remark: str = ""
    icon: str = ""
    shortcut: str = ""
    search_terms: str = ""


class CommandPalette(Overlay):
    """The input field and the matches, the best first, over the whole window.

    Signals:
        searched: The present text; answer with `show_entries`.
        entry_chosen: The `PaletteEntry` to open; the palette has closed itself.
    """

    searched = Signal(str)
    entry_chosen = Signal(object)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._field = LineEdit(placeholder="Search jobs, nodes, commands…", name="Command palette")
        self._field.textChanged.connect(self._send_search)
        self._field.installEventFilter(self)
        self._model = RecordListModel(
            lambda entry: (entry.title, entry.remark, entry.shortcut),
            lambda entry: str(entry.title),
            self,
        )
        self._list = self._model.view("Matches", _EntryDelegate)
        self._list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._list.clicked.connect(self._choose)
        self._no_match_label = Label("", "body", "text3", align="center")
        self._no_match_label.setFixedHeight(_ROW_H)
        content = col(
            self._field, self._list, self._no_match_label, gap=S2, margins=(S3, S3, S3, S3)
        )
        self._panel = StyledFrame("dialog", content, self)

    def open(self) -> None:
        """Open the empty palette at the upper middle of the window."""
        self._field.clear()
        self._send_search("")
        self.show_on_top()
        self._field.setFocus()

    def show_entries(self, entries: Sequence[PaletteEntry], is_complete: bool = True) -> None:
        """Show the matches, the best first; ``is_complete``: the search has ended."""
        self._model.replace(tuple(entries))
        self._list.setVisible(bool(entries))
        self._no_match_label.setVisible(not entries and is_complete)
        self._no_match_label.setText(f"No match for “{self._field.text().strip()}”.")
        if entries:
            self._list.setCurrentIndex(self._model.index(0, 0))
        self._list.setFixedHeight(_ROW_H * min(len(entries), _MAX_ROWS))
        self._place_panel()

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        """The field has the focus; arrows and Enter control the list."""
        is_press = event.type() == QEvent.Type.KeyPress
        if is_press and isinstance(event, QKeyEvent) and receiver is self._field:
            step = _STEPS.get(Qt.Key(event.key()))
            if step is not None:
                self._move_selection(step)
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._choose(self._list.currentIndex())
                return True
            if event.key() == Qt.Key.Key_Escape:
                self.dismiss()
                return True
            if event.key() in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
                return True
        return super().eventFilter(receiver, event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        paint_veil(self)

    def _place_panel(self) -> None:
        self.setGeometry(self._window.rect())
        width = min(_WIDTH, self.width() - 2 * S6)
        self._panel.setFixedWidth(width)
        self._panel.adjustSize()
        self._panel.move((self.width() - width) // 2, min(_TOP_MARGIN, self.height() // 8))

    @Slot(str)
    def _send_search(self, text: str) -> None:
        self.searched.emit(text.strip())

    def _move_selection(self, offset: int) -> None:
        rows = self._model.rowCount()
        if rows:
            row = (self._list.currentIndex().row() + offset) % rows
            self._list.setCurrentIndex(self._model.index(row, 0))

    @Slot(QModelIndex)
    def _choose(self, index: QModelIndex) -> None:
        entry = index.data(RECORD_ROLE)
        if entry is not None:
            self.dismiss()
            self.entry_chosen.emit(entry)


_STEPS = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: _MAX_ROWS - 1,
    Qt.Key.Key_PageUp: 1 - _MAX_ROWS,
}


class _EntryDelegate(QStyledItemDelegate):
    """Icon, title, remark, and the shortcut at the right edge."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(0, _ROW_H)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        entry: PaletteEntry = index.data(RECORD_ROLE)
        rect = QRectF(option.rect)
        state = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        paint_background(painter, rect, is_selected=is_selected, is_hovered=is_hovered)
        centre_y = rect.center().y()
        square = QRectF(rect.left() + S3, centre_y - ICON / 2, ICON, ICON)
        icons.paint_icon(painter, square, entry.icon or "arrow-right", "text2")
        text_x, end_x = square.right() + S3, rect.right() - S3
        if entry.shortcut:
            shortcut_text = native_key(entry.shortcut)
            paint_text(
                painter, rect.adjusted(0, 0, -S3, 0), shortcut_text, "small", "text3", right=True
            )
            end_x -= text_width(shortcut_text, "small") + S3
        remark_w = min(text_width(entry.remark, "small"), (end_x - text_x) * 0.5)
        title_w = min(text_width(entry.title, "medium") + 2, end_x - text_x - remark_w - S3)
        paint_text(
            painter,
            QRectF(text_x, rect.top(), title_w, rect.height()),
            entry.title,
            "medium",
            "text",
        )
        text_x += title_w + S3
        paint_text(
            painter,
            QRectF(text_x, rect.top(), max(0.0, end_x - text_x), rect.height()),
            entry.remark,
            "small",
            "text3",
        )
        painter.restore()
