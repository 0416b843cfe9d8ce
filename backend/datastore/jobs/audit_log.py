"""Actions of users on a job: a file for each, which any desktop adds and none changes."""

from __future__ import annotations

import logging
import secrets
import socket
import time
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs.files import JobFile
from backend.records.base import timestamps
from backend.records.base.account import user_name
from backend.records.base.atomic_files import read_json, read_once
from backend.records.base.layout import JobFolder
from backend.records.jobs.audit_entry import AuditEntry

_REMEMBERED = 4096
_IN_A_ROW_S = 600.0
_log = logging.getLogger(__name__)


def add(folder: OpenJob, what: str) -> None:
    """Record an action. A failure is logged and prevents nothing."""
    act = AuditEntry(timestamps.now(), what, user_name(), socket.gethostname())
    try:
        folder.files.make_folder(folder.acts, exist_ok=True)
        # After all others, also where a clock was set back: the number is their order.
        newest = max(map(_number, folder.files.names(folder.acts)), default=0)
        number = max(time.time_ns(), newest + 1)
        path = folder.acts / f"{number}-{secrets.token_hex(4)}.json"
        folder.files.replace_json(path, act.to_dict())
    except (OSError, BackendError):
        _log.warning("%s: “%s” could not be recorded", folder.job_id, what, exc_info=True)


def add_once(folder: OpenJob, file: JobFile, what: str) -> None:
    """Record repeated actions once: notes are saved while they are typed."""
    newest = acts_of(folder, file)[0]
    lately = abs(time.time() - timestamps.seconds(newest.time)) < _IN_A_ROW_S
    if not (lately and (newest.what, newest.user) == (what, user_name())):
        add(folder, what)


def acts_of(folder: JobFolder, file: JobFile) -> tuple[AuditEntry, ...]:
    """Return all actions on a job, the newest first, its creation last."""
    found = []
    newest_first = sorted(folder.acts.glob("*.json"), key=lambda p: _number(p.name), reverse=True)
    for path in newest_first:
        # Skip an incomplete file, or one of another program.
        with suppress(OSError, ValueError, AttributeError):
            found.append(_act_in(path))
    return (*found, AuditEntry(file.created, "Created", file.user))


def _number(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


@read_once(_REMEMBERED)
def _act_in(path: Path) -> AuditEntry:
    return AuditEntry.from_dict(read_json(path))
