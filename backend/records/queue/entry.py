"""The queue of waiting jobs: the record of each, their order, and the earliest time of a start.

The higher priority comes first; at equal priority, the lower position. `records.queue.scheduling`
says why a job waits.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from enum import Enum
from math import isfinite
from typing import Any

from backend.records.base.schema import KEY, READ, STRICT, Record
from backend.records.base.timestamps import parse_time
from backend.records.base.validation import sanitize
from backend.records.jobs.placement import THIS_COMPUTER, Placement, parse_placement

SCHEMA = 1
PROCESSES_PER_CORE = 4
"""Limit of processes for each core: more would only wait for each other."""
MIN_PRIORITY, MAX_PRIORITY = -100, 100
MAX_LENGTH_S = 366 * 86400.0
POSITION_STEP = 1024.0
"""Distance between the positions of two jobs that were queued one after the other."""


class Cause(str, Enum):
    """The cause of a wait. ``--json`` contains the values; never rename them."""

    PAUSED = "paused"
    NEVER = "can never fit"
    NOT_BEFORE = "not before"
    RESERVED = "reserved"
    NODE_DOWN = "node down"
    DISK = "disk"
    TURN = "lower priority"
    FOREIGN = "foreign process"
    BUSY = "busy"
    KEYBOARD = "user at the keyboard"
    QUIET = "quiet time"
    AT_ONCE = "trials at once"


@dataclass(frozen=True)
class WaitReason:
    """The reason why a job waits, in one or two sentences."""

    cause: Cause
    message: str = field(metadata={KEY: "sentence"})


@dataclass(frozen=True)
class NodeUse:
    """The resources that a job has or needs on one node. ``node`` is a `node_key`."""

    node: str
    gpus: tuple[str, ...] = ()
    processes: int = 0

    def competes_with(self, other_use: NodeUse) -> bool:
        if self.node != other_use.node:
            return False
        if self.gpus or other_use.gpus:
            return bool(set(self.gpus) & set(other_use.gpus))
        return True


def node_key(node: str, machine: str) -> str:
    """Return a node's name that is the same on all desktops: each calls itself "this-computer"."""
    return f"{THIS_COMPUTER} {machine}" if node == THIS_COMPUTER else node


def is_a_desk(key: str) -> bool:
    """Return whether a `node_key` is a computer that was not added as a node."""
    return key.startswith(f"{THIS_COMPUTER} ")


def node_label(key: str) -> str:
    return "this computer" if is_a_desk(key) else key


def _placement(raw: Iterable[Mapping[str, Any]]) -> tuple[Placement, ...]:
    keys = ("node", "gpus", "processes")
    placement, errors = parse_placement(
        [
            {key: raw_placement[key] for key in keys if raw_placement.get(key)}
            for raw_placement in raw
        ]
    )
    if errors or not placement:
        raise ValueError(f"queued job without a usable placement: {errors}")
    return placement


@dataclass(frozen=True)
class QueueEntry(Record, label="queued job", newest_schema=SCHEMA, rules=STRICT):
    """``jobs/<id>/queued.json``: one waiting job, and everything that determines its order.

    ``run`` is the run that it waits for: when that is claimed, the entry is obsolete. ``machine``
    and ``host`` say which computer "this-computer" is. Times are UTC, ISO 8601. ``lasts_s`` is the
    expected duration of the run, from an earlier one of the job.
    """

    job_id: str
    name: str
    run: int
    placement: tuple[Placement, ...] = field(metadata={READ: _placement})
    machine: str
    host: str = ""
    priority: int = 0
    position: float = field(default=0.0, metadata={KEY: "place"})
    not_before: str = ""
    needed_bytes: int = 0
    lasts_s: float | None = None
    length_s: float = 0.0
    """Duration that the user states: from `not_before` on it has its nodes and GPUs for itself."""
    gives_way: bool = False
    queued: str = ""
    user: str = ""
    refusal: str = ""
    """Reason why the job was not started in its turn, if only the user can fix that."""
    reason: str = ""
    """Reason why the program itself queued the job: a node failed, or the job gave way."""
    quiet_s: float = 0.0
    """Time that the GPUs must be free of other users before the start."""
    sweep: str = ""
    """Tag of the search that proposes the values of the job when its turn comes, "" for none."""
    at_once: int = 0
    """Trials of that search that may run at once."""
    schema: int = SCHEMA

    @property
    def uses(self) -> tuple[NodeUse, ...]:
        return uses_of(self.placement, self.machine)

    @property
    def head(self) -> str:
        """Key of the node that starts it."""
        return node_key(self.placement[0].node, self.machine)

    @property
    def known_s(self) -> float | None:
        """Return the duration of the run, None if it is not known."""
        return self.length_s or self.lasts_s

    @property
    def sort_key(self) -> tuple[float, float, str, str]:
        return (-self.priority, self.position, self.queued, self.job_id)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> QueueEntry:
        entry = super().from_dict(raw)
        if entry.not_before:
            parse_time(entry.not_before)
        if not isfinite(entry.position) or not 0 <= entry.length_s <= MAX_LENGTH_S:
            raise ValueError("queued job without a place, or with an impossible length")
        return entry


@dataclass(frozen=True)
class RunningJob:
    """A running job and its resources. ``remaining_s`` is its remaining time, if known."""

    job_id: str
    name: str
    uses: tuple[NodeUse, ...]
    remaining_s: float | None = None
    sweep: str = ""


