"""The notifications of the last weeks and the number unread, kept over restarts.

Also up to which time the job ends are known, so that later ones can be reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.notifications.notification_rules import Notice, Run
from backend.base.log import swallowed
from backend.records.base.atomic_files import read_json, replace_bytes

KEPT = 200
_ROOTS_KEPT = 20


@dataclass(frozen=True)
class Ends:
    """The known job ends of a data root.

    Attributes:
        until_s: Time of the last known end of each head node, in seconds since 1970, by its clock.
            Clocks of two nodes are never compared.
        live: Job and run of those that were live. A wrong clock hides none of their ends.
    """

    until_s: Mapping[str, float] = field(default_factory=dict)
    live: frozenset[tuple[str, int]] = frozenset()

    def is_unseen(self, run: Run) -> bool:
        """Return True if the end of this run was not known yet."""
        return run.ended_s > self.until_s.get(run.node, 0.0) or (run.job_id, run.run) in self.live


def latest(one: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    """Return the later time of each node."""
    return {node: max(one.get(node, 0.0), other.get(node, 0.0)) for node in {*one, *other}}


class NotificationStore:
    """Read once; `save` writes the whole file and may run on any thread.

    An unreadable file counts as empty: its notices were shown already.

    Attributes:
        past: Earlier notices, the newest first.
        unread: How many of them were not seen.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.past: tuple[Notice, ...] = ()
        self.unread = 0
        self._ends: dict[str, Ends] = {}
        try:
            raw = read_json(path)
            self.past = tuple(map(Notice.from_dict, _list(raw)))[:KEPT]
            self.unread = min(len(self.past), max(0, int(raw.get("unread", 0))))
            self._ends = _read_ends(raw.get("ends", {}))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            swallowed(error)
            self.past, self.unread = (), 0

    def add(self, notice: Notice) -> None:
        """Add the newest one."""
        self.past = (notice, *self.past)[:KEPT]
        self.unread = min(KEPT, self.unread + 1)

    def unread_of(self, root: str) -> int:
        """The number of unread ones of a data root, and of those that name none."""
        return sum(notice.root in ("", root) for notice in self.past[: self.unread])

    def read_all(self) -> bool:
        """Mark all as read; return True if any was unread."""
        had_unread, self.unread = self.unread > 0, 0
        return had_unread

    def ends(self, root: str) -> Ends | None:
        """The known job ends of a data root; None if it was never open here."""
        return self._ends.get(root)

    def end(self, root: str, run: Run) -> None:
        """Record the end of a run, so that the next window does not report it again.

        Does nothing before the first `know`.
        """
        ends = self._ends.get(root)
        if ends is not None and ends.is_unseen(run):
            live = ends.live - {(run.job_id, run.run)}
            self._ends[root] = Ends(latest(ends.until_s, {run.node: run.ended_s}), live)

    def know(self, root: str, ends: Ends) -> bool:
        """Add these to the known ends; return True if any is new."""
        before = self._ends.pop(root, None)
        known = Ends(latest(before.until_s if before else {}, ends.until_s), ends.live)
        self._ends[root] = known
        while len(self._ends) > _ROOTS_KEPT:
            del self._ends[next(iter(self._ends))]
        return known != before

    def save(self) -> None:
        """Write the file; a full disk loses the list, not the work."""
        raw = {
            "unread": self.unread,
            "notices": [notice.to_dict() for notice in self.past],
            "ends": {
                root: {"until_s": dict(ends.until_s), "live": sorted(ends.live)}
                for root, ends in self._ends.items()
            },
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_bytes(self._path, json.dumps(raw).encode(), mode=0o600)
        except OSError as error:
            swallowed(error)
            return


def _list(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = raw.get("notices", [])
    if not isinstance(found, list):
        raise TypeError("notices must be a list")
    return found


def _read_ends(raw: Mapping[str, Any]) -> dict[str, Ends]:
    return {
        root: Ends(
            {str(node): float(time_s) for node, time_s in one["until_s"].items()},
            frozenset((str(job), int(run)) for job, run in one["live"]),
        )
        for root, one in raw.items()
        # This was once one time for all nodes; such a data root counts as not seen yet.
        if not isinstance(one["until_s"], float | int)
    }
