"""Drag jobs and files, and show the effect of a drop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import (
    QEvent,
    QEventLoop,
    QMetaType,
    QMimeData,
    QObject,
    QPointF,
    QRectF,
    Qt,
    QTimer,
    QUrl,
    Signal,
)
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QWidget

from backend.records.base.validation import sanitize
from widgets.common import formats, icons, theme
from widgets.common.painting import fill_round, paint_focus, paint_text, text_width
from widgets.common.theme import ICON_NAV, R_CARD, R_CELL, S2, S4, S6

_PLATE_H = 56
_VEIL_ALPHA = 0.55


class DropOverlay(QWidget):
    """An overlay that ignores the pointer."""

    def __init__(self, target: QWidget) -> None:
        super().__init__(target)
        self._target = target
        self._message = ""
        self._icon = ""
        self._is_accepted = True
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        target.installEventFilter(self)
        self.hide()

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._target.rect())
        return super().eventFilter(receiver, event)

    def open(
        self, message: str, icon: str = "download-simple", *, is_accepted: bool = True
    ) -> None:
        """Show the effect of a drop; ``is_accepted`` is false if it would do nothing."""
        self._message, self._icon, self._is_accepted = (
            message,
            icon if is_accepted else "prohibit",
            is_accepted,
        )
        self.setAccessibleName(message)
        self.setGeometry(self._target.rect())
        self.show()
        self.raise_()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        t = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(self.rect())
        painter.fillRect(rect, t.q("canvas", _VEIL_ALPHA))
        if self._is_accepted:
            paint_focus(painter, rect, 0)
        max_width = rect.width() - 2 * S6
        width = min(text_width(self._message, "heading") + ICON_NAV + S2 + 2 * S4 + 2, max_width)
        plate = QRectF(0, 0, width, _PLATE_H)
        plate.moveCenter(rect.center())
        fill_round(painter, plate, t.q("surface"), R_CARD)
        if self._is_accepted:
            paint_focus(painter, plate, R_CARD)
        else:
            painter.setPen(t.q("line_strong"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(plate, R_CARD, R_CARD)
        square = QRectF(plate.left() + S4, plate.center().y() - ICON_NAV / 2, ICON_NAV, ICON_NAV)
        icons.paint_icon(painter, square, self._icon, "text")
        text = plate.adjusted(S4 + ICON_NAV + S2, 0, -S4, 0)
        paint_text(painter, text, self._message, "heading", "text", elide_middle=True)


MIME = "application/x-ringmaster-jobs"
_MAX_IDS = 64
"""The limit of dragged ids; of a hundred thousand jobs a target needs only the number."""
_NAME_CHARS = 48
_CHIP_H = 26


@dataclass(frozen=True)
class DraggedJobs:
    """``ids``: at most some dozens. ``label``: “digits”, or 3 jobs."""

    ids: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class DropOffer:
    """The description of a drop."""

    message: str
    is_accepted: bool = True


def dragged_label(ids: Sequence[str], name: str) -> str:
    """Describe the dragged jobs; ``name`` is used if there is one job."""
    return f"“{sanitize(name, _NAME_CHARS)}”" if len(ids) == 1 else formats.plural(len(ids), "job")


def put_jobs(content: QMimeData, ids: Sequence[str], label: str) -> None:
    fields = {"ids": list(ids[:_MAX_IDS]), "words": label}
    content.setData(MIME, json.dumps(fields).encode())


def dragged_jobs(content: QMimeData) -> DraggedJobs | None:
    """The dragged jobs; None if something else is dragged."""
    if not content.hasFormat(MIME):
        return None
    fields = json.loads(bytes(content.data(MIME).data()))
    return DraggedJobs(tuple(fields["ids"]), fields["words"])


def drag_pixmap(label: str, ratio: float) -> QPixmap:
    """A small picture of the dragged jobs; ``ratio`` is that of the source widget."""
    width = text_width(label, "small_strong") + 2 * S2
    pixmap = QPixmap(round(width * ratio), round(_CHIP_H * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    t = theme.current()
    box = QRectF(QPointF(0, 0), pixmap.deviceIndependentSize())
    fill_round(painter, box, t.q("line_strong"), R_CELL)
    fill_round(painter, box.adjusted(1, 1, -1, -1), t.q("surface"), R_CELL)
    paint_text(painter, box.adjusted(S2, 0, -S2, 0), label, "small_strong")
    painter.end()
    return pixmap


URLS = "text/uri-list"
WAIT_MS = 4000
"""The wait after a drop: Qt's own programs request data for 5 s on X and then take nothing."""


class FilePromise(QObject):
    """The state of the file, shared by a controller and a drag.

    Attributes:
        path: The future path; "" if no file will be made.
        is_fulfilled: The file exists and is complete.
        is_settled: The file exists, or will never exist.
        is_drag_over: The drag has ended.

    Signals:
        settled: `is_settled` became true.
        timed_out: The file was dropped before it existed, and the other program got nothing.
        abandoned: The file was dropped where it is not accepted.
    """

    settled = Signal()
    timed_out = Signal()
    abandoned = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.path = ""
        self.is_fulfilled = False
        self.is_settled = False
        self.is_drag_over = False

    def fulfil(self) -> None:
        self.is_fulfilled = True
        self.finish()

    def finish(self) -> None:
        self.is_settled = True
        self.settled.emit()

    def wait(self) -> None:
        """Wait until the promise is settled or the time is over; the window keeps running."""
        if self.is_settled:
            return
        loop = QEventLoop()
        self.settled.connect(loop.quit)
        QTimer.singleShot(WAIT_MS, loop, loop.quit)
        loop.exec(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)


class PromisedFile(QMimeData):
    """A URL of a file that exists by the time the URL is read.

    While the mouse button is down other programs only inspect the drag; they get the URL without
    waiting. After the drop they copy the file, so it must exist.
    """

    def __init__(self, promise: FilePromise) -> None:
        super().__init__()
        self._promise = promise

    def formats(self) -> list[str]:
        return [URLS]

    def retrieveData(self, mime_type: str, _kind: QMetaType | QMetaType.Type) -> Any:
        if mime_type != URLS:
            return None
        promise = self._promise
        is_pressed = QGuiApplication.mouseButtons() & Qt.MouseButton.LeftButton
        if is_pressed and not promise.is_drag_over:
            return [QUrl.fromLocalFile(promise.path)]
        promise.wait()
        if not promise.is_fulfilled:
            if not promise.is_settled:
                promise.timed_out.emit()
            return []
        # As a list: PySide makes nothing of bytes, although Qt would.
        return [QUrl.fromLocalFile(promise.path)]
