"""The notices of the last weeks, and how many nobody has looked at: remembered over restarts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.notices import Notice
from backend.records.files import read_json, replace_bytes

KEPT = 200


class NoticeBook:
    """Read once; `save` writes it whole and may run on any thread.

    A file that cannot be read is as good as none: what is in it was told already.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.past: tuple[Notice, ...] = ()
        self.unread = 0
        try:
            raw = read_json(path)
            self.past = tuple(map(Notice.from_dict, _list(raw)))[:KEPT]
            self.unread = min(len(self.past), max(0, int(raw.get("unread", 0))))
        except (OSError, ValueError, TypeError):
            self.past = ()

    def add(self, notice: Notice) -> None:
        """The newest one."""
        self.past = (notice, *self.past)[:KEPT]
        self.unread = min(KEPT, self.unread + 1)

    def read_all(self) -> bool:
        """Somebody looked; whether there was anything new."""
        was_news, self.unread = self.unread > 0, 0
        return was_news

    def save(self) -> None:
        """Write; a disk that is full costs the list, not the work."""
        raw = {"unread": self.unread, "notices": [notice.to_dict() for notice in self.past]}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_bytes(self._path, json.dumps(raw).encode(), mode=0o600)
        except OSError:
            return


def _list(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = raw.get("notices", [])
    if not isinstance(found, list):
        raise TypeError("notices are a list")
    return found
