"""Decide which queued jobs may start, and say why the others wait. The agents use the same rule.

Pure, standard library only and Python 3.9.

The order is strict for each GPU and for the cores of each node: a job that cannot start yet
reserves what it needs, so that small jobs never delay a large one on the same GPU forever. A later
job may start first if the two compete for nothing. A job whose waiting time has no known end (a
start time, a node that is off, a full disk, a node that was removed) reserves nothing.

A job with a start time and a length has a `Reservation`: until then, what it needs goes only to
jobs that are known to end before, or that give way. From then on it comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from backend.base.room import LEAST_FILES, free_files_message
from backend.records.base.timestamps import instant
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.reading import Gpu, GpuProcess, NodeReading
from backend.records.queue.entry import (
    PROCESSES_PER_CORE,
    Cause,
    NodeUse,
    QueueEntry,
    RunningJob,
    WaitReason,
    node_label,
    sorted_entries,
)

LEAST_DISK_BYTES = 100_000_000
_DISPLAY_SHARE = 0.1
"""Share of a GPU's memory below which a process is a display, for which no job waits."""
_RESERVING_CAUSES = frozenset({Cause.TURN, Cause.FOREIGN, Cause.BUSY, Cause.QUIET})
_KEYBOARD = ""
"""Key of the keyboard among the GPUs of a node."""
_UNSEEN_S = 300.0
"""Time without a check after which a GPU may have been in use meanwhile."""
PAUSES = 6
"""Within an hour; after so many, each wait for quiet is longer, and no lost node is taken back."""
_LEAVE = "Remove it from the queue, then choose where it runs."


@dataclass(frozen=True)
class NodeView:
    """The properties of a node that decide whether a job can start on it.

    ``gpus`` are names by UUID ("GPU 3"); ``foreign_holders`` says which process that is not a run
    of ours uses a GPU, ``hidden_holders`` which unlisted program holds a GPU. ``down_reason`` is ""
    for a node that answers, otherwise the reason as a sentence. ``at_keyboard`` is a user who is
    active there. ``quiet_s`` is how long each GPU has been free of other users, if that is known,
    and under "" how long the keyboard has been.
    """

    cores: int = 1
    gpus: Mapping[str, str] = field(default_factory=dict)
    foreign_holders: Mapping[str, str] = field(default_factory=dict)
    hidden_holders: Mapping[str, str] = field(default_factory=dict)
    disk_free_bytes: int | None = None
    disk_free_files: int | None = None
    down_reason: str = ""
    gpu_read_error: str = ""
    """Reason why the GPUs cannot be read, or ""."""
    at_keyboard: str = ""
    quiet_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterState:
    """Everything except the waiting jobs themselves. ``nodes`` are by `node_key`.

    ``pause_suffix`` says who paused the queue, as the end of a sentence (" by ben").
    """

    now: datetime
    nodes: Mapping[str, NodeView]
    running_jobs: Sequence[RunningJob] = ()
    is_paused: bool = False
    pause_suffix: str = ""


@dataclass(frozen=True)
class Reservation:
    """The time for which a queued job has what it needs for itself."""

    entry: QueueEntry
    start: datetime
    end: datetime

    def overlaps(self, other: Reservation) -> bool:
        return other.start < self.end and self.start < other.end

    def competing_use(self, node_uses: Iterable[NodeUse]) -> NodeUse | None:
        """Return the first of ``node_uses`` that needs a reserved GPU or core."""
        own_uses = self.entry.uses
        return next((s for s in node_uses if any(s.competes_with(use) for use in own_uses)), None)

    def blocks(self, entry: QueueEntry, job_start: datetime) -> bool:
        """Return whether a job that starts then would reach into this time."""
        if self.competing_use(entry.uses) is None or job_start >= self.end:
            return False
        if job_start < self.start and entry.gives_way:
            return False
        duration_s = entry.known_s
        return duration_s is None or (self.start - job_start).total_seconds() < duration_s

    def message(self, label: str, now: datetime, verb: str = "is") -> str:
        user = f" by {sanitize(self.entry.user)}" if self.entry.user else ""
        return (
            f"{label} {verb} reserved for “{sanitize(self.entry.name)}”{user} from "
            f"{_time_text(self.start, now)} to {_time_text(self.end, now)}."
        )


