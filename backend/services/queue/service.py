"""The queue for users: add, remove, reorder and delay jobs, pause the queue, and read its state.

The decisions are in files of the data root, which the agents of the nodes follow
(`backend.node.queue.scheduler`), so that a job starts with no desktop open. Jobs that this computer
leads are started by a keeper, a small process that outlives the window.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.jobs import files as job_files
from backend.datastore.jobs.owners import require_right
from backend.datastore.queue import files as queue_files
from backend.node.queue.entries import entry_of, is_headed_by
from backend.node.queue.keeper import lock_of
from backend.node.queue.running_jobs import LiveRuns, RunningJobs
from backend.node.queue.searches import Searches
from backend.node.system.process_identity import machine
from backend.node.system.start_supervisor import start_detached
from backend.records.base import timestamps
from backend.records.base.account import user_name
from backend.records.base.atomic_files import read_json
from backend.records.base.program_name import COMMAND
from backend.records.base.timestamps import instant
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.nodes.reading import NodeState, Presence
from backend.records.queue.entry import (
    MAX_LENGTH_S,
    MAX_PRIORITY,
    MIN_PRIORITY,
    POSITION_STEP,
    Queue,
    QueuedJob,
    QueueEntry,
    is_a_desk,
    node_key,
    node_label,
    position_between,
    sorted_entries,
)
from backend.records.queue.forecast import run_duration_s, seconds_to_start
from backend.records.queue.scheduling import (
    ClusterState,
    NodeView,
    node_view_of,
    reservations_of,
    wait_reasons,
)
from backend.services.jobs.service import JobService
from backend.services.nodes.launchers import LauncherService
from backend.services.nodes.service import NodeService
from backend.ssh.interface import Unreachable


class QueueService:
    """The queue of a data root. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        jobs: JobService,
        nodes: NodeService,
        launchers: LauncherService,
        needed_bytes: Callable[[JobConfig, str], int],
        python: str = sys.executable,
    ) -> None:
        self._root = root
        self._jobs = jobs
        self._nodes = nodes
        self._launchers = launchers
        self._needed_bytes = needed_bytes
        self._python = python
        self._live_runs = LiveRuns(root)

    def read(self) -> Queue:
        """Return every waiting job with the reason of its wait, the next job first.

        The first call may wait for the next heartbeats of the nodes' agents.
        """
        with as_backend_error("The queue could not be read"):
            entries = sorted_entries(queue_files.entries(self._root))
            pausing_user = queue_files.who_paused(self._root)
        pause_message = "" if pausing_user is None else f"The queue is paused{pausing_user}."
        if not entries:
            return Queue((), pause_message)
        cluster_state = self._cluster_state(entries, pausing_user)
        outcomes = wait_reasons(entries, cluster_state)
        starts = seconds_to_start(entries, outcomes, cluster_state)
        return Queue(
            tuple(
                QueuedJob(entry, number, outcomes[entry.job_id], starts[entry.job_id])
                for number, entry in enumerate(entries, 1)
            ),
            pause_message,
        )

    def enqueue(
        self,
        job_id: str,
        priority: int | None = None,
        not_before: datetime | None = None,
        *,
        length_s: float | None = None,
        start_now: bool = False,
        start_over: bool = False,
        placement: Sequence[Placement] = (),
        progress: Progress | None = None,
    ) -> QueuedJob:
        """Queue a job with its current content; the job starts as soon as possible.

        A job that ran before continues from its newest checkpoint, unless it starts over. A job
        that is queued already gets the new priority, start time and length, and keeps its position.

        Args:
            length_s: With it, the job's nodes and GPUs are reserved from ``not_before`` on; 0 for
                no reservation, by default that of a session is its time limit.

        Raises:
            BackendError: The job runs, or can never run on its nodes; nothing was queued.
            Cancelled: By ``progress``.
        """
        previous_entry = entry_of(self._fresh_folder(job_id))
        if previous_entry is not None:
            return self.change(job_id, priority, not_before, length_s=length_s, start_now=start_now)
        _check(priority or 0, length_s or 0.0)
        view = self._jobs.queries.show(job_id)
        if view.state.is_live:
            raise BackendError(
                f"The job {job_id} is {view.state_label.lower()}.", "Stop it before it is queued."
            )
        folder, view, prepared_run = self._jobs.lifecycle.prepare(
            job_id, start_over, placement, progress
        )
        config = prepared_run.launch.config
        if prepared_run.staged_nodes:
            node = prepared_run.staged_nodes[0]
            raise BackendError(
                f"{node} does not see the data root, and so not the queue.",
                "Start the job by hand when its nodes are free.",
            )
        self._require_current_agent(config.placement[0].node)
        # A head that is off starts the job after its return, with its old settings.
        with suppress(Unreachable):
            self._nodes.heads.prepare(prepared_run.launch.ranks)
        done_steps = 0 if start_over else view.step
        search = job_files.pending_search(folder, view)
        with as_backend_error(f"The job {job_id} could not be queued"):
            entries = queue_files.entries(self._root)
            entry = QueueEntry(
                job_id=job_id,
                name=view.name,
                run=prepared_run.launch.run,
                placement=config.placement,
                machine=machine(),
                host=socket.gethostname(),
                priority=priority or 0,
                position=max((e.position for e in entries), default=0.0) + POSITION_STEP,
                not_before=_stamp(not_before),
                needed_bytes=self._needed_bytes(config, job_id),
                lasts_s=run_duration_s(view.status.total_steps - done_steps, view.status.pace_s),
                length_s=view.length_s if length_s is None else length_s,
                gives_way=config.gives_way,
                queued=timestamps.utc_now(),
                user=user_name(),
                sweep=search.tag if search is not None else "",
                at_once=search.search.at_once if search is not None else 0,
            )
            _require_free_time(entry, entries)
            if placement:
                job_files.write_placement(folder, config)
            queue_files.put(self._root, entry, prepared_run.launch)
        job_files.add_action(folder, "Queued")
        self.ensure_keeper()
        return self._queued_job(entry)

    def dequeue(self, job_id: str, reason: str = "") -> JobView:
        """Remove a job from the queue; a job that is not queued stays unchanged.

        ``reason`` as in `JobLifecycle.stop`.
        """
        with as_backend_error(f"The job {job_id} could not be removed from the queue"):
            folder = self._fresh_folder(job_id)
            require_right(folder, job_files.read_job(folder).user)
            was_queued = self._launchers.launcher(None).leave_queue(folder)
        if not was_queued:
            state = self._jobs.queries.show(job_id).state
            # Without news of its scheduler, a job that waits there is one that starts.
            if state.is_queued or state is JobState.STARTING:
                was_queued = self._launchers.leave_queue(folder)
        if was_queued:
            job_files.add_action(folder, "Removed from the queue", reason)
        return self._jobs.queries.show(job_id)

    def change(
        self,
        job_id: str,
        priority: int | None = None,
        not_before: datetime | None = None,
        *,
        length_s: float | None = None,
        start_now: bool = False,
    ) -> QueuedJob:
        """Change priority, start time or length; ``start_now`` removes the start time."""
        previous_entry = entry = self._entry(job_id)
        _check(priority or 0, length_s or 0.0)
        if priority is not None:
            entry = replace(entry, priority=priority)
        if length_s is not None:
            entry = replace(entry, length_s=length_s)
        if not_before is not None or start_now:
            entry = replace(entry, not_before=_stamp(not_before))
        if replace(entry, priority=previous_entry.priority) != previous_entry:
            with as_backend_error("The queue could not be read"):
                _require_free_time(entry, queue_files.entries(self._root))
        self._update_entry(entry)
        if changes := _entry_changes(previous_entry, entry):
            job_files.add_action(self._root.job(job_id), f"Changed in the queue: {changes}")
        return self._queued_job(entry)

    def reorder(self, job_id: str, *, before_id: str = "", after_id: str = "") -> QueuedJob:
        """Move a waiting job right before or after another job, and give it the same priority."""
        moved_entry = self._entry(job_id)
        with as_backend_error("The queue could not be read"):
            entries = sorted_entries(queue_files.entries(self._root))
        other_entries = [entry for entry in entries if entry.job_id != job_id]
        neighbor = self._entry(before_id or after_id)
        if neighbor.job_id == job_id:
            return self._queued_job(moved_entry)
        index = next(n for n, entry in enumerate(other_entries) if entry.job_id == neighbor.job_id)
        index += 0 if before_id else 1
        other_entries.insert(index, replace(moved_entry, priority=neighbor.priority))
        self._write_position(other_entries, index)
        job_files.add_action(self._root.job(job_id), "Moved in the queue")
        return self._queued_job(other_entries[index])

    def to_top(self, job_id: str) -> QueuedJob:
        """Move a job before all other jobs."""
        self._entry(job_id)
        with as_backend_error("The queue could not be read"):
            first_entry = sorted_entries(queue_files.entries(self._root))[0]
        return self.reorder(job_id, before_id=first_entry.job_id)

    def pause(self) -> Queue:
        """Start no queued job, on any node, until the queue is resumed."""
        with as_backend_error("The queue could not be paused"):
            queue_files.pause(self._root)
        return self.read()

    def resume(self) -> Queue:
        with as_backend_error("The queue could not be resumed"):
            queue_files.resume(self._root)
        self.ensure_keeper()
        return self.read()

    def ensure_keeper(self) -> None:
        """Make sure that the keeper of queued jobs that this computer leads runs.

        Cheap if no job waits. After a reboot, the keeper runs only after this call.
        """
        key = node_key(THIS_COMPUTER, machine())
        with as_backend_error("The queue could not be read"):
            if not self._root.files.is_mounted or lock_of(self._root).holder() is not None:
                return
            entries = queue_files.entries(self._root)
            is_needed = any(is_headed_by(self._root, entry, key) for entry in entries)
            if is_needed or Searches(self._root, key).has_open_trials():
                self._start_keeper()

    def _start_keeper(self) -> None:
        command = (self._python, "-m", "backend.node.queue.keeper", "--detach")
        error = start_detached((*command, "--data-root", str(self._root.path.absolute())))
        if error:
            raise BackendError(f"The queue service is not running here: {error}")

    def _write_position(self, entries: list[QueueEntry], index: int) -> None:
        """Write the position of the entry at ``index``.

        If no number lies between the positions of its neighbors, all entries of its priority get
        new positions.
        """
        entry = entries[index]
        equal_indexes = [n for n, e in enumerate(entries) if e.priority == entry.priority]
        rank = equal_indexes.index(index)
        low = entries[equal_indexes[rank - 1]].position if rank else None
        high = entries[equal_indexes[rank + 1]].position if rank + 1 < len(equal_indexes) else None
        new_position = position_between(low, high)
        if new_position is not None:
            self._update_entry(replace(entry, position=new_position))
            return
        for number, n in enumerate(equal_indexes):
            self._update_entry(replace(entries[n], position=(number + 1) * POSITION_STEP))

    def _update_entry(self, entry: QueueEntry) -> None:
        with as_backend_error(f"The job {entry.job_id} could not be moved in the queue"):
            # A job that was started or removed meanwhile does not return to the queue.
            if entry_of(self._fresh_folder(entry.job_id)) is not None:
                queue_files.put(self._root, entry)

    def _fresh_folder(self, job_id: str) -> OpenJob:
        folder = self._root.job(job_id)
        with as_backend_error(f"The job {job_id} could not be read"):
            self._root.files.refresh_job(folder)
        return folder

    def _entry(self, job_id: str) -> QueueEntry:
        entry = entry_of(self._fresh_folder(job_id))
        if entry is None:
            raise BackendError(
                f"The job {job_id} is not in the queue.",
                f"Queue it: {COMMAND} job queue {job_id}",
            )
        return entry

    def _queued_job(self, entry: QueueEntry) -> QueuedJob:
        # The job may have been started already.
        return self.read().find_job(entry.job_id) or QueuedJob(entry, 0)

    def _require_current_agent(self, head: str) -> None:
        if head == THIS_COMPUTER:
            return
        path = self._root.node(head).info
        starts_queued_jobs = False
        with as_backend_error(f"The agent of {head} could not be looked up"), suppress(ValueError):
            self._root.files.refresh_file(path)
            with suppress(FileNotFoundError):
                starts_queued_jobs = read_json(path).get("starts_queued") is True
        if not starts_queued_jobs:
            raise BackendError(
                f"The agent of {head} is older than this Ringmaster and starts no queued jobs.",
                f"Set {head} up again, or start the job by hand.",
            )

    # State of the nodes.

    def _cluster_state(
        self, entries: Sequence[QueueEntry], pausing_user: str | None
    ) -> ClusterState:
        with as_backend_error("The jobs could not be read"):
            self._root.files.refresh_jobs()
            running_jobs = self._live_runs.read()
        keys = {use.node for entry in entries for use in entry.uses}
        local_key = node_key(THIS_COMPUTER, machine())
        nodes: dict[str, NodeView] = {}
        if local_key in keys:
            nodes[local_key] = node_view_of(
                self._nodes.reading(), running_jobs.tags, is_a_desk=True
            )
        desktop_hosts = {
            use.node: entry.host
            for entry in entries
            for use in entry.uses
            if use.node != local_key and is_a_desk(use.node)
        }
        for key, host in desktop_hosts.items():
            nodes[key] = NodeView(
                down_reason=f"It runs on {host}, where it was queued; only that computer knows why "
                "it waits."
            )
        if keys - nodes.keys():
            nodes.update(
                (state.name, _node_view(state, running_jobs)) for state in self._nodes.remote()
            )
        return ClusterState(
            now=datetime.now(UTC),
            nodes=nodes,
            running_jobs=running_jobs.running_jobs,
            is_paused=pausing_user is not None,
            pause_suffix=pausing_user or "",
        )


