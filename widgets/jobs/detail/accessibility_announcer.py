"""Announcements of the open job for screen readers: each new state, and every 10 % of progress."""

from __future__ import annotations

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from backend.records.jobs.view import JobView
from widgets.common import formats

_STEP = 0.1


class Announcer:
    """Says nothing when a job is opened: the screen reader reads its state then.

    Args:
        widget: The widget that shows the job.
    """

    def __init__(self, widget: QWidget) -> None:
        self._widget = widget
        self._told: JobView | None = None

    def open(self, view: JobView) -> None:
        self._told = view

    def see(self, view: JobView) -> None:
        """Announce a new state or progress of the open job."""
        told = self._told
        if told is None or told.id != view.id:
            return
        if view.state is not told.state or view.run != told.run:
            self._told = view
            cause = view.error.sentence if view.error is not None and view.state.has_failed else ""
            self._say(f"{view.name}: {view.state.word}. {cause}".strip())
        elif view.state.is_live and _tens(view) > _tens(told):
            self._told = view
            self._say(f"{view.name}: {formats.progress(_tens(view) * _STEP)}")

    def _say(self, sentence: str) -> None:
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._widget, sentence))


def _tens(view: JobView) -> int:
    # Avoids rounding: 0.3 / 0.1 is 2.999…
    return int(view.progress / _STEP + 1e-9)
