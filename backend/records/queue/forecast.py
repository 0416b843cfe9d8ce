"""Forecast of the start of queued jobs, if the remaining time of those before them is known.

Standard library only and Python 3.9, as all records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backend.records.base.timestamps import instant
from backend.records.queue.entry import (
    Cause,
    QueueEntry,
    Slot,
    WaitReason,
    in_order,
)
from backend.records.queue.scheduling import ClusterState

_ENDS_BY_ITSELF = frozenset({Cause.BUSY, Cause.TURN, Cause.NOT_BEFORE})


def starts_in(
    entries: Iterable[QueueEntry], outcomes: Mapping[str, WaitReason | None], scene: ClusterState
) -> dict[str, float | None]:
    """Return the seconds to the start of each waiting job; None if it is not known.

    The jobs are placed one after the other on the slots that they need. A run or a job of unknown
    duration makes the start of later jobs on its slots unknown too, and so does a cause without
    a known end (a foreign process, a full disk).
    """
    found: dict[str, float | None] = {}
    laid: list[tuple[Slot, float | None]] = [
        (slot, running.remaining_s) for running in scene.running for slot in running.slots
    ]
    for entry in in_order(entries):
        waiting = outcomes[entry.job_id]
        if waiting is None:
            start: float | None = 0.0
        elif waiting.cause not in _ENDS_BY_ITSELF:
            start = None
        else:
            start = _first_room(entry, laid, scene)
        found[entry.job_id] = start
        if waiting is None or waiting.cause in _ENDS_BY_ITSELF:
            end = None
            if start is not None and entry.lasts_s is not None:
                end = start + entry.lasts_s
            laid += [(slot, end) for slot in entry.slots]
    return found


def _first_room(
    entry: QueueEntry, laid: list[tuple[Slot, float | None]], scene: ClusterState
) -> float | None:
    begin = instant(entry.not_before)
    start = max(0.0, (begin - scene.now).total_seconds()) if begin is not None else 0.0
    for slot in entry.slots:
        node = scene.nodes.get(slot.node)
        there = [(one, end) for one, end in laid if one.competes(slot)]
        if node is None:
            return None
        if slot.gpus:
            ends = [end for _, end in there]
        else:
            ends = _ends_to_wait_for(slot, there, node.cores)
        for end in ends:
            if end is None:
                return None
            start = max(start, end)
    return start


def _ends_to_wait_for(
    slot: Slot, there: list[tuple[Slot, float | None]], cores: int
) -> list[float | None]:
    """Return the ends after which enough cores are free, the earliest first."""
    taken = sum(one.processes for one, _ in there)
    ends: list[float | None] = []
    later = float("inf")
    for one, end in sorted(there, key=lambda pair: later if pair[1] is None else pair[1]):
        if taken == 0 or taken + slot.processes <= cores:
            break
        taken -= one.processes
        ends.append(end)
    return ends


def lasts_s(steps_left: int, pace_s: float | None) -> float | None:
    """Return the duration of a run of so many steps at the pace of the one before."""
    if not pace_s or steps_left <= 0:
        return None
    return steps_left * pace_s
