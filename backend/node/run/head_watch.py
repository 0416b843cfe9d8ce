"""Find runs whose head node is lost, for the node that is to continue them.

The head's supervisor closes a run. Where the head itself is gone, the first other node of the run
does, if the job continues after a failure: its agent sees by the heartbeats that the head is gone.
If two nodes believe to be the first, the claim of the next run decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.system import process_cleanup
from backend.records.base.layout import DataRoot, JobFolder, run_tag
from backend.records.jobs.status import last_status

if TYPE_CHECKING:
    from backend.records.jobs.launch import Launch

_EVERY_S = 10.0
"""Between two SSH connections to a head whose agent alone is silent."""
_LOST_S = 12.0
"""From the end of a heartbeat, which takes three beats to be missed, to the loss of its node."""


class HeadWatch:
    """Polled for each live run of another head. ``node`` is the name of this node."""

    def __init__(
        self, root: DataRoot, node: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._node = node
        self._monotonic = monotonic
        self._heartbeats = HeartbeatReader(root, monotonic)
        self._silent_since_s: dict[str, float] = {}
        """Since when a node is silent."""
        self._last_beats: dict[str, tuple[int, float]] = {}
        """The heartbeat of each run's status, and since when it is this."""
        self._next_request_s = 0.0
        self._launches: dict[tuple[str, int], Launch | None] = {}

    def is_watched(self, folder: JobFolder, run: int) -> bool:
        """Return whether this node may have to continue the job."""
        key = (folder.job_id, run)
        if key not in self._launches:
            # Imported only when needed: an agent stays small as long as no job runs here.
            from backend.records.jobs.launch import launch_of

            launch = launch_of(folder.launch, run)
            if launch is None:
                return True
            nodes = {plan.node for plan in launch.ranks[1:]}
            may_continue = launch.config.on_failure.continues and self._node in nodes
            self._launches[key] = launch if may_continue and not launch.is_staged else None
        return self._launches[key] is not None

    def find_lost_nodes(self, folder: JobFolder, run: int) -> tuple[str, ...]:
        """Return the nodes of a run that are lost, if this node is to continue it, otherwise ()."""
        launch = self._launches.get((folder.job_id, run))
        if launch is None:
            return ()
        is_running = self._is_running(folder)
        nodes = tuple(dict.fromkeys(plan.node for plan in launch.ranks))
        lost_nodes = tuple(node for node in nodes if self._is_lost(node))
        if not lost_nodes or lost_nodes[0] != nodes[0] or is_running:
            return ()
        if next(node for node in nodes if node not in lost_nodes) != self._node:
            return ()
        has_ranks = process_cleanup.tagged(run_tag(folder.job_id, run))
        return lost_nodes if not has_ranks or self._stands_still(launch) else ()

    def _stands_still(self, launch: Launch) -> bool:
        """Return whether the head gives no sign of life, although connections to it stay open."""
        # Imported only when needed: an agent stays small as long as no head is silent.
        from backend.node.run import remote_cleanup

        head, limit_s = launch.ranks[0].node, launch.config.on_failure.silent_limit_s
        now_s = self._monotonic()
        if self._heartbeats.silent_s(head) <= limit_s or now_s < self._next_request_s:
            return False
        self._next_request_s = now_s + _EVERY_S
        return bool(remote_cleanup.unreachable_nodes(launch, (head,)))

    def _is_lost(self, node: str) -> bool:
        now_s = self._monotonic()
        if node == self._node or self._heartbeats.read(node)[1]:
            self._silent_since_s.pop(node, None)
            return False
        return now_s > self._silent_since_s.setdefault(node, now_s) + _LOST_S

    def _is_running(self, folder: JobFolder) -> bool:
        """Return whether the status still advances: then only the head's agent is gone."""
        status, now_s = last_status(folder), self._monotonic()
        beat = status.heartbeat if status is not None else 0
        previous_beat, since_s = self._last_beats.get(folder.job_id, (-1, now_s))
        if beat != previous_beat:
            since_s = now_s
        self._last_beats[folder.job_id] = beat, since_s
        return now_s <= since_s + _LOST_S
