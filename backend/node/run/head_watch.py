"""Find runs whose head node is lost, and nodes of a run that stand still.

The head's supervisor closes a run. Where the head itself is gone, the first other node of the run
does, if the job continues after a failure: its agent sees by the heartbeats that the head is gone
(`HeadWatch`). If two nodes believe to be the first, the claim of the next run decides.

The kernel of a node that stands still, such as a paused virtual machine, acknowledges what it is
sent, so neither mpirun nor a connection notices. Its agent writes no heartbeat, and it does not
answer over SSH (`SilenceWatch`).
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


_SILENCE_EVERY_S = 2.0
_ASK_EVERY_S = 30.0


class SilenceWatch:
    """Watches the nodes of a run that are not its head, if the job continues by itself."""

    def __init__(
        self, folder: JobFolder, launch: Launch, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._launch = launch
        self._monotonic = monotonic
        self._heartbeats = HeartbeatReader(DataRoot(folder.path.parent.parent), monotonic)
        nodes = dict.fromkeys(plan.node for plan in launch.ranks)
        nodes.pop(launch.ranks[0].node)
        can_lose_nodes = launch.config.on_failure.continues and not launch.is_staged
        self._nodes = tuple(nodes) if can_lose_nodes else ()
        self._limit_s = launch.config.on_failure.silent_limit_s
        self._next_check_s = self._progress_s = self._next_request_s = monotonic()
        self._progress: object = None

    def find_silent_nodes(self) -> tuple[str, ...]:
        """Return the nodes without a sign of life within the limit, if the run stands still, too.

        May take some seconds if an agent is silent, to ask its node over SSH.
        """
        now_s = self._monotonic()
        if not self._nodes or now_s < self._next_check_s:
            return ()
        self._next_check_s = now_s + _SILENCE_EVERY_S
        status = last_status(self._folder)
        progress = status and (status.run, status.state, status.epoch, status.step)
        if progress != self._progress:
            self._progress, self._progress_s = progress, now_s
        silent_nodes = [
            node for node in self._nodes if self._heartbeats.silent_s(node) > self._limit_s
        ]
        if (
            not silent_nodes
            or now_s <= self._progress_s + self._limit_s
            or now_s < self._next_request_s
        ):
            return ()
        # An agent may end alone, and an evaluation may take longer than the limit.
        self._next_request_s = now_s + _ASK_EVERY_S
        # Imported only when needed, as by `HeadWatch`.
        from backend.node.run import remote_cleanup

        return remote_cleanup.unreachable_nodes(self._launch, silent_nodes)
