"""Drag a file out of the window while it is still being made."""

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
PATIENCE_MS = 4000
"""The wait after a drop: Qt's own programs request data for 5 s on X and then take nothing."""


class Promise(QObject):
    """The state of the file, shared by a controller and a drag.

    Attributes:
        path: Its future path; "" if no file will be made.
        is_kept: The file exists and is complete.
        is_settled: The file exists, or will never exist.
        is_let_go: The drag is over.

    Signals:
        settled: `is_settled` became true.
        late: It was dropped before it existed, and the other program got nothing.
        abandoned: It was dropped where it is not accepted.
    """

    settled = Signal()
    late = Signal()
    abandoned = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.path = ""
        self.is_kept = False
        self.is_settled = False
        self.is_let_go = False

    def keep(self) -> None:
        self.is_kept = True
        self.give_up()

    def give_up(self) -> None:
        self.is_settled = True
        self.settled.emit()

    def wait(self) -> None:
        """Wait until it is settled or the wait is over; the window keeps running."""
        if self.is_settled:
            return
        loop = QEventLoop()
        self.settled.connect(loop.quit)
        QTimer.singleShot(PATIENCE_MS, loop, loop.quit)
        loop.exec(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)


class PromisedFile(QMimeData):
    """A URL that is valid by the time it is read.

    While the mouse button is down other programs only inspect the drag; they get the URL without
    waiting. What they request afterwards they copy, so the file must exist.
    """

    def __init__(self, promise: Promise) -> None:
        super().__init__()
        self._promise = promise

    def formats(self) -> list[str]:
        return [URLS]

    def retrieveData(self, mime_type: str, _kind: QMetaType | QMetaType.Type) -> Any:
        if mime_type != URLS:
            return None
        promise = self._promise
        is_held = QGuiApplication.mouseButtons() & Qt.MouseButton.LeftButton
        if is_held and not promise.is_let_go:
            return [QUrl.fromLocalFile(promise.path)]
        promise.wait()
        if not promise.is_kept:
            if not promise.is_settled:
                promise.late.emit()
            return []
        # As a list: PySide makes nothing of bytes, although Qt would.
        return [QUrl.fromLocalFile(promise.path)]
