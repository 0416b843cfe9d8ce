"""How long work tells how far it is, and learns that it should end.

Services report through a `Progress`; the command line makes a bar of it, the window a line with a
Cancel button, tests and callers who do not care pass `Progress()`.
"""

from __future__ import annotations

from backend.base.errors import Cancelled


class Progress:
    """Does nothing, never cancels. Override `report`; call `cancel` from any thread."""

    def __init__(self) -> None:
        self._cancelled = False

    def report(self, done: float, total: float, what: str) -> None:
        """``done`` of ``total`` (0 when unknown) of what is being done ("Copying files")."""

    def cancel(self) -> None:
        self._cancelled = True

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    def step(self, done: float, total: float, what: str) -> None:
        """Report, and raise `Cancelled` when the user wished so."""
        if self._cancelled:
            raise Cancelled
        self.report(done, total, what)
