"""Presence of the nodes' agents, by the reader's own clock.

Only an advancing heartbeat counts. No clock of a node is read: one that is ten minutes ahead, or
that jumps, changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from backend.datastore.nodes.files import read_status
from backend.records.base.layout import DataRoot
from backend.records.nodes.health import missed_after_s
from backend.records.nodes.reading import Finding, NodeReading, Presence


@dataclass(frozen=True)
class NodeNews:
    """State of one node's agent.

    ``presence`` is ONLINE, OFFLINE, or None while it is not known: a reader that has just begun has
    seen one heartbeat, which may be a year old. ``reading`` is the last valid one, ``problem`` says
    what is wrong with the file now. ``silent_s`` counts since the heartbeat last advanced.
    """

    presence: Presence | None
    reading: NodeReading | None
    silent_s: float
    problem: Finding | None = None
    message: str = ""


@dataclass
class _Seen:
    since: float
    reading: NodeReading | None = None
    at: float = 0.0
    has_advanced: bool = False
    last_news: str = ""


class StatusWatch:
    """Polls the nodes and remembers when each heartbeat last advanced."""

    def __init__(self, root: DataRoot, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._seen: dict[str, _Seen] = {}

    def read(self, name: str) -> NodeNews:
        """Read one node. Never raises because of its files' content."""
        found = read_status(self._root, name)
        now = self._monotonic()
        seen = self._seen.setdefault(name, _Seen(since=now, at=now))
        if isinstance(found, NodeReading):
            # Any change counts: an agent whose file was lost counts from 1 again.
            if seen.reading is None or found.heartbeat != seen.reading.heartbeat:
                seen.has_advanced = seen.reading is not None
                seen.at = now
                if seen.has_advanced:
                    seen.last_news = f"{datetime.now(UTC).astimezone():%H:%M}"
            seen.reading = found
        problem = found if isinstance(found, Finding) else None
        silent_s = now - seen.at
        presence = self._presence(seen, silent_s)
        message = ""
        if presence is Presence.OFFLINE:
            message = f"no news since {seen.last_news}" if seen.last_news else "no news"
        return NodeNews(presence, seen.reading, silent_s, problem, message)

    def remove(self, name: str) -> None:
        """Forget a node that was removed, or is being set up again."""
        self._seen.pop(name, None)

    def _presence(self, seen: _Seen, silent_s: float) -> Presence | None:
        if silent_s > missed_after_s(seen.reading):
            return Presence.OFFLINE
        return Presence.ONLINE if seen.has_advanced else None
