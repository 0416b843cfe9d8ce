"""The queue of waiting jobs: who comes first, and for what each one waits, in words.

Pure, standard library only and Python 3.9: the desktops show by it what the nodes decide by it.

The order: the higher priority first, among equals the lower place. It is strict for each GPU and
for the processors of each node: a job that cannot start yet keeps what it needs for itself, so
that a small job never overtakes a large one on the same GPU, for ever; but a later job passes it
where the two compete for nothing. A job that nobody can say an end of the waiting for (its hour,
a node that is off, a full disk, a place that is not there) keeps nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any

from backend.records.job import THIS_COMPUTER, Placement, parse_placement
from backend.records.node import Gpu, NodeReading
from backend.records.values import printable

SCHEMA = 1
PROCESSES_PER_CORE = 4
"""More only wait for each other; the tests of this project use two."""
LOWEST, HIGHEST = -100, 100
STEP = 1024.0
"""Between the places of two jobs that were queued one after the other."""
LEAST_DISK_BYTES = 100_000_000
_DISPLAY_SHARE = 0.1
"""Of a GPU's memory: on a person's own computer its screen takes less, and no job waits for it."""


class Cause(str, Enum):
    """Why a job waits. The value is what ``--json`` holds; never rename one."""

    PAUSED = "paused"
    NEVER = "can never fit"
    NOT_BEFORE = "not before"
    NODE_DOWN = "node down"
    DISK = "disk"
    TURN = "lower priority"
    FOREIGN = "foreign process"
    BUSY = "busy"


_KEEPS_ITS_PLACE = frozenset({Cause.TURN, Cause.FOREIGN, Cause.BUSY})
_LEAVE = "Take it out of the queue, and choose where it runs."


@dataclass(frozen=True)
class Waiting:
    """For what a job waits, in one or two sentences."""

    cause: Cause
    sentence: str


@dataclass(frozen=True)
class Seat:
    """What a job has, or wants, on one node. ``node`` is a `node_key`."""

    node: str
    gpus: tuple[str, ...] = ()
    processes: int = 0

    def competes(self, other: Seat) -> bool:
        if self.node != other.node:
            return False
        if self.gpus or other.gpus:
            return bool(set(self.gpus) & set(other.gpus))
        return True


def node_key(node: str, machine: str) -> str:
    """A node, whoever speaks of it: every desktop calls itself "this-computer"."""
    return f"{THIS_COMPUTER} {machine}" if node == THIS_COMPUTER else node


def place_words(key: str) -> str:
    return "this computer" if key.startswith(THIS_COMPUTER) else key


@dataclass(frozen=True)
class QueueEntry:
    """``jobs/<id>/queued.json``: one waiting job, and everything that orders it.

    ``run`` is the run that it waits to be: as soon as that is claimed, the entry is spent.
    ``machine`` and ``host`` say which computer "this-computer" is. Times are UTC, ISO 8601.
    ``lasts_s`` is how long the run will take, as far as an earlier one of the job tells.
    """

    job_id: str
    name: str
    run: int
    placement: tuple[Placement, ...]
    machine: str
    host: str = ""
    priority: int = 0
    place: float = 0.0
    not_before: str = ""
    needed_bytes: int = 0
    lasts_s: float | None = None
    queued: str = ""
    user: str = ""
    refusal: str = ""
    """Why it was not started when its turn had come, where only a person can mend that."""
    schema: int = SCHEMA

    @property
    def seats(self) -> tuple[Seat, ...]:
        return seats_of(self.placement, self.machine)

    @property
    def head(self) -> str:
        """Key of the node that starts it."""
        return node_key(self.placement[0].node, self.machine)

    @property
    def order(self) -> tuple[float, float, str, str]:
        return (-self.priority, self.place, self.queued, self.job_id)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> QueueEntry:
        """Read what `to_dict` wrote.

        Raises:
            ValueError: It was not written by `to_dict`, or by a newer Ringmaster.
        """
        schema = raw.get("schema")
        if not isinstance(schema, int) or schema > SCHEMA:
            raise ValueError(f"queued job of format {schema!r}; this Ringmaster reads {SCHEMA}")
        try:
            placement, faults = parse_placement(
                [
                    {key: one[key] for key in ("node", "gpus", "processes") if one.get(key)}
                    for one in raw["placement"]
                ]
            )
            if faults or not placement:
                raise ValueError(f"queued job without a usable placement: {faults}")
            moment(str(raw.get("not_before", "")))
            known = cls(**{**raw, "placement": placement})
            return replace(
                known,
                run=int(known.run),
                priority=int(known.priority),
                place=float(known.place),
                name=str(known.name),
                needed_bytes=int(known.needed_bytes),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"queued job that cannot be used: {error}") from error


@dataclass(frozen=True)
class Running:
    """A run that is under way, and what it has. ``left_s`` is its time left, where known."""

    job_id: str
    name: str
    seats: tuple[Seat, ...]
    left_s: float | None = None


@dataclass(frozen=True)
class NodeLook:
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
    nodes: Mapping[str, NodeLook]
    running: Sequence[Running] = ()
    is_paused: bool = False
    paused: str = ""


@dataclass(frozen=True)
class QueuePlace:
    """Where a job stands in the queue, for people. ``waiting`` is None when it starts now.

    ``number`` counts from 1; 0 is for one that left the queue meanwhile. ``starts_in_s`` is a
    forecast, None when nobody can say.
    """

    entry: QueueEntry
    number: int
    waiting: Waiting | None = None
    starts_in_s: float | None = None

    @property
    def sentence(self) -> str:
        return self.waiting.sentence if self.waiting is not None else "Starts in a moment."

    def to_json(self) -> dict[str, Any]:
        """What ``--json`` prints of it."""
        entry = self.entry
        return {
            "id": entry.job_id,
            "name": entry.name,
            "place": self.number,
            "priority": entry.priority,
            "not_before": entry.not_before,
            "queued": entry.queued,
            "user": entry.user,
            "cause": self.waiting.cause.value if self.waiting is not None else "",
            "sentence": self.sentence,
            "starts_in_s": self.starts_in_s,
        }


@dataclass(frozen=True)
class Queue:
    """The whole queue, first come first. ``paused`` is the sentence about it, or ""."""

    places: tuple[QueuePlace, ...] = ()
    paused: str = ""

    def of(self, job_id: str) -> QueuePlace | None:
        return next((one for one in self.places if one.entry.job_id == job_id), None)


def in_order(entries: Iterable[QueueEntry]) -> tuple[QueueEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.order))


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
    begin = moment(entry.not_before)
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
            return f"{printable(place)} is no node of this data root any more. {_LEAVE}"
        # A node that is off shows no GPUs, and may have them all the same.
        missing = [one for one in seat.gpus if one not in node.gpus] if not node.why_down else []
        if missing:
            return f"{printable(missing[0])} is not on {place} any more. {_LEAVE}"
        slots = node.cores * PROCESSES_PER_CORE
        if seat.processes > slots and not node.why_down:
            return (
                f"{place[:1].upper()}{place[1:]} has {_count(node.cores, 'core')}, enough for "
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
                    f"Waiting for “{printable(other.name)}”, which comes first on "
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
            return Waiting(Cause.BUSY, f"“{printable(running.name)}” is on {taken[0]} of {place}.")
        taken_slots = sum(one.processes for _, one in there)
        if taken_slots and taken_slots + seat.processes > node.cores:
            free = max(0, node.cores - taken_slots)
            return Waiting(
                Cause.BUSY,
                f"{place[:1].upper()}{place[1:]} is busy with “{printable(there[0][0].name)}”: "
                f"{free} of {_count(node.cores, 'core')} {'is' if free == 1 else 'are'} free, and "
                f"this job asks for {seat.processes}.",
            )
    return None


def seats_of(placement: Iterable[Placement], machine: str) -> tuple[Seat, ...]:
    return tuple(
        Seat(node_key(one.node, machine), one.gpus, 0 if one.gpus else one.processes)
        for one in placement
    )


def look_of(
    reading: NodeReading, live: Collection[str], *, why_down: str = "", is_a_desk: bool = False
) -> NodeLook:
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
    return NodeLook(
        cores=max(1, reading.cpu.cores),
        gpus={gpu.uuid: f"GPU {gpu.index}" for gpu in reading.gpus},
        foreign=foreign,
        disk_free_bytes=reading.disk_free_bytes,
        why_down=why_down,
    )


def _holder(gpu: Gpu, live: Collection[str], is_a_desk: bool) -> str:
    for process in gpu.processes:
        if process.run_tag:
            if process.run_tag not in live:
                return f"a process that an earlier run left behind (pid {process.pid})"
            continue
        held, total = process.memory_bytes, gpu.memory_total_bytes
        if is_a_desk and held is not None and total and held < _DISPLAY_SHARE * total:
            continue
        who = printable(process.user) or "somebody"
        command = process.command.split(" ")[0]
        program = printable(command.rpartition("/")[2]) or "a process"
        return f"{who}: {program} (pid {process.pid})"
    return ""


def place_between(before: float | None, after: float | None) -> float | None:
    """A place after ``before`` and before ``after``; None where there is no room for one."""
    if before is None and after is None:
        return 0.0
    if before is None:
        assert after is not None
        return after - STEP
    if after is None:
        return before + STEP
    middle = (before + after) / 2
    return middle if before < middle < after else None


def moment(stamp: str) -> datetime | None:
    """A time of a file, None for "".

    Raises:
        ValueError: It is no time, or tells no zone.
    """
    if not stamp:
        return None
    # Python 3.9 knows no Z.
    found = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    if found.tzinfo is None:
        raise ValueError(f"a time without its zone: {stamp}")
    return found


def _shown(when: datetime, now: datetime) -> str:
    here, today = when.astimezone(), now.astimezone()
    if here.date() == today.date():
        return f"{here:%H:%M}"
    return f"{here:%H:%M} on {here.day} {here:%B}" + (
        "" if here.year == today.year else f" {here.year}"
    )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