def reservations_of(entries: Iterable[QueueEntry], now: datetime) -> tuple[Reservation, ...]:
    """Return the reservations that are not over, the earliest first."""
    reservations = []
    for entry in sorted_entries(entries):
        start = instant(entry.not_before)
        if start is None or not entry.length_s or entry.refusal:
            continue
        end = start + timedelta(seconds=entry.length_s)
        if now < end:
            reservations.append(Reservation(entry, start, end))
    return tuple(sorted(reservations, key=lambda reservation: reservation.start))


def wait_reasons(
    entries: Iterable[QueueEntry], cluster_state: ClusterState
) -> dict[str, WaitReason | None]:
    """Return why each job waits, None if it may start now; all that may start fit together."""
    reasons: dict[str, WaitReason | None] = {}
    earlier_entries: list[QueueEntry] = []
    entries = sorted_entries(entries)
    reservations = [
        reservation
        for reservation in reservations_of(entries, cluster_state.now)
        if not _refusal(reservation.entry, cluster_state)
    ]
    due_ids = {r.entry.job_id for r in reservations if r.start <= cluster_state.now}
    for entry in sorted(entries, key=lambda entry: entry.job_id not in due_ids):
        reason = wait_reason(entry, earlier_entries, cluster_state, reservations)
        reasons[entry.job_id] = reason
        if reason is None:
            started_job = RunningJob(
                entry.job_id, entry.name, entry.uses, entry.lasts_s, entry.sweep
            )
            cluster_state = replace(
                cluster_state, running_jobs=(*cluster_state.running_jobs, started_job)
            )
        elif reason.cause in _RESERVING_CAUSES:
            earlier_entries.append(entry)
    return reasons


def wait_reason(
    entry: QueueEntry,
    earlier_entries: Sequence[QueueEntry],
    cluster_state: ClusterState,
    reservations: Iterable[Reservation] = (),
) -> WaitReason | None:
    """Return why ``entry`` waits; None if it may start.

    ``earlier_entries`` are the jobs before it in the queue that keep their place. A cause that the
    user must fix comes before one that ends by itself.
    """
    if cluster_state.is_paused:
        return WaitReason(Cause.PAUSED, f"The queue is paused{cluster_state.pause_suffix}.")
    refusal = entry.refusal or _refusal(entry, cluster_state)
    if refusal:
        return WaitReason(Cause.NEVER, refusal)
    not_before = instant(entry.not_before)
    if not_before is not None and cluster_state.now < not_before:
        message = f"Not before {_time_text(not_before, cluster_state.now)}."
        if entry.length_s:
            end = not_before + timedelta(seconds=entry.length_s)
            message = f"{message[:-1]}, reserved to {_time_text(end, cluster_state.now)}."
        return WaitReason(Cause.NOT_BEFORE, message)
    for use in entry.uses:
        node = cluster_state.nodes[use.node]
        if node.down_reason:
            return WaitReason(Cause.NODE_DOWN, node.down_reason)
        if use.gpus and node.gpu_read_error:
            message = f"{_capitalize(node_label(use.node))}: {node.gpu_read_error}."
            return WaitReason(Cause.NODE_DOWN, message)
    return (
        _disk_reason(entry, cluster_state)
        or _at_once_reason(entry, cluster_state)
        or _reserved_reason(entry, reservations, cluster_state)
        or _turn_reason(entry, earlier_entries)
        or _holder_reason(entry, cluster_state, lambda node: node.foreign_holders)
        or _quiet_reason(entry, cluster_state)
        or _busy_reason(entry, cluster_state)
        # A run of ours in a container is not listed either, and `_busy_reason` knows its name.
        or _holder_reason(entry, cluster_state, lambda node: node.hidden_holders)
    )


