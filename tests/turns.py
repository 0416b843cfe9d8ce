"""Wait for what happens in the event loop."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QApplication

from tests.waiting import wait_for


def wait_in_loop(fact: Callable[[], object], what: str = "") -> None:
    """Wait for it while the window goes on."""

    def has_come() -> bool:
        QApplication.processEvents()
        return bool(fact())

    wait_for(has_come, what)
