"""The progress of the open job: a timeline, with a sentence below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtWidgets import QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history_update import RunStart
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import S4
from widgets.jobs.detail.progress_timeline import RunTrack, TrackMarks


class JobProgress(QWidget):
    """A `RunTrack` with a sentence and the number of epochs."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._track = RunTrack()
        self._caption = Label("", "small", "text2", elide="right")
        self._epochs = Label("", "small", "text3")
        self.setLayout(col(self._track, row((self._caption, 1), self._epochs, gap=S4), gap=2))

    def show_view(
        self,
        view: JobView,
        checkpoints: Sequence[Checkpoint],
        starts: Iterable[RunStart],
        caption: str,
    ) -> None:
        """Show a job, or an update of it.

        Args:
            starts: The first steps of its runs.
            caption: The sentence below the timeline.
        """
        self._track.show_progress(view.state, view.progress, view.epochs)
        self._track.show_marks(_marks(view, checkpoints, starts))
        self._caption.setText(caption)
        self._epochs.setText(formats.plural(view.epochs, "epoch"))


def _marks(
    view: JobView, checkpoints: Sequence[Checkpoint], starts: Iterable[RunStart]
) -> TrackMarks:
    """Return the marks of the timeline; none while the number of steps is not known."""
    total = view.total_steps
    if not total:
        return TrackMarks()
    kept = tuple(min(1.0, each.step / total) for each in checkpoints)
    later = tuple(min(1.0, (start.first_step - 1) / total) for start in starts if start.run > 1)
    return TrackMarks(kept, later, view.progress if view.state.has_failed else None)
