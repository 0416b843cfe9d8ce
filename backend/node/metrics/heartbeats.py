"""Judge by their heartbeats whether the agents of nodes are alive.

Only that a heartbeat advances counts, by this computer's own clock: a node whose clock is ten
minutes ahead, or jumps, changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from backend.base import log
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot
from backend.records.nodes.health import missed_after_s
from backend.records.nodes.reading import NodeReading

_LIMIT_BYTES = 1_000_000
_FORGOTTEN_S = 30.0
"""After such a pause between two readings, another heartbeat may be as old as the pause."""


@dataclass
class Heartbeat:
    """One node's heartbeat. ``advanced_s`` is when it last advanced, by a monotonic clock."""

    advanced_s: float
    reading: NodeReading | None = None
    has_advanced: bool = False
    """False until it was seen to advance: the first one that is read may be a year old."""

    def update(self, reading: NodeReading, now_s: float) -> bool:
        """Take a reading; return whether the heartbeat advanced.

        Any change counts: an agent whose file was lost begins at 1 again.
        """
        is_first = self.reading is None
        is_change = self.reading is not None and reading.heartbeat != self.reading.heartbeat
        if is_first or is_change:
            self.advanced_s, self.has_advanced = now_s, is_change
        self.reading = reading
        return is_change

    def is_missed(self, now_s: float) -> bool:
        return now_s - self.advanced_s > missed_after_s(self.reading)


class HeartbeatReader:
    """A reader of the nodes' status files that remembers their heartbeats."""

    def __init__(self, root: DataRoot, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._beats: dict[str, Heartbeat] = {}
        self._read_s: dict[str, float] = {}

    def read(self, node: str) -> tuple[NodeReading | None, bool]:
        """Return the last reading, and whether the node's agent is known to be alive."""
        now_s = self._monotonic()
        if now_s > self._read_s.get(node, now_s) + _FORGOTTEN_S:
            self._beats.pop(node)
        self._read_s[node] = now_s
        beat = self._beats.setdefault(node, Heartbeat(now_s))
        try:
            reading = NodeReading.from_dict(read_json(self._root.node(node).status, _LIMIT_BYTES))
        except (OSError, ValueError) as error:
            log.swallowed(error)
        else:
            beat.update(reading, now_s)
        return beat.reading, beat.has_advanced and not beat.is_missed(now_s)

    def silent_s(self, node: str) -> float:
        """Read; return for how long no advance of the node's heartbeat was seen from here."""
        self.read(node)
        return self._monotonic() - self._beats[node].advanced_s