def _node_view(state: NodeState, running_jobs: RunningJobs) -> NodeView:
    reason = ""
    if state.presence is not Presence.ONLINE:
        detail = (
            f": {state.message}" if state.presence is Presence.OFFLINE and state.message else ""
        )
        reason = f"{state.name} is {state.presence.value.lower()}{detail}."
    if state.presence is Presence.NEW:
        reason = f"{state.name} is not set up yet."
    if state.reading is None:
        return NodeView(down_reason=reason or f"{state.name} is offline.")
    return node_view_of(state.reading, running_jobs.tags, why_down=reason)


def _entry_changes(previous_entry: QueueEntry, entry: QueueEntry) -> str:
    """Return ``priority 0 → 5, …``."""
    times = [instant(e.not_before) for e in (previous_entry, entry)]
    start_texts = [f"{time.astimezone():%Y-%m-%d %H:%M}" if time else "now" for time in times]
    hours = [f"{e.length_s / 3600:g}" for e in (previous_entry, entry)]
    priorities = [str(e.priority) for e in (previous_entry, entry)]
    return ", ".join(
        f"{label} {old_text} → {new_text}"
        for label, (old_text, new_text) in (
            ("priority", priorities),
            ("not before", start_texts),
            ("hours", hours),
        )
        if old_text != new_text
    )


