"""Actions of users on a job: a file for each, which any desktop adds and none changes."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob
from backend.datastore.jobs.files import JobFile
from backend.records.base import timestamps
from backend.records.base.account import user_name
from backend.records.base.atomic_files import cached_reader, read_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.audit_entry import AuditEntry, add_entry, entry_number

_REMEMBERED = 4096
_IN_A_ROW_S = 600.0
_log = logging.getLogger(__name__)


def add(folder: OpenJob, action: str) -> None:
    """Record an action. A failure is logged and prevents nothing."""
    try:
        add_entry(folder, folder.files, action, user_name())
    except (OSError, BackendError):
        _log.warning("%s: “%s” could not be recorded", folder.job_id, action, exc_info=True)


def add_once(folder: OpenJob, file: JobFile, action: str) -> None:
    """Record repeated actions once: notes are saved while they are typed."""
    newest_entry = acts_of(folder, file)[0]
    is_recent = abs(time.time() - timestamps.seconds(newest_entry.time)) < _IN_A_ROW_S
    if not (is_recent and (newest_entry.action, newest_entry.user) == (action, user_name())):
        add(folder, action)


def acts_of(folder: JobFolder, file: JobFile) -> tuple[AuditEntry, ...]:
    """Return all actions on a job, the newest first, its creation last."""
    entries = []
    paths = sorted(folder.acts.glob("*.json"), key=lambda p: entry_number(p.name), reverse=True)
    for path in paths:
        # Skip an incomplete file, or one of another program.
        with suppress(OSError, ValueError, AttributeError):
            entries.append(_read_entry(path))
    return (*entries, AuditEntry(file.created, "Created", file.user))


@cached_reader(_REMEMBERED)
def _read_entry(path: Path) -> AuditEntry:
    return AuditEntry.from_dict(read_json(path))
