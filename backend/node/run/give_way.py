"""Give way to other users: a run that they need the GPU or the computer of stops with a checkpoint,
and the queue continues it after a quiet time.

The supervisor calls `watch` of `GiveWayWatch` while the run lasts and `continue_run` at its end. Of
a node without readings (its agent is away, or the data root is out of sight) no other user is
known.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable
from datetime import datetime
from functools import cached_property

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.metrics.probe import Probe
from backend.node.queue import entries as queue_entries
from backend.node.queue.next_run import queue_next
from backend.node.system.process_identity import machine
from backend.records.base import timestamps
from backend.records.base.account import user_name
from backend.records.base.atomic_files import read_json, replace_json, stored_record
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.base.local_files import Files
from backend.records.base.schema import json_value
from backend.records.jobs.audit_entry import add_entry
from backend.records.jobs.job_file import with_changes
from backend.records.jobs.launch import Launch
from backend.records.jobs.status import RunExit
from backend.records.jobs.stop_request import StopRequest, stop_requested
from backend.records.nodes.entry import NodeEntry, gives_way_at
from backend.records.nodes.reading import NodeReading
from backend.records.queue.entry import NodeUse, QueueEntry, node_key, node_label
from backend.records.queue.scheduling import give_way_message, quiet_after, reservations_of

EVERY_S = 2.0
_QUEUE_EVERY_S = 20.0
"""Each look reads all waiting jobs."""
_HOUR_S = 3600.0
_log = logging.getLogger(__name__)


class GiveWayWatch:
    """Watches the nodes of one run, where the job or the node gives way."""

    def __init__(
        self,
        folder: JobFolder,
        launch: Launch,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._root = DataRoot(folder.path.parent.parent)
        self._folder = folder
        self._launch = launch
        self._monotonic = monotonic
        self._now = now
        can_pause = with_changes(launch.config, {"gives_way": True}).config is not None
        self._next_check_s = monotonic() if can_pause and not launch.is_trial else None
        self._next_queue_s = 0.0
        self._head = launch.ranks[0].node
        self._heartbeats = HeartbeatReader(self._root, monotonic)
        self._gpus: dict[str, set[str]] = {}
        for plan in launch.ranks:
            self._gpus.setdefault(plan.node, set()).update(filter(None, plan.gpu.split(",")))
        self._own_processes: dict[str, frozenset[int]] = {}

    def watch(self) -> None:
        """Request a stop if a node of the run is needed by another user, or reserved."""
        if self._next_check_s is None or self._monotonic() < self._next_check_s:
            return
        self._next_check_s = self._monotonic() + EVERY_S
        if self._pauses(self._reservation_message()):
            return
        for node, gpus in self._gpus.items():
            reading = self._reading(node) if self._gives_way_on(node) else None
            if reading is None:
                continue
            # The form asks before a job shares a GPU with other programs of its user.
            own_processes = self._own_processes.setdefault(
                node, _processes_of_user(reading, user_name())
            )
            if self._pauses(give_way_message(reading, gpus, own_processes)):
                return

    def _pauses(self, pause: str) -> bool:
        if pause and request_pause(self._folder, self._launch.run, pause):
            self._next_check_s = None
        return bool(pause)

    def _reservation_message(self) -> str:
        """Return why the run makes room for a job whose reserved time has begun; "" if it stays."""
        if self._monotonic() < self._next_queue_s:
            return ""
        self._next_queue_s = self._monotonic() + _QUEUE_EVERY_S
        node_uses = [
            NodeUse(node_key(node, machine()), tuple(gpus), 0 if gpus else 1)
            for node, gpus in self._gpus.items()
            if self._gives_way_on(node)
        ]
        now, entries = self._now().astimezone(), tuple[QueueEntry, ...]()
        with suppress(OSError):
            entries = queue_entries.entries(self._root) if node_uses else ()
        for reservation in reservations_of(entries, now):
            use = reservation.competing_use(node_uses)
            if use is not None and reservation.start <= now:
                return f"Paused: {reservation.message(node_label(use.node), now)}"
        return ""

    def _gives_way_on(self, node: str) -> bool:
        """Return whether the job gives way, or the node makes each job give way now."""
        if self._launch.config.gives_way:
            return True
        try:
            hours = NodeEntry.from_dict(read_json(self._root.node(node).entry)).gives_way
            return gives_way_at(hours, self._now())
        except FileNotFoundError:
            return False  # this computer, or a data root that is staged
        except (OSError, ValueError) as error:
            swallowed(error)
            return False

    @cached_property
    def _own_probe(self) -> Probe:
        return Probe(self._head, self._root.path, EVERY_S)

    def _reading(self, node: str) -> NodeReading | None:
        try:
            if node == self._head:
                return self._own_probe.read()
            reading, is_alive = self._heartbeats.read(node)
        except OSError as error:
            swallowed(error)
            return None
        return reading if is_alive else None

    def continue_run(self, record: RunExit) -> None:
        """Queue the next run of a run that gave way; before its end is recorded.

        So no reader takes it for one that a user stopped.
        """
        if not record.pause or self._folder.newest_run() != record.run:
            return
        quiet_s = self._launch.config.quiet_minutes * 60
        pauses = 1 + pauses_before(self._folder, record.run, record.ended_at)
        wait_s, reason = quiet_after(pauses, quiet_s), record.pause
        if wait_s > quiet_s:
            reason += f" It paused {pauses} times within an hour, so it waits longer."
        try:
            queue_next(self._folder, self._launch, reason, quiet_s=wait_s)
        except (OSError, BackendError):
            _log.exception("The next run of %s could not be queued", self._folder.job_id)
        with suppress(OSError):
            cause = record.pause.partition(": ")[2].rstrip(".")
            add_entry(self._folder, Files(), f"Gave way ({cause})")


def request_pause(folder: JobFolder, run: int, pause: str) -> bool:
    """Request a stop after which the program continues the run; False if it cannot be written.

    A request of a user stays.
    """
    try:
        request_stop(folder, run, pause=pause)
    except OSError as error:
        swallowed(error)  # full, or unavailable: the next reading tries again
        return False
    _log.info("Run %d of %s stops, and continues: %s", run, folder.job_id, pause)
    return True


def request_stop(folder: JobFolder, run: int, *, pause: str = "", reason: str = "") -> None:
    """Request the stop of a run for the program; an earlier request stays.

    Raises:
        OSError: The job's folder cannot be written.
    """
    request = json_value(
        StopRequest(run, "", socket.gethostname(), timestamps.utc_now(), False, pause, reason)
    )
    try:
        Files().create(folder.stop_request, json.dumps(request).encode())
    except FileExistsError:
        if not stop_requested(folder.stop_request, run):
            replace_json(folder.stop_request, request)


def _processes_of_user(reading: NodeReading, user: str) -> frozenset[int]:
    """Return the processes of ``user`` on the GPUs that are no run."""
    processes = (process for gpu in reading.gpus for process in gpu.compute_processes)
    return frozenset(
        process.pid for process in processes if process.user == user and not process.run_tag
    )


def pauses_before(folder: JobFolder, run: int, now: str) -> int:
    """Return how often the program stopped a job in the hour before run ``run``."""
    now_s, count = timestamps.seconds(now), 0
    for number in range(run - 1, 0, -1):
        record = stored_record(RunExit, folder.attempt(number).exit)
        if record is None:
            continue
        # After the clock was set back, earlier ends are in the future.
        if abs(now_s - timestamps.seconds(record.ended_at)) > _HOUR_S:
            break
        count += bool(record.pause)
    return count
