"""Wait for what happens in the event loop."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QApplication

from tests.waiting import wait_for


def wait_in_loop(condition: Callable[[], object], description: str = "") -> None:
    """Wait for it while the window goes on."""

    def is_met() -> bool:
        QApplication.processEvents()
        return bool(condition())

    wait_for(is_met, description)
