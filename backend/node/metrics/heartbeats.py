"""Detect whether the agents of other nodes are alive, by this computer's own clock.

A heartbeat that advances is the proof: no two clocks are compared. It works as
`datastore.node_watch`, without anything for display, so that it is small enough for an agent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot
from backend.records.nodes.health import missed_after_s
from backend.records.nodes.reading import NodeReading

_LIMIT_BYTES = 1_000_000


@dataclass
class _Seen:
    reading: NodeReading
    at: float
    has_advanced: bool = False


class HeartbeatReader:
    """Reads the nodes repeatedly."""

    def __init__(self, root: DataRoot, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._seen: dict[str, _Seen] = {}

    def read(self, node: str) -> tuple[NodeReading | None, bool]:
        """Return the last reading, and whether its agent is alive: one beat proves nothing."""
        now = self._monotonic()
        seen = self._seen.get(node)
        try:
            found = NodeReading.from_dict(read_json(self._root.node(node).status, _LIMIT_BYTES))
        except (OSError, ValueError):
            found = None
        if found is not None and seen is None:
            seen = self._seen[node] = _Seen(found, now)
        elif found is not None and seen is not None and found.heartbeat != seen.reading.heartbeat:
            seen = self._seen[node] = _Seen(found, now, has_advanced=True)
        if seen is None:
            return None, False
        is_alive = seen.has_advanced and now <= seen.at + missed_after_s(seen.reading)
        return seen.reading, is_alive
