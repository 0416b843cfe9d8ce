"""Take lost nodes back: a run on fewer nodes stops with a checkpoint after its epoch, and the queue
continues it on all nodes that answer.

The supervisor calls `Grow.watch` while the run lasts and `Grow.ended` at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from backend.base.log import swallowed
from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.metrics.probe import Probe
from backend.node.queue.retry import (
    NextTry,
    answers_again,
    carry_out,
    host_of,
    is_fit,
    take_back,
)
from backend.node.queue.scheduler import QueueWatch
from backend.node.queue.starter import is_trusted
from backend.node.run import remote_cleanup, run_files
from backend.node.run.give_way import pauses_before, request_pause
from backend.node.system.machine_id import machine
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


class Grow:
    """Watches the nodes that one run lacks."""

    def __init__(
        self, folder: JobFolder, launch: Launch, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = DataRoot(folder.path.parent.parent)
        self._folder = folder
        self._launch = launch
        self._monotonic = monotonic
        self._whole = self._read_whole()
        self._next = monotonic()
        self._wake_at = monotonic() + WAKE_EVERY_S
        head = launch.ranks[0].node
        self._beats = HeartbeatReader(self._root, monotonic)
        self._queue = QueueWatch(
            self._root, head, Probe(head, self._root.path, EVERY_S).read, monotonic
        )
        self._back: Mapping[str, str] = {}
        self._seen_at: object = None
        self._pause = ""

    def watch(self) -> None:
        """Request a stop at the first step of an epoch, if nodes have been back since before it."""
        if self._whole is None or self._monotonic() < self._next:
            return
        self._next = self._monotonic() + EVERY_S
        missing = self._missing()
        silent = [p.node for p in missing if not self._beats.read(p.node)[1]]
        if silent and self._monotonic() >= self._wake_at:
            # Without systemd or cron, nothing on a node starts its agent after a reboot.
            self._wake_at = self._monotonic() + WAKE_EVERY_S
            remote_cleanup.wake(self._whole, silent)
        self._back = {
            placement.node: host
            for placement in missing
            if placement.node not in silent and (host := self._host_of(placement))
        }
        place = self._place() if self._back else None
        if self._pause or place is None:
            self._seen_at = None
        elif self._seen_at is None:
            self._seen_at = place
        elif place != self._seen_at and self._may_pause():
            pause = answers_again(tuple(self._back))
            if request_pause(self._folder, self._launch.run, pause):
                self._pause = pause

    def ended(self, record: RunExit) -> bool:
        """Queue the next run of a run that this stopped; return whether it did. See `GiveWay`."""
        if not self._pause or record.pause != self._pause or self._whole is None:
            return False
        found = take_back(self._whole, self._launch, self._back)
        if found is not None:
            carry_out(self._folder, replace(self._whole, run=record.run), found)
        elif self._launch.continued is not None:
            reason = "The node that was back is lost again."
            same = NextTry(replace(self._launch.continued, reason=reason))
            carry_out(self._folder, self._launch, same)
        return True

    def _read_whole(self) -> Launch | None:
        """Return the launch with all nodes, None if the job is not to grow."""
        path = self._folder.whole_launch
        try:
            whole = Launch.from_dict(read_json(path))
            if not is_trusted(self._root, path):
                return None
        except (OSError, ValueError) as error:
            swallowed(error)
            return None
        return whole if whole.config.on_failure.grow else None

    def _missing(self) -> list[Placement]:
        """Return the nodes that the run lacks."""
        now = {plan.node for plan in self._launch.ranks}
        every = self._whole.config.placement if self._whole is not None else ()
        return [placement for placement in every if placement.node not in now]

    def _host_of(self, one: Placement) -> str:
        """Return the address of a node that could take its part of the job now, otherwise ""."""
        config = self._launch.config
        entry = QueueEntry(
            job_id=self._folder.job_id,
            name=config.name,
            run=self._launch.run + 1,
            placement=(one,),
            machine=machine(),
            quiet_s=config.quiet_minutes * 60 if config.gives_way else 0.0,
        )
        try:
            node = NodeEntry.from_dict(read_json(self._root.node(one.node).entry))
            is_fine = is_fit(node, self._launch) and self._queue.may_start(entry)
        except (OSError, ValueError) as error:
            swallowed(error)
            return ""
        return host_of(node) if is_fine else ""

    def _place(self) -> object:
        """Return what changes where the run may stop; None where it must not.

        That is its epoch, of which the last is not worth a stop, and a script's newest checkpoint.
        """
        status = last_status(self._folder)
        if status is None or status.run != self._launch.run:
            return None
        if self._launch.config.script:
            return run_files.newest_checkpoint(self._folder)[0]
        is_last = status.epoch >= status.epochs
        return status.epoch if status.is_planned and not is_last else None

    def _may_pause(self) -> bool:
        return pauses_before(self._folder, self._launch.run, timestamps.now()) < PAUSES
