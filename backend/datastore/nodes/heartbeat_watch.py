"""Whether the agents of the nodes live, by the reader's own clock.

What counts is that a heartbeat advances. No clock of a node is looked at: one that is ten minutes
ahead, or that jumps, changes nothing.
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
    """What is known of one node's agent.

    ``presence`` is ONLINE, OFFLINE, or None as long as nobody can say: a reader that has just
    begun has seen one beat, which may be a year old. ``reading`` is the last good one, ``problem``
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
    """Looks at the nodes again and again; remembers when each one's heartbeat last advanced."""

    def __init__(self, root: DataRoot, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._seen: dict[str, _Seen] = {}

    def read(self, name: str) -> NodeNews:
        """One look at one node. Never raises for what stands in its files."""
        found = read_status(self._root, name)
        now = self._monotonic()
        seen = self._seen.setdefault(name, _Seen(since=now, at=now))
        if isinstance(found, NodeReading):
            # Any change is news: an agent whose file was lost counts from 1 again.
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
        """The node was removed, or is set up anew."""
        self._seen.pop(name, None)

    def _presence(self, seen: _Seen, silent_s: float) -> Presence | None:
        if silent_s > missed_after_s(seen.reading):
            return Presence.OFFLINE
        return Presence.ONLINE if seen.has_advanced else None
