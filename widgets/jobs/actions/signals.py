"""What a person may wish for one job; the parts of its page say it through the page."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget


class JobActions(QWidget):
    """The page of a job.

    Signals:
        start_requested, start_cancelled, stop_requested, start_over_requested,
        kill_requested (it was to stop and does not),
        preflight_requested (everything is to be looked at before a start), clone_requested,
        compare_requested, bundle_requested, replay_requested (the form, to make the curve again),
        replayed_requested (how that went), remove_requested, folder_requested,
        runs_requested (which there were), newest_requested (its newest run again): Job id.
        earlier_requested: Job id, number of an earlier run whose curves and log are wished for.
        resume_requested: Job id, checkpoint ("" for the newest).
        rename_requested: Job id, text.
        back_requested: The list is wished for (narrow windows).
    """

    start_requested = Signal(str)
    start_cancelled = Signal(str)
    stop_requested = Signal(str)
    kill_requested = Signal(str)
    resume_requested = Signal(str, str)
    start_over_requested = Signal(str)
    preflight_requested = Signal(str)
    clone_requested = Signal(str)
    compare_requested = Signal(str)
    bundle_requested = Signal(str)
    replay_requested = Signal(str)
    replayed_requested = Signal(str)
    rename_requested = Signal(str, str)
    remove_requested = Signal(str)
    folder_requested = Signal(str)
    runs_requested = Signal(str)
    earlier_requested = Signal(str, int)
    newest_requested = Signal(str)
    back_requested = Signal()
