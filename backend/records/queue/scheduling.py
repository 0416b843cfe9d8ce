"""Decide which queued jobs may start, and say why the others wait. The agents use the same rule.

Pure, standard library only and Python 3.9.

The order is strict for each GPU and for the cores of each node: a job that cannot start yet
reserves what it needs, so that small jobs never delay a large one on the same GPU forever. A later
job may start first if the two compete for nothing. A job whose waiting time has no known end (a
start time, a node that is off, a full disk, a node that was removed) reserves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from backend.base.room import LEAST_FILES, free_files_message
from backend.records.base.timestamps import instant
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.nodes.reading import Gpu, GpuProcess, NodeReading
from backend.records.queue.entry import (
    PROCESSES_PER_CORE,
    Cause,
    QueueEntry,
    RunningJob,
    WaitReason,
    in_order,
    node_label,
)

LEAST_DISK_BYTES = 100_000_000
_DISPLAY_SHARE = 0.1
"""Of a GPU's memory. The screen of a user's own computer takes less, and no job waits for it."""
_KEEPS_ITS_PLACE = frozenset({Cause.TURN, Cause.FOREIGN, Cause.BUSY, Cause.QUIET})
_KEYBOARD = ""
"""Stands for the keyboard among the GPUs of a node."""
_UNSEEN_S = 300.0
"""A GPU that was not looked at for longer may have been in use meanwhile."""
PAUSES = 6
"""Within an hour; after so many, each wait for quiet is longer, and no lost node is taken back."""
_LEAVE = "Remove it from the queue, then choose where it runs."


@dataclass(frozen=True)
class NodeView:
    """Facts about a node that decide whether a job can start on it.

    ``gpus`` are names by UUID ("GPU 3"); ``foreign`` says which process that is not a run of ours
    uses a GPU, ``hidden`` what holds one without being listed. ``why_down`` is "" for a node that
    answers, otherwise the reason as a sentence. ``at_keyboard`` is a user who is active there.
    ``quiet_s`` is how long each GPU has been free of other users, if that is known, and
    under "" how long the keyboard has been.
    """

    cores: int = 1
    gpus: Mapping[str, str] = field(default_factory=dict)
    foreign_holders: Mapping[str, str] = field(default_factory=dict)
    hidden_holders: Mapping[str, str] = field(default_factory=dict)
    disk_free_bytes: int | None = None
    disk_free_files: int | None = None
    down_reason: str = ""
    gpu_read_error: str = ""
    """Why the GPUs cannot be read, "" where they were read."""
    at_keyboard: str = ""
    quiet_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterState:
    """Everything except the waiting jobs themselves. ``nodes`` are by `node_key`.

    ``paused`` says who paused the queue, as the end of a sentence (" by ben").
    """

    now: datetime
    nodes: Mapping[str, NodeView]
    running: Sequence[RunningJob] = ()
    is_paused: bool = False
    pause_suffix: str = ""


def judge_queue(entries: Iterable[QueueEntry], scene: ClusterState) -> dict[str, WaitReason | None]:
    """Return why each job waits, None if it may start now; all that may start fit together."""
    found: dict[str, WaitReason | None] = {}
    ahead: list[QueueEntry] = []
    for entry in in_order(entries):
        waiting = wait_reason(entry, ahead, scene)
        found[entry.job_id] = waiting
        if waiting is None:
            begun = RunningJob(entry.job_id, entry.name, entry.slots, entry.lasts_s)
            scene = replace(scene, running=(*scene.running, begun))
        elif waiting.cause in _KEEPS_ITS_PLACE:
            ahead.append(entry)
    return found


def wait_reason(
    entry: QueueEntry, ahead: Sequence[QueueEntry], scene: ClusterState
) -> WaitReason | None:
    """Return why ``entry`` waits; None if it may start.

    ``ahead`` are the jobs before it in the queue that keep their place. A cause that the user must
    fix comes before one that ends by itself.
    """
    if scene.is_paused:
        return WaitReason(Cause.PAUSED, f"The queue is paused{scene.pause_suffix}.")
    never = entry.refusal or _never(entry, scene)
    if never:
        return WaitReason(Cause.NEVER, never)
    begin = instant(entry.not_before)
    if begin is not None and scene.now < begin:
        return WaitReason(Cause.NOT_BEFORE, f"Not before {_shown(begin, scene.now)}.")
    for slot in entry.slots:
        node = scene.nodes[slot.node]
        if node.down_reason:
            return WaitReason(Cause.NODE_DOWN, node.down_reason)
        if slot.gpus and node.gpu_read_error:
            why = f"{_first(node_label(slot.node))}: {node.gpu_read_error}."
            return WaitReason(Cause.NODE_DOWN, why)
    return (
        _disk(entry, scene)
        or _turn(entry, ahead)
        or _foreign(entry, scene, lambda node: node.foreign_holders)
        or _unquiet(entry, scene)
        or _busy(entry, scene)
        # A run of ours in a container is not listed either, and `_busy` knows its name.
        or _foreign(entry, scene, lambda node: node.hidden_holders)
    )


def _never(entry: QueueEntry, scene: ClusterState) -> str:
    for slot in entry.slots:
        place = node_label(slot.node)
        node = scene.nodes.get(slot.node)
        if node is None:
            return f"{sanitize(place)} is no longer a node of this data root. {_LEAVE}"
        # A node that is off reports no GPUs, but may still have them.
        is_known = not (node.down_reason or node.gpu_read_error)
        missing = [one for one in slot.gpus if one not in node.gpus] if is_known else []
        if missing:
            return f"{sanitize(missing[0])} is no longer on {place}. {_LEAVE}"
        slots = node.cores * PROCESSES_PER_CORE
        if slot.processes > slots and not node.down_reason:
            return (
                f"{_first(place)} has {_count(node.cores, 'core')}, enough for "
                f"{slots} processes; the job asks for {slot.processes}. {_LEAVE}"
            )
    return ""


def _disk(entry: QueueEntry, scene: ClusterState) -> WaitReason | None:
    needed = max(LEAST_DISK_BYTES, entry.needed_bytes)
    free = scene.nodes[entry.head].disk_free_bytes
    files = scene.nodes[entry.head].disk_free_files
    if files is not None and files < LEAST_FILES:
        return WaitReason(
            Cause.DISK, f"The data root {free_files_message(files)}. Remove files from it."
        )
    if free is None or free >= needed:
        return None
    return WaitReason(
        Cause.DISK,
        f"The data root has {free / 1e9:.1f} GB left, and {needed / 1e9:.1f} GB are needed. "
        "Free some space.",
    )


def _turn(entry: QueueEntry, ahead: Sequence[QueueEntry]) -> WaitReason | None:
    for slot in entry.slots:
        for other in ahead:
            if any(slot.competes(one) for one in other.slots):
                return WaitReason(
                    Cause.TURN,
                    f"Waiting for “{sanitize(other.name)}”, which is before it in the queue on "
                    f"{node_label(slot.node)}.",
                )
    return None


def _foreign(
    entry: QueueEntry, scene: ClusterState, held: Callable[[NodeView], Mapping[str, str]]
) -> WaitReason | None:
    for slot in entry.slots:
        node = scene.nodes[slot.node]
        for gpu in slot.gpus:
            if gpu in held(node):
                where = f"{node.gpus[gpu]} of {node_label(slot.node)}"
                return WaitReason(Cause.FOREIGN, f"{where} is in use by {held(node)[gpu]}.")
    return None


def _unquiet(entry: QueueEntry, scene: ClusterState) -> WaitReason | None:
    """Return why a job that gave way does not continue yet."""
    if not entry.quiet_s:
        return None
    for slot in entry.slots:
        at_keyboard = scene.nodes[slot.node].at_keyboard
        if at_keyboard:
            where = node_label(slot.node)
            return WaitReason(Cause.KEYBOARD, f"{at_keyboard} is at the keyboard of {where}.")
    for slot in entry.slots:
        quiet = scene.nodes[slot.node].quiet_s
        if any(quiet.get(one, 0.0) < entry.quiet_s for one in (_KEYBOARD, *slot.gpus)):
            minutes = f"{entry.quiet_s / 60:.3g}"
            words = "1 minute" if minutes == "1" else f"{minutes} minutes"
            return WaitReason(Cause.QUIET, f"It continues after {words} without other users.")
    return None


def quiet_after(pauses: int, quiet_s: float) -> float:
    """Return how long a job waits for quiet after its n-th pause within an hour.

    A start costs time, so a job that pauses often waits longer, and trains longer in between.
    """
    return quiet_s * (1 + max(0, pauses - 1) // PAUSES)


class QuietTimes:
    """Remembers since when GPUs and keyboards have been free of other users."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._seen = 0.0
        self._paused: frozenset[tuple[str, int]] = frozenset()

    def update(
        self, nodes: Mapping[str, NodeView], now: float, entries: Iterable[QueueEntry] = ()
    ) -> dict[str, NodeView]:
        """Return the views of the nodes with `NodeView.quiet_s` at this monotonic time.

        The nodes and GPUs of a job that paused were in use a moment ago, even if no look at them
        has seen that.
        """
        known = self._since if now - self._seen <= _UNSEEN_S else {}
        paused = {(one.job_id, one.run): one.slots for one in entries if one.quiet_s}
        for slot in (slot for key in paused.keys() - self._paused for slot in paused[key]):
            known = {**known, **{(slot.node, one): now for one in (_KEYBOARD, *slot.gpus)}}
        self._paused = frozenset(paused)
        self._seen, self._since = now, {}
        found = {}
        for name, view in nodes.items():
            for one in (_KEYBOARD, *view.gpus):
                is_used = view.at_keyboard if one == _KEYBOARD else one in view.foreign_holders
                since = now if is_used or view.down_reason else known.get((name, one), now)
                self._since[name, one] = since
            quiet = {one: now - self._since[name, one] for one in (_KEYBOARD, *view.gpus)}
            found[name] = replace(view, quiet_s=quiet)
        return found


