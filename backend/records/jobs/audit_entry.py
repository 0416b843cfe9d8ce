"""An action of a user on a job: it was started, stopped or changed."""

from __future__ import annotations

import re
import secrets
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from backend.records.base import timestamps
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.base.local_files import Files
from backend.records.base.schema import KEY, Record


@dataclass(frozen=True)
class AuditEntry(Record, label="action"):
    """An action of a user.

    ``action`` begins a sentence: "Stopped", "Name changed from “a” to “b”".
    """

    time: str = ""
    action: str = field(default="", metadata={KEY: "what"})
    user: str = ""
    host: str = ""

    @property
    def message(self) -> str:
        author = (f"by {self.user}" if self.user else "", f"on {self.host}" if self.host else "")
        signature = " ".join(filter(None, author))
        if not signature or self.action.replace(" ", "").isalpha():
            return f"{self.action} {signature}".strip()
        # After names, numbers or a sentence it would read as a part of them.
        return f"{self.action} ({signature})"


@dataclass(frozen=True)
class OwnerNotice(Record, label="notice to an owner"):
    """A notice of another user's act on a job; ``owner`` has the job, if that is not the reader."""

    job_id: str
    name: str
    message: str
    owner: str = ""


@dataclass(frozen=True)
class OwnerRule(Record, label="rule of the owners"):
    """The rule that only its owner, and the user who set the rule, stop or remove a job."""

    user: str = ""
    time: str = ""


def add_entry(folder: JobFolder, files: Files, action: str, user: str = "") -> AuditEntry:
    """Record an action of a user, or without one of the program itself, and return it.

    Raises:
        OSError: The job's folder cannot be written.
    """
    entry = AuditEntry(timestamps.utc_now(), action, user, socket.gethostname())
    files.make_folder(folder.acts, exist_ok=True)
    # After all others, also where a clock was set back: the number is their order.
    newest_number = max(map(entry_number, files.names(folder.acts)), default=0)
    number = max(time.time_ns(), newest_number + 1)
    files.replace_json(folder.acts / f"{number}-{secrets.token_hex(4)}.json", entry.to_dict())
    return entry


def leave_notice(root: DataRoot, files: Files, user: str, notice: OwnerNotice) -> None:
    """Leave a notice for a user, whose window shows it.

    Raises:
        OSError: The data root cannot be written.
    """
    folder = notices_of(root, user)
    for path in (root.notices, folder):
        files.make_folder(path, exist_ok=True)
    name = f"{time.time_ns()}-{secrets.token_hex(4)}.json"
    files.replace_json(folder / name, notice.to_dict())


def notices_of(root: DataRoot, user: str) -> Path:
    """Return the folder of the notices for a user."""
    return root.notices / (re.sub(r"[^\w.-]", "_", user).lstrip(".") or "_")


def entry_number(name: str) -> int:
    """Return the number of an entry's file, by which they are ordered."""
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 0
