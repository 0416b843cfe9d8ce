"""Reads this computer every two seconds and shows it wherever nodes are shown."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.background import Runner
from backend.errors import BackendError
from backend.records.node import NodeReading
from backend.services.nodes import NodeService
from widgets.cluster.node_page import NodePage


class NodeController(QObject):
    """Serves the place Nodes.

    Signals:
        read: A new `NodeReading`.
    """

    read = Signal(NodeReading)

    def __init__(
        self,
        nodes: NodeService,
        runner: Runner,
        page: NodePage,
        interval_ms: int,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._nodes = nodes
        self._runner = runner
        self._page = page
        self._reading = False
        self._timer = QTimer(self)
        self._timer.setInterval(interval_ms)
        self._timer.timeout.connect(self.look)
        page.check_requested.connect(self._check)

    def start(self) -> None:
        self.look()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    @Slot()
    def look(self) -> None:
        """One look; a look that has not ended is not repeated."""
        if self._reading:
            return
        self._reading = True
        self._runner.run("node this-computer", self._nodes.reading, self._take, self._miss)

    def _take(self, reading: NodeReading) -> None:
        self._reading = False
        self._page.show_reading(reading)
        self.read.emit(reading)

    def _miss(self, _error: BackendError) -> None:
        self._reading = False

    @Slot(str)
    def _check(self, name: str) -> None:
        self._runner.run(
            "node check",
            partial(self._nodes.check, name),
            self._page.show_findings,
            lambda error: self._page.show_error(str(error)),
        )
