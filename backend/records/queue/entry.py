"""The queue of waiting jobs: what is kept of each, and who comes first.

The higher priority comes first, among equals the lower place. For what each one waits,
`records.queue_why` says.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from math import isfinite
from typing import Any

from backend.records.base.schema import check_schema
from backend.records.base.timestamps import moment
from backend.records.jobs.config import THIS_COMPUTER, Placement, parse_placement

SCHEMA = 1
PROCESSES_PER_CORE = 4
"""More only wait for each other; the tests of this project use two."""
LOWEST, HIGHEST = -100, 100
STEP = 1024.0
"""Between the places of two jobs that were queued one after the other."""


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


def is_a_desk(key: str) -> bool:
    """Whether a `node_key` is of a computer that nobody added as a node."""
    return key.startswith(f"{THIS_COMPUTER} ")


def place_words(key: str) -> str:
    return "this computer" if is_a_desk(key) else key


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
        check_schema(raw, "queued job", SCHEMA)
        try:
            placement, faults = parse_placement(
                [
                    {key: one[key] for key in ("node", "gpus", "processes") if one.get(key)}
                    for one in raw["placement"]
                ]
            )
            if faults or not placement:
                raise ValueError(f"queued job without a usable placement: {faults}")
            if raw.get("not_before"):
                moment(str(raw["not_before"]))
            texts = ("job_id", "name", "machine", "host", "not_before", "queued", "user", "refusal")
            known = cls(
                **{
                    **raw,
                    **{key: str(raw[key]) for key in texts if key in raw},
                    "placement": placement,
                    "run": int(raw["run"]),
                    "priority": int(raw.get("priority", 0)),
                    "place": float(raw.get("place", 0.0)),
                    "needed_bytes": int(raw.get("needed_bytes", 0)),
                }
            )
            if not isfinite(known.place):
                raise ValueError("queued job without a place")
            return known
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


def seats_of(placement: Iterable[Placement], machine: str) -> tuple[Seat, ...]:
    return tuple(
        Seat(node_key(one.node, machine), one.gpus, 0 if one.gpus else one.processes)
        for one in placement
    )


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
