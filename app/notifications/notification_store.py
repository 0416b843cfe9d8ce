"""The notifications of the last weeks and the number unread, kept over restarts.

The file also has the time up to which job ends are known, so that later ends can be reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.notifications.notification_rules import Notice, Run
from backend.base.log import swallowed
from backend.records.base.atomic_files import read_json, replace_bytes

MAX_NOTICES = 200
_MAX_ROOTS = 20


@dataclass(frozen=True)
class JobEnds:
    """The known job ends of a data root.

    Attributes:
        until_s: Time of the last known end of each head node, in seconds since 1970, by its clock.
            Clocks of two nodes are never compared.
        live_runs: Job and run of those that were live. A wrong clock hides none of their ends.
    """

    until_s: Mapping[str, float] = field(default_factory=dict)
    live_runs: frozenset[tuple[str, int]] = frozenset()

    def is_unseen(self, run: Run) -> bool:
        """Return True if the end of this run was not known yet."""
        return (
            run.ended_s > self.until_s.get(run.node, 0.0) or (run.job_id, run.run) in self.live_runs
        )


def latest_times(known_s: Mapping[str, float], new_s: Mapping[str, float]) -> Mapping[str, float]:
    """Return the later time of each node."""
    return {node: max(known_s.get(node, 0.0), new_s.get(node, 0.0)) for node in {*known_s, *new_s}}


class NotificationStore:
    """Read once; `save` writes the whole file and may run on any thread.

    An unreadable file counts as empty: its notices were shown already.

    Attributes:
        notices: Earlier notices, the newest first.
        unseen_count: So many of the first notices are unread, except those marked as read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.notices: tuple[Notice, ...] = ()
        self.unseen_count = 0
        self._ends_by_root: dict[str, JobEnds] = {}
        try:
            raw = read_json(path)
            self.notices = tuple(map(Notice.from_dict, _notice_dicts(raw)))[:MAX_NOTICES]
            self.unseen_count = min(len(self.notices), max(0, int(raw.get("unread", 0))))
            self._ends_by_root = _read_ends(raw.get("ends", {}))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            swallowed(error)
            self.notices, self.unseen_count = (), 0

    def add(self, notice: Notice) -> None:
        """Add the newest notice."""
        self.notices = (notice, *self.notices)[:MAX_NOTICES]
        self.unseen_count = min(MAX_NOTICES, self.unseen_count + 1)

    def unread_count_of(self, root: str) -> int:
        """Return the number of unread notices of a data root, and of those without one."""
        return sum(is_unread for _, is_unread in self.notices_of(root))

    def notices_of(self, root: str) -> tuple[tuple[Notice, bool], ...]:
        """Return the notices of a data root and of unknown ones, and whether each is unread."""
        return tuple(
            (notice, index < self.unseen_count and not notice.is_read)
            for index, notice in enumerate(self.notices)
            if notice.is_of(root)
        )

    def mark_read(self, root: str) -> bool:
        """Mark the notices of a data root as read; return True if any was unread."""
        if not self.unread_count_of(root):
            return False
        self.notices = tuple(
            replace(notice, is_read=notice.is_read or notice.is_of(root)) for notice in self.notices
        )
        if all(notice.is_read for notice in self.notices[: self.unseen_count]):
            self.unseen_count = 0
        return True

    def job_ends(self, root: str) -> JobEnds | None:
        """Return the known job ends of a data root; None if it was never open here."""
        return self._ends_by_root.get(root)

    def add_end(self, root: str, run: Run) -> None:
        """Record the end of a run, so that the next window does not report it again.

        Does nothing before the first `update_ends`.
        """
        job_ends = self._ends_by_root.get(root)
        if job_ends is not None and job_ends.is_unseen(run):
            live_runs = job_ends.live_runs - {(run.job_id, run.run)}
            self._ends_by_root[root] = JobEnds(
                latest_times(job_ends.until_s, {run.node: run.ended_s}), live_runs
            )

    def update_ends(self, root: str, new_ends: JobEnds) -> bool:
        """Add job ends to the known ones; return True if any is new."""
        previous_ends = self._ends_by_root.pop(root, None)
        merged_ends = JobEnds(
            latest_times(previous_ends.until_s if previous_ends else {}, new_ends.until_s),
            new_ends.live_runs,
        )
        self._ends_by_root[root] = merged_ends
        while len(self._ends_by_root) > _MAX_ROOTS:
            del self._ends_by_root[next(iter(self._ends_by_root))]
        return merged_ends != previous_ends

    def save(self) -> None:
        """Write the file; a full disk loses the list, not the work."""
        raw = {
            "unread": self.unseen_count,
            "notices": [notice.to_dict() for notice in self.notices],
            "ends": {
                root: {"until_s": dict(job_ends.until_s), "live": sorted(job_ends.live_runs)}
                for root, job_ends in self._ends_by_root.items()
            },
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_bytes(self._path, json.dumps(raw).encode(), mode=0o600)
        except OSError as error:
            swallowed(error)
            return


def _notice_dicts(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    notices = raw.get("notices", [])
    if not isinstance(notices, list):
        raise TypeError("notices must be a list")
    return notices


def _read_ends(raw: Mapping[str, Any]) -> dict[str, JobEnds]:
    return {
        root: JobEnds(
            {str(node): float(time_s) for node, time_s in raw_ends["until_s"].items()},
            frozenset((str(job), int(run)) for job, run in raw_ends["live"]),
        )
        for root, raw_ends in raw.items()
        # Earlier versions stored one time for all nodes; such a data root counts as not seen yet.
        if not isinstance(raw_ends["until_s"], float | int)
    }
