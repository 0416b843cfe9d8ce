"""Runs main.py as it is, and answers over a socket what stands in its windows.

It says what the user could see, and never acts: hands come through the X server.
"""

from __future__ import annotations

import json
import runpy
import socket
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

from PySide6.QtCore import QCoreApplication, QObject, QPoint, QRect, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractItemView, QApplication, QSystemTrayIcon, QWidget

ROOT = Path(__file__).resolve().parents[2]


class Responder(QObject):
    """Lives on the GUI thread."""

    requested = Signal(object)

    def __init__(self, app: QCoreApplication) -> None:
        super().__init__()
        self.moveToThread(app.thread())
        self.requested.connect(self._answer, Qt.ConnectionType.QueuedConnection)

    @Slot(object)
    def _answer(self, to: socket.socket) -> None:
        to.sendall(json.dumps(read_windows()).encode() + b"\n")


def read_windows() -> dict[str, Any]:
    windows = [w for w in QApplication.topLevelWidgets() if w.isVisible()]
    return {
        "windows": [_window(window) for window in windows],
        "tray": [_box(icon.geometry()) for icon in _Tray.icons if icon.isVisible()],
        "has_tray": QSystemTrayIcon.isSystemTrayAvailable(),
        "screens": [_box(screen.geometry()) for screen in QGuiApplication.screens()],
        "said": _TOAST_TEXTS,
    }


_TOAST_TEXTS: list[str] = []
"""Every toast, which a later read does not show any more."""


def _listen_to_toasts() -> None:
    from widgets.common.toast import Toast

    show_message = Toast.show_message

    def show_and_record(self: Toast, text: str, **options: Any) -> None:
        _TOAST_TEXTS.append(text)
        show_message(self, text, **options)

    Toast.show_message = show_and_record  # type: ignore[method-assign]


class _Tray(QSystemTrayIcon):
    """Known by itself: a search for it among all objects spoils tuples that threads build."""

    icons: ClassVar[list[QSystemTrayIcon]] = []

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.icons.append(self)


def _know_the_tray() -> None:
    from app.notifications import tray

    tray.QSystemTrayIcon = _Tray  # type: ignore[misc]


def _window(window: QWidget) -> dict[str, Any]:
    parts = [window, *(w for w in window.findChildren(QWidget) if w.isVisible())]
    return {
        "class": type(window).__name__,
        "title": window.windowTitle(),
        "frame": _box(window.frameGeometry()),
        "box": _box(QRect(window.mapToGlobal(QPoint(0, 0)), window.size())),
        "is_active": window.isActiveWindow(),
        "is_minimized": window.isMinimized(),
        "is_maximized": window.isMaximized(),
        "parts": [part for widget in parts for part in _parts(widget)],
    }


def _parts(widget: QWidget) -> list[dict[str, Any]]:
    text = getattr(widget, "text", None)
    label = str(text()) if callable(text) else ""
    is_checked = getattr(widget, "isChecked", None)
    part = {
        "class": type(widget).__name__,
        "name": widget.accessibleName() or label,
        "text": label,
        "description": widget.accessibleDescription(),
        "is_chosen": bool(is_checked()) if callable(is_checked) else False,
        "has_focus": widget.hasFocus(),
        "box": _box(QRect(widget.mapToGlobal(QPoint(0, 0)), widget.size())),
    }
    if not isinstance(widget, QAbstractItemView) or widget.model() is None:
        return [part]
    return [part, *_rows(widget)]


def _rows(view: QAbstractItemView) -> list[dict[str, Any]]:
    rows = []
    model = view.model()
    for row in range(min(model.rowCount(), 50)):
        index = model.index(row, 0)
        box = view.visualRect(index)
        corner = view.viewport().mapToGlobal(box.topLeft())
        rows.append(
            {
                "class": "row",
                "name": str(index.data() or ""),
                "text": view.accessibleName(),
                "description": "",
                "is_chosen": view.selectionModel().isRowSelected(row),
                "has_focus": view.currentIndex().row() == row and view.hasFocus(),
                "box": _box(QRect(corner, box.size())),
            }
        )
    return rows


def _box(rect: QRect) -> list[int]:
    return [rect.x(), rect.y(), rect.width(), rect.height()]


def _listen(path: str) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    responder: Responder | None = None
    while True:
        connection, _ = server.accept()
        with connection:
            while connection.recv(1):
                app = QCoreApplication.instance()
                if app is None:
                    connection.sendall(b"{}\n")
                    continue
                if responder is None:
                    responder = Responder(app)
                responder.requested.emit(connection)


if __name__ == "__main__":
    threading.Thread(target=_listen, args=(sys.argv[1],), daemon=True).start()
    sys.path.insert(0, str(ROOT))
    _know_the_tray()
    _listen_to_toasts()
    sys.argv = [str(ROOT / "main.py"), *sys.argv[2:]]
    runpy.run_path(sys.argv[0], run_name="__main__")
