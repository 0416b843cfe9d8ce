"""Which rank runs where. Pure: a job's placement and what the nodes have become a list of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.errors import BackendError
from backend.records.job import THIS_COMPUTER, JobConfig, Placement
from backend.records.launch import RankPlan

PROCESSES_PER_CORE = 4
"""More only wait for each other; the tests of this project use two."""


@dataclass(frozen=True)
class NodeRoom:
    """What a node offers: its address, processor cores, and the UUIDs of its GPUs."""

    node: str
    host: str
    cores: int
    gpus: tuple[str, ...] = ()


def this_computer(cores: int, gpus: tuple[str, ...] = ()) -> NodeRoom:
    # The address and not the name: with names, /etc/hosts decides whether mpirun starts.
    return NodeRoom(THIS_COMPUTER, "127.0.0.1", cores, gpus)


def rank_plans(config: JobConfig, rooms: Sequence[NodeRoom]) -> tuple[RankPlan, ...]:
    """The ranks in the order in which mpirun numbers them: node by node, as the job lists them.

    Raises:
        BackendError: A node or GPU is not there, or has no room; all reasons at once.
    """
    known = {room.node: room for room in rooms}
    reasons = [reason for one in config.placement for reason in _reasons(one, known)]
    if reasons:
        raise BackendError(" ".join(reasons), "Change where the job runs.")
    plans: list[RankPlan] = []
    for one in config.placement:
        room = known[one.node]
        for local_rank in range(one.slots):
            gpu = one.gpus[local_rank] if one.gpus else ""
            plans.append(RankPlan(len(plans), local_rank, one.node, room.host, gpu))
    return tuple(plans)


def _reasons(one: Placement, known: dict[str, NodeRoom]) -> list[str]:
    room = known.get(one.node)
    if room is None:
        names = ", ".join(sorted(known)) or "none"
        return [f"Node “{one.node}” is not known; known are: {names}."]
    missing = [gpu for gpu in one.gpus if gpu not in room.gpus]
    if missing:
        has = f"has {', '.join(room.gpus)}" if room.gpus else "has no GPU"
        return [f"GPU {gpu} is not on {one.node}, which {has}." for gpu in missing]
    slots = room.cores * PROCESSES_PER_CORE
    if one.processes > slots:
        cores = "1 core" if room.cores == 1 else f"{room.cores} cores"
        return [
            f"{one.node} has {cores}, enough for {slots} processes; "
            f"the job asks for {one.processes}."
        ]
    return []
