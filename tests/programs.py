"""Windows of the whole program that leave nothing to the tests after them."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent

from app.bootstrap import Program


def end(*programs: Program) -> None:
    """Close them; what they marked for deletion goes at once."""
    for program in programs:
        program.close()
    # A `Look` that lives on would dress the windows of other tests.
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
