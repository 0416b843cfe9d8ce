"""What a person may wish for one job, in whichever part of its page that is said."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget


class JobWishes(QWidget):
    """A part of the page of a job.

    Signals:
        start_requested, start_cancelled, stop_requested, start_over_requested,
        preflight_requested (everything is to be looked at before a start), clone_requested,
        compare_requested, bundle_requested, replay_requested (the form, to make the curve again),
        replayed_requested (how that went), remove_requested, folder_requested: Job id.
        resume_requested: Job id, checkpoint ("" for the newest).
        rename_requested: Job id, text.
        back_requested: The list is wished for (narrow windows).
    """

    start_requested = Signal(str)
    start_cancelled = Signal(str)
    stop_requested = Signal(str)
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
    back_requested = Signal()

    def pass_on(self, part: JobWishes) -> None:
        """What is wished in a part of this is wished here."""
        part.start_requested.connect(self.start_requested)
        part.start_cancelled.connect(self.start_cancelled)
        part.stop_requested.connect(self.stop_requested)
        part.resume_requested.connect(self.resume_requested)
        part.start_over_requested.connect(self.start_over_requested)
        part.preflight_requested.connect(self.preflight_requested)
        part.clone_requested.connect(self.clone_requested)
        part.compare_requested.connect(self.compare_requested)
        part.bundle_requested.connect(self.bundle_requested)
        part.replay_requested.connect(self.replay_requested)
        part.replayed_requested.connect(self.replayed_requested)
        part.rename_requested.connect(self.rename_requested)
        part.remove_requested.connect(self.remove_requested)
        part.folder_requested.connect(self.folder_requested)
        part.back_requested.connect(self.back_requested)
