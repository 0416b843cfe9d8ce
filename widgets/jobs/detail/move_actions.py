"""Resuming the open job on other nodes: opens the dialog that asks for them."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState
from widgets.common.dialog_holder import DialogHolder
from widgets.jobs.detail.move_dialog import ElsewhereDialog


class ElsewhereActs(QObject):
    """Opens the dialog and forwards its request.

    Signals:
        resume_requested: Job id, and ``placement`` as a job file has it.
    """

    resume_requested = Signal(str, object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._nodes: tuple[NodeState, ...] = ()
        self._dialog: DialogHolder[ElsewhereDialog] = DialogHolder()

    @property
    def now(self) -> ElsewhereDialog | None:
        """Return the dialog, while it is open."""
        return self._dialog.now

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """Set the nodes on which a job can be resumed."""
        self._nodes = states
        if self.now is not None:
            self.now.show_nodes(states)

    def ask(self, view: JobView, without: str = "") -> None:
        """Open the dialog, without one node, unless it is open already."""
        if self.now is not None:
            return
        placement = view.config.to_dict()["placement"]
        dialog = ElsewhereDialog(view.name, placement, self._nodes, without, self._window)
        dialog.resume_requested.connect(partial(self.resume_requested.emit, view.id))
        self._dialog.open(dialog)
