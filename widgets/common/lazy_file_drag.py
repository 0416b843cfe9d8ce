"""Drag a file out of the window while the file is still being made."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import (
    QEventLoop,
    QMetaType,
    QMimeData,
    QObject,
    Qt,
    QTimer,
    QUrl,
    Signal,
)
from PySide6.QtGui import QGuiApplication

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
