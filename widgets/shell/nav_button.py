"""A page in the side bar: a click opens it, and some accept dropped jobs."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QFontMetrics,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QToolTip, QWidget

from widgets.common import formats, icons, theme
from widgets.common.buttons import end_hover
from widgets.common.drag_and_drop import DraggedJobs, DropOffer, dragged_jobs
from widgets.common.labels import plain_tip
from widgets.common.painting import paint_background, paint_focus, paint_text, text_width
from widgets.common.theme import ICON_NAV, RAIL_W, S3, SIDEBAR_W
from widgets.shell.pages import Page

_NAV_H = 32
_TITLE_X, _TITLE_END = 40, 10
_WRAPPED_TEXT = Qt.AlignmentFlag.AlignVCenter.value | Qt.TextFlag.TextWordWrap.value
_DWELL_MS = 800
"""The time after which a drag held over a button opens its page."""


class NavButton(QAbstractButton):
    """A page: icon, title, and the number of its items.

    Signals:
        jobs_dropped: Ids of the jobs, as a tuple.
        drag_dwelt: A drag is held over the button.
    """

    jobs_dropped = Signal(object)
    drag_dwelt = Signal()

    def __init__(self, page: Page, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._page = page
        self._count = ""
        self._is_narrow = False
        self._describe_drop: Callable[[DraggedJobs], DropOffer] | None = None
        self._offer: DropOffer | None = None
        self._dwell_timer = QTimer(self, singleShot=True, interval=_DWELL_MS)
        self._dwell_timer.timeout.connect(self.drag_dwelt)
        self.setCheckable(True)
        self.setAutoExclusive(True)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setShortcut(f"Ctrl+{page.number}")
        self.setToolTip(plain_tip(page.title, f"Ctrl+{page.number}"))
        self.setAccessibleName(page.title)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_count(self, count: int) -> None:
        self._count = formats.count(count) if count else ""
        self.setAccessibleDescription(self._count)
        self.update()

    def set_narrow(self, is_narrow: bool) -> None:
        self._is_narrow = is_narrow
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(RAIL_W - 2 * S3 if self._is_narrow else SIDEBAR_W - 2 * S3, _NAV_H)

    def accept_jobs(self, describe_drop: Callable[[DraggedJobs], DropOffer]) -> None:
        """Accept jobs that are dropped here; ``describe_drop`` describes the drop."""
        self._describe_drop = describe_drop
        self.setAcceptDrops(True)
        keys = "By keyboard: Ctrl+K, “Compare the open job”; or Space in the table, then “Compare”."
        tips = (self.toolTip(), "Drag jobs here to compare them.", keys)
        self.setToolTip("\n".join(tips))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        jobs = dragged_jobs(event.mimeData())
        if jobs is None or self._describe_drop is None:
            event.ignore()
            end_hover(self)
            return
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        self._show_offer(self._describe_drop(jobs))
        self._dwell_timer.start()

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self._show_offer(None)

    def dropEvent(self, event: QDropEvent) -> None:
        self._show_offer(None)
        end_hover(self)
        jobs = dragged_jobs(event.mimeData())
        if jobs is not None:
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            self.jobs_dropped.emit(jobs.ids)

    def _show_offer(self, offer: DropOffer | None) -> None:
        """Describe a drop in place of the title, or next to it if the text does not fit."""
        self._offer = offer
        self._dwell_timer.stop()
        message = offer.message if offer is not None else ""
        self.setAccessibleDescription(message or self._count)
        is_cut = self._is_narrow or not self._fits_text(message)
        tip_position = self.mapToGlobal(QPoint(self.width(), 0))
        QToolTip.showText(tip_position, plain_tip(message) if message and is_cut else "", self)
        self.update()

    def _text_rect(self) -> QRectF:
        return QRectF(self.rect()).adjusted(_TITLE_X, 0, -_TITLE_END, 0)

    def _fits_text(self, text: str) -> bool:
        """Return True if a text fits, in at most two small lines."""
        if text_width(text, "strong") <= self._text_rect().width():
            return True
        text_rect = self._text_rect().toAlignedRect()
        needed_rect = QFontMetrics(theme.font("small")).boundingRect(text_rect, _WRAPPED_TEXT, text)
        return (
            needed_rect.height() <= text_rect.height() and needed_rect.width() <= text_rect.width()
        )

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect())
        is_selected = self.isChecked()
        paint_background(painter, box, is_selected=is_selected, is_hovered=self.underMouse())
        offer = self._offer
        is_refused = offer is not None and not offer.is_accepted
        icon = "prohibit" if is_refused else self._page.icon + ("-fill" if is_selected else "")
        color_role = "text" if is_selected or is_refused else "text2"
        icon_x = (box.width() - ICON_NAV) / 2 if self._is_narrow else 12.0
        square = QRectF(icon_x, (box.height() - ICON_NAV) / 2, ICON_NAV, ICON_NAV)
        icons.paint_icon(painter, square, icon, color_role)
        if not self._is_narrow:
            role: theme.Role = "strong" if is_selected else "medium"
            if offer is not None:
                self._paint_offer(painter, offer.message)
            else:
                paint_text(
                    painter, box.adjusted(_TITLE_X, 0, -48, 0), self._page.title, role, color_role
                )
                count_rect = box.adjusted(box.width() - 60, 0, -_TITLE_END, 0)
                paint_text(painter, count_rect, self._count, "small", "text3", right=True)
        if self.hasFocus() or (offer is not None and offer.is_accepted):
            paint_focus(painter, box)

    def _paint_offer(self, painter: QPainter, message: str) -> None:
        """Paint a message in one line, or in two small lines if only those fit."""
        text_rect = self._text_rect()
        if text_width(message, "strong") > text_rect.width() and self._fits_text(message):
            painter.setFont(theme.font("small"))
            painter.setPen(theme.current().q("text"))
            painter.drawText(text_rect, _WRAPPED_TEXT, message)
        else:
            paint_text(painter, text_rect, message, "strong")
