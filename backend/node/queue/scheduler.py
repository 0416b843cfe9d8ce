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
from backend.node.system import process_identity
from backend.node.system.machine_id import machine
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.checkpoint import read_checkpoints
from backend.records.jobs.launch import launch_of
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.status import RankError
from backend.records.nodes.entry import NodeEntry
from backend.records.nodes.reading import NodeReading
from backend.records.queue.entry import (
    Cause,
    QueueEntry,
    Waiting,
    in_order,
    is_a_desk,
    node_key,
)
from backend.records.queue.scheduling import (
    NodeView,
    QuietTimes,
    Scene,
    judge_queue,
    node_view_of,
    why_waiting,
)

_SHARE_OF_TIME = 20
"""A poll that took a second is followed by this many seconds without one."""
_DROP_AFTER_S = 30.0
"""An agent that was just started is known within two rounds."""
_GO_ON_AFTER_S = 10.0
"""A supervisor that started just before its starter ended has recorded itself by then."""


class QueueWatch:
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
        self._beats = HeartbeatReader(root, monotonic)
        self._live = LiveRuns(root, monotonic)
        self._quiet = QuietTimes()
        self._waited: frozenset[str] = frozenset()
        self._abandoned: dict[str, float] = {}
        self._down: dict[str, float] = {}
        """Since when jobs that the program queued wait for a node that is down."""
        self._not_until = self._wake_at = 0.0
        self.has_work = False
        """True if a job is queued that this computer leads, as of the last poll."""

    def poll(self) -> tuple[str, ...]:
        """Run one round; return the ids of the jobs that were started here.

        Raises:
            OSError: The data root cannot be read.
        """
        begin = self._monotonic()
        if begin < self._not_until:
            return ()
        ids = queue_entries.queued_ids(self._root)
        entries = [e for e in map(self._entry, ids) if e is not None]
        begun = [job for job in ids if self._goes_on(self._root.job(job))]
        mine = [entry for entry in entries if self._leads(entry)]
        self.has_work = bool(mine or self._abandoned)
        if mine:
            begun += self._advance(entries)
        self._waited = frozenset(ids)
        # Each poll costs a little for every job of the data root.
        self._not_until = begin + (self._monotonic() - begin) * _SHARE_OF_TIME
        return tuple(begun)

    def may_start(self, entry: QueueEntry) -> bool:
        """Return whether a job would start now if it were the first of the queue.

        Raises:
            OSError: The data root cannot be read.
        """
        live = self._live.read((entry.job_id,))
        scene = self._scene((entry,), live)
        return scene is not None and live.is_complete and why_waiting(entry, (), scene) is None

    def _entry(self, job_id: str) -> QueueEntry | None:
        folder = self._root.job(job_id)
        entry = queue_entries.entry_of(folder)
        if entry is None:
            self._tidy(folder)
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
        live = self._live.read(self._waited | {entry.job_id for entry in entries})
        scene = self._scene(entries, live)
        if scene is None or not live.is_complete:
            return []
        outcomes = judge_queue(entries, scene)
        due = (
            entry
            for entry in in_order(entries)
            if outcomes[entry.job_id] is None and self._leads(entry)
        )
        started = [entry.job_id for entry in due if self._starts(entry)]
        for entry in filter(self._leads, entries):
            self._drop_lost(entry, outcomes[entry.job_id], scene)
        return started

    def _drop_lost(self, entry: QueueEntry, waiting: Waiting | None, scene: Scene) -> None:
        """Queue a run that the program queued again, without nodes that were lost since then."""
        is_down = waiting is not None and waiting.cause is Cause.NODE_DOWN
        if waiting is None or not is_down or not entry.reason or entry.quiet_s:
            self._down.pop(entry.job_id, None)
            return
        now = self._monotonic()
        if now < self._down.setdefault(entry.job_id, now) + _DROP_AFTER_S:
            return
        # Imported only when needed: an agent stays small as long as no node is lost.
        from backend.node.queue import retry
        from backend.node.run import remote_cleanup

        folder = self._root.job(entry.job_id)
        launch = launch_of(folder.queued_launch, entry.run)
        down = [slot.node for slot in entry.slots if scene.nodes[slot.node].why_down]
        if launch is not None and now >= self._wake_at:
            self._wake_at = now + _DROP_AFTER_S
            remote_cleanup.wake(launch, down)
        if launch is not None and launch.config.on_failure.shrink and down:
            error = RankError(waiting.sentence, node=down[0], retry="always")
            step = max((one.step for one in read_checkpoints(folder.checkpoints)), default=0)
            before = replace(launch, run=launch.run - 1)
            found = retry.next_try(before, error, step, down)
            if found is not None and len(found.continued.placement) < len(entry.placement):
                retry.carry_out(folder, before, found)

    def _leads(self, entry: QueueEntry) -> bool:
        return queue_entries.is_led_by(self._root, entry, self._key)

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

    def _goes_on(self, folder: JobFolder) -> bool:
        try:
            entry = QueueEntry.from_dict(read_json(folder.queued))
        except (OSError, ValueError) as error:
            swallowed(error)
            return False
        run = folder.newest_run()
        is_mine = entry.run == run and self._leads(entry)
        claimer = queue_entries.abandoned_by(folder, run) if is_mine else None
        if claimer is None:
            self._abandoned.pop(folder.job_id, None)
            return False
        since = self._abandoned.setdefault(folder.job_id, self._monotonic())
        rebooted = claimer.boot_id != process_identity.boot_id()
        if not rebooted and self._monotonic() < since + _GO_ON_AFTER_S:
            return False
        self._abandoned.pop(folder.job_id)
        with suppress(BackendError, OSError):
            queue_starter.go_on(self._root, folder, run)
            return True
        return False

    def _tidy(self, folder: JobFolder) -> None:
        """Remove queue files of a job whose run was claimed, by the queue or by a user."""
        run = folder.newest_run() if folder.path.is_dir() else 0
        attempt = folder.attempt(run)
        if not folder.path.is_dir() or (
            run
            and folder.queued.exists()
            and (attempt.supervisor.exists() or attempt.exit.exists())
        ):
            queue_entries.leave(self._root, folder)

    # Known facts about the nodes.

    def _scene(self, entries: Sequence[QueueEntry], live: RunningJobs) -> Scene | None:
        """Return None while this computer has no reading of itself."""
        own = self._reading()
        if own is None:
            return None
        nodes: dict[str, NodeView] = {}
        for key in {slot.node for entry in entries for slot in entry.slots}:
            if key == self._key:
                nodes[key] = node_view_of(own, live.tags, is_a_desk=self._is_a_desk)
            elif is_a_desk(key):
                nodes[key] = NodeView(why_down="Only that computer knows its status.")
            else:
                nodes.update(self._other(key, live))
        who = queue_entries.who_paused(self._root)
        return Scene(
            now=datetime.now(timezone.utc),
            nodes=self._quiet.update(nodes, self._monotonic(), entries),
            running=live.running,
            is_paused=who is not None,
            paused=who or "",
        )

    def _other(self, name: str, live: RunningJobs) -> Mapping[str, NodeView]:
        try:
            entry = NodeEntry.from_dict(read_json(self._root.node(name).entry))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            return {name: NodeView(why_down=f"{name} cannot be read: {error}.")}
        why = "" if entry.in_service else f"{name} is out of service."
        reading, is_alive = self._beats.read(name)
        if reading is None or not is_alive:
            why = why or f"{name} is offline."
        if reading is None:
            return {name: NodeView(why_down=why)}
        return {name: node_view_of(reading, live.tags, why_down=why)}
