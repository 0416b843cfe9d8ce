"""Find nodes of a run that stand still, such as a paused virtual machine.

The kernel of such a node still acknowledges what it is sent, so neither mpirun nor a connection
notices. Its agent writes no heartbeat, and it does not answer over SSH.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.run import remote_cleanup
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.launch import Launch
from backend.records.jobs.status import last_status

_EVERY_S = 2.0
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
        self._next_check_s = now_s + _EVERY_S
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
        return remote_cleanup.unreachable_nodes(self._launch, silent_nodes)
