"""Forecast of the start of queued jobs, if the remaining time of those before them is known.

Standard library only and Python 3.9, as all records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from backend.records.base.timestamps import instant
from backend.records.queue.entry import (
    Cause,
    NodeUse,
    QueueEntry,
    WaitReason,
    sorted_entries,
)
from backend.records.queue.scheduling import ClusterState, Reservation, reservations_of

_ENDS_BY_ITSELF = frozenset({Cause.BUSY, Cause.TURN, Cause.NOT_BEFORE, Cause.RESERVED})


def seconds_to_start(
    entries: Iterable[QueueEntry],
    outcomes: Mapping[str, WaitReason | None],
    cluster_state: ClusterState,
) -> dict[str, float | None]:
    """Return the seconds to the start of each waiting job; None if it is not known.

    The jobs are placed one after the other on the nodes and GPUs that they need. A run or a job of
    unknown duration makes the start of later jobs there unknown, too, and so does a cause without
    a known end (a foreign process, a full disk). A job that has to wait for a reservation starts
    after it.
    """
    start_times: dict[str, float | None] = {}
    reservations: list[tuple[NodeUse, float | None]] = [
        (use, job.remaining_s) for job in cluster_state.running_jobs for use in job.uses
    ]
    entries = sorted_entries(entries)
    coming_reservations = reservations_of(entries, cluster_state.now)
    reserving_ids = {reservation.entry.job_id for reservation in coming_reservations}
    for entry in sorted(entries, key=lambda entry: entry.job_id not in reserving_ids):
        reason = outcomes[entry.job_id]
        if reason is None:
            start: float | None = 0.0
        elif reason.cause not in _ENDS_BY_ITSELF:
            start = None
        else:
            start = _earliest_start(entry, reservations, cluster_state)
            if start is not None:
                start = _after(coming_reservations, entry, start, cluster_state.now)
        start_times[entry.job_id] = start
        is_coming = entry.job_id in reserving_ids
        if reason is None or (reason.cause in _ENDS_BY_ITSELF and not is_coming):
            end = None
            if start is not None and entry.known_s is not None:
                end = start + entry.known_s
            reservations += [(use, end) for use in entry.uses]
    return start_times


def _after(
    reservations: Iterable[Reservation], entry: QueueEntry, start_s: float, now: datetime
) -> float:
    """Return the first start from ``start_s`` on that no earlier reservation blocks."""
    for reservation in reservations:
        if reservation.entry.job_id == entry.job_id:
            break
        if reservation.blocks(entry, now + timedelta(seconds=start_s)):
            start_s = (reservation.end - now).total_seconds()
    return start_s


def _earliest_start(
    entry: QueueEntry, reservations: list[tuple[NodeUse, float | None]], cluster_state: ClusterState
) -> float | None:
    not_before = instant(entry.not_before)
    start = (
        max(0.0, (not_before - cluster_state.now).total_seconds())
        if not_before is not None
        else 0.0
    )
    for use in entry.uses:
        node = cluster_state.nodes.get(use.node)
        competing_uses = [
            (reserved_use, end)
            for reserved_use, end in reservations
            if reserved_use.competes_with(use)
        ]
        if node is None:
            return None
        if use.gpus:
            end_times = [end for _, end in competing_uses]
        else:
            end_times = _ends_to_wait_for(use, competing_uses, node.cores)
        for end in end_times:
            if end is None:
                return None
            start = max(start, end)
    return start


def _ends_to_wait_for(
    use: NodeUse, competing_uses: list[tuple[NodeUse, float | None]], cores: int
) -> list[float | None]:
    """Return the ends after which enough cores are free, the earliest first."""
    used_processes = sum(reserved_use.processes for reserved_use, _ in competing_uses)
    end_times: list[float | None] = []
    infinite_time = float("inf")
    for reserved_use, end in sorted(
        competing_uses, key=lambda pair: infinite_time if pair[1] is None else pair[1]
    ):
        if used_processes == 0 or used_processes + use.processes <= cores:
            break
        used_processes -= reserved_use.processes
        end_times.append(end)
    return end_times


def run_duration_s(steps_left: int, pace_s: float | None) -> float | None:
    """Return the duration of a run of so many steps at the pace of the one before."""
    if not pace_s or steps_left <= 0:
        return None
    return steps_left * pace_s
