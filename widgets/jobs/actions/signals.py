"""The signals of a job's page: the actions that its parts request."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget


class JobActions(QWidget):
    """The base of the page of a job.

    Signals:
        start_requested, start_cancelled, stop_requested, start_over_requested,
        kill_requested (it does not stop by itself),
        preflight_requested (check everything before a start), clone_requested,
        compare_requested, bundle_requested, replay_requested (fill the form to repeat the job),
        replayed_requested (show the result of the replay), remove_requested, folder_requested,
        runs_requested (list its runs), newest_requested (show its newest run): Job id.
        earlier_requested: Job id, number of an earlier run; show its curves and log.
        resume_requested: Job id, checkpoint ("" for the newest).
        rename_requested: Job id, text.
        back_requested: Show the list (narrow windows).
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
