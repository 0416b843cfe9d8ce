"""Collect cyclic garbage on the GUI thread, and on no other thread.

Python collects in whichever thread allocates. PySide 6.11.1 then destroys a widget that was part of
a cycle in that thread (measured: ``destroyed`` is emitted there), while the GUI thread may be
painting or styling it: a segmentation fault, some hours later.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer, Slot

INTERVAL_MS = 1000


class Garbage(QObject):
    """Replace Python's automatic collection until `close`.

    Counts and thresholds stay Python's own, so it collects no more than before.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        gc.disable()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._collect_due)
        self._timer.start(INTERVAL_MS)

    def freeze(self) -> None:
        """Exclude all present objects from collection for the life of the process.

        The modules alone are 140,000 objects; scanning them each time blocked the GUI thread for
        100 ms and more.
        """
        gc.freeze()

    def close(self) -> None:
        self._timer.stop()
        if self._was_enabled:
            gc.enable()

    @Slot()
    def _collect_due(self) -> None:
        collect_due()


def collect_due() -> None:
    """Collect, in this thread, what Python would have collected by now."""
    due = zip(gc.get_count(), gc.get_threshold(), strict=True)
    oldest = max((age for age, (count, most) in enumerate(due) if count > most), default=None)
    if oldest is not None:
        gc.collect(oldest)
