"""A file that is dragged out of the window while it is still being made."""

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
"""What was dropped is waited for: Qt's own programs ask for 5 s on X11 and then take nothing."""


class Promise(QObject):
    """What a controller and a drag know of the file.

    Attributes:
        path: Where it will be; "" when nobody makes it.
        is_kept: It is there, whole.
        is_settled: It is there, or will never be.
        is_let_go: The drag is over.

    Signals:
        settled: As `is_settled`.
        late: It was dropped before it was there, and the other program got nothing.
        abandoned: It was let go where nobody takes it.
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
        """Until it is settled, or patience is at its end; the window goes on meanwhile."""
        if self.is_settled:
            return
        loop = QEventLoop()
        self.settled.connect(loop.quit)
        QTimer.singleShot(PATIENCE_MS, loop, loop.quit)
        loop.exec(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)


class PromisedFile(QMimeData):
    """Its address, which is true by the time that anybody opens it.

    While the mouse button is down others only look at what comes; they are told the address and
    wait for nothing. What they ask for afterwards they copy, so that the file must be there.
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
        # As a list: of bytes PySide makes none, though Qt would.
        return [QUrl.fromLocalFile(promise.path)]
