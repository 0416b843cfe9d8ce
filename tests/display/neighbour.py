"""Another program on the same screen: it has something to drag, a place to drop, and a clipboard.

Commands come in lines; what happened goes out in lines of JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from PySide6.QtCore import QMimeData, QSocketNotifier, Qt, QUrl
from PySide6.QtGui import (
    QDrag,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QMouseEvent,
    QPixmap,
)
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget


def report(event_name: str, value: object = None) -> None:
    sys.stdout.write(json.dumps({"what": event_name, "value": value}) + "\n")
    sys.stdout.flush()


class Source(QLabel):
    """A folder, as a file manager gives it away."""

    def __init__(self, path: str) -> None:
        super().__init__("drag me")
        self._path = path

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if not event.buttons() & Qt.MouseButton.LeftButton:
            return
        drag = QDrag(self)
        content = QMimeData()
        content.setUrls([QUrl.fromLocalFile(self._path)])
        drag.setMimeData(content)
        drag.setPixmap(QPixmap(16, 16))
        report("dragging")
        drop_actions = Qt.DropAction.CopyAction | Qt.DropAction.MoveAction
        report("dragged", drag.exec(drop_actions, Qt.DropAction.CopyAction).name)


class Target(QLabel):
    """A folder of a file manager: it copies what is dropped."""

    def __init__(self) -> None:
        super().__init__("drop here")
        self.setAcceptDrops(True)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        report("over", event.mimeData().hasUrls())
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        paths = [url.toLocalFile() for url in event.mimeData().urls()]
        report(
            "dropped",
            {
                "paths": paths,
                "sha256": [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths],
                "action": event.proposedAction().name,
                "offered": [act.name for act in Qt.DropAction if act & event.possibleActions()],
            },
        )


def main() -> int:
    app = QApplication(sys.argv[:1])
    # The user types in the other window.
    window = QWidget(None, Qt.WindowType.WindowDoesNotAcceptFocus)
    window.setWindowTitle("Neighbour")
    source, target = Source(sys.argv[1]), Target()
    layout = QVBoxLayout(window)
    layout.setContentsMargins(0, 0, 0, 0)
    for part in (source, target):
        part.setAlignment(Qt.AlignmentFlag.AlignCenter)
        layout.addWidget(part)
    window.setGeometry(*json.loads(sys.argv[2]))
    window.show()

    def run_command() -> None:
        command = sys.stdin.readline().strip()
        if command == "clipboard":
            report("clipboard", QGuiApplication.clipboard().text())
        elif command == "where":
            centers = [part.mapToGlobal(part.rect().center()) for part in (source, target)]
            report("where", [[point.x(), point.y()] for point in centers])
        elif not command:
            app.quit()

    notifier = QSocketNotifier(sys.stdin.fileno(), QSocketNotifier.Type.Read)
    notifier.activated.connect(run_command)
    return app.exec()


if __name__ == "__main__":
    sys.exit(main())