@dataclass(frozen=True)
class QueuedJob:
    """The position of a job in the queue. ``wait_reason`` is None if it starts now.

    ``number`` counts from 1; 0 is for one that has left the queue. ``starts_in_s`` is a forecast,
    None if it is not known.
    """

    entry: QueueEntry
    number: int
    wait_reason: WaitReason | None = None
    starts_in_s: float | None = None

    @property
    def message(self) -> str:
        return self.wait_reason.message if self.wait_reason is not None else "Starts in a moment."

    @property
    def full_message(self) -> str:
        """The message, after the reason why the program itself queued the job."""
        return f"{self.entry.reason} {self.message}".lstrip()

    def to_json(self) -> dict[str, Any]:
        """Return the fields that ``--json`` prints."""
        entry = self.entry
        return {
            "id": entry.job_id,
            "name": entry.name,
            "place": self.number,
            "priority": entry.priority,
            "not_before": entry.not_before,
            "length_s": entry.length_s,
            "queued": entry.queued,
            "user": entry.user,
            "cause": self.wait_reason.cause.value if self.wait_reason is not None else "",
            "sentence": self.message,
            "reason": entry.reason,
            "starts_in_s": self.starts_in_s,
        }


@dataclass(frozen=True)
class Queue:
    """The whole queue in its order. ``pause_message`` is about the pause, or ""."""

    jobs: tuple[QueuedJob, ...] = ()
    pause_message: str = ""

    def find_job(self, job_id: str) -> QueuedJob | None:
        return next((job for job in self.jobs if job.entry.job_id == job_id), None)


def sorted_entries(entries: Iterable[QueueEntry]) -> tuple[QueueEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.sort_key))


def uses_of(placement: Iterable[Placement], machine: str) -> tuple[NodeUse, ...]:
    return tuple(
        NodeUse(node_key(p.node, machine), p.gpus, 0 if p.gpus else p.processes) for p in placement
    )


def position_between(previous_position: float | None, next_position: float | None) -> float | None:
    """Return a position between two others; None if no number is between them."""
    if previous_position is None and next_position is None:
        return 0.0
    if previous_position is None:
        assert next_position is not None
        return next_position - POSITION_STEP
    if next_position is None:
        return previous_position + POSITION_STEP
    position = (previous_position + next_position) / 2
    return position if previous_position < position < next_position else None


START_TIME_FORMS = "18:30, 2026-12-24 06:00, +2h, or +1d (the same time tomorrow)"
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_DELAY = re.compile(r"\+ ?(\d{1,4}) ?([mhd])")
_UNITS = {"m": 60, "h": 3600}


def parse_start_time(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Parse a time of day (the next one), a date and time, or a delay after ``now``.

    A time of the clock is one of ``zone``, by default that of this computer, with the offset of its
    own day. A delay in days ends at the same time of the clock.

    Raises:
        ValueError: It is none of these, or no time of the clock; the message is a sentence for
            users.
    """
    text = text.strip()
    now = now.astimezone(zone)
    local_now = now.replace(tzinfo=None)
    delay_match, clock_match = _DELAY.fullmatch(text), _CLOCK.fullmatch(text)
    if delay_match and delay_match[2] in _UNITS:
        delay = timedelta(seconds=int(delay_match[1]) * _UNITS[delay_match[2]])
        return (now.astimezone(timezone.utc) + delay).astimezone(zone)
    if delay_match:
        return _on_clock(local_now + timedelta(days=int(delay_match[1])), zone)
    if clock_match:
        clock_time = local_now.replace(
            hour=int(clock_match[1]), minute=int(clock_match[2]), second=0, microsecond=0
        )
        # An hour that comes twice may be ahead for the second time; one that a change skips today
        # comes again tomorrow.
        clock_times = (
            clock_time,
            clock_time.replace(fold=1),
            *(clock_time + timedelta(days=n) for n in (1, 2)),
        )
        times = [_on_clock(day, zone) for day in clock_times if _exists_on_clock(day, zone)]
        return next(candidate for candidate in times if _utc(candidate) > _utc(now))
    try:
        parsed_time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"“{sanitize(text)}” is not a time; use {START_TIME_FORMS}.") from None
    if parsed_time.tzinfo is not None:
        return parsed_time.astimezone(zone)
    if not _exists_on_clock(parsed_time, zone):
        raise ValueError(
            f"{sanitize(text)} does not exist, because the clock is put forward then; "
            f"use {_on_clock(parsed_time, zone):%Y-%m-%d %H:%M}."
        )
    return _on_clock(parsed_time, zone)


def _on_clock(wall_time: datetime, zone: tzinfo | None) -> datetime:
    """Return the time at which the clock shows ``wall_time``, or an hour later if it skips that."""
    if not _exists_on_clock(wall_time, zone):
        return max((_resolve(wall_time.replace(fold=fold), zone) for fold in (0, 1)), key=_utc)
    return _resolve(wall_time, zone)


def _exists_on_clock(wall_time: datetime, zone: tzinfo | None) -> bool:
    return _resolve(wall_time, zone).replace(tzinfo=None, fold=0) == wall_time.replace(fold=0)


def _resolve(wall_time: datetime, zone: tzinfo | None) -> datetime:
    local_time = wall_time.astimezone() if zone is None else wall_time.replace(tzinfo=zone)
    return _utc(local_time).astimezone(zone)


def _utc(time: datetime) -> datetime:
    return time.astimezone(timezone.utc)