def gives_way_to(
    reading: NodeReading, gpus: Collection[str], shared_with: Collection[int] = ()
) -> str:
    """Return why a run on these GPUs of a node is to give way, as a sentence; "" if it is not.

    A process without a known owner does not count: in a container, a rank of the run is one too.
    Nor does a GPU that stopped responding, which is a failure.

    Args:
        shared_with: Processes (pids) that were on the GPUs when the run began.
    """
    is_a_desk = reading.name == THIS_COMPUTER
    place = "this computer" if is_a_desk else reading.name
    for gpu in reading.gpus:
        for process in gpu.compute_processes if gpu.uuid in gpus and not gpu.is_lost else ():
            if (
                _is_foreign(process, gpu, is_a_desk)
                and process.user
                and process.pid not in shared_with
            ):
                user = sanitize(process.user)
                return f"Paused: {user} uses GPU {gpu.index} on {place}."
    if reading.at_keyboard:
        return f"Paused: {sanitize(reading.at_keyboard)} is at the keyboard of {place}."
    return ""


def _busy(entry: QueueEntry, scene: ClusterState) -> WaitReason | None:
    for slot in entry.slots:
        node = scene.nodes[slot.node]
        place = node_label(slot.node)
        there = [
            (running, one)
            for running in scene.running
            for one in running.slots
            if one.competes(slot)
        ]
        if slot.gpus and there:
            running, one = there[0]
            taken = [node.gpus[gpu] for gpu in slot.gpus if gpu in one.gpus]
            return WaitReason(
                Cause.BUSY, f"“{sanitize(running.name)}” is on {taken[0]} of {place}."
            )
        taken_slots = sum(one.processes for _, one in there)
        if taken_slots and taken_slots + slot.processes > node.cores:
            free = max(0, node.cores - taken_slots)
            return WaitReason(
                Cause.BUSY,
                f"{_first(place)} is busy with “{sanitize(there[0][0].name)}”: "
                f"{free} of {_count(node.cores, 'core')} {'is' if free == 1 else 'are'} free, and "
                f"this job asks for {slot.processes}.",
            )
    return None


