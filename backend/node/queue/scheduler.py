"""Advance the queue of a data root: start each job of this computer when its turn comes.

Each head node is responsible for the jobs that it leads, with the same files and the same rule
(`records.queue`) as all others, so no central service is needed. An agent has one scheduler, and so
has the queue service of "this computer" (`backend.node.queue.keeper`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.queue import entries as queue_entries
from backend.node.queue import starter as queue_starter
from backend.node.queue.running_jobs import LiveRuns, RunningJobs
from backend.node.queue.searches import Searches
from backend.node.system import process_identity
from backend.node.system.process_identity import machine
from backend.records.base.account import owner_of
from backend.records.base.atomic_files import read_json, replace_json, stored_record
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.base.local_files import Files
from backend.records.jobs.audit_entry import OwnerNotice, leave_notice
from backend.records.jobs.checkpoint import read_checkpoints
from backend.records.jobs.launch import launch_of
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.status import RankError
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.reading import NodeReading
from backend.records.queue.entry import (
    Cause,
    QueueEntry,
    WaitReason,
    is_a_desk,
    node_key,
    sorted_entries,
)
from backend.records.queue.scheduling import (
    ClusterState,
    NodeView,
    QuietTimes,
    node_view_of,
    reservations_of,
    wait_reason,
    wait_reasons,
)

_PAUSE_FACTOR = 20
"""A poll that took a second is followed by this many seconds without one."""
_DROP_AFTER_S = 30.0
"""An agent that was just started is known within two rounds."""
_TAKEOVER_S = 10.0
"""A supervisor that started just before its starter ended has recorded itself by then."""


class Scheduler:
    """Runs one round after the other. ``node`` is the name under which this computer leads jobs.

    ``reading`` returns this computer's own newest reading, None if there is none.
    """

    def __init__(
        self,
        root: DataRoot,
        node: str,
        reading: Callable[[], NodeReading | None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._key = node_key(node, machine())
        self._is_a_desk = node == THIS_COMPUTER
        self._reading = reading
        self._monotonic = monotonic
        self._heartbeats = HeartbeatReader(root, monotonic)
        self._live_runs = LiveRuns(root, monotonic)
        self._quiet_times = QuietTimes()
        self._searches = Searches(root, self._key, monotonic)
        self._without_values: list[QueueEntry] = []
        """Trials that may start as soon as they have values."""
        self._waiting_ids: frozenset[str] = frozenset()
        self._abandoned_since_s: dict[str, float] = {}
        self._down_since_s: dict[str, float] = {}
        """Since when jobs that the program queued wait for a node that is down."""
        self._reported_intruders: set[tuple[str, str]] = set()
        self._next_poll_s = self._next_wake_s = 0.0
        self.has_work = False
        """True if a job is queued that this computer leads, as of the last poll."""

    def poll(self) -> tuple[str, ...]:
        """Run one round; return the ids of the jobs that were started here.

        Raises:
            OSError: The data root cannot be read.
        """
        started_s = self._monotonic()
        if started_s < self._next_poll_s:
            return ()
        job_ids = queue_entries.queued_ids(self._root)
        entries = [entry for entry in map(self._entry, job_ids) if entry is not None]
        started_ids = [job_id for job_id in job_ids if self._resumes_start(self._root.job(job_id))]
        own_entries = [entry for entry in entries if self._is_head_of(entry)]
        self.has_work = bool(own_entries or self._abandoned_since_s)
        self._without_values = []
        if own_entries:
            started_ids += self._advance(entries)
        self._searches.poll(self._without_values)
        self.has_work = self.has_work or self._searches.has_open
        self._waiting_ids = frozenset(job_ids)
        # Each poll costs a little for every job of the data root.
        self._next_poll_s = started_s + (self._monotonic() - started_s) * _PAUSE_FACTOR
        return tuple(started_ids)

    def may_start(self, entry: QueueEntry) -> bool:
        """Return whether a job would start now if it were the first of the queue.

        Raises:
            OSError: The data root cannot be read.
        """
        running_jobs = self._live_runs.read((entry.job_id,))
        queue_state = self._read_state((entry,), running_jobs)
        if queue_state is None or not running_jobs.is_complete:
            return False
        reservations = reservations_of(queue_entries.entries(self._root), queue_state.now)
        return wait_reason(entry, (), queue_state, reservations) is None

    def _entry(self, job_id: str) -> QueueEntry | None:
        folder = self._root.job(job_id)
        entry = queue_entries.entry_of(folder)
        if entry is None:
            self._drop_stale_entry(folder)
            self._refuse_newer(folder)
        return entry

    def _refuse_newer(self, folder: JobFolder) -> None:
        """Record why this agent cannot start a job that a newer Ringmaster queued."""
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
            raw = read_json(folder.queued)
            head = node_key(raw["placement"][0]["node"], raw["machine"])
            if raw["run"] <= folder.newest_run() or raw.get("refusal") or head != self._key:
                return
            try:
                QueueEntry.from_dict(raw)
            except ValueError as error:
                refusal = queue_starter.other_version(error).with_remedy
                replace_json(folder.queued, {**raw, "refusal": refusal})

    def _advance(self, entries: Sequence[QueueEntry]) -> list[str]:
        """Start what may start. Only the state right before each start counts."""
        # A job that waited a moment ago may run now, and NFS may report it only when it is asked.
        running_jobs = self._live_runs.read(self._waiting_ids | {entry.job_id for entry in entries})
        queue_state = self._read_state(entries, running_jobs)
        if queue_state is None or not running_jobs.is_complete:
            return []
        outcomes = wait_reasons(entries, queue_state)
        self._without_values = [
            entry
            for entry in filter(self._is_head_of, sorted_entries(entries))
            if (outcomes[entry.job_id] is None or entry.refusal) and self._lacks_values(entry)
        ]
        due_entries = (
            entry
            for entry in sorted_entries(entries)
            if outcomes[entry.job_id] is None
            and self._is_head_of(entry)
            and entry not in self._without_values
        )
        started_ids = [entry.job_id for entry in due_entries if self._starts(entry)]
        for entry in filter(self._is_head_of, entries):
            self._drop_lost_nodes(entry, outcomes[entry.job_id], queue_state)
        for reservation in reservations_of(entries, queue_state.now):
            if self._is_head_of(reservation.entry):
                self._report_intruder(reservation.entry, outcomes[reservation.entry.job_id])
        return started_ids

    def _report_intruder(self, entry: QueueEntry, wait: WaitReason | None) -> None:
        """Report once, to its user and the data root's, that a reserved GPU is in use."""
        key = entry.job_id, entry.not_before
        if wait is None or wait.cause is not Cause.FOREIGN or key in self._reported_intruders:
            return
        message = f"Its reserved time has begun, but it waits: {wait.message}"
        with suppress(OSError):
            for user in {entry.user, owner_of(self._root.path)} - {""}:
                owner = "" if user == entry.user else entry.user
                notice = OwnerNotice(entry.job_id, entry.name, message, owner)
                leave_notice(self._root, Files(), user, notice)
            self._reported_intruders.add(key)

    def _drop_lost_nodes(
        self, entry: QueueEntry, wait: WaitReason | None, queue_state: ClusterState
    ) -> None:
        """Queue a run that the program queued again, without nodes that were lost since then."""
        is_down = wait is not None and wait.cause is Cause.NODE_DOWN
        if wait is None or not is_down or not entry.reason or entry.quiet_s:
            self._down_since_s.pop(entry.job_id, None)
            return
        now_s = self._monotonic()
        if now_s < self._down_since_s.setdefault(entry.job_id, now_s) + _DROP_AFTER_S:
            return
        # Imported only when needed: an agent stays small as long as no node is lost.
        from backend.node.queue import retry
        from backend.node.run import remote_cleanup

        folder = self._root.job(entry.job_id)
        launch = launch_of(folder.queued_launch, entry.run)
        down_nodes = [use.node for use in entry.uses if queue_state.nodes[use.node].down_reason]
        if launch is not None and now_s >= self._next_wake_s:
            self._next_wake_s = now_s + _DROP_AFTER_S
            remote_cleanup.wake_agents(launch, down_nodes)
        if launch is not None and launch.config.on_failure.shrink and down_nodes:
            error = RankError(wait.message, node=down_nodes[0], retry="always")
            step = max(
                (checkpoint.step for checkpoint in read_checkpoints(folder.checkpoints)), default=0
            )
            previous_launch = replace(launch, run=launch.run - 1)
            retry_plan = retry.next_retry(previous_launch, error, step, down_nodes)
            if retry_plan is not None and len(retry_plan.continuation.placement) < len(
                entry.placement
            ):
                retry.carry_out(folder, previous_launch, retry_plan)

    def _lacks_values(self, entry: QueueEntry) -> bool:
        return bool(entry.sweep) and not self._root.job(entry.job_id).proposal.exists()

    def _is_head_of(self, entry: QueueEntry) -> bool:
        return queue_entries.is_headed_by(self._root, entry, self._key)

    def _starts(self, entry: QueueEntry) -> bool:
        folder = self._root.job(entry.job_id)
        try:
            return queue_starter.start(self._root, folder, entry.run)
        except BackendError as error:
            refusal = error.with_remedy
            # A user who removes it at this moment wins: a job that left the queue stays out.
            with suppress(OSError):
                if folder.queued.exists():
                    replace_json(folder.queued, replace(entry, refusal=refusal).to_dict())
        except OSError as error:
            swallowed(error)  # full, or unavailable: the next round tries again
        return False

    # After an end in the middle of a start.

    def _resumes_start(self, folder: JobFolder) -> bool:
        entry = stored_record(QueueEntry, folder.queued)
        if entry is None:
            return False
        run = folder.newest_run()
        is_mine = entry.run == run and self._is_head_of(entry)
        claimer = queue_entries.abandoned_claimer(folder, run) if is_mine else None
        if claimer is None:
            self._abandoned_since_s.pop(folder.job_id, None)
            return False
        first_seen_s = self._abandoned_since_s.setdefault(folder.job_id, self._monotonic())
        has_rebooted = claimer.boot_id != process_identity.boot_id()
        if not has_rebooted and self._monotonic() < first_seen_s + _TAKEOVER_S:
            return False
        self._abandoned_since_s.pop(folder.job_id)
        with suppress(BackendError, OSError):
            queue_starter.continue_start(self._root, folder, run)
            return True
        return False

    def _drop_stale_entry(self, folder: JobFolder) -> None:
        """Remove queue files of a job whose run was claimed, by the queue or by a user."""
        run = folder.newest_run() if folder.path.is_dir() else 0
        attempt = folder.attempt(run)
        if not folder.path.is_dir() or (
            run
            and folder.queued.exists()
            and (attempt.supervisor.exists() or attempt.exit.exists())
        ):
            queue_entries.remove_entry(self._root, folder)

    # Known facts about the nodes.

    def _read_state(
        self, entries: Sequence[QueueEntry], running_jobs: RunningJobs
    ) -> ClusterState | None:
        """Return None while this computer has no reading of itself."""
        own_reading = self._reading()
        if own_reading is None:
            return None
        nodes: dict[str, NodeView] = {}
        for key in {use.node for entry in entries for use in entry.uses}:
            if key == self._key:
                nodes[key] = node_view_of(own_reading, running_jobs.tags, is_a_desk=self._is_a_desk)
            elif is_a_desk(key):
                nodes[key] = NodeView(down_reason="Only that computer knows its status.")
            else:
                nodes.update(self._view_other_node(key, running_jobs))
        paused_by = queue_entries.paused_by(self._root)
        return ClusterState(
            now=datetime.now(timezone.utc),
            nodes=self._quiet_times.update(nodes, self._monotonic(), entries),
            running_jobs=running_jobs.running_jobs,
            is_paused=paused_by is not None,
            pause_suffix=paused_by or "",
        )

    def _view_other_node(self, name: str, running_jobs: RunningJobs) -> Mapping[str, NodeView]:
        try:
            entry = NodeEntry.from_dict(read_json(self._root.node(name).entry))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            return {name: NodeView(down_reason=f"{name} cannot be read: {error}.")}
        reason = "" if entry.in_service else f"{name} is out of service."
        reading, is_alive = self._heartbeats.read(name)
        if reading is None or not is_alive:
            reason = reason or f"{name} is offline."
        if reading is None:
            return {name: NodeView(down_reason=reason)}
        return {name: node_view_of(reading, running_jobs.tags, why_down=reason)}
