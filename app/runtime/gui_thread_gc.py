"""Cyclic garbage is collected on the GUI thread, and nowhere else.

Python collects in whichever thread happens to allocate.  PySide 6.11.1 then destroys a widget that
was part of a cycle in that thread (measured: ``destroyed`` is emitted there), while the GUI thread
may be painting or styling it: a segmentation fault, some hours later.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer, Slot

INTERVAL_MS = 1000


class Garbage(QObject):
    """Takes the collector over from Python, until `close`.

    Counts and thresholds stay Python's own, so no more is collected than before.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        gc.disable()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._collect_due)
        self._timer.start(INTERVAL_MS)

    def freeze(self) -> None:
        """What there is now stays as long as the process: it is not looked through again.

        The modules alone are 140,000 objects; to find each time that none of them is garbage held
        the GUI thread up for 100 ms and more.
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
    """Collect, in this thread, what Python would have collected by now had it been let."""
    due = zip(gc.get_count(), gc.get_threshold(), strict=True)
    oldest = max((age for age, (count, most) in enumerate(due) if count > most), default=None)
    if oldest is not None:
        gc.collect(oldest)
