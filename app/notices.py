"""Tells of ends that nobody may have seen: once each, merged when many come together (M20)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from backend.records.job_view import JobView
from backend.records.state import JobState

MERGE_MS = 30_000
_KEPT = 200


@dataclass(frozen=True)
class Notice:
    """One notice. ``job_id`` is where a click leads, "" when several jobs are meant."""

    title: str
    text: str
    job_id: str
    when: datetime


class Notices(QObject):
    """Watches views go by and says each end once.

    A run that had ended when the window opened is no news. The first of several goes out at
    once, those within 30 s after it together.

    Signals:
        told: A `Notice`, for the tray and the bell.
    """

    told = Signal(Notice)

    def __init__(
        self,
        tells_finished: Callable[[], bool],
        merge_ms: int = MERGE_MS,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._tells_finished = tells_finished
        self._live: set[tuple[str, int]] = set()
        self._stalled: set[tuple[str, int]] = set()
        self._waiting: list[Notice] = []
        self._merge = QTimer(self)
        self._merge.setSingleShot(True)
        self._merge.setInterval(merge_ms)
        self._merge.timeout.connect(self.send_waiting)
        self.past: list[Notice] = []

    @Slot(object)
    def see(self, view: JobView) -> None:
        """Look at a view; tell when a run that was seen alive has ended, or gives no news."""
        run = (view.id, view.run)
        if view.state.is_live:
            self._live.add(run)
            if view.doubt and run not in self._stalled:
                self._stalled.add(run)
                self._tell(view, "No news", view.doubt)
            elif not view.doubt:
                self._stalled.discard(run)
            return
        if run not in self._live:
            return
        self._live.discard(run)
        if view.state in (JobState.ERROR, JobState.LOST):
            cause = view.error.sentence if view.error else view.message
            self._tell(view, view.state.word, cause)
        elif view.state is JobState.FINISHED and self._tells_finished():
            self._tell(view, view.state.word, view.message or f"{view.epochs} epochs are done.")

    def _tell(self, view: JobView, word: str, cause: str) -> None:
        notice = Notice(f"{word}: {view.name}", cause, view.id, datetime.now().astimezone())
        if self._merge.isActive():
            self._waiting.append(notice)
            return
        self._merge.start()
        self._send(notice)

    @Slot()
    def send_waiting(self) -> None:
        """What was held back, as one notice when it is several."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        self._merge.start()
        if len(waiting) == 1:
            self._send(waiting[0])
            return
        names = "; ".join(notice.title for notice in waiting)
        self._send(Notice(f"{len(waiting)} jobs ended", names, "", waiting[-1].when))

    def _send(self, notice: Notice) -> None:
        self.past = [notice, *self.past][:_KEPT]
        self.told.emit(notice)
