"""Presence of the nodes, for those who show it; `Heartbeat` is the judge."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from backend.datastore.nodes.files import read_status
from backend.node.metrics.heartbeats import Heartbeat
from backend.records.base.layout import DataRoot
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
class _Node:
    heartbeat: Heartbeat
    last_news: str = ""


class StatusWatch:
    """A reader of the nodes' status files that remembers when each heartbeat last advanced."""

    def __init__(self, root: DataRoot, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._nodes: dict[str, _Node] = {}

    def read(self, name: str) -> NodeNews:
        """Read one node's status. Never raises for the content of its files."""
        found = read_status(self._root, name)
        now = self._monotonic()
        node = self._nodes.setdefault(name, _Node(Heartbeat(now)))
        heartbeat = node.heartbeat
        if isinstance(found, NodeReading) and heartbeat.update(found, now):
            node.last_news = f"{datetime.now(UTC).astimezone():%H:%M}"
        problem = found if isinstance(found, Finding) else None
        presence = Presence.ONLINE if heartbeat.has_advanced else None
        message = ""
        if heartbeat.is_missed(now):
            presence = Presence.OFFLINE
            message = f"no news since {node.last_news}" if node.last_news else "no news"
        return NodeNews(presence, heartbeat.reading, now - heartbeat.at, problem, message)

    def remove(self, name: str) -> None:
        """Drop a node that was removed or is being set up again."""
        self._nodes.pop(name, None)