def _check(priority: int, length_s: float) -> None:
    if not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        raise BackendError(
            f"A priority is between {MIN_PRIORITY} and {MAX_PRIORITY}, not {priority}."
        )
    if not 0 <= length_s <= MAX_LENGTH_S:
        longest_text = f"{MAX_LENGTH_S / 3600:.0f}"
        raise BackendError(f"A length is up to {longest_text} hours, not {length_s / 3600:g}.")


def _require_free_time(entry: QueueEntry, entries: Sequence[QueueEntry]) -> None:
    """Raise BackendError if another job has reserved a part of what the entry reserves."""
    now = datetime.now(UTC)
    is_over = not (entry.refusal or reservations_of((entry,), now))
    if is_over and entry.not_before and entry.length_s:
        raise BackendError(
            "The reserved time would be over already.",
            "Choose a later time, or none, to start as soon as possible.",
        )
    other_entries = [other_entry for other_entry in entries if other_entry.job_id != entry.job_id]
    for own_reservation in reservations_of((entry,), now):
        for reservation in reservations_of(other_entries, now):
            use = reservation.competing_use(entry.uses)
            if use and own_reservation.overlaps(reservation):
                raise BackendError(
                    reservation.message(node_label(use.node), now),
                    "Choose another time, or other GPUs.",
                )


def _stamp(time: datetime | None) -> str:
    return "" if time is None else timestamps.stamp(time, "seconds")
