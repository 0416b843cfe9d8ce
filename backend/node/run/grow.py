"""Take lost nodes back: a run on fewer nodes stops with a checkpoint after its epoch, and the queue
continues it on all nodes that answer.

The supervisor calls `watch` of `GrowthWatch` while the run lasts and `continue_run` at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from backend.base.log import swallowed
from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.metrics.probe import Probe
from backend.node.queue.retry import (
    RetryPlan,
    carry_out,
    fits_launch,
    host_of,
    next_growth,
    usable_again_message,
)
from backend.node.queue.scheduler import Scheduler
from backend.node.queue.starter import is_trusted
from backend.node.run import remote_cleanup, run_files
from backend.node.run.give_way import pauses_before, request_pause
from backend.node.system.process_identity import machine
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.launch import Launch
from backend.records.jobs.placement import Placement
from backend.records.jobs.status import RunExit, last_status
from backend.records.nodes.entry import NodeEntry
from backend.records.queue.entry import QueueEntry
from backend.records.queue.scheduling import PAUSES

EVERY_S = 5.0
WAKE_EVERY_S = 30.0


class GrowthWatch:
    """Watches the nodes that one run lacks."""

    def __init__(
        self, folder: JobFolder, launch: Launch, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = DataRoot(folder.path.parent.parent)
        self._folder = folder
        self._launch = launch
        self._monotonic = monotonic
        self._full_launch = self._read_full_launch()
        self._next_check_s = monotonic()
        self._next_wake_s = monotonic() + WAKE_EVERY_S
        head = launch.ranks[0].node
        self._heartbeats = HeartbeatReader(self._root, monotonic)
        self._scheduler = Scheduler(
            self._root, head, Probe(head, self._root.path, EVERY_S).read, monotonic
        )
        self._returned_hosts: Mapping[str, str] = {}
        self._seen_progress: object = None
        self._pause = ""

    def watch(self) -> None:
        """Request a stop at the first step of an epoch, if nodes have been back since before it."""
        if self._full_launch is None or self._monotonic() < self._next_check_s:
            return
        self._next_check_s = self._monotonic() + EVERY_S
        missing_placements = self._missing_placements()
        silent_nodes = [p.node for p in missing_placements if not self._heartbeats.read(p.node)[1]]
        if silent_nodes and self._monotonic() >= self._next_wake_s:
            # Without systemd or cron, nothing on a node starts its agent after a reboot.
            self._next_wake_s = self._monotonic() + WAKE_EVERY_S
            remote_cleanup.wake_agents(self._full_launch, silent_nodes)
        self._returned_hosts = {
            placement.node: host
            for placement in missing_placements
            if placement.node not in silent_nodes and (host := self._host_of(placement))
        }
        progress = self._progress() if self._returned_hosts else None
        if self._pause or progress is None:
            self._seen_progress = None
        elif self._seen_progress is None:
            self._seen_progress = progress
        elif progress != self._seen_progress and (
            pauses_before(self._folder, self._launch.run, timestamps.utc_now()) < PAUSES
        ):
            pause = usable_again_message(tuple(self._returned_hosts))
            if request_pause(self._folder, self._launch.run, pause):
                self._pause = pause

    def continue_run(self, record: RunExit) -> bool:
        """Queue the next run after a pause from here; return whether it did. See `GiveWayWatch`."""
        if not self._pause or record.pause != self._pause or self._full_launch is None:
            return False
        retry_plan = next_growth(self._full_launch, self._launch, self._returned_hosts)
        if retry_plan is not None:
            carry_out(self._folder, replace(self._full_launch, run=record.run), retry_plan)
        elif self._launch.continuation is not None:
            reason = "The node that was back is lost again."
            retry_plan = RetryPlan(replace(self._launch.continuation, reason=reason))
            carry_out(self._folder, self._launch, retry_plan)
        return True

    def _read_full_launch(self) -> Launch | None:
        """Return the launch with all nodes, None if the job is not to grow."""
        path = self._folder.whole_launch
        try:
            full_launch = Launch.from_dict(read_json(path))
            if not is_trusted(self._root, path):
                return None
        except (OSError, ValueError) as error:
            swallowed(error)
            return None
        return full_launch if full_launch.config.on_failure.grow else None

    def _missing_placements(self) -> list[Placement]:
        """Return the nodes that the run lacks."""
        current_nodes = {plan.node for plan in self._launch.ranks}
        full_placement = self._full_launch.config.placement if self._full_launch is not None else ()
        return [placement for placement in full_placement if placement.node not in current_nodes]

    def _host_of(self, placement: Placement) -> str:
        """Return the address of a node that could take its part of the job now, otherwise ""."""
        config = self._launch.config
        entry = QueueEntry(
            job_id=self._folder.job_id,
            name=config.name,
            run=self._launch.run + 1,
            placement=(placement,),
            machine=machine(),
            gives_way=config.gives_way,
            quiet_s=config.quiet_minutes * 60 if config.gives_way else 0.0,
        )
        try:
            node = NodeEntry.from_dict(read_json(self._root.node(placement.node).entry))
            is_usable = fits_launch(node, self._launch) and self._scheduler.may_start(entry)
        except (OSError, ValueError) as error:
            swallowed(error)
            return ""
        return host_of(node) if is_usable else ""

    def _progress(self) -> object:
        """Return the changes with which the run may stop; None where it must not.

        That is its epoch, of which the last is not worth a stop, and a script's newest checkpoint.
        """
        status = last_status(self._folder)
        if status is None or status.run != self._launch.run:
            return None
        if self._launch.config.script:
            return run_files.newest_checkpoint(self._folder)[0]
        is_last = status.epoch >= status.epochs
        return status.epoch if status.is_planned and not is_last else None
