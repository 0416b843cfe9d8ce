"""Keep the preferences: changed at once, written shortly after, off the GUI thread."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.runtime.background import Runner
from app.runtime.settings import Preferences, Settings, with_session
from backend.base.log import swallowed

_SAVE_AFTER_MS = 1000


class SettingsWriter(QObject):
    """Change the preferences of the user, and write them a second later.

    Signals:
        changed: A preference changed.
    """

    changed = Signal()

    def __init__(self, settings: Settings, runner: Runner, parent: QObject) -> None:
        super().__init__(parent)
        self._settings = settings
        self._runner = runner
        self._save_timer = QTimer(self)
        self._save_timer.setSingleShot(True)
        self._save_timer.setInterval(_SAVE_AFTER_MS)
        self._save_timer.timeout.connect(self._save)

    @property
    def preferences(self) -> Preferences:
        return self._settings.preferences

    def remember_in(self, root: str, **changes: Any) -> None:
        """Set these fields of `Preferences`; those of `SESSION_FIELDS` for this data root."""
        self.remember(**with_session(root, self.preferences, changes))

    def remember(self, **changes: Any) -> None:
        """Set these fields of `Preferences`."""
        if self._settings.change(**changes):
            self._save_timer.start()
            self.changed.emit()

    def save(self) -> None:
        """Write now; nothing follows."""
        self._settings.save()

    @Slot()
    def _save(self) -> None:
        self._runner.run("settings", self._settings.save, lambda _: None, swallowed)
