"""The bell and its list of recent notifications, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPoint,
    QRectF,
    QSize,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from widgets.common import formats, icons, theme
from widgets.common.buttons import IconButton
from widgets.common.cards import StyledFrame
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.painting import (
    fill_round,
    paint_background,
    paint_focus,
    paint_text,
    text_width,
)
from widgets.common.theme import ICON_NAV, S1, S2, S3, S4, S6, Family
from widgets.shell.overlay import RECORD_ROLE, Index, Overlay, RecordListModel

_WIDTH = 420
_ROW_H = 56
_MAX_ROWS = 8
_BADGE_H = 14
_MAX_COUNT = 9
_COLOR_ROLES: dict[Family, str] = {"warn": "warn", "bad": "bad", "good": "good"}


@dataclass(frozen=True)
class NoticeItem:
    """A notification for display. ``is_new``: still unread."""

    title: str
    text: str
    time_text: str
    family: Family = "bad"
    is_new: bool = False


class NotificationBell(IconButton):
    """The bell in the side bar, with the number of unread notifications."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("bell", "Notifications", parent=parent)
        # The style leaves space for the number beside the bell.
        self.setObjectName("bell")
        self._count = 0

    def set_count(self, count: int) -> None:
        self._count = count
        self.set_icon("bell-fill" if count else "bell")
        self.set_tip(f"{formats.plural(count, 'new notification')}" if count else "Notifications")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._count:
            return
        text = str(self._count) if self._count <= _MAX_COUNT else f"{_MAX_COUNT}+"
        width = max(float(_BADGE_H), text_width(text, "tiny") + 6.0)
        badge = QRectF(self.width() - width, 2, width, _BADGE_H)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        fill_round(painter, badge, theme.current().q("ink"), _BADGE_H / 2)
        paint_text(painter, badge, text, "tiny", "on_ink", center=True)


class NoticeList(Overlay):
    """A panel over the window, above the bell; a click outside closes it.

    Signals:
        notice_opened: The index of a notification, 0 is the newest; the list has closed itself.
        settings_requested: Show the settings of notifications.
    """

    notice_opened = Signal(int)
    settings_requested = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._anchor: QWidget | None = None
        self._model = RecordListModel(
            lambda item: (item.title, item.text, item.time_text, "new" if item.is_new else ""),
            lambda item: f"{item.title}\n{item.text}".strip(),
            self,
        )
        self._list = self._model.view("Notifications", _NoticeDelegate)
        self._list.clicked.connect(self._open)
        self._list.installEventFilter(self)
        gear = IconButton("gear", "Notification settings")
        gear.clicked.connect(self._request_settings)
        self._empty_title = Label("No notifications yet", "strong", align="center")
        self._empty_hint = Label(
            "Ended and stalled jobs, and nodes lost during a job, appear here.",
            "small",
            "text2",
            wrap=True,
            align="center",
        )
        self._empty_part = QWidget()
        self._empty_part.setLayout(
            col(self._empty_title, self._empty_hint, gap=S1, margins=(S6, S4, S6, S6))
        )
        head = row(Label("Notifications", "heading"), STRETCH, gear, margins=(S3, 0, 0, 0))
        content = col(head, self._list, self._empty_part, gap=S2, margins=(S2, S2, S2, S2))
        self._panel = StyledFrame("dialog", content, self)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def show_items(self, items: Sequence[NoticeItem]) -> None:
        """Show all notifications, the newest first."""
        self._model.replace(tuple(items))
        self._list.setVisible(bool(items))
        self._empty_part.setVisible(not items)
        self._list.setFixedHeight(_ROW_H * min(len(items), _MAX_ROWS))
        if self.isVisible():
            self._place_panel()

    def open(self, anchor: QWidget) -> None:
        """Open the list above ``anchor``, the bell; close an open list."""
        if self.isVisible():
            self.dismiss()
            return
        self._anchor = anchor
        self.show_on_top()
        self._list.scrollToTop()
        self._list.clearSelection()
        (self._list if self._model.rowCount() else self).setFocus()

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        """Enter opens an item, Esc closes the list."""
        is_press = event.type() == QEvent.Type.KeyPress
        if is_press and isinstance(event, QKeyEvent) and receiver is self._list:
            has_selection = self._list.selectionModel().hasSelection()
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and has_selection:
                self._open(self._list.currentIndex())
                return True
            if event.key() == Qt.Key.Key_Down and not has_selection:
                # Nothing is selected yet: select the first, not the second.
                self._list.setCurrentIndex(self._model.index(0, 0))
                return True
        return super().eventFilter(receiver, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def _place_panel(self) -> None:
        self.setGeometry(self._window.rect())
        available_h = self.height() - 2 * S6
        rows = min(self._model.rowCount(), _MAX_ROWS, max(1, (available_h - 80) // _ROW_H))
        self._list.setFixedHeight(_ROW_H * rows)
        self._panel.setFixedWidth(min(_WIDTH, self.width() - 2 * S3))
        self._panel.adjustSize()
        anchor_position = QPoint(S3, self.height() - S6)
        if self._anchor is not None:
            anchor_position = self._anchor.mapTo(self._window, QPoint(0, 0))
        x = max(S3, min(anchor_position.x(), self.width() - self._panel.width() - S3))
        self._panel.move(x, max(S3, anchor_position.y() - self._panel.height() - S2))

    @Slot()
    def _request_settings(self) -> None:
        self.hide()
        self.settings_requested.emit()

    @Slot(QModelIndex)
    def _open(self, index: QModelIndex) -> None:
        if index.isValid():
            self.hide()
            self.notice_opened.emit(index.row())


class _NoticeDelegate(QStyledItemDelegate):
    """Icon; title and time; text. Unread notifications are bold, and have a dot."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(0, _ROW_H)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        item: NoticeItem = index.data(RECORD_ROLE)
        rect = QRectF(option.rect)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_selected = bool(option.state & QStyle.StateFlag.State_Selected)
        is_hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        paint_background(painter, rect, is_selected=is_selected, is_hovered=is_hovered)
        focused_state = QStyle.StateFlag.State_HasFocus | QStyle.StateFlag.State_Selected
        if option.state & focused_state == focused_state:
            paint_focus(painter, rect)
        square = QRectF(rect.left() + S3, rect.top() + S2 + 1, ICON_NAV, ICON_NAV)
        color_role = _COLOR_ROLES.get(item.family, "text2")
        icons.paint_icon(painter, square, icons.FAMILY_ICONS[item.family], color_role)
        text_x, end_x = square.right() + S3, rect.right() - S3
        upper_line = QRectF(text_x, rect.top() + S2, end_x - text_x, 20)
        lower_line = QRectF(text_x, upper_line.bottom(), end_x - text_x, 18)
        time_w = text_width(item.time_text, "small") + 2
        paint_text(painter, upper_line, item.time_text, "small", "text3", right=True)
        title_rect = upper_line.adjusted(0, 0, -time_w - S3 - (S3 if item.is_new else 0), 0)
        role: theme.Role = "strong" if item.is_new else "medium"
        width = paint_text(painter, title_rect, item.title, role, "text")
        if item.is_new:
            dot = QRectF(title_rect.left() + width + S2, title_rect.center().y() - 2.5, 6, 6)
            fill_round(painter, dot, theme.current().q("live"), 3)
        paint_text(painter, lower_line, item.text, "small", "text2")
        painter.restore()