def node_view_of(
    reading: NodeReading, live: Collection[str], *, why_down: str = "", is_a_desk: bool = False
) -> NodeView:
    """Build the view of a node from its last reading. ``live`` are the tags of running runs.

    A user works at a computer that ``is_a_desk``, and its screen is on one of the GPUs.
    """
    foreign: dict[str, str] = {}
    hidden: dict[str, str] = {}
    for gpu in reading.gpus:
        if gpu.is_lost:
            foreign[gpu.uuid] = "an unknown process: it stopped responding"
            continue
        who = _holder(gpu, live, is_a_desk)
        if who:
            foreign[gpu.uuid] = who
        elif gpu.unlisted_holder is not None and not (
            is_a_desk and _is_small(gpu.unlisted_holder, gpu)
        ):
            hidden[gpu.uuid] = f"{gpu.unlisted_holder.owner_label}. {gpu.unlisted_remedy}".rstrip(
                "."
            )
    return NodeView(
        cores=max(1, reading.cpu.cores),
        gpus={gpu.uuid: f"GPU {gpu.index}" for gpu in reading.gpus},
        foreign_holders=foreign,
        hidden_holders=hidden,
        disk_free_bytes=reading.disk_free_bytes,
        disk_free_files=reading.disk_free_files,
        down_reason=why_down or _unknown(reading),
        gpu_read_error=reading.gpu_message if reading.gpus_unreadable else "",
        at_keyboard=sanitize(reading.at_keyboard),
    )


def _unknown(reading: NodeReading) -> str:
    """Return why nothing can start on a node that answers: what is not known is not free."""
    if reading.disk_free_bytes is None:
        return f"The data root does not answer on {reading.name}."
    return ""


def _holder(gpu: Gpu, live: Collection[str], is_a_desk: bool) -> str:
    for process in gpu.compute_processes:
        if not process.pid:
            continue
        if process.run_tag and process.run_tag not in live:
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
    held, total = process.memory_bytes, gpu.memory_total_bytes
    return held is not None and bool(total) and held < _DISPLAY_SHARE * (total or 0)


def _shown(when: datetime, now: datetime) -> str:
    here, today = when.astimezone(), now.astimezone()
    if here.date() == today.date():
        return f"{here:%H:%M}"
    return f"{here:%H:%M} on {here.day} {here:%B}" + (
        "" if here.year == today.year else f" {here.year}"
    )


def _first(place: str) -> str:
    """Capitalize a place at the beginning of a sentence; a node's name stays as it is."""
    return "This computer" if place == "this computer" else place


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
