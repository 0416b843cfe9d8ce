"""The program's own files on this computer, and the preferences of the window in one of them.

Preferences change at once and are written shortly after, off the GUI thread. Nothing in them
justifies a question to the user: an unreadable file counts as missing, a damaged file is renamed,
and the window opens with the defaults.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w
from platformdirs import PlatformDirs
from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.runtime.background import Runner
from backend.base.log import swallowed
from backend.records.base.atomic_files import replace_bytes
from widgets.common.formats import Units
from widgets.common.theme_manager import ThemeChoice


@dataclass(frozen=True)
class Preferences:
    """The preferences of a user on this computer."""

    theme: str = "system"
    scale_percent: int = 100
    high_contrast: bool = False
    reduced_motion: bool = False
    sizes: str = ""
    temperature: str = ""
    clock: str = ""
    """As in `widgets.common.formats.Units`; "" for the default."""
    tell_finished: bool = True
    stays_in_tray: bool = False
    """Keep the program in the tray when the window is closed, if there is a tray."""
    width: int = 1440
    height: int = 900
    place: str = "jobs"
    open_job: str = ""
    """Id of a job, or the tag of a sweep."""
    jobs_as_table: bool = False
    export_format: str = "zip"
    position: list[int] = field(default_factory=list)
    """The window's upper left corner, frame included; empty for the system's choice."""
    maximized: bool = False
    job_table: dict[str, Any] = field(default_factory=dict)
    """Columns, widths and order of the wide table."""
    sweep_folds: dict[str, Any] = field(default_factory=dict)
    """By tag, True if the sweep is collapsed."""
    metric_modes: dict[str, Any] = field(default_factory=dict)
    """``min`` or ``max`` by the name of a metric without a known direction."""
    list_widths: dict[str, Any] = field(default_factory=dict)
    """In pixels, by the key of the page."""
    sessions: dict[str, Any] = field(default_factory=dict)
    """By data root, its values of `SESSION_FIELDS`; those above are of earlier versions."""

    @property
    def theme_choice(self) -> ThemeChoice:
        """The theme choice; the system's if the file holds an unknown value."""
        try:
            return ThemeChoice(self.theme)
        except ValueError as error:
            swallowed(error)
            return ThemeChoice.SYSTEM

    @property
    def units(self) -> Units:
        """The units; an unknown value means the default."""
        defaults = Units()
        return Units(
            self.sizes or defaults.sizes,
            self.temperature or defaults.temperature,
            self.clock or defaults.clock,
        )


SESSION_FIELDS = ("place", "open_job", "sweep_folds")
"""The fields about contents of a data root: another data root has its own."""
_MAX_SESSIONS = 20


def preferences_in(root: str, preferences: Preferences) -> Preferences:
    """Return the preferences with what was last open in this data root."""
    if not preferences.sessions:
        return preferences
    defaults, session = Preferences(), preferences.sessions.get(root)
    values = {name: getattr(defaults, name) for name in SESSION_FIELDS}
    record = session if isinstance(session, dict) else {}
    values |= {k: v for k, v in record.items() if k in values and type(v) is type(values[k])}
    return replace(preferences, **values)


def with_session(root: str, preferences: Preferences, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes of preferences, those of `SESSION_FIELDS` as changes of a session."""
    session_changes = {k: v for k, v in changes.items() if k in SESSION_FIELDS}
    if not session_changes:
        return changes
    current = preferences_in(root, preferences)
    session = {name: getattr(current, name) for name in SESSION_FIELDS} | session_changes
    other_sessions = {k: v for k, v in preferences.sessions.items() if k != root}
    while len(other_sessions) >= _MAX_SESSIONS:
        del other_sessions[next(iter(other_sessions))]
    shared_changes = {k: v for k, v in changes.items() if k not in SESSION_FIELDS}
    return {**shared_changes, "sessions": {**other_sessions, root: session}}


class Settings:
    """Read the preferences once; `save` writes the whole file and may run on any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._preferences = _read(path)

    @property
    def preferences(self) -> Preferences:
        return self._preferences

    def change(self, **changes: Any) -> bool:
        """Change fields in memory until `save`; return True if any value changed."""
        new_preferences = replace(self._preferences, **changes)
        is_changed = new_preferences != self._preferences
        self._preferences = new_preferences
        return is_changed

    def save(self) -> None:
        """Write the file; a full disk loses the preference, not the work."""
        content = tomli_w.dumps(asdict(self._preferences)).encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_bytes(self._path, content, mode=0o600)
        except OSError as error:
            swallowed(error)
            return


def _read(path: Path) -> Preferences:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return Preferences()
    except (OSError, ValueError) as error:
        swallowed(error)
        _rename_damaged(path)
        return Preferences()
    defaults = asdict(Preferences())
    valid_fields = {k: v for k, v in raw.items() if k in defaults and type(v) is type(defaults[k])}
    return replace(Preferences(), **valid_fields)


def _rename_damaged(path: Path) -> None:
    try:
        os.replace(path, path.with_suffix(".damaged"))
    except OSError as error:
        swallowed(error)
        return


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
        self._save_timer = QTimer(self, singleShot=True, interval=_SAVE_AFTER_MS)
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


_DIRS = PlatformDirs("ringmaster", appauthor=False)


def settings_file() -> Path:
    return Path(_DIRS.user_config_path) / "window.toml"


def notices_file() -> Path:
    return Path(_DIRS.user_config_path) / "notices.json"


def log_file() -> Path:
    return Path(_DIRS.user_log_path) / "window.log"
