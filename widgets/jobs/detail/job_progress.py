"""The progress of the open job: a timeline, with a sentence or the worst finding below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import RunStart
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from widgets.common import formats, theme
from widgets.common.banner import COMPACT_H, Banner
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import S4
from widgets.jobs.detail.warning import JobFinding

_BAR_H, _MARK_H = 8, 6
_MIN_EPOCH_W = 5


@dataclass(frozen=True)
class TrackMarks:
    """Positions as shares of the whole job, 0 to 1; ``run_starts`` has those of later runs."""

    checkpoints: tuple[float, ...] = ()
    run_starts: tuple[float, ...] = ()
    failure: float | None = None


class RunTrack(QWidget):
    """A bar with a gap after each epoch and a triangle below for each existing checkpoint."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = JobState.CREATED
        self._progress = 0.0
        self._epochs = 0
        self._marks = TrackMarks()
        self.setFixedHeight(_BAR_H + _MARK_H + 4)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_progress(self, state: JobState, progress: float, epochs: int) -> None:
        if (state, progress, epochs) != (self._state, self._progress, self._epochs):
            self._state, self._progress, self._epochs = state, progress, epochs
            self._update_description()

    def show_marks(self, marks: TrackMarks) -> None:
        if marks != self._marks:
            self._marks = marks
            self._update_description()

    def _update_description(self) -> None:
        checkpoint_count = formats.plural(len(self._marks.checkpoints), "checkpoint")
        self.setAccessibleName(f"{formats.progress(self._progress)} done, {checkpoint_count} kept")
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        width = float(self.width())
        bar = QRectF(0, 1, width, _BAR_H)
        family = self._state.color_role
        clip = QPainterPath()
        clip.addRoundedRect(bar, _BAR_H / 2, _BAR_H / 2)
        painter.save()
        painter.setClipPath(clip)
        painter.fillRect(bar, t.q(family, 0.16))
        painter.fillRect(QRectF(0, 1, width * self._progress, _BAR_H), t.q(family))
        if self._epochs and width / self._epochs >= _MIN_EPOCH_W:
            for epoch in range(1, self._epochs):
                slit = round(epoch * width / self._epochs)
                painter.fillRect(QRectF(slit, 1, 1, _BAR_H), t.q("surface", 0.55))
        for share in self._marks.run_starts:
            painter.fillRect(QRectF(share * width - 1.5, 1, 3, _BAR_H), t.q("surface"))
        painter.restore()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(t.q("text2"))
        for share in self._marks.checkpoints:
            x = min(max(share * width, 4.0), width - 4.0)
            top = _BAR_H + 3.5
            triangle = (QPointF(x, top), QPointF(x - 3.5, top + 5.5), QPointF(x + 3.5, top + 5.5))
            painter.drawPolygon(QPolygonF(triangle))
        if self._marks.failure is not None:
            x = min(max(self._marks.failure * width, 1.5), width - 1.5)
            painter.setPen(QPen(t.q("bad"), 3))
            painter.drawLine(QPointF(x, 0), QPointF(x, _BAR_H + 3))


class JobProgress(QWidget):
    """A `RunTrack`, and below it a sentence and the number of epochs, or the worst finding.

    A finding takes the place of the sentence, and shows it in its second line: what is below stays
    where it is when a finding comes and goes.

    Attributes:
        banner: Shows the finding.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._track = RunTrack()
        self._caption = Label("", "small", "text2", elide="right")
        self._epochs = Label("", "small", "text3")
        self._caption_row = QWidget()
        self._caption_row.setLayout(
            col(row((self._caption, 1), self._epochs, gap=S4), STRETCH, gap=0)
        )
        self._caption_row.setMinimumHeight(COMPACT_H)
        self.banner = Banner(is_compact=True)
        self.banner.hide()
        self.setLayout(col(self._track, self._caption_row, self.banner, gap=2))

    def show_view(
        self,
        view: JobView,
        checkpoints: Sequence[Checkpoint],
        starts: Iterable[RunStart],
        caption: str,
    ) -> None:
        """Show a job, or an update of the job.

        Args:
            starts: The first steps of the job's runs.
            caption: The sentence below the timeline.
        """
        self._track.show_progress(view.state, view.progress or 0.0, view.epochs)
        self._track.show_marks(_track_marks(view, checkpoints, starts))
        self._caption.setText(caption)
        self._epochs.setText(formats.plural(view.epochs, "epoch") if view.epochs else "")

    def show_finding(self, finding: JobFinding | None) -> None:
        """Show the worst finding; without one, the sentence."""
        if finding is not None:
            text = f"{finding.details} {self._caption.text()}".strip()
            self.banner.set_finding(finding.family, finding.message, text, icon=finding.icon)
        self._caption_row.setVisible(finding is None)
        self.banner.setVisible(finding is not None)


def _track_marks(
    view: JobView, checkpoints: Sequence[Checkpoint], starts: Iterable[RunStart]
) -> TrackMarks:
    """Return the marks of the timeline; none while the number of steps is unknown."""
    total = view.status.total_steps
    if not total:
        return TrackMarks()
    checkpoint_shares = tuple(min(1.0, checkpoint.step / total) for checkpoint in checkpoints)
    run_starts = tuple(
        min(1.0, (start.first_step - 1) / total) for start in starts if start.run > 1
    )
    return TrackMarks(
        checkpoint_shares, run_starts, view.progress if view.state.has_failed else None
    )