def _refusal(entry: QueueEntry, cluster_state: ClusterState) -> str:
    for use in entry.uses:
        label = node_label(use.node)
        node = cluster_state.nodes.get(use.node)
        if node is None:
            return f"{sanitize(label)} is no longer a node of this data root. {_LEAVE}"
        # A node that is off reports no GPUs, but may still have them.
        is_known = not (node.down_reason or node.gpu_read_error)
        missing_gpus = [gpu for gpu in use.gpus if gpu not in node.gpus] if is_known else []
        if missing_gpus:
            return f"{sanitize(missing_gpus[0])} is no longer on {label}. {_LEAVE}"
        process_limit = node.cores * PROCESSES_PER_CORE
        if use.processes > process_limit and not node.down_reason:
            return (
                f"{_capitalize(label)} has {_count(node.cores, 'core')}, enough for "
                f"{process_limit} processes; the job asks for {use.processes}. {_LEAVE}"
            )
    return ""


def _disk_reason(entry: QueueEntry, cluster_state: ClusterState) -> WaitReason | None:
    needed_bytes = max(LEAST_DISK_BYTES, entry.needed_bytes)
    free_bytes = cluster_state.nodes[entry.head].disk_free_bytes
    free_files = cluster_state.nodes[entry.head].disk_free_files
    if free_files is not None and free_files < LEAST_FILES:
        return WaitReason(
            Cause.DISK, f"The data root {free_files_message(free_files)}. Remove files from it."
        )
    if free_bytes is None or free_bytes >= needed_bytes:
        return None
    return WaitReason(
        Cause.DISK,
        f"The data root has {free_bytes / 1e9:.1f} GB left, and {needed_bytes / 1e9:.1f} GB are "
        "needed. Free some space.",
    )


def _at_once_reason(entry: QueueEntry, cluster_state: ClusterState) -> WaitReason | None:
    if not entry.sweep:
        return None
    trial_count = sum(job.sweep == entry.sweep for job in cluster_state.running_jobs)
    if trial_count < entry.at_once:
        return None
    verb = "runs" if trial_count == 1 else "run"
    running_text = f"{_count(trial_count, 'trial')} of its search {verb}"
    return WaitReason(Cause.AT_ONCE, f"{running_text}; at most {entry.at_once} may run at once.")


def _reserved_reason(
    entry: QueueEntry, reservations: Iterable[Reservation], cluster_state: ClusterState
) -> WaitReason | None:
    now = cluster_state.now
    for reservation in reservations:
        if reservation.entry.job_id == entry.job_id:
            return None  # Later reservations wait for it.
        use = reservation.competing_use(entry.uses)
        if use is not None and reservation.blocks(entry, now):
            shared_gpus = {
                gpu for reserved_use in reservation.entry.uses for gpu in reserved_use.gpus
            }
            names = [
                cluster_state.nodes[use.node].gpus.get(gpu, gpu)
                for gpu in use.gpus
                if gpu in shared_gpus
            ]
            label = _capitalize(node_label(use.node))
            return WaitReason(
                Cause.RESERVED,
                reservation.message(f"{names[0]} of {label}" if names else label, now),
            )
    return None


def _turn_reason(entry: QueueEntry, earlier_entries: Sequence[QueueEntry]) -> WaitReason | None:
    for use in entry.uses:
        for earlier_entry in earlier_entries:
            if any(use.competes_with(earlier_use) for earlier_use in earlier_entry.uses):
                return WaitReason(
                    Cause.TURN,
                    f"Waiting for “{sanitize(earlier_entry.name)}”, which is before it in the "
                    f"queue on {node_label(use.node)}.",
                )
    return None


def _holder_reason(
    entry: QueueEntry,
    cluster_state: ClusterState,
    holders_of: Callable[[NodeView], Mapping[str, str]],
) -> WaitReason | None:
    for use in entry.uses:
        node = cluster_state.nodes[use.node]
        for gpu in use.gpus:
            if gpu in holders_of(node):
                gpu_label = f"{node.gpus[gpu]} of {node_label(use.node)}"
                return WaitReason(
                    Cause.FOREIGN, f"{gpu_label} is in use by {holders_of(node)[gpu]}."
                )
    return None


