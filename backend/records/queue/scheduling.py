"""For what a queued job waits, in words; the agents of the nodes decide by the same rule.

Pure, standard library only and Python 3.9.

The order is strict for each GPU and for the processors of each node: a job that cannot start yet
keeps what it needs for itself, so that a small job never overtakes a large one on the same GPU,
for ever; but a later job passes it where the two compete for nothing. A job that nobody can say
an end of the waiting for (its hour, a node that is off, a full disk, a place that is not there)
keeps nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from backend.records.base.timestamps import instant
from backend.records.base.validation import sanitize
from backend.records.nodes.reading import Gpu, NodeReading
from backend.records.queue.entry import (
    PROCESSES_PER_CORE,
    Cause,
    QueueEntry,
    Running,
    Waiting,
    in_order,
    place_words,
)

LEAST_DISK_BYTES = 100_000_000
_DISPLAY_SHARE = 0.1
"""Of a GPU's memory: on a person's own computer its screen takes less, and no job waits for it."""
_KEEPS_ITS_PLACE = frozenset({Cause.TURN, Cause.FOREIGN, Cause.BUSY})
_LEAVE = "Take it out of the queue, and choose where it runs."


@dataclass(frozen=True)
class NodeView:
    """What is known of a node that matters to those who wait for it.

    ``gpus`` are names by UUID ("GPU 3"); ``foreign`` says of a GPU who has it that is no run of
    ours. ``why_down`` is "" for a node that answers, else the reason as a whole sentence.
    """

    cores: int = 1
    gpus: Mapping[str, str] = field(default_factory=dict)
    foreign: Mapping[str, str] = field(default_factory=dict)
    disk_free_bytes: int | None = None
    why_down: str = ""


@dataclass(frozen=True)
class Scene:
    """Everything besides the waiting jobs themselves. ``nodes`` go by `node_key`.

    ``paused`` tells who paused the queue, as the end of a sentence (" by ben").
    """

    now: datetime
    nodes: Mapping[str, NodeView]
    running: Sequence[Running] = ()
    is_paused: bool = False
    paused: str = ""


def judge_queue(entries: Iterable[QueueEntry], scene: Scene) -> dict[str, Waiting | None]:
    """By job for what it waits, None for what may start now; all who may start fit together."""
    found: dict[str, Waiting | None] = {}
    ahead: list[QueueEntry] = []
    for entry in in_order(entries):
        waiting = why_waiting(entry, ahead, scene)
        found[entry.job_id] = waiting
        if waiting is None:
            begun = Running(entry.job_id, entry.name, entry.seats, entry.lasts_s)
            scene = replace(scene, running=(*scene.running, begun))
        elif waiting.cause in _KEEPS_ITS_PLACE:
            ahead.append(entry)
    return found


def why_waiting(entry: QueueEntry, ahead: Sequence[QueueEntry], scene: Scene) -> Waiting | None:
    """For what ``entry`` waits; None when it may start.

    ``ahead`` are those before it in the queue that keep their place. What a person has to mend
    is told before what time mends.
    """
    if scene.is_paused:
        return Waiting(Cause.PAUSED, f"The queue is paused{scene.paused}.")
    never = entry.refusal or _never(entry, scene)
    if never:
        return Waiting(Cause.NEVER, never)
    begin = instant(entry.not_before)
    if begin is not None and scene.now < begin:
        return Waiting(Cause.NOT_BEFORE, f"Not before {_shown(begin, scene.now)}.")
    for seat in entry.seats:
        if why := scene.nodes[seat.node].why_down:
            return Waiting(Cause.NODE_DOWN, why)
    return (
        _disk(entry, scene) or _turn(entry, ahead) or _foreign(entry, scene) or _busy(entry, scene)
    )


def _never(entry: QueueEntry, scene: Scene) -> str:
    for seat in entry.seats:
        place = place_words(seat.node)
        node = scene.nodes.get(seat.node)
        if node is None:
            return f"{sanitize(place)} is no node of this data root any more. {_LEAVE}"
        # A node that is off shows no GPUs, and may have them all the same.
        missing = [one for one in seat.gpus if one not in node.gpus] if not node.why_down else []
        if missing:
            return f"{sanitize(missing[0])} is not on {place} any more. {_LEAVE}"
        slots = node.cores * PROCESSES_PER_CORE
        if seat.processes > slots and not node.why_down:
            return (
                f"{_first(place)} has {_count(node.cores, 'core')}, enough for "
                f"{slots} processes; the job asks for {seat.processes}. {_LEAVE}"
            )
    return ""


def _disk(entry: QueueEntry, scene: Scene) -> Waiting | None:
    needed = max(LEAST_DISK_BYTES, entry.needed_bytes)
    free = scene.nodes[entry.head].disk_free_bytes
    if free is None or free >= needed:
        return None
    return Waiting(
        Cause.DISK,
        f"The data root has {free / 1e9:.1f} GB left, and {needed / 1e9:.1f} GB are needed. "
        "Make room there.",
    )


def _turn(entry: QueueEntry, ahead: Sequence[QueueEntry]) -> Waiting | None:
    for seat in entry.seats:
        for other in ahead:
            if any(seat.competes(one) for one in other.seats):
                return Waiting(
                    Cause.TURN,
                    f"Waiting for “{sanitize(other.name)}”, which comes first on "
                    f"{place_words(seat.node)}.",
                )
    return None


def _foreign(entry: QueueEntry, scene: Scene) -> Waiting | None:
    for seat in entry.seats:
        node = scene.nodes[seat.node]
        for gpu in seat.gpus:
            if gpu in node.foreign:
                where = f"{node.gpus[gpu]} of {place_words(seat.node)}"
                return Waiting(Cause.FOREIGN, f"{where} is in use by {node.foreign[gpu]}.")
    return None


def _busy(entry: QueueEntry, scene: Scene) -> Waiting | None:
    for seat in entry.seats:
        node = scene.nodes[seat.node]
        place = place_words(seat.node)
        there = [
            (running, one)
            for running in scene.running
            for one in running.seats
            if one.competes(seat)
        ]
        if seat.gpus and there:
            running, one = there[0]
            taken = [node.gpus[gpu] for gpu in seat.gpus if gpu in one.gpus]
            return Waiting(Cause.BUSY, f"“{sanitize(running.name)}” is on {taken[0]} of {place}.")
        taken_slots = sum(one.processes for _, one in there)
        if taken_slots and taken_slots + seat.processes > node.cores:
            free = max(0, node.cores - taken_slots)
            return Waiting(
                Cause.BUSY,
                f"{_first(place)} is busy with “{sanitize(there[0][0].name)}”: "
                f"{free} of {_count(node.cores, 'core')} {'is' if free == 1 else 'are'} free, and "
                f"this job asks for {seat.processes}.",
            )
    return None


def node_view_of(
    reading: NodeReading, live: Collection[str], *, why_down: str = "", is_a_desk: bool = False
) -> NodeView:
    """A node by its last reading. ``live`` are the run tags of runs that are under way.

    A person works at a computer that ``is_a_desk``, and its screen is on one of the GPUs.
    """
    foreign: dict[str, str] = {}
    for gpu in reading.gpus:
        if gpu.lost:
            foreign[gpu.uuid] = "nobody: it answers no more"
            continue
        who = _holder(gpu, live, is_a_desk)
        if who:
            foreign[gpu.uuid] = who
    return NodeView(
        cores=max(1, reading.cpu.cores),
        gpus={gpu.uuid: f"GPU {gpu.index}" for gpu in reading.gpus},
        foreign=foreign,
        disk_free_bytes=reading.disk_free_bytes,
        why_down=why_down,
    )


def _holder(gpu: Gpu, live: Collection[str], is_a_desk: bool) -> str:
    for process in gpu.compute_processes:
        if process.run_tag:
            if process.run_tag not in live:
                return f"a process that an earlier run left behind (pid {process.pid})"
            continue
        held, total = process.memory_bytes, gpu.memory_total_bytes
        if is_a_desk and held is not None and total and held < _DISPLAY_SHARE * total:
            continue
        return process.who
    return ""


def _shown(when: datetime, now: datetime) -> str:
    here, today = when.astimezone(), now.astimezone()
    if here.date() == today.date():
        return f"{here:%H:%M}"
    return f"{here:%H:%M} on {here.day} {here:%B}" + (
        "" if here.year == today.year else f" {here.year}"
    )


def _first(place: str) -> str:
    """A place at the beginning of a sentence; a name stays as it is typed."""
    return "This computer" if place == "this computer" else place


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
