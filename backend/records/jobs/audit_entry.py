"""An action of a user on a job: it was started, stopped or changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AuditEntry:
    """One action. ``what`` begins a sentence: "Stopped", "Name changed from “a” to “b”"."""

    time: str
    what: str
    user: str = ""
    host: str = ""

    @property
    def sentence(self) -> str:
        by = f" by {self.user}" if self.user else ""
        return f"{self.what}{by}{f' on {self.host}' if self.host else ''}"

    def to_json(self) -> dict[str, Any]:
        return {"time": self.time, "what": self.what, "user": self.user, "host": self.host}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> AuditEntry:
        return cls(*(str(raw.get(key, "")) for key in ("time", "what", "user", "host")))