def _quiet_reason(entry: QueueEntry, cluster_state: ClusterState) -> WaitReason | None:
    """Return why a job that gave way does not continue yet."""
    if not entry.quiet_s:
        return None
    for use in entry.uses:
        at_keyboard = cluster_state.nodes[use.node].at_keyboard
        if at_keyboard:
            label = node_label(use.node)
            return WaitReason(Cause.KEYBOARD, f"{at_keyboard} is at the keyboard of {label}.")
    for use in entry.uses:
        quiet_times = cluster_state.nodes[use.node].quiet_s
        if any(quiet_times.get(device, 0.0) < entry.quiet_s for device in (_KEYBOARD, *use.gpus)):
            minutes = f"{entry.quiet_s / 60:.3g}"
            duration = "1 minute" if minutes == "1" else f"{minutes} minutes"
            return WaitReason(Cause.QUIET, f"It continues after {duration} without other users.")
    return None


def quiet_after(pauses: int, quiet_s: float) -> float:
    """Return how long a job waits for quiet after its n-th pause within an hour.

    A start costs time, so a job that pauses often waits longer, and trains longer in between.
    """
    return quiet_s * (1 + max(0, pauses - 1) // PAUSES)


class QuietTimes:
    """Remembers since when GPUs and keyboards have been free of other users."""

    def __init__(self) -> None:
        self._free_since: dict[tuple[str, str], float] = {}
        self._updated_s = 0.0
        self._paused_runs: frozenset[tuple[str, int]] = frozenset()

    def update(
        self, nodes: Mapping[str, NodeView], now_s: float, entries: Iterable[QueueEntry] = ()
    ) -> dict[str, NodeView]:
        """Return the views of the nodes with `NodeView.quiet_s` at this monotonic time.

        The nodes and GPUs of a job that paused were in use a moment ago, even if no check
        has seen that.
        """
        free_since = self._free_since if now_s - self._updated_s <= _UNSEEN_S else {}
        paused_uses = {
            (device.job_id, device.run): device.uses for device in entries if device.quiet_s
        }
        for use in (
            use for key in paused_uses.keys() - self._paused_runs for use in paused_uses[key]
        ):
            free_since = {
                **free_since,
                **{(use.node, device): now_s for device in (_KEYBOARD, *use.gpus)},
            }
        self._paused_runs = frozenset(paused_uses)
        self._updated_s, self._free_since = now_s, {}
        views = {}
        for name, view in nodes.items():
            for device in (_KEYBOARD, *view.gpus):
                is_used = (
                    view.at_keyboard if device == _KEYBOARD else device in view.foreign_holders
                )
                since_s = (
                    now_s if is_used or view.down_reason else free_since.get((name, device), now_s)
                )
                self._free_since[name, device] = since_s
            quiet_times = {
                device: now_s - self._free_since[name, device] for device in (_KEYBOARD, *view.gpus)
            }
            views[name] = replace(view, quiet_s=quiet_times)
        return views


def give_way_message(
    reading: NodeReading, gpus: Collection[str], shared_with: Collection[int] = ()
) -> str:
    """Return why a run on these GPUs of a node is to give way, as a sentence; "" if it is not.

    A process without a known owner does not count: in a container, a rank of the run is one too.
    Nor does a GPU that stopped responding, which is a failure.

    Args:
        shared_with: Processes (pids) that were on the GPUs when the run began.
    """
    is_a_desk = reading.name == THIS_COMPUTER
    label = "this computer" if is_a_desk else reading.name
    for gpu in reading.gpus:
        for process in gpu.compute_processes if gpu.uuid in gpus and not gpu.is_lost else ():
            if (
                _is_foreign(process, gpu, is_a_desk)
                and process.user
                and process.pid not in shared_with
            ):
                user = sanitize(process.user)
                return f"Paused: {user} uses GPU {gpu.index} on {label}."
    if reading.at_keyboard:
        return f"Paused: {sanitize(reading.at_keyboard)} is at the keyboard of {label}."
    return ""


def _busy_reason(entry: QueueEntry, cluster_state: ClusterState) -> WaitReason | None:
    for use in entry.uses:
        node = cluster_state.nodes[use.node]
        label = node_label(use.node)
        competing_uses = [
            (job, running_use)
            for job in cluster_state.running_jobs
            for running_use in job.uses
            if running_use.competes_with(use)
        ]
        if use.gpus and competing_uses:
            job, running_use = competing_uses[0]
            shared_gpus = [node.gpus[gpu] for gpu in use.gpus if gpu in running_use.gpus]
            return WaitReason(
                Cause.BUSY, f"“{sanitize(job.name)}” is on {shared_gpus[0]} of {label}."
            )
        used_processes = sum(running_use.processes for _, running_use in competing_uses)
        if used_processes and used_processes + use.processes > node.cores:
            free_cores = max(0, node.cores - used_processes)
            return WaitReason(
                Cause.BUSY,
                f"{_capitalize(label)} is busy with “{sanitize(competing_uses[0][0].name)}”: "
                f"{free_cores} of {_count(node.cores, 'core')} "
                f"{'is' if free_cores == 1 else 'are'} free, and "
                f"this job asks for {use.processes}.",
            )
    return None


def node_view_of(
    reading: NodeReading, live_tags: Collection[str], *, why_down: str = "", is_a_desk: bool = False
) -> NodeView:
    """Build the view of a node from its last reading. ``live_tags`` are the tags of running runs.

    A user works at a computer that ``is_a_desk``, and its screen is on one of the GPUs.
    """
    foreign_holders: dict[str, str] = {}
    hidden_holders: dict[str, str] = {}
    for gpu in reading.gpus:
        if gpu.is_lost:
            foreign_holders[gpu.uuid] = "an unknown process: it stopped responding"
            continue
        holder = _holder(gpu, live_tags, is_a_desk)
        if holder:
            foreign_holders[gpu.uuid] = holder
        elif gpu.unlisted_holder is not None and not (
            is_a_desk and _is_small(gpu.unlisted_holder, gpu)
        ):
            hidden_holders[gpu.uuid] = (
                f"{gpu.unlisted_holder.owner_label}. {gpu.unlisted_remedy}".rstrip(".")
            )
    return NodeView(
        cores=max(1, reading.cpu.cores),
        gpus={gpu.uuid: f"GPU {gpu.index}" for gpu in reading.gpus},
        foreign_holders=foreign_holders,
        hidden_holders=hidden_holders,
        disk_free_bytes=reading.disk_free_bytes,
        disk_free_files=reading.disk_free_files,
        down_reason=why_down or _unknown_reason(reading),
        gpu_read_error=reading.gpu_message if reading.gpus_unreadable else "",
        at_keyboard=sanitize(reading.at_keyboard),
    )


def _unknown_reason(reading: NodeReading) -> str:
    """Return why nothing can start on a node that answers: what is not known is not free."""
    if reading.disk_free_bytes is None:
        return f"The data root does not answer on {reading.name}."
    return ""


def _holder(gpu: Gpu, live_tags: Collection[str], is_a_desk: bool) -> str:
    for process in gpu.compute_processes:
        if not process.pid:
            continue
        if process.run_tag and process.run_tag not in live_tags:
            return f"a process that an earlier run left behind (pid {process.pid})"
        if _is_foreign(process, gpu, is_a_desk):
            return process.owner_label
    return ""


def _is_foreign(process: GpuProcess, gpu: Gpu, is_a_desk: bool) -> bool:
    """Return whether a process is no run of ours, and not the display of a desk."""
    if not process.pid or process.run_tag:
        return False
    return not (is_a_desk and _is_small(process, gpu))


def _is_small(process: GpuProcess, gpu: Gpu) -> bool:
    held_bytes, total_bytes = process.memory_bytes, gpu.memory_total_bytes
    return (
        held_bytes is not None
        and bool(total_bytes)
        and held_bytes < _DISPLAY_SHARE * (total_bytes or 0)
    )


def _time_text(time: datetime, now_time: datetime) -> str:
    local_time, today = time.astimezone(), now_time.astimezone()
    if local_time.date() == today.date():
        return f"{local_time:%H:%M}"
    return f"{local_time:%H:%M} on {local_time.day} {local_time:%B}" + (
        "" if local_time.year == today.year else f" {local_time.year}"
    )


def _capitalize(label: str) -> str:
    """Capitalize a place at the beginning of a sentence; a node's name stays as it is."""
    return "This computer" if label == "this computer" else label


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
