"""Progress and cancellation of long work.

Services report to a `Progress`. The command line shows it as a bar, the window as a line with a
Cancel button. Tests and callers that need neither pass `Progress()`.
"""

from __future__ import annotations

from backend.base.errors import Cancelled


class Progress:
    """Ignore reports and never cancel. Override `report`; call `cancel` from any thread."""

    def __init__(self) -> None:
        self._is_cancelled = False
        self.can_ask = False
        """A start with a warning that the user should decide about is refused, to ask the user."""

    def report(self, done_amount: float, total: float, label: str) -> None:
        """Report ``done_amount`` of ``total``, 0 if unknown. ``label``: "Copying files"."""

    def cancel(self) -> None:
        self._is_cancelled = True

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def accepts(self, warning: str) -> bool:
        """Return whether a start continues despite a warning; the command line prints it."""
        return not self.can_ask

    def step(self, done_amount: float, total: float, label: str) -> None:
        """Report, and raise `Cancelled` if the user cancelled."""
        if self._is_cancelled:
            raise Cancelled
        self.report(done_amount, total, label)


class ByteCount:
    """Adds up bytes for a `Progress`."""

    def __init__(self, progress: Progress, total: int, label: str) -> None:
        self._progress, self._total, self._label = progress, total, label
        self._done_count = 0

    def __call__(self, count: int) -> None:
        self._done_count += count
        self._progress.step(self._done_count, self._total, self._label)
