"""An action of a user on a job: it was started, stopped or changed."""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.base.schema import Record


@dataclass(frozen=True)
class AuditEntry(Record, what="action"):
    """One action. ``what`` begins a sentence: "Stopped", "Name changed from “a” to “b”"."""

    time: str = ""
    what: str = ""
    user: str = ""
    host: str = ""

    @property
    def sentence(self) -> str:
        by = f" by {self.user}" if self.user else ""
        return f"{self.what}{by}{f' on {self.host}' if self.host else ''}"
