"""Paths of the program's own files on this computer."""

from __future__ import annotations

from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("ringmaster", appauthor=False)


def settings_file() -> Path:
    return Path(_DIRS.user_config_path) / "window.toml"


def notices_file() -> Path:
    return Path(_DIRS.user_config_path) / "notices.json"


def log_file() -> Path:
    return Path(_DIRS.user_log_path) / "window.log"
