"""The queue actions of one job, for all menus."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuePlace
from widgets.common.dialog_holder import DialogHolder
from widgets.jobs.queue.queue_dialog import QueueDialog

QUEUE_TIP = "Start automatically when its turn comes and its nodes are free"
_CAN_GO_ON = frozenset({JobState.INTERRUPTED, JobState.ERROR, JobState.LOST})


class QueueActs(QObject):
    """Adds the actions to menus, and emits what the user requests.

    Signals:
        queue_requested, leave_requested, top_requested: Job id.
        change_requested: Job id, priority, and the time before which it does not start (a
            `datetime`, or None).
    """

    queue_requested = Signal(str)
    leave_requested = Signal(str)
    top_requested = Signal(str)
    change_requested = Signal(str, int, object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._dialog: DialogHolder[QueueDialog] = DialogHolder()

    def fill(
        self,
        menu: QMenu,
        view: JobView | JobSummary,
        place: QueuePlace | None,
        *,
        has_checkpoints: bool | None = None,
    ) -> None:
        """Add the actions that fit the job; none for a job that runs or has finished.

        Args:
            has_checkpoints: There are some to resume from; None if not known yet.
        """
        # The checkpoints of a job in the list are not known; a job without steps has none.
        may_go_on = view.progress > 0 if has_checkpoints is None else has_checkpoints
        if view.state is JobState.CREATED:
            menu.addAction("Queue", partial(self.queue_requested.emit, view.id))
        elif view.state in _CAN_GO_ON and may_go_on:
            menu.addAction("Queue resume", partial(self.queue_requested.emit, view.id))
        elif view.state is JobState.QUEUED:
            top = menu.addAction("Move to the top", partial(self.top_requested.emit, view.id))
            top.setEnabled(place is not None and place.number > 1)
            if place is not None:
                menu.addAction("Priority and time…", partial(self.open_dialog, place))
            menu.addAction("Remove from queue", partial(self.leave_requested.emit, view.id))

    def open_dialog(self, place: QueuePlace) -> None:
        """Open the dialog for another priority or time."""
        dialog = QueueDialog(place.entry, self._window)
        dialog.changed.connect(partial(self.change_requested.emit, place.entry.job_id))
        self._dialog.open(dialog)
